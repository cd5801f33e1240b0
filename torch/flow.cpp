// Subgraphs, sequences and optionals: interpreted around LibTorch, so that derivatives go through them.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "base/time_limit.h"
#include "ops/control/loops.h"
#include "torch/lowering.h"

namespace finity {

namespace {

using Values = std::vector<TorchValue>;

bool truth(const TorchValue& value) { return value.tensor.defined() && value.tensor.to(at::kBool).item<bool>(); }

TorchValue number(std::int64_t value) { return {.dtype = DType::int64, .tensor = scalar_of(value, at::kLong)}; }

TorchValue truth_value(bool value) { return {.dtype = DType::boolean, .tensor = scalar_of(value, at::kBool)}; }

void lower_if(TorchCall& call) {
  const BodyId body = call.body(truth(call.value(0)) ? "then_branch" : "else_branch");
  Values results = call.run_body(body, {});
  for (std::size_t i = 0; i < call.output_count(); ++i) call.put(i, std::move(results.at(i)));
}

// What the iterations gave for one output, along a new axis.
TorchValue collected(const TorchCall& call, ValueId body_output, const Values& parts, std::int64_t axis) {
  if (parts.empty()) return to_value(collect(call, body_output, {}, axis));
  std::vector<at::Tensor> tensors;
  for (const TorchValue& part : parts) tensors.push_back(part.tensor);
  return {.dtype = parts.front().dtype, .tensor = at::stack(tensors, axis_of(axis, tensors.front().dim() + 1))};
}

// ---- Loop -----------------------------------------------------------------------

constexpr std::int64_t kMaxIterations = 10'000'000;

// Scalars, or vectors of one element where the body declares them so.
TorchValue as_declared(const TorchCall& call, const Body& body, std::size_t input, TorchValue value) {
  const Type& declared = call.bodies().value(body.inputs[input]).type;
  const bool vector = declared.is_tensor() && declared.ranked && declared.shape.size() == 1;
  if (value.tensor.numel() != 1) return value;
  value.tensor = vector ? value.tensor.reshape({1}) : value.tensor.reshape({});
  return value;
}

void lower_loop(TorchCall& call) {
  const BodyId id = call.body("body");
  const Body& body = call.bodies().body(id);
  const std::size_t states = call.input_count() - std::min<std::size_t>(call.input_count(), 2);
  require_body_arity(call, id, 2 + states, 1 + states);
  const std::size_t scans = body.outputs.size() - 1 - states;
  // Given a trip count and no condition, the condition the body computes is ignored.
  const bool counts = call.has(1) || !call.has(0);
  const std::int64_t trips = call.has(0) ? call.in(0).item<std::int64_t>() : kMaxIterations;
  Values arguments{number(0), truth_value(!call.has(1) || truth(call.value(1)))};
  for (std::size_t i = 0; i < states; ++i) arguments.push_back(call.value(2 + i));
  std::vector<Values> parts(scans);
  for (std::int64_t i = 0; i < trips && (!counts || truth(arguments[1])); ++i) {
    check_time();
    arguments[0] = as_declared(call, body, 0, number(i));
    arguments[1] = as_declared(call, body, 1, arguments[1]);
    const Values results = call.run_body(id, arguments);
    std::copy_n(results.begin(), 1 + states, arguments.begin() + 1);
    for (std::size_t k = 0; k < scans; ++k) parts[k].push_back(results.at(1 + states + k));
  }
  for (std::size_t i = 0; i < states; ++i) call.put(i, arguments[2 + i]);
  for (std::size_t k = 0; k < scans; ++k) {
    if (call.has_output(states + k)) call.put(states + k, collected(call, body.outputs[1 + states + k], parts[k], 0));
  }
}

// ---- Scan -----------------------------------------------------------------------

std::vector<std::int64_t> per_entry(const TorchCall& call, std::string_view name, std::size_t count) {
  std::vector<std::int64_t> values = call.integers(name);
  values.resize(std::max(values.size(), count), 0);
  return values;
}

void lower_scan(TorchCall& call) {
  if (call.version() < 9) throw Unsupported("Scan of opset 8, which has a batch axis");
  const BodyId id = call.body("body");
  const Body& body = call.bodies().body(id);
  const auto inputs = static_cast<std::size_t>(call.integer("num_scan_inputs"));
  if (inputs < 1 || inputs > call.input_count()) throw Error("attribute 'num_scan_inputs' is out of range");
  const std::size_t states = call.input_count() - inputs;
  require_body_arity(call, id, call.input_count(), states);
  const auto axes = per_entry(call, "scan_input_axes", inputs),
             turned = per_entry(call, "scan_input_directions", inputs);
  const auto axis = [&](std::size_t i) { return axis_of(axes[i], call.in(states + i).dim()); };
  const std::int64_t length = call.in(states).size(axis(0));
  Values arguments(call.input_count());
  for (std::size_t i = 0; i < states; ++i) arguments[i] = call.value(i);
  std::vector<Values> parts(body.outputs.size() - states);
  for (std::int64_t step = 0; step < length; ++step) {
    for (std::size_t i = 0; i < inputs; ++i) {
      const at::Tensor& x = call.in(states + i);
      if (x.size(axis(i)) != length) throw Error("the scanned inputs differ in length");
      const std::int64_t at = turned[i] != 0 ? length - 1 - step : step;
      arguments[states + i] = {.dtype = call.dtype(states + i), .tensor = x.select(axis(i), at)};
    }
    const Values results = call.run_body(id, arguments);
    std::copy_n(results.begin(), states, arguments.begin());
    for (std::size_t k = 0; k < parts.size(); ++k) parts[k].push_back(results.at(states + k));
  }
  for (std::size_t i = 0; i < states; ++i) call.put(i, arguments[i]);
  const auto output_axes = per_entry(call, "scan_output_axes", parts.size());
  const auto prepend = per_entry(call, "scan_output_directions", parts.size());
  for (std::size_t k = 0; k < parts.size(); ++k) {
    if (prepend[k] != 0) std::ranges::reverse(parts[k]);
    if (call.has_output(states + k))
      call.put(states + k, collected(call, body.outputs[states + k], parts[k], output_axes[k]));
  }
}

// ---- sequences --------------------------------------------------------------------

const Values& items_of(const TorchCall& call, std::size_t i = 0) {
  if (call.value(i).items == nullptr) throw Error("input " + std::to_string(i) + " is not a sequence");
  return *call.value(i).items;
}

TorchValue sequence_of(Values items) {
  TorchValue result;
  result.items = std::make_shared<const Values>(std::move(items));
  return result;
}

// `end` may be one behind the last.
std::size_t position(const TorchCall& call, std::size_t input, std::size_t count, std::int64_t fallback, bool end) {
  const std::int64_t at = call.has(input) ? call.in(input).item<std::int64_t>() : fallback;
  const auto size = static_cast<std::int64_t>(count);
  if (at < -size || at >= size + (end ? 1 : 0))
    throw Error("position " + std::to_string(at) + " is outside the sequence");
  return static_cast<std::size_t>(at < 0 ? at + size : at);
}

void lower_sequence_construct(TorchCall& call) {
  Values items;
  for (std::size_t i = 0; i < call.input_count(); ++i) items.push_back(call.value(i));
  call.put(0, sequence_of(std::move(items)));
}

void lower_sequence_at(TorchCall& call) {
  const Values& items = items_of(call);
  call.put(0, items[position(call, 1, items.size(), 0, false)]);
}

void lower_sequence_erase(TorchCall& call) {
  Values items = items_of(call);
  if (items.empty()) throw Error("the sequence is empty");
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(position(call, 1, items.size(), -1, false)));
  call.put(0, sequence_of(std::move(items)));
}

void lower_sequence_insert(TorchCall& call) {
  Values items = items_of(call);
  const auto behind = static_cast<std::int64_t>(items.size());
  const auto at = static_cast<std::ptrdiff_t>(position(call, 2, items.size(), behind, true));
  items.insert(items.begin() + at, call.value(1));
  call.put(0, sequence_of(std::move(items)));
}

void lower_concat_from_sequence(TorchCall& call) {
  std::vector<at::Tensor> parts;
  for (const TorchValue& item : items_of(call)) parts.push_back(item.tensor);
  if (parts.empty()) throw Error("the sequence is empty");
  const bool stack = call.integer("new_axis") != 0;
  const std::int64_t axis = axis_of(call.integer("axis"), parts.front().dim() + (stack ? 1 : 0));
  call.out(0, stack ? at::stack(parts, axis) : at::cat(parts, axis));
}

// Without sizes one each, whose axis goes when keepdims says so.
void lower_split_to_sequence(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const std::int64_t axis = axis_of(call.integer("axis"), x.dim());
  const std::int64_t length = x.size(axis);
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(length), 1);
  if (call.has(1) && call.in(1).dim() > 0) {
    sizes = call.ints(1);
  } else if (call.has(1)) {
    const std::int64_t chunk = call.in(1).item<std::int64_t>();
    if (chunk <= 0) throw Error("split is " + std::to_string(chunk));
    sizes.assign(static_cast<std::size_t>(length / chunk), chunk);
    if (length % chunk != 0) sizes.push_back(length % chunk);
  }
  const bool drop = !call.has(1) && call.integer("keepdims") == 0;
  Values items;
  std::int64_t start = 0;
  for (const std::int64_t size : sizes) {
    const at::Tensor part = x.narrow(axis, start, size);
    items.push_back({.dtype = call.dtype(0), .tensor = drop ? part.squeeze(axis) : part});
    start += size;
  }
  if (start != length) throw Error("the sizes add up to " + std::to_string(start) + ", not " + std::to_string(length));
  call.put(0, sequence_of(std::move(items)));
}

void lower_sequence_zeros(TorchCall& call) {
  Values items;
  for (const TorchValue& item : items_of(call)) {
    items.push_back({.dtype = item.dtype, .tensor = at::zeros_like(item.tensor)});
  }
  call.put(0, sequence_of(std::move(items)));
}

void lower_sequence_sum(TorchCall& call) {
  const Values &a = items_of(call), &b = items_of(call, 1);
  if (a.size() != b.size()) throw Error("the sequences differ in length");
  Values items;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].tensor.sizes() != b[i].tensor.sizes()) throw Error("items differ in shape");
    items.push_back({.dtype = a[i].dtype, .tensor = a[i].tensor + b[i].tensor});
  }
  call.put(0, sequence_of(std::move(items)));
}

void lower_split_like(TorchCall& call) {
  const at::Tensor& x = call.in(0);
  const std::int64_t axis = axis_of(call.integer("axis"), x.dim());
  Values items;
  std::int64_t start = 0;
  for (const TorchValue& like : items_of(call, 1)) {
    const std::int64_t size = like.tensor.size(axis);
    items.push_back({.dtype = call.dtype(0), .tensor = x.narrow(axis, start, size)});
    start += size;
  }
  if (start != x.size(axis)) throw Error("the pieces add up to " + std::to_string(start));
  call.put(0, sequence_of(std::move(items)));
}

void lower_sequence_map(TorchCall& call) {
  const Values& items = items_of(call);
  std::vector<Values> results(call.output_count());
  for (std::size_t i = 0; i < items.size(); ++i) {
    Values arguments{items[i]};
    for (std::size_t k = 1; k < call.input_count(); ++k) {
      arguments.push_back(call.value(k).items != nullptr ? items_of(call, k).at(i) : call.value(k));
    }
    Values outputs = call.run_body(call.body("body"), arguments);
    for (std::size_t k = 0; k < results.size(); ++k) results[k].push_back(std::move(outputs.at(k)));
  }
  for (std::size_t k = 0; k < results.size(); ++k) call.put(k, sequence_of(std::move(results[k])));
}

void lower_get_element(TorchCall& call) {
  if (!call.value(0).present()) throw Error("the optional is empty");
  call.put(0, call.value(0));
}

constexpr TorchLowering kEntries[] = {
    {"If", "", lower_if, true},
    {"Loop", "", lower_loop, true},
    {"Scan", "", lower_scan, true},
    {"SequenceMap", "", lower_sequence_map, true},
    {"SequenceConstruct", "", lower_sequence_construct, true},
    {"SequenceEmpty", "", [](TorchCall& call) { call.put(0, sequence_of({})); }, true},
    {"SequenceAt", "", lower_sequence_at, true},
    {"SequenceErase", "", lower_sequence_erase, true},
    {"SequenceInsert", "", lower_sequence_insert, true},
    {"SequenceLength", "",
     [](TorchCall& call) { call.put(0, number(static_cast<std::int64_t>(items_of(call).size()))); }, true},
    {"ConcatFromSequence", "", lower_concat_from_sequence, true},
    {"SplitToSequence", "", lower_split_to_sequence, true},
    {"SequenceZeros", "finity", lower_sequence_zeros, true},
    {"SequenceSum", "finity", lower_sequence_sum, true},
    {"SplitLike", "finity", lower_split_like, true},
    {"Optional", "", [](TorchCall& call) { call.put(0, call.value(0)); }, true},
    {"OptionalGetElement", "", lower_get_element, true},
    {"OptionalHasElement", "", [](TorchCall& call) { call.put(0, truth_value(call.value(0).present())); }, true},
};

}  // namespace

std::span<const TorchLowering> torch_flow() { return kEntries; }

}  // namespace finity

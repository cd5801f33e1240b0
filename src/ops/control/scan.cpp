// Scan: a body that runs once per index of an axis of its scanned inputs. Opset 8
// has a batch axis and lengths per batch entry, later ones have axes to choose.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "ops/control/flow_gradient.h"
#include "ops/control/flow_range.h"
#include "ops/control/loops.h"
#include "ops/shared/pieces.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "tensor/convert.h"

namespace finity {

namespace {

bool is_batched(const Call& call) { return call.version() < 9; }

struct ScanParts {
  BodyId body;
  std::size_t first = 0;  // input that holds the first state
  std::size_t states = 0;
  std::size_t inputs = 0;   // scanned ones
  std::size_t outputs = 0;  // collected ones
};

ScanParts scan_parts(const Call& call) {
  ScanParts parts;
  parts.body = call.body("body");
  parts.first = is_batched(call) ? 1 : 0;
  const std::int64_t scanned = call.integer("num_scan_inputs");
  if (scanned < 1 || scanned + static_cast<std::int64_t>(parts.first) > static_cast<std::int64_t>(call.input_count())) {
    throw Error("num_scan_inputs is " + std::to_string(scanned) + ", with " + std::to_string(call.input_count()) +
                " inputs");
  }
  parts.inputs = static_cast<std::size_t>(scanned);
  parts.states = call.input_count() - parts.first - parts.inputs;
  require_body_arity(call, parts.body, parts.states + parts.inputs, parts.states);
  parts.outputs = call.bodies().body(parts.body).outputs.size() - parts.states;
  if (call.output_count() > parts.states + parts.outputs) {
    throw Error("has " + std::to_string(call.output_count()) + " outputs, the body gives " +
                std::to_string(parts.states + parts.outputs));
  }
  return parts;
}

// One entry per scanned input or collected output; zeros when absent.
std::vector<std::int64_t> flags(const Call& call, std::string_view attr, std::size_t count) {
  std::vector<std::int64_t> result = call.integers(attr);
  if (result.empty()) result.assign(count, 0);
  if (result.size() != count) {
    throw Error("attribute '" + std::string(attr) + "' has " + std::to_string(result.size()) + " entries, expected " +
                std::to_string(count));
  }
  return result;
}

std::vector<bool> directions(const Call& call, std::string_view attr, std::size_t count) {
  std::vector<bool> backward;
  for (const std::int64_t flag : flags(call, attr, count)) {
    if (flag != 0 && flag != 1) throw Error("attribute '" + std::string(attr) + "' must hold 0 and 1 only");
    backward.push_back(flag == 1);
  }
  return backward;
}

// ---- types -------------------------------------------------------------------

Type without_axes(const Type& type, std::size_t first, std::size_t count, std::string_view what) {
  if (!type.is_tensor() || !type.ranked) return type.is_tensor() ? Type::tensor(type.dtype) : Type{};
  if (type.shape.size() < first + count) {
    throw Error(std::string(what) + " has rank " + std::to_string(type.shape.size()) + ", expected at least " +
                std::to_string(first + count));
  }
  Shape shape = type.shape;
  const auto begin = shape.begin() + static_cast<std::ptrdiff_t>(first);
  shape.erase(begin, begin + static_cast<std::ptrdiff_t>(count));
  return Type::tensor(type.dtype, std::move(shape));
}

// Keeps the better known of two sizes that must be equal.
void agree(Dim& size, const Dim& other, std::string_view what) {
  if (size.known() && other.known() && size.size != other.size) {
    throw Error(std::string(what) + " of the scanned inputs are " + std::to_string(size.size) + " and " +
                std::to_string(other.size));
  }
  if (!size.known() && (other.known() || !size.symbol.valid())) size = other;
}

void infer_scan_by_axes(InferCall& call, const ScanParts& parts) {
  const std::vector<std::int64_t> axes = flags(call, "scan_input_axes", parts.inputs);
  const std::vector<std::int64_t> output_axes = flags(call, "scan_output_axes", parts.outputs);
  LoopTypes types;
  for (std::size_t i = 0; i < parts.states; ++i) types.state.push_back(call.in(i));
  Dim length;
  for (std::size_t i = 0; i < parts.inputs; ++i) {
    const Type& type = call.in(parts.states + i);
    const std::size_t axis = type.ranked ? normalize_axis(axes[i], type.shape.size()) : 0;
    if (type.ranked) agree(length, type.shape[axis], "lengths");
    types.after.push_back(without_axes(type, axis, 1, "a scanned input"));
  }
  const std::vector<Type> results = infer_every_iteration(call, parts.body, types);
  for (std::size_t i = 0; i < parts.states; ++i) {
    call.set_type(i, length.size > 0 ? results[i] : join(call.in(i), results[i]));
  }
  for (std::size_t i = parts.states; i < call.output_count(); ++i) {
    call.set_type(i, collected_type(results[i], length, output_axes[i - parts.states]));
  }
}

void infer_scan_batched(InferCall& call, const ScanParts& parts) {
  LoopTypes types;
  Dim batch;
  Dim length;
  for (std::size_t i = 0; i < parts.states; ++i) {
    const Type& type = call.in(parts.first + i);
    types.state.push_back(without_axes(type, 0, 1, "a state"));
    if (type.ranked) agree(batch, type.shape[0], "batch sizes");
  }
  for (std::size_t i = 0; i < parts.inputs; ++i) {
    const Type& type = call.in(parts.first + parts.states + i);
    types.after.push_back(without_axes(type, 0, 2, "a scanned input"));
    if (!type.ranked) continue;
    agree(batch, type.shape[0], "batch sizes");
    agree(length, type.shape[1], "lengths");
  }
  const std::vector<Type> results = infer_every_iteration(call, parts.body, types);
  for (std::size_t i = 0; i < parts.states; ++i) {
    call.set_type(i, collected_type(join(types.state[i], results[i]), batch, 0));
  }
  for (std::size_t i = parts.states; i < call.output_count(); ++i) {
    call.set_type(i, collected_type(collected_type(results[i], length, 0), batch, 0));
  }
}

void infer_scan(InferCall& call) {
  const ScanParts parts = scan_parts(call);
  if (is_batched(call)) infer_scan_batched(call, parts);
  else infer_scan_by_axes(call, parts);
}

// ---- evaluation --------------------------------------------------------------

struct Scanned {
  Tensor tensor;
  std::size_t axis = 0;
  bool backward = false;
};

struct ScanResult {
  std::vector<Datum> state;
  std::vector<std::vector<Tensor>> collected;  // in the order of the iterations
};

ScanResult run_scan(EvalCall& call, const ScanParts& parts, std::vector<Datum> state,
                    const std::vector<Scanned>& inputs, std::int64_t length) {
  ScanResult result{std::move(state), std::vector<std::vector<Tensor>>(parts.outputs)};
  for (std::int64_t t = 0; t < length; ++t) {
    std::vector<Datum> arguments = std::move(result.state);
    for (const Scanned& input : inputs) {
      arguments.emplace_back(take_at(input.tensor, input.axis, input.backward ? length - 1 - t : t));
    }
    std::vector<Datum> outputs = call.run_body(parts.body, arguments);
    for (std::size_t k = 0; k < parts.outputs; ++k) {
      result.collected[k].push_back(require_tensor(outputs[parts.states + k], "a collected output of the body"));
    }
    outputs.resize(parts.states);
    result.state = std::move(outputs);
  }
  return result;
}

void eval_scan_by_axes(EvalCall& call, const ScanParts& parts) {
  const std::vector<std::int64_t> axes = flags(call, "scan_input_axes", parts.inputs);
  const std::vector<bool> backward = directions(call, "scan_input_directions", parts.inputs);
  std::vector<Scanned> inputs;
  std::int64_t length = 0;
  for (std::size_t i = 0; i < parts.inputs; ++i) {
    const Tensor& tensor = call.in(parts.states + i);
    inputs.push_back({tensor, normalize_axis(axes[i], tensor.rank()), backward[i]});
    const std::int64_t own = tensor.dim(inputs.back().axis);
    if (i > 0 && own != length) {
      throw Error("lengths of the scanned inputs are " + std::to_string(length) + " and " + std::to_string(own));
    }
    length = own;
  }
  std::vector<Datum> state;
  for (std::size_t i = 0; i < parts.states; ++i) state.push_back(call.datum(i));
  ScanResult result = run_scan(call, parts, std::move(state), inputs, length);

  for (std::size_t i = 0; i < parts.states; ++i) call.out(i, std::move(result.state[i]));
  const std::vector<std::int64_t> output_axes = flags(call, "scan_output_axes", parts.outputs);
  const std::vector<bool> prepend = directions(call, "scan_output_directions", parts.outputs);
  const std::vector<ValueId>& body_outputs = call.bodies().body(parts.body).outputs;
  for (std::size_t k = 0; k < parts.outputs; ++k) {
    std::vector<Tensor>& values = result.collected[k];
    if (prepend[k]) std::ranges::reverse(values);
    call.out(parts.states + k, collect(call, body_outputs[parts.states + k], values, output_axes[k]));
  }
}

std::int64_t batch_size(const EvalCall& call, const ScanParts& parts) {
  const Tensor& first = call.in(parts.first + parts.states);
  if (first.rank() < 2)
    throw Error("a scanned input has shape " + to_string(first.dims()) + ", expected rank 2 or more");
  // Only an empty tensor can have such a batch, and only the lengths would take memory.
  if (first.dim(0) > (1 << 24)) throw Error("a batch of " + std::to_string(first.dim(0)) + " is too large");
  for (std::size_t i = parts.first; i < call.input_count(); ++i) {
    const Tensor& tensor = call.in(i);
    const bool scanned = i >= parts.first + parts.states;
    if (tensor.rank() < (scanned ? 2U : 1U) || tensor.dim(0) != first.dim(0) ||
        (scanned && tensor.dim(1) != first.dim(1))) {
      throw Error("input " + std::to_string(i) + " has shape " + to_string(tensor.dims()) +
                  ", the first scanned input has " + to_string(first.dims()));
    }
  }
  return first.dim(0);
}

std::vector<std::int64_t> batch_lengths(const EvalCall& call, std::int64_t batch, std::int64_t longest) {
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(batch), longest);
  if (!call.has_input(0)) return lengths;
  lengths = elements<std::int64_t>(call.in(0));
  if (static_cast<std::int64_t>(lengths.size()) != batch) {
    throw Error("sequence_lens has " + std::to_string(lengths.size()) + " entries for a batch of " +
                std::to_string(batch));
  }
  for (const std::int64_t length : lengths) {
    if (length < 0 || length > longest) throw Error("sequence_lens holds " + std::to_string(length));
  }
  return lengths;
}

// One entry of the batch, its collected values padded with zeros up to `longest`.
std::vector<Tensor> scan_batch_entry(EvalCall& call, const ScanParts& parts, std::int64_t entry, std::int64_t length,
                                     std::int64_t longest) {
  const std::vector<bool> backward = directions(call, "directions", parts.inputs);
  std::vector<Datum> state;
  std::vector<Scanned> inputs;
  for (std::size_t i = 0; i < parts.states; ++i) state.emplace_back(take_at(call.in(parts.first + i), 0, entry));
  for (std::size_t i = 0; i < parts.inputs; ++i) {
    inputs.push_back({take_at(call.in(parts.first + parts.states + i), 0, entry), 0, backward[i]});
  }
  const ScanResult result = run_scan(call, parts, std::move(state), inputs, length);
  std::vector<Tensor> outputs;
  for (const Datum& datum : result.state) outputs.push_back(require_tensor(datum, "a state"));
  const std::vector<ValueId>& body_outputs = call.bodies().body(parts.body).outputs;
  for (std::size_t k = 0; k < parts.outputs; ++k) {
    const Tensor values = collect(call, body_outputs[parts.states + k], result.collected[k], 0);
    Dims rest = values.dims();
    rest[0] = longest - length;
    const Tensor both[] = {values, Tensor(values.dtype(), std::move(rest))};
    outputs.push_back(concatenated(both, 0));
  }
  return outputs;
}

void eval_scan_batched(EvalCall& call, const ScanParts& parts) {
  const std::int64_t batch = batch_size(call, parts);
  const std::int64_t longest = call.in(parts.first + parts.states).dim(1);
  const std::vector<std::int64_t> lengths = batch_lengths(call, batch, longest);
  if (batch == 0) throw Unsupported("a batch of size 0 in opset 8");
  std::vector<std::vector<Tensor>> outputs(parts.states + parts.outputs);
  for (std::int64_t entry = 0; entry < batch; ++entry) {
    const std::vector<Tensor> results =
        scan_batch_entry(call, parts, entry, lengths[static_cast<std::size_t>(entry)], longest);
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].push_back(results[i]);
  }
  for (std::size_t i = 0; i < call.output_count(); ++i) call.out(i, stacked(outputs[i], 0));
}

void eval_scan(EvalCall& call) {
  const ScanParts parts = scan_parts(call);
  if (is_batched(call)) eval_scan_batched(call, parts);
  else eval_scan_by_axes(call, parts);
}

const OpDef kOps[] = {
    {.identity = {.name = "Scan",
                  .since = 8,
                  .summary = "runs a subgraph once per index of an axis of its inputs",
                  .signature = "(inputs...?: value) -> (final_state_and_scan_outputs...: value)",
                  .attrs = "body: graph; num_scan_inputs: int; directions: ints until 8; scan_input_axes: ints "
                           "since 9; scan_input_directions: ints since 9; scan_output_axes: ints since 9; "
                           "scan_output_directions: ints since 9"},
     .meaning =
         {.infer = infer_scan,
          .eval = eval_scan,
          .freedom =
              "opset 8: collected values beyond sequence_lens are 0, a backward scan starts at the last valid index"},
     .analysis = {.range = range_scan, .vjp = scan_gradient}},
};

}  // namespace

std::span<const OpDef> scan_ops() { return kOps; }

}  // namespace finity

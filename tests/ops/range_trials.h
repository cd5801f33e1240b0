// Random soundness trials of range rules: one node, operands with random ranges on
// random grids, and concrete operands inside them, many at the ends. What eval gives
// must lie in the rule's result, unless the rule reported that it may fail.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/rng.h"
#include "exec/reference.h"
#include "formats/text/text.h"
#include "graph/builder.h"
#include "ops/shared/shapes.h"
#include "ops/table/op.h"
#include "ops/table/range_call.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"
#include "types/infer.h"

namespace finity {

// ---- random ranges and members -------------------------------------------------

// What kind of ranges a trial is about.
struct RangeStyle {
  bool infinities = false;  // -Inf, +Inf and NaN among the values
  double largest = 0;       // magnitude; 0: up to the format's
  bool nonnegative = false;
  int cut_percent = 40;
};

inline double rounded_within(DType dtype, double x) {
  const double max = max_finite(dtype);
  return is_float(dtype) ? round_to(dtype, std::clamp(x, -max, max)) : std::floor(x);
}

inline double random_magnitude(DType dtype, double largest, Rng& rng) {
  switch (rng.below(6)) {
    case 0: return 0;
    case 1: return rng.uniform(0, 2);
    case 2: return rng.uniform(0, std::min(largest, 300.0));
    case 3: return static_cast<double>(rng.below(5));
    case 4: return largest * rng.uniform(0.5, 1);
    default: {  // any binade, as likely as any other
      const double low = std::log2(min_subnormal(dtype)), high = std::log2(largest);
      return std::exp2(rng.uniform(low, high));
    }
  }
}

inline Range random_range(DType dtype, const RangeStyle& style, Rng& rng) {
  const double largest = style.largest > 0 ? std::min(style.largest, max_finite(dtype)) : max_finite(dtype);
  const auto value = [&] {
    const double sign = style.nonnegative || rng.below(2) == 0 ? 1 : -1;
    return rounded_within(dtype, sign * std::min(random_magnitude(dtype, largest, rng), largest));
  };
  double a = value();
  double b = rng.below(5) == 0 ? a : value();
  if (!is_float(dtype)) a = std::floor(a), b = std::floor(b);
  Range range{.lo = std::min(a, b), .hi = std::max(a, b), .integer = !is_float(dtype)};
  if (style.infinities && is_float(dtype)) {
    range.ninf = rng.below(3) == 0;
    range.pinf = rng.below(8) == 0;
    range.nan = rng.below(10) == 0;
    if (range.ninf && rng.below(4) == 0) range.lo = kInf, range.hi = -kInf;
  }
  return range;
}

inline AbsTensor random_tensor(DType dtype, const Dims& dims, const RangeStyle& style, Rng& rng) {
  AbsTensor x = uniform(dtype, dims, {});
  std::vector<Cuts> cuts(dims.size());
  std::size_t cells = 1;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (dims[axis] < 2 || rng.below(100) >= static_cast<std::uint64_t>(style.cut_percent) || cells >= 8) continue;
    cuts[axis].push_back(1 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(dims[axis] - 1))));
    cells *= 2;
  }
  if (cells > 1) x.cuts = cuts;
  x.cells.clear();
  for (std::size_t i = 0; i < cells; ++i) x.cells.push_back(random_range(dtype, style, rng));
  return x;
}

inline double random_member(DType dtype, const Range& range, Rng& rng) {
  if (range.ninf && (!range.has_finite() || rng.below(3) == 0)) return -kInf;
  if (range.pinf && (!range.has_finite() || rng.below(6) == 0)) return kInf;
  if (range.nan && (!range.has_finite() || rng.below(8) == 0)) return std::nan("");
  double x = 0;
  switch (rng.below(6)) {
    case 0: return range.lo;
    case 1: return range.hi;
    case 2: x = rng.uniform(range.lo, range.hi); break;
    case 3: x = rng.below(2) == 0 ? min_subnormal(dtype) : std::sqrt(min_subnormal(dtype)) * rng.uniform(0.5, 2); break;
    case 4: x = (range.lo + range.hi) / 2; break;
    default: x = (rng.below(2) == 0 ? 1 : -1) * random_magnitude(dtype, std::max(range.magnitude(), 1e-30), rng);
  }
  x = is_float(dtype) ? rounded_within(dtype, x) : std::floor(x);
  return std::isfinite(x) ? std::clamp(x, range.lo, range.hi) : range.lo;
}

inline std::size_t cell_of(const AbsTensor& x, const std::vector<std::int64_t>& index) {
  std::vector<std::size_t> place(x.rank(), 0);
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    while (place[axis] + 1 < x.blocks(axis) && x.block_start(axis, place[axis] + 1) <= index[axis]) ++place[axis];
  }
  return cell_at(x, place);
}

// Elements at random; often all at the same kind of place, where sums are extreme.
inline Tensor random_elements(const AbsTensor& x, const Dims& dims, Rng& rng) {
  std::vector<double> values;
  const std::uint64_t habit = rng.below(5);
  for (IndexCounter at(dims); at.valid(); at.next()) {
    const Range& cell = x.cells[cell_of(x, at.index())];
    if (habit == 0 && cell.has_finite()) values.push_back(cell.lo);
    else if (habit == 1 && cell.has_finite()) values.push_back(cell.hi);
    else if (habit == 2 && cell.has_finite() && values.empty()) values.push_back(cell.hi);
    else if (habit == 2 && cell.has_finite()) values.push_back(cell.lo);
    else values.push_back(random_member(x.dtype, cell, rng));
  }
  return from_elements<double>(x.dtype, dims, values);
}

// ---- trials ----------------------------------------------------------------------

struct TrialInput {
  AbsTensor range = {};
  Dims dims = {};
  std::optional<Tensor> value = {};  // a constant, which the rule may look at
  bool hidden = false;               // the rule sees only the range, not the sizes
};

inline TrialInput ranged(AbsTensor range) {
  Dims dims = range.sizes;
  return {.range = std::move(range), .dims = std::move(dims)};
}
inline TrialInput constant(const Tensor& value, std::size_t max_cells = 64) {
  AbsTensor range = from_tensor(std::make_shared<const Tensor>(value), max_cells);
  range.exact = std::make_shared<const Tensor>(value);
  return {.range = std::move(range), .dims = value.dims(), .value = value};
}

// ---- what trials are about -----------------------------------------------------

inline constexpr DType kTrialFloats[] = {DType::float16, DType::bfloat16, DType::float32, DType::float64};

inline DType random_float(Rng& rng) { return kTrialFloats[rng.below(4)]; }

inline Dims random_dims(Rng& rng, std::size_t least, std::size_t most, std::int64_t largest = 6) {
  Dims dims(least + rng.below(most - least + 1));
  for (std::int64_t& size : dims) size = 1 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(largest)));
  return dims;
}

inline RangeStyle random_style(Rng& rng, DType dtype) {
  RangeStyle style;
  style.infinities = rng.below(6) == 0;
  style.nonnegative = rng.below(4) == 0;
  const double limits[] = {0, 1, 10, 300, std::sqrt(max_finite(dtype)) / 4};
  style.largest = limits[rng.below(5)];
  return style;
}

inline RangeSettings random_settings(Rng& rng) {
  RangeSettings settings;
  settings.accumulate = rng.below(2) == 0 ? DType::undefined : DType::float32;
  return settings;
}

// Sizes that the rule is not told.
inline void hide_sizes(AbsTensor& x, Rng& rng) {
  if (rng.below(4) != 0) return;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    if (x.blocks(axis) == 1 && rng.below(2) == 0) x.sizes[axis] = -1;
  }
}

inline TrialInput random_input(DType dtype, const Dims& dims, Rng& rng) {
  AbsTensor x = random_tensor(dtype, dims, random_style(rng, dtype), rng);
  hide_sizes(x, rng);
  return {.range = std::move(x), .dims = dims};
}

struct TrialNode {
  std::string op = {};
  std::string domain = {};
  int version = 21;
  std::vector<std::pair<std::string, Attr>> attrs = {};
  std::vector<std::optional<TrialInput>> inputs = {};
  std::size_t outputs = 1;
};

struct TrialResult {
  std::vector<AbsTensor> outs = {};
  std::vector<Site> sites = {};

  bool possible(std::string_view rule) const {
    return std::ranges::any_of(sites, [&](const Site& s) { return s.possible && s.rule == rule; });
  }
  bool proved(std::string_view rule) const {
    const bool there = std::ranges::any_of(sites, [&](const Site& s) { return s.rule == rule; });
    return there && !possible(rule);
  }
  bool any_possible() const {
    return std::ranges::any_of(sites, [](const Site& s) { return s.possible; });
  }
};

class Trial {
 public:
  explicit Trial(TrialNode node, const RangeSettings& settings = {}) : node_(std::move(node)), settings_(settings) {
    GraphBuilder builder;
    const BodyId body = builder.add_body("g");
    Node made;
    made.op = find_op(node_.domain, node_.op);
    if (made.op == nullptr) throw Error("no op " + node_.op);
    made.op_type = builder.intern(node_.op);
    made.domain = builder.intern(node_.domain);
    made.version = node_.version;
    made.body = body;
    builder.info().opsets[node_.domain] = node_.version;
    builder.info().ir_version = 10;
    for (const auto& [name, value] : node_.attrs) made.attrs.set(name, value);
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) made.inputs.push_back(add_input(builder, body, i));
    for (std::size_t i = 0; i < node_.outputs; ++i) {
      made.outputs.push_back(builder.add_value(body, "out" + std::to_string(i)));
      builder.add_output(body, made.outputs.back());
    }
    builder.add_node(std::move(made));
    graph_ = std::move(builder).build();
    types_ = infer_types(graph_);
  }

  TrialResult apply_rule() const {
    const Node& node = graph_.nodes()[0];
    std::vector<RangeCall::Operand> operands(node_.inputs.size());
    std::vector<AbsTensor> ranges(node_.inputs.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!node_.inputs[i]) continue;
      ranges[i] = node_.inputs[i]->range;
      ranges[i].identity = node.inputs[i];
      operands[i].range = &ranges[i];
      operands[i].type = &types_[node.inputs[i]];
      operands[i].value = node_.inputs[i]->value ? &*node_.inputs[i]->value : nullptr;
    }
    std::vector<const Type*> out_types;
    for (const ValueId out : node.outputs) out_types.push_back(&types_[out]);
    Symbols symbols;
    RangeCall call(call_of(graph_, node), std::move(operands), out_types, settings_, symbols);
    node.op->analysis.range(call);
    return {call.outs(), call.sites()};
  }

  // Concrete operands inside the ranges.
  Inputs draw(Rng& rng) const {
    Inputs inputs;
    for (std::size_t i = 0; i < node_.inputs.size(); ++i) {
      const auto& input = node_.inputs[i];
      if (!input || input->value) continue;
      inputs["in" + std::to_string(i)] = random_elements(input->range, input->dims, rng);
    }
    return inputs;
  }
  std::vector<Datum> run(const Inputs& inputs) const { return run_reference(graph_, inputs); }
  const Graph& graph() const { return graph_; }
  // What an operand was in a run; null for what is no operand.
  const Tensor* operand(ValueId id, const Inputs& inputs) const {
    const auto& ids = graph_.nodes()[0].inputs;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] != id || !node_.inputs[i]) continue;
      if (node_.inputs[i]->value) return &*node_.inputs[i]->value;
      const auto found = inputs.find("in" + std::to_string(i));
      return found == inputs.end() ? nullptr : found->second.tensor();
    }
    return nullptr;
  }

 private:
  ValueId add_input(GraphBuilder& builder, BodyId body, std::size_t i) {
    const auto& input = node_.inputs[i];
    if (!input) return {};
    const std::string name = "in" + std::to_string(i);
    if (input->value) return builder.add_constant(body, name, make_constant(*input->value));
    Type type = Type::tensor_of(input->range.dtype, input->dims);
    for (std::size_t axis = 0; axis < type.shape.size(); ++axis) {
      if (!input->range.ranked || input->range.sizes[axis] < 0) type.shape[axis] = {};
    }
    if (!input->range.ranked) type = Type::tensor(input->range.dtype);
    return builder.add_input(body, name, type);
  }

  TrialNode node_;
  RangeSettings settings_;
  Graph graph_ = {};
  Types types_ = {};
};

// Rules after which the result is taken to be valid, so that a run in which they happen may give any number.
inline bool excuses_values(const TrialResult& result) {
  for (const std::string_view rule : {"FN102", "FN301", "FN304", "FN305", "FN306"}) {
    if (result.possible(rule)) return true;
  }
  return false;
}

// The first element of an output that is not in its cell, in words; "" when there is none.
inline std::string escape(const TrialResult& result, std::size_t output, const Tensor& value) {
  const AbsTensor& range = result.outs[output];
  if (range.dtype != value.dtype()) return "dtype of the range";
  if (range.ranked && range.rank() != value.rank()) return "rank of the range";
  for (std::size_t axis = 0; range.ranked && axis < value.rank(); ++axis) {
    if (range.sizes[axis] >= 0 && range.sizes[axis] != value.dim(axis)) return "sizes of the range";
  }
  const std::vector<double> elements = finity::elements<double>(value);
  std::size_t i = 0;
  for (IndexCounter at(value.dims()); at.valid(); at.next(), ++i) {
    const Range& cell = range.ranked ? range.cells[cell_of(range, at.index())] : range.cells[0];
    if (cell.contains(elements[i])) continue;
    if (!std::isfinite(elements[i]) && result.any_possible()) continue;
    if (excuses_values(result)) continue;
    return "output " + std::to_string(output) + " has " + std::to_string(elements[i]) + " (" +
           to_string(point(elements[i])) + ") at " + to_string(std::span(at.index())) + ", outside " + to_string(cell);
  }
  return "";
}

// A relation that what came out contradicts, in words; "" when there is none.
inline std::string broken_relation(const AbsTensor& range, const Tensor& value, const Trial& trial,
                                   const Inputs& inputs) {
  const auto source = [&](ValueId id) { return trial.operand(id, inputs); };
  const auto name = [&](ValueId id) { return trial.graph().value(id).name; };
  for (const Relation& relation : range.relations) {
    if (!holds(relation, value, source)) return "the result is not " + to_text(relation, name);
  }
  return "";
}

struct TrialCounts {
  int trials = 0;      // rules that gave an answer
  int runs = 0;        // executions looked at
  int unexcused = 0;   // of rules that reported nothing
  int not_finite = 0;  // executions that gave NaN or an infinity
};

// Runs one node `runs` times; the first contradiction in words.
inline std::string try_node(const Trial& trial, Rng& rng, int runs, TrialCounts& counts) {
  const TrialResult result = trial.apply_rule();
  ++counts.trials;
  counts.unexcused += result.any_possible() ? 0 : 1;
  for (int i = 0; i < runs; ++i) {
    const Inputs inputs = trial.draw(rng);
    std::vector<Datum> outputs;
    try {
      outputs = trial.run(inputs);
    } catch (const Error&) {
      continue;
    }
    ++counts.runs;
    for (std::size_t k = 0; k < outputs.size(); ++k) {
      const Tensor* value = outputs[k].tensor();
      if (value == nullptr) continue;
      for (const double x : elements<double>(*value)) counts.not_finite += std::isfinite(x) ? 0 : 1;
      std::string problem = escape(result, k, *value);
      if (problem.empty() && !excuses_values(result)) problem = broken_relation(result.outs[k], *value, trial, inputs);
      if (!problem.empty()) return problem + "\n" + print_graph(trial.graph());
    }
  }
  return "";
}

}  // namespace finity

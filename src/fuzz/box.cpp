#include "fuzz/box.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>

#include "base/error.h"
#include "check/analyze.h"
#include "fuzz/monotone.h"
#include "fuzz/resampled.h"
#include "fuzz/sums.h"
#include "graph/builder.h"
#include "graph/rewrite.h"
#include "ops/table/fold.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity::fuzz {

namespace {

constexpr std::size_t kMaxCells = std::size_t{1} << 16;

bool holds_more(const Range& cell) { return cell.nan || cell.pinf || cell.ninf; }

bool is_number(DType dtype) { return dtype != DType::string && !is_complex(dtype) && dtype != DType::undefined; }

// The op with what belongs to its meaning and nothing that was measured. Lives as long as the program.
const OpDef* as_specified(const OpDef& op) {
  static std::mutex guard;
  static std::map<const OpDef*, std::unique_ptr<OpDef>> copies;
  const std::lock_guard lock(guard);
  std::unique_ptr<OpDef>& copy = copies[&op];
  if (!copy) {
    copy = std::make_unique<OpDef>(op);
    copy->analysis.grants = {.specified = op.analysis.grants.specified,
                             .narrow_kernels = op.analysis.grants.narrow_kernels};
  }
  return copy.get();
}

AbsTensor expanded(const Box& box) {
  AbsTensor result = uniform(box.dtype, box.dims, Range{});
  for (const std::int64_t size : box.dims) {
    Cuts cuts;
    for (std::int64_t at = 1; at < size; ++at) cuts.push_back(at);
    result.cuts.push_back(std::move(cuts));
  }
  if (box.cells.empty()) return result;
  result.cells = box.cells;
  if (result.cells.size() == 1) result.cuts.clear();
  return result;
}

Box from_abstract(const AbsTensor& range, const Type& type) {
  Box box{.dtype = type.dtype, .dims = type.dims().value_or(Dims{})};
  if (!type.dims() || !is_number(type.dtype)) return box;
  const auto count = static_cast<std::size_t>(element_count(box.dims));
  if (count > kMaxCells) return box;
  if (range.exact && range.exact->dims() == box.dims && range.exact->dtype() == box.dtype)
    return point_box(*range.exact);
  if (!range.cut()) {
    box.cells.assign(count, range.cells.front());
    return box;
  }
  if (range.sizes != box.dims) return box;
  std::vector<std::size_t> place(box.dims.size());
  Dims index(box.dims.size(), 0);
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t axis = 0; axis < place.size(); ++axis) {
      const Cuts& cuts = range.cuts[axis];
      place[axis] = static_cast<std::size_t>(std::ranges::upper_bound(cuts, index[axis]) - cuts.begin());
    }
    box.cells.push_back(range.cells[cell_at(range, place)]);
    for (std::size_t axis = place.size(); axis-- > 0 && ++index[axis] == box.dims[axis];) index[axis] = 0;
  }
  return box;
}

// A graph that is nothing but the node, with operands that are points as constants; `fold`: floats, too.
struct Alone {
  Graph graph = {};
  Premises premises = {};

  Alone(const Node& node, const std::vector<Box>& operands, const Graph& whole, bool fold) {
    GraphBuilder builder;
    const BodyId body = builder.add_body("node");
    builder.info().ir_version = 10;
    builder.info().opsets = whole.info().opsets;
    Node copy = detached(node, builder);
    copy.op = as_specified(*node.op);
    copy.body = body;
    copy.inputs.resize(node.inputs.size());
    copy.outputs.resize(node.outputs.size());
    std::vector<std::pair<ValueId, const Box*>> boxed;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      if (!node.inputs[i].valid()) continue;
      const std::string name = "in" + std::to_string(i);
      const Box& box = operands[i];
      if (box.is_point() && (fold || !is_float(box.dtype))) {
        copy.inputs[i] = builder.add_constant(body, name, make_constant(tensor_of(box)));
      } else {
        copy.inputs[i] = builder.add_input(body, name, Type::tensor_of(box.dtype, box.dims));
        boxed.emplace_back(copy.inputs[i], &box);
      }
    }
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (!node.outputs[i].valid()) continue;
      copy.outputs[i] = builder.add_value(body, "out" + std::to_string(i));
      builder.add_output(body, copy.outputs[i]);
    }
    builder.add_node(std::move(copy));
    graph = std::move(builder).build();
    premises.of.resize(graph.values().size());
    for (const auto& [id, box] : boxed) premises.of[id.at()] = std::make_shared<AbsTensor>(expanded(*box));
  }
};

std::vector<Box> by_rule(const Graph& graph, const Node& node, const std::vector<Box>& operands, bool fold = true) {
  const Alone alone(node, operands, graph, fold);
  const Types types = infer_types(alone.graph);
  CheckOptions options;
  options.ranges.max_cells = kMaxCells;
  options.ranges.lengths = Lengths::never;
  options.find_causes = false;
  const Analysis analysis = analyze(alone.graph, types, alone.premises, options);
  // Behind a hazard the analysis goes on with what is valid.
  const bool hazard =
      std::ranges::any_of(analysis.findings, [](const Finding& f) { return f.verdict != Verdict::proved; });
  std::vector<Box> boxes;
  for (const ValueId id : alone.graph.nodes().front().outputs) {
    if (!id.valid()) boxes.emplace_back();
    else if (hazard || !types[id].is_tensor())
      boxes.push_back({.dtype = types[id].dtype, .dims = types[id].dims().value_or(Dims{1})});
    else boxes.push_back(from_abstract(analysis.ranges[id.at()], types[id]));
  }
  return boxes;
}

// Elements of which the op says nothing may be anything; a format without NaN and infinities cannot say what they are.
std::vector<Box> opened(const OpDef& op, DType to, std::vector<Box> operands) {
  const bool converts = op.traits.elements == ElementSource::converted && !is_float(to);
  const NotFinite how = converts ? NotFinite::open : not_finite_of(op);
  const bool nan = how == NotFinite::nan_open || how == NotFinite::open;
  const bool infinite = how == NotFinite::infinities_open || how == NotFinite::open;
  for (Box& box : operands) {
    for (Range& cell : box.cells) {
      if ((cell.nan && nan) || ((cell.pinf || cell.ninf) && infinite)) cell = top(box.dtype);
    }
  }
  return operands;
}

// Integers that may wrap: no operator says what comes out. Seen by computing the same in doubles.
bool may_wrap(const Graph& graph, const Node& node, const std::vector<Box>& operands, const std::vector<Box>& results) {
  if (results.empty() || !is_int(results[0].dtype) || operands.empty() || !is_int(operands[0].dtype)) return false;
  const std::vector<Param>& params = signature_of(*node.op).inputs;
  const std::string& variable = params.front().type.variable;  // what is computed with, and not what says how
  std::vector<Datum> wide;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    wide.emplace_back();
    if (!node.inputs[i].valid()) continue;
    if (!operands[i].is_point()) return false;
    const Param& param = *Signature::param(params, i);
    const bool same = node.op->traits.elementwise || (!variable.empty() && param.type.variable == variable);
    const bool data = i == 0 || (same && is_int(operands[i].dtype));
    const Tensor tensor = tensor_of(operands[i]);
    wide.back() = data ? from_elements<double>(DType::float64, tensor.dims(), elements<double>(tensor)) : tensor;
  }
  try {
    const std::vector<Datum> results_in_doubles = fold(call_of(graph, node), wide);
    const Tensor* result = results_in_doubles.front().tensor();
    return result != nullptr && is_float(result->dtype()) &&
           std::ranges::any_of(elements<double>(*result), [&](double x) {
             return !(x <= max_finite(results[0].dtype) && x >= lowest_finite(results[0].dtype));
           });
  } catch (const Error&) {
    return false;
  }
}

// The better of two enclosures; one that says nothing gives way.
Box meet_boxes(const Box& a, const Box& b) {
  if (!a.decided()) return b;
  if (!b.decided() || a.dims != b.dims) return a;
  Box result = a;
  result.meant.clear();
  for (std::size_t i = 0; i < a.cells.size(); ++i) {
    const Range both = meet(a.cells[i], b.cells[i]);
    if (!both.is_empty()) result.cells[i] = both;
    result.meant.push_back(a.claims(i) || b.claims(i));
  }
  return result;
}

}  // namespace

bool Box::decided() const { return is_number(dtype) && cells.size() == static_cast<std::size_t>(element_count(dims)); }

bool Box::is_point() const {
  // A NaN or an infinity alone is a point, too.
  return decided() && std::ranges::all_of(cells, [](const Range& r) {
           const int flags = (r.nan ? 1 : 0) + (r.pinf ? 1 : 0) + (r.ninf ? 1 : 0);
           return r.has_finite() ? flags == 0 && r.lo == r.hi : flags == 1;
         });
}

bool Box::means_more() const {
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (holds_more(i) && claims(i)) return true;
  }
  return false;
}

Box point_box(const Tensor& tensor) {
  Box box{.dtype = tensor.dtype(), .dims = tensor.dims()};
  if (!is_number(tensor.dtype())) return box;
  for (const double x : elements<double>(tensor)) {
    Range cell = point(x);
    cell.integer = !is_float(tensor.dtype());
    box.cells.push_back(cell);
    box.meant.push_back(holds_more(cell));
  }
  // Integers beyond 2^53 are no doubles: nothing is claimed of them.
  const bool wide = tensor.dtype() == DType::int64 || tensor.dtype() == DType::uint64;
  if (wide && std::ranges::any_of(box.cells, [](const Range& r) { return r.magnitude() > 0x1p53; }))
    return {.dtype = tensor.dtype(), .dims = tensor.dims()};
  return box;
}

namespace {

// `computed`: also a zero may have been a number too small for the format.
Box widened_box(const Tensor& tensor, double roundings, bool computed) {
  Box box = point_box(tensor);
  if (!is_float(tensor.dtype())) return box;
  const double part = roundings * unit_roundoff(tensor.dtype()), step = min_subnormal(tensor.dtype());
  for (Range& cell : box.cells) {
    if (!cell.has_finite()) continue;
    // Subnormal numbers have fewer digits.
    const bool subnormal = std::abs(cell.lo) < step / unit_roundoff(tensor.dtype()) && (computed || cell.lo != 0);
    const double radius = std::abs(cell.lo) * part + (subnormal ? roundings * step : 0);
    const Range wide = from_bounds(tensor.dtype(), cell.lo - radius, cell.hi + radius);
    if (wide.is_finite()) cell = wide;
  }
  return box;
}

}  // namespace

Box around(const Tensor& tensor) { return widened_box(tensor, 64, false); }

Box operand_box(const Tensor& tensor) {
  const bool narrow = is_float(tensor.dtype()) && unit_roundoff(tensor.dtype()) > unit_roundoff(DType::float32);
  if (!narrow) return point_box(tensor);
  // Where the format overflowed, the next step may have seen a finite number.
  Box box = widened_box(tensor, 2, true);
  box.meant.clear();
  return box;
}

Tensor tensor_of(const Box& box) {
  std::vector<double> values;
  for (const Range& cell : box.cells)
    values.push_back(cell.has_finite() ? cell.lo : cell.pinf ? kInf : cell.ninf ? -kInf : std::nan(""));
  return from_elements<double>(box.dtype, box.dims, values);
}

namespace {

// The same with numbers in place of what is meant to be none, each another one: equal ones would tie.
std::vector<Box> made_finite(std::vector<Box> operands, double number) {
  double next = number;
  for (Box& box : operands) {
    for (std::size_t i = 0; i < box.cells.size(); ++i) {
      Range& cell = box.cells[i];
      if (!holds_more(cell) || !box.claims(i)) continue;
      cell = point(next);
      next += number / 64;
    }
  }
  return operands;
}

// What the reference computes of the middles of the boxes, and of NaN where that may be; nothing where it refuses.
std::vector<Datum> evaluated_in_the_middle(const Graph& graph, const Node& node, const std::vector<Box>& operands) {
  std::vector<Datum> middles;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    middles.emplace_back();
    if (!node.inputs[i].valid()) continue;
    Box middle = operands[i];
    for (Range& cell : middle.cells) {
      if (cell.nan) cell = point(std::nan(""));
      else if (cell.pinf || cell.ninf) cell = point(cell.pinf ? kInf : -kInf);
      else if (cell.has_finite() && is_float(middle.dtype)) cell.lo += (cell.hi - cell.lo) / 2;
    }
    middles.back() = tensor_of(middle);
  }
  try {
    return fold(call_of(graph, node), middles);
  } catch (const Error&) {
    return {};
  }
}

// Results that do not depend on what is not finite: whatever number stands there, they are the same, and the reference
// finds them, too. `others`: the results for other numbers.
void claim_independent(Box& box, const Box& finite, const std::vector<const Box*>& others, const Tensor& reference) {
  const std::vector<double> found = elements<double>(reference);
  if (found.size() != finite.cells.size() || reference.dims() != finite.dims) return;
  if (!box.decided()) box = {.dtype = finite.dtype, .dims = finite.dims, .cells = {found.size(), top(finite.dtype)}};
  box.meant.resize(found.size(), false);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const Range& cell = finite.cells[i];
    const bool same = std::ranges::all_of(others, [&](const Box* other) {
      return other->decided() && other->dims == finite.dims && other->cells[i] == cell;
    });
    if (!holds_more(cell) && same && cell.contains(found[i])) box.cells[i] = cell;
  }
}

// Where a rule stops at a hazard: the reference's NaN and infinities. Of its numbers nothing is claimed, whose last
// digits are its own.
Box by_definition(const Tensor& reference) {
  Box box = point_box(reference);
  for (Range& cell : box.cells) cell = holds_more(cell) ? cell : top(box.dtype);
  return box;
}

// Of operands that are not all finite. What the finite ones alone make infinite or undefined is too large a number,
// and not meant.
std::vector<Box> enclose_beyond_finite(const Graph& graph, const Types& types, const Node& node,
                                       const std::vector<Box>& operands) {
  const DType to = node.outputs.front().valid() ? types[node.outputs.front()].dtype : DType::undefined;
  const std::vector<Box> open = opened(*node.op, to, operands);
  const bool exact = folds(*node.op, node.attrs, true);
  bool said = true, points = true;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    said &= open[i].cells == operands[i].cells;
    points &= !operands[i].present() || operands[i].is_point();
  }
  std::vector<Box> boxes = by_rule(graph, node, open, said);
  const std::optional<std::vector<Box>> ends = enclose_monotone(graph, node, operands);
  // Numbers of both signs, larger than what samples hold, and in both orders. They are exact in float16.
  std::vector<std::vector<Box>> finite;
  for (const double number : {1.0, -8192.0, 8192.0})
    finite.push_back(enclose(graph, types, node, made_finite(operands, number)));
  const std::vector<Datum> reference = evaluated_in_the_middle(graph, node, operands);
  for (std::size_t k = 0; k < boxes.size(); ++k) {
    const Tensor* found = k < reference.size() ? reference[k].tensor() : nullptr;
    const Box& one = finite.front()[k];
    if (!one.decided() || found == nullptr) {
      boxes[k].meant.clear();
      continue;
    }
    if (said && points && exact) boxes[k] = point_box(*found);
    if (!boxes[k].decided() && said && points && is_float(found->dtype())) boxes[k] = by_definition(*found);
    boxes[k].meant.clear();
    if (boxes[k].decided() && boxes[k].dims == one.dims) {
      for (const Range& cell : one.cells) boxes[k].meant.push_back(!holds_more(cell));
    }
    claim_independent(boxes[k], one, {&finite[1][k], &finite[2][k]}, *found);
    if (ends && (*ends)[k].present()) boxes[k] = meet_boxes((*ends)[k], boxes[k]);
  }
  return boxes;
}

}  // namespace

std::vector<Box> enclose(const Graph& graph, const Types& types, const Node& node, const std::vector<Box>& operands) {
  std::vector<Box> nothing;
  bool known = node.op != nullptr && !node.op->traits.random && node.op->meaning.eval != nullptr;
  for (const ValueId id : node.outputs) {
    nothing.emplace_back();
    if (id.valid()) nothing.back() = {.dtype = types[id].dtype, .dims = types[id].dims().value_or(Dims{1})};
    known &= !id.valid() || (types[id].is_tensor() && types[id].dims().has_value());
  }
  for (std::size_t i = 0; i < node.inputs.size(); ++i) known &= !node.inputs[i].valid() || operands[i].decided();
  if (!known) return nothing;
  if (std::ranges::any_of(operands, &Box::means_more)) return enclose_beyond_finite(graph, types, node, operands);
  std::vector<Box> boxes = by_rule(graph, node, operands);
  if (may_wrap(graph, node, operands, boxes)) return nothing;
  if (const std::optional<Box> sum = enclose_sum(graph, node, operands)) boxes[0] = meet_boxes(*sum, boxes[0]);
  // What the reference computes of constants rests on coordinates as it rounds them.
  if (const std::optional<Box> resampled = enclose_resampled(graph, node, operands)) boxes[0] = *resampled;
  if (const std::optional<std::vector<Box>> ends = enclose_monotone(graph, node, operands)) {
    for (std::size_t k = 0; k < boxes.size(); ++k) {
      if ((*ends)[k].present()) boxes[k] = meet_boxes((*ends)[k], boxes[k]);
    }
  }
  return boxes;
}

}  // namespace finity::fuzz

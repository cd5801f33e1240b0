// Libraries without kernels for a narrow format compute in float32, and round what is between two such nodes as little
// as they can: results lie between the format's numbers.
#include <algorithm>
#include <utility>

#include "check/analyzer.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

// The same values, in float32. What is known of them holds there too.
AbsTensor in_float32(const AbsTensor& x) {
  AbsTensor result = x;
  if (is_narrow(x.dtype)) result.dtype = DType::float32;
  result.exact.reset();
  result.rows.reset();
  return result;
}

// What was not rounded lies between the format's numbers; what does not fit is the overflow's.
void join_outward(DType dtype, const Range& wide, Range& cell) {
  if (!wide.has_finite() || !cell.has_finite()) return;
  const bool never_zero = !cell.may_be_zero() && !wide.may_be_zero();
  const double down = round_to(dtype, std::max(wide.lo, lowest_finite(dtype)));
  const double up = round_to(dtype, std::min(wide.hi, max_finite(dtype)));
  cell.lo = std::min(cell.lo, std::max(down > wide.lo ? next_down(dtype, down) : down, lowest_finite(dtype)));
  cell.hi = std::max(cell.hi, std::min(up < wide.hi ? next_up(dtype, up) : up, max_finite(dtype)));
  cell.integer = cell.integer && wide.integer;
  cell.nonzero = never_zero && cell.lo <= 0 && cell.hi >= 0;
}

// The operands and result types of a call, in float32.
struct Wider {
  std::vector<AbsTensor> inputs = {};
  std::vector<Type> types = {}, out_types = {};
  std::vector<RangeCall::Operand> operands = {};

  Wider(const RangeCall& call, bool keep_weights)
      : inputs(call.input_count()), types(call.input_count()), operands(call.input_count()) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!call.has_range(i)) continue;
      operands[i] = call.operand(i);
      // Weights are the format's own numbers; their sums are known as such.
      const bool weights = keep_weights && (call.operand(i).constant || call.in(i).exact);
      if (weights || !is_narrow(call.in(i).dtype)) continue;
      inputs[i] = in_float32(call.in(i));
      types[i] = call.in_type(i);
      types[i].dtype = DType::float32;
      operands[i] = {.range = &inputs[i], .type = &types[i], .constant = nullptr, .value = nullptr};
    }
    for (std::size_t i = 0; i < call.output_count(); ++i) {
      out_types.push_back(call.out_type(i));
      if (is_narrow(out_types[i].dtype)) out_types[i].dtype = DType::float32;
    }
  }
  std::vector<const Type*> out_pointers() const {
    std::vector<const Type*> result;
    for (const Type& type : out_types) result.push_back(&type);
    return result;
  }
};

}  // namespace

void Analyzer::join_wider(const Node& node, RangeCall& call, const RangeCall::Hooks& hooks) {
  const bool narrow = std::ranges::any_of(call.outs(), [](const AbsTensor& out) { return is_narrow(out.dtype); });
  const OpDef& op = *node.op;
  if (!narrow || !bodies_of(node.attrs).empty() || op.traits.random || op.traits.merge == Merge::movement) return;
  if (op.traits.exact && !op.traits.elementwise) return;
  Wider in(call, !op.traits.elementwise);
  RangeCall wide(call.description(), in.operands, in.out_pointers(), options_.ranges, symbols_);
  wide.set_hooks(hooks);
  op.analysis.range(wide);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    AbsTensor& own = call.outs()[i];
    if (!call.given()[i] || !wide.given()[i] || !is_narrow(own.dtype)) continue;
    const AbsTensor& other = wide.outs()[i];
    const bool aligned = other.cells.size() == own.cells.size() && other.cuts == own.cuts;
    for (std::size_t cell = 0; cell < own.cells.size(); ++cell) {
      join_outward(own.dtype, aligned ? other.cells[cell] : other.hull(), own.cells[cell]);
    }
  }
}

}  // namespace finity

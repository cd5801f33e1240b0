// One node: folding, or the op's range rule between the checks of operands and results.
#include <algorithm>
#include <cmath>
#include <utility>

#include "check/analyzer.h"
#include "ops/shared/row_tables.h"
#include "ops/table/fold.h"

namespace finity {

namespace {

constexpr std::int64_t kFoldElements = 1 << 16;

bool small_enough(const Type& type) {
  const std::optional<Dims> dims = type.dims();
  return dims && element_count(*dims) <= kFoldElements;
}

}  // namespace

void Analyzer::evaluate(NodeId id, const Node& node) {
  if (node.op == nullptr) return give_up(id, "the op is not modelled", "FN901");
  if (const ValueId untyped = untyped_value(node); untyped.valid()) return pass_untyped(id, node, untyped);
  Operands operands = operands_of(node);
  std::vector<AbsTensor> restricted;
  check_operands(id, node, operands, restricted);
  if (!store_known(node) && !fold(id, node, operands)) {
    if (node.op->analysis.range == nullptr) return give_up(id, "there is no range rule for the op", "FN902");
    apply_rule(id, node, std::move(operands));
  }
  // Nodes under a guard and in loops are looked at again.
  if (probing_ != 0 || modelled_[id.at()]) return;
  modelled_[id.at()] = true;
  ++result_.modelled_nodes;
}

Analyzer::Operands Analyzer::operands_of(const Node& node) {
  Operands operands(node.inputs.size());
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId input = node.inputs[i];
    if (!input.valid()) continue;
    operands[i] = {
        .range = &get(input),
        .type = &types_[input],
        .constant = premises_.of[input.at()] || flushed_.contains(input) ? nullptr : graph_.value(input).constant,
        .value = nullptr};
    operands[i].value = operands[i].range->exact.get();
  }
  return operands;
}

// Shapes and what is computed from them are known from type inference.
bool Analyzer::store_known(const Node& node) {
  const auto known = [&](ValueId out) { return !out.valid() || types_.known[out.at()].has_value(); };
  if (node.op->traits.random || !bodies_of(node.attrs).empty() || !std::ranges::all_of(node.outputs, known))
    return false;
  const auto integral = [&](ValueId out) { return !out.valid() || !is_float(types_[out].dtype); };
  if (!std::ranges::all_of(node.outputs, integral) || leaves_integers(node)) return false;
  for (const ValueId out : node.outputs) {
    if (!out.valid()) continue;
    const auto tensor = std::make_shared<const Tensor>(*types_.known[out.at()]);
    AbsTensor range = from_tensor(tensor, options_.ranges.max_cells);
    range.exact = tensor;
    store(out, std::move(range));
  }
  return true;
}

// Floats that an integer result cannot hold: libraries differ, and the range rule warns.
bool Analyzer::leaves_integers(const Node& node) {
  const ValueId out = node.outputs.empty() ? ValueId{} : node.outputs.front();
  if (!out.valid() || !is_int(types_[out].dtype)) return false;
  return std::ranges::any_of(node.inputs, [&](ValueId input) {
    if (!input.valid() || !is_float(types_[input].dtype)) return false;
    const Range hull = get(input).hull();
    return !(hull.is_finite() && hull.lo > lowest_finite(types_[out].dtype) - 1 &&
             hull.hi < max_finite(types_[out].dtype));
  });
}

// All operands known: what the reference computes is the result, element by element. Where another library may compute
// other bits, the range rule speaks, which allows for that.
bool Analyzer::fold(NodeId id, const Node& node, const Operands& operands) {
  const OpDef& op = *node.op;
  const auto is_number = [&](ValueId v) { return v.valid() && is_float(types_[v].dtype); };
  const bool floats = std::ranges::any_of(node.inputs, is_number) || std::ranges::any_of(node.outputs, is_number);
  const bool one_way = options_.ranges.runtime == Runtime::exact || op.analysis.grants.ways.none();
  if (!folds(op, node.attrs, floats) || (floats && (!one_way || leaves_integers(node))) || node.outputs.empty())
    return false;
  const auto known = [&](ValueId input) -> const Tensor* { return input.valid() ? get(input).exact.get() : nullptr; };
  for (const ValueId input : node.inputs) {
    if (input.valid() && (known(input) == nullptr || known(input)->size() > kFoldElements)) return false;
  }
  std::vector<Datum> inputs(node.inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (const Tensor* tensor = known(node.inputs[i]); tensor != nullptr) inputs[i] = *tensor;
  }
  for (const ValueId out : node.outputs) {
    if (out.valid() && !small_enough(types_[out])) return false;
  }
  std::vector<Datum> outputs;
  try {
    outputs = finity::fold(finity::call_of(graph_, node), inputs);
  } catch (const Error&) {
    return false;  // the range rule says what can be said
  }
  for (const Datum& datum : outputs) {
    if (datum.present() && datum.tensor() == nullptr) return false;
  }
  const Taint taint = taint_of(node);
  const Flags flags = flags_of_operands(node);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId out = node.outputs[i];
    if (!out.valid()) continue;
    if (!outputs[i].present()) return false;
    auto tensor = std::make_shared<const Tensor>(*outputs[i].tensor());
    AbsTensor range = from_tensor(tensor, options_.ranges.max_cells);
    range.exact = tensor;
    check_result(id, node, i, range, flags, made_besides(node, operands, i, range, flags));
    store(out, std::move(range));
    set_taint(out, taint);
  }
  return true;
}

namespace {

// An op on an operand without elements may have results: sums of nothing, windows over padding. A rule that has nothing
// to say of them is not taken to mean that there are none. (Where an operand that has elements is nothing itself, the
// node is never computed.)
void admit_results_of_nothing(RangeCall& call) {
  bool without = false;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (!call.has_range(i)) continue;
    const bool elements = call.in(i).most_count(~std::uint32_t{0}) > 0;
    if (elements && call.in(i).hull().is_empty()) return;
    without |= !elements;
  }
  for (std::size_t i = 0; without && i < call.output_count(); ++i) {
    AbsTensor& out = call.outs()[i];
    const bool exists = call.given()[i] && call.out_type(i).is_tensor() && call.out_type(i).elements().most_size() > 0;
    for (Range& cell : out.cells) {
      if (exists && cell.is_empty()) cell = top(call.out_dtype(i));
    }
  }
}

}  // namespace

RangeCall Analyzer::call_of(const Node& node, Operands operands) {
  static const Type kUnknown;
  std::vector<const Type*> out_types;
  for (const ValueId out : node.outputs) out_types.push_back(out.valid() ? &types_[out] : &kUnknown);
  const auto run = [this](BodyId body, std::span<const AbsTensor> inputs) { return run_body(body, inputs); };
  return {finity::call_of(graph_, node), std::move(operands), std::move(out_types), options_.ranges, symbols_, run};
}

const AbsTensor* Analyzer::known_range(ValueId value) {
  const bool known = result_.reached[value.at()] || graph_.value(value).constant;
  return known ? &get(value) : nullptr;
}

RangeCall::Hooks Analyzer::hooks_for(const Node& node) {
  RangeCall::Hooks hooks;
  hooks.probe_body = [this](BodyId body, std::span<const AbsTensor> inputs) { return probe_body(body, inputs); };
  hooks.run_branch = [this, &node](BodyId body, std::size_t condition, bool truth) {
    return run_branch(body, node, condition, truth);
  };
  hooks.assuming = [this, &node](std::size_t operand, std::size_t condition, bool truth) {
    return assuming(node, operand, condition, truth);
  };
  hooks.not_below = [this, &node](std::size_t whole, std::size_t part) {
    return not_below(node.inputs[whole], node.inputs[part]);
  };
  if (node.op->analysis.length != nullptr) {
    hooks.length = [this, &node](std::size_t operand, const Rows& rows) {
      return length_of(node.inputs[operand], rows);
    };
  }
  hooks.around = &ranges_around_;
  hooks.inputs = node.inputs;
  return hooks;
}

NodeResult Analyzer::result_of(const Node& node, Operands operands, const RangeCall::Hooks& hooks) {
  const std::vector<AbsTensor> loose = loosen_operands(node, operands);
  RangeCall call = call_of(node, std::move(operands));
  call.set_hooks(hooks);
  node.op->analysis.range(call);
  use_rows(call);
  shorten(node, call);
  recentre(node, call);
  admit_results_of_nothing(call);
  if (options_.ranges.runtime != Runtime::exact) join_wider(node, call, hooks);
  call.add_besides();
  NodeResult result{.outputs = std::vector<std::optional<AbsTensor>>(node.outputs.size()),
                    .sites = std::move(call.sites())};
  for (std::size_t i = 0; i < result.outputs.size(); ++i) {
    if (call.given()[i]) result.outputs[i] = std::move(call.outs()[i]);
  }
  return result;
}

void Analyzer::apply_rule(NodeId id, const Node& node, Operands operands) {
  const Flags flags = flags_of_operands(node);
  const Operands kept = flags.infinite || flags.nan ? operands : Operands{};
  NodeResult result = result_of(node, std::move(operands), hooks_for(node));
  for (const Site& site : result.sites) {
    const ValueId value =
        site.operand >= 0 ? node.inputs[static_cast<std::size_t>(site.operand)] : node.outputs.front();
    record(id, value, site);
  }
  store_outputs(id, node, std::move(result), kept, flags);
}

void Analyzer::store_outputs(NodeId id, const Node& node, NodeResult result, const Operands& operands,
                             const Flags& flags) {
  // What a body made was judged inside it.
  const bool has_bodies = !bodies_of(node.attrs).empty();
  const bool rounds = options_.ranges.runtime == Runtime::measured && may_round(node);
  const Taint taint = taint_of(node);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const ValueId out = node.outputs[i];
    if (!out.valid()) continue;
    const bool given = result.outputs[i].has_value();
    AbsTensor range = given ? *std::move(result.outputs[i]) : uniform(types_[out], top(types_[out].dtype));
    if (!given && probing_ == 0) {
      result_.notes.push_back({describe(graph_, node), "nothing is known of output " + std::to_string(i)});
    }
    if (range.dtype == DType::undefined) range.dtype = types_[out].dtype;
    // What only hands on its operand may flush what the operand still holds.
    if (options_.ranges.flush_subnormals && may_be_flushed(range)) range.identity = {};
    if (rounds && is_narrow(range.dtype)) {
      loosen(range);
      range.identity = {};
    } else if (i == 0 && !range.identity.valid()) {
      range.identity = same_computation(node);
    }
    mark_unrounded(node, out);
    if (!has_bodies) check_result(id, node, i, range, flags, made_besides(node, operands, i, range, flags));
    const int overflow = taints_[out.at()].overflow;
    store(out, std::move(range));
    taints_[out.at()].overflow = overflow;
    set_taint(out, taint);
    if (!given) taints_[out.at()].unmodelled = id;
  }
}

// The value of an earlier elementwise node that computed the same from the same: exporters write x - mean twice.
ValueId Analyzer::same_computation(const Node& node) {
  if (!node.op->traits.elementwise || node.op->traits.random || node.outputs.size() != 1 || !node.attrs.empty())
    return {};
  Computation key{.op = node.op};
  if (node.inputs.size() > key.inputs.size()) return {};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const ValueId input = node.inputs[i];
    if (!input.valid() || !get(input).identity.valid()) return {};
    key.inputs[i] = get(input).identity.index + 1;
    // A widened value is the same value, but what is computed from it is rounded differently.
    key.dtypes[i] = types_[input].dtype;
  }
  return computed_.try_emplace(key, node.outputs.front()).first->second;
}

Taint Analyzer::taint_of(const Node& node) const {
  Taint taint;
  const auto merge = [&](ValueId value) {
    if (!value.valid()) return;
    const Taint& other = taints_[value.at()];
    if (taint.overflow < 0) taint.overflow = other.overflow;
    if (!taint.unmodelled.valid()) taint.unmodelled = other.unmodelled;
    taint.missing |= other.missing || missing_[value.at()];
  };
  std::ranges::for_each(node.inputs, merge);
  std::ranges::for_each(node.captures, merge);
  return taint;
}

// A bounded result no longer suffers from an unbounded operand.
void Analyzer::set_taint(ValueId out, const Taint& taint) {
  constexpr double kStillHuge = 1e-3;
  const AbsTensor& range = get(out);
  const Range hull = range.hull();
  const double limit = max_finite(range.dtype);
  Taint& own = taints_[out.at()];
  if (own.overflow < 0 && !(hull.magnitude() < kStillHuge * limit)) own.overflow = taint.overflow;
  const bool bounded = !hull.nan && !hull.pinf && !hull.ninf && hull.magnitude() < 0.5 * limit;
  if (!own.unmodelled.valid() && !bounded) own.unmodelled = taint.unmodelled;
  own.missing |= taint.missing;
}

}  // namespace finity

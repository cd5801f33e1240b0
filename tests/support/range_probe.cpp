#include "support/range_probe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"
#include "graph/builder.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"
#include "types/infer.h"

namespace finity {

namespace {

// A constant as a file has it: plain bytes, nothing loaded.
class RawConstant final : public Constant {
 public:
  explicit RawConstant(Tensor tensor) : Constant(tensor.dtype(), tensor.dims()), tensor_(std::move(tensor)) {}
  Tensor load() const override { return tensor_; }
  std::span<const std::byte> raw() const override { return tensor_.bytes(); }

 private:
  Tensor tensor_;
};

Type type_of(const AbsTensor& range) {
  Type type = Type::tensor(range.dtype);
  type.ranked = range.ranked;
  for (const std::int64_t size : range.sizes) type.shape.push_back(size >= 0 ? Dim::of(size) : Dim{});
  return type;
}

Graph graph_of(const RangeProbe& probe, const OpDef& op) {
  GraphBuilder builder;
  const BodyId body = builder.add_body("g");
  Node node;
  node.op = &op;
  node.op_type = builder.intern(op.identity.name);
  node.domain = builder.intern(op.identity.domain);
  node.version = probe.version;
  node.body = body;
  node.attrs = probe.attrs;
  builder.info().opsets[probe.domain] = probe.version;
  builder.info().ir_version = 10;
  for (std::size_t i = 0; i < probe.operands.size(); ++i) {
    const ProbeOperand& operand = probe.operands[i];
    const std::string name = "in" + std::to_string(i);
    if (operand.known) {
      node.inputs.push_back(builder.add_constant(body, name, std::make_shared<const RawConstant>(*operand.known)));
    } else if (operand.range) {
      node.inputs.push_back(builder.add_input(body, name, type_of(*operand.range)));
    } else {
      node.inputs.push_back({});
    }
  }
  for (std::size_t i = 0; i < probe.outputs; ++i) {
    node.outputs.push_back(builder.add_value(body, "out" + std::to_string(i)));
    builder.add_output(body, node.outputs.back());
  }
  builder.add_node(std::move(node));
  return std::move(builder).build();
}

const OpDef& op_of(const RangeProbe& probe) {
  const OpDef* op = find_op(probe.domain, probe.op);
  if (op == nullptr) throw Error("no op " + probe.op);
  return *op;
}

}  // namespace

ProbeOperand omitted() { return {}; }
ProbeOperand constant(Tensor tensor, bool raw) { return {.range = {}, .known = std::move(tensor), .raw = raw}; }
ProbeOperand abstract(AbsTensor range) { return {.range = std::move(range)}; }

void RangeProbe::run() {
  const OpDef& def = op_of(*this);
  const Graph graph = graph_of(*this, def);
  const Types inferred = infer_types(graph);
  const Node& node = graph.nodes()[0];
  std::vector<AbsTensor> ranges_in(operands.size());
  std::vector<RangeCall::Operand> in(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].known) {
      auto tensor = std::make_shared<const Tensor>(*operands[i].known);
      ranges_in[i] = from_tensor(tensor, settings.max_cells);
      if (operands[i].raw) ranges_in[i].exact.reset();
      else ranges_in[i].exact = tensor;
    } else if (operands[i].range) {
      ranges_in[i] = *operands[i].range;
    } else {
      continue;
    }
    in[i] = {&ranges_in[i], &inferred[node.inputs[i]], graph.value(node.inputs[i]).constant, nullptr};
  }
  types.clear();
  std::vector<const Type*> out_types;
  for (const ValueId out : node.outputs) types.push_back(inferred[out]);
  for (const Type& type : types) out_types.push_back(&type);
  Symbols symbols;
  RangeCall call(call_of(graph, node), std::move(in), std::move(out_types), settings, symbols);
  if (def.analysis.range == nullptr) throw Error(op + " has no range rule");
  def.analysis.range(call);
  ranges.clear();
  for (std::size_t i = 0; i < outputs; ++i) {
    ranges.push_back(call.given()[i] ? call.outs()[i] : uniform(types[i], top(types[i].dtype)));
  }
  sites = call.sites();
}

bool RangeProbe::alarms(std::string_view rule) const {
  const OpDef& def = op_of(*this);
  const Range hull = ranges.empty() ? Range{} : ranges[0].hull();
  if ((hull.pinf || hull.ninf) && rule == def.analysis.overflow) return true;
  if (hull.nan && rule == def.analysis.invalid) return true;
  return std::ranges::any_of(sites, [&](const Site& site) { return site.rule == rule && site.possible; });
}

bool RangeProbe::judged(std::string_view rule) const {
  return std::ranges::any_of(sites, [&](const Site& site) { return site.rule == rule; });
}

std::vector<Tensor> RangeProbe::evaluate(const std::vector<Datum>& inputs) const {
  const OpDef& def = op_of(*this);
  const Graph graph = graph_of(*this, def);
  std::vector<Datum> all = inputs;
  all.resize(operands.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].known) all[i] = *operands[i].known;
  }
  Rng rng(0);
  EvalCall call(call_of(graph, graph.nodes()[0]), all, rng);
  def.meaning.eval(call);
  std::vector<Tensor> result;
  for (const Datum& datum : call.outs()) {
    if (datum.tensor() == nullptr) throw Error("a result is missing");
    result.push_back(*datum.tensor());
  }
  return result;
}

namespace {

double between(Rng& rng, double lo, double hi) {
  const double share = static_cast<double>(rng.below(1 << 20)) / (1 << 20);
  return lo + (hi - lo) * share;
}

double in_dtype(DType dtype, double x, double lo, double hi) {
  if (is_float(dtype)) return std::clamp(round_to(dtype, x), lo, hi);
  return std::clamp(std::round(x), lo, hi);
}

}  // namespace

Tensor random_tensor(Rng& rng, DType dtype, const Dims& dims, double lo, double hi) {
  std::vector<double> values(static_cast<std::size_t>(element_count(dims)));
  for (double& value : values) value = rng.below(8) == 0 ? 0 : between(rng, lo, hi);
  return from_elements<double>(dtype, dims, values);
}

AbsTensor random_abstract(Rng& rng, DType dtype, const Dims& dims, double lo, double hi, std::size_t max_cells) {
  AbsTensor result;
  result.dtype = dtype;
  result.ranked = true;
  result.sizes = dims;
  result.cuts.resize(dims.size());
  std::size_t cells = 1;
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    for (std::int64_t cut = 1; cut < dims[axis]; ++cut) {
      const std::size_t more = cells / (result.cuts[axis].size() + 1) * (result.cuts[axis].size() + 2);
      if (rng.below(3) != 0 || more > max_cells) continue;
      result.cuts[axis].push_back(cut);
      cells = more;
    }
  }
  result.cells.clear();
  for (std::size_t i = 0; i < cells; ++i) {
    double a = between(rng, lo, hi), b = between(rng, lo, hi);
    if (rng.below(6) == 0) b = a;
    if (rng.below(6) == 0) a = lo;
    if (rng.below(6) == 0) b = hi;
    if (rng.below(8) == 0) a = 0;
    if (a > b) std::swap(a, b);
    Range cell{.lo = in_dtype(dtype, a, lowest_finite(dtype), max_finite(dtype)),
               .hi = in_dtype(dtype, b, lowest_finite(dtype), max_finite(dtype)),
               .integer = !is_float(dtype)};
    result.cells.push_back(cell);
  }
  if (cells == 1) result.cuts.clear();
  return result;
}

const Range& range_at(const AbsTensor& x, const Dims& dims, std::int64_t element) {
  if (!x.cut()) return x.cells[0];
  std::vector<std::size_t> place(dims.size());
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    const std::int64_t index = element % dims[axis];
    element /= dims[axis];
    place[axis] = static_cast<std::size_t>(std::ranges::upper_bound(x.cuts[axis], index) - x.cuts[axis].begin());
  }
  return x.cells[cell_at(x, place)];
}

Tensor random_member(Rng& rng, const AbsTensor& range, const Dims& dims) {
  std::vector<double> values(static_cast<std::size_t>(element_count(dims)));
  const std::uint64_t style = rng.below(4);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Range& cell = range_at(range, dims, static_cast<std::int64_t>(i));
    const bool special = !cell.has_finite() || rng.below(6) == 0;
    if (special && cell.nan && rng.below(2) == 0) values[i] = NAN;
    else if (special && cell.pinf) values[i] = kInf;
    else if (special && cell.ninf) values[i] = -kInf;
    else if (style == 0 || (style == 2 && rng.below(2) == 0)) values[i] = cell.lo;
    else if (style == 1 || style == 2) values[i] = cell.hi;
    else values[i] = in_dtype(range.dtype, between(rng, cell.lo, cell.hi), cell.lo, cell.hi);
  }
  return from_elements<double>(range.dtype, dims, values);
}

std::string leaves(const Tensor& tensor, const AbsTensor& range) {
  if (tensor.dtype() == DType::string) return {};
  if (range.ranked && range.rank() != tensor.rank()) return "the ranks differ";
  const std::vector<double> values = elements<double>(tensor);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Range& cell = range_at(range, tensor.dims(), static_cast<std::int64_t>(i));
    if (cell.contains(values[i])) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(values[i]) + ", its range " + to_string(cell);
  }
  return {};
}

Rng seeded(std::uint64_t number) {
  // The same draws in every run; another number looks elsewhere.
  const char* chosen = std::getenv("FINITY_TEST_SEED");
  return Rng(number + 1000 * (chosen == nullptr ? 0 : std::strtoull(chosen, nullptr, 10)));
}

std::int64_t small(Rng& rng, std::int64_t most) {
  return 1 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(most)));
}

DType any_float(Rng& rng) {
  constexpr DType kFloats[] = {DType::float32, DType::float16, DType::bfloat16, DType::float64};
  return kFloats[rng.below(std::size(kFloats))];
}

RangeSettings any_settings(Rng& rng) {
  constexpr std::size_t kCells[] = {1, 8, 64, 4096};
  RangeSettings settings;
  settings.max_cells = kCells[rng.below(std::size(kCells))];
  return settings;
}

ProbeOperand any_operand(Rng& rng, DType dtype, const Dims& dims, double lo, double hi, bool known) {
  if (known) return constant(random_tensor(rng, dtype, dims, lo, hi), rng.below(2) == 0);
  return abstract(random_abstract(rng, dtype, dims, lo, hi, 1 + rng.below(12)));
}

namespace {

std::string describe(const Attr& attr) {
  if (const auto* number = std::get_if<std::int64_t>(&attr)) return std::to_string(*number);
  if (const auto* real = std::get_if<float>(&attr)) return std::to_string(*real);
  if (const auto* text = std::get_if<std::string>(&attr)) return *text;
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&attr)) return to_string(*list);
  return "...";
}

}  // namespace

std::string describe(const RangeProbe& probe) {
  std::string text = probe.op + "(";
  for (const ProbeOperand& operand : probe.operands) {
    if (operand.known) text += " " + std::string(name(operand.known->dtype())) + to_string(operand.known->dims()) + "!";
    else if (operand.range) text += " " + std::string(name(operand.range->dtype)) + to_string(operand.range->sizes);
    else text += " -";
  }
  text += " )";
  for (const auto& [key, value] : probe.attrs) text += " " + key + "=" + describe(value);
  return text + " cells=" + std::to_string(probe.settings.max_cells);
}

void add_specials(Rng& rng, RangeProbe& probe) {
  for (ProbeOperand& operand : probe.operands) {
    if (!operand.range || !is_float(operand.range->dtype) || rng.below(2) == 0) continue;
    for (Range& cell : operand.range->cells) {
      cell.nan |= rng.below(12) == 0;
      cell.pinf |= rng.below(8) == 0;
      cell.ninf |= rng.below(8) == 0;
    }
  }
}

std::vector<Datum> random_members(Rng& rng, const RangeProbe& probe) {
  std::vector<Datum> result;
  for (const ProbeOperand& operand : probe.operands) {
    if (operand.range) result.emplace_back(random_member(rng, *operand.range, operand.range->sizes));
    else result.emplace_back();
  }
  return result;
}

std::string unsound(Rng& rng, RangeProbe& probe, int tries) {
  probe.run();
  // Behind an overflow that was reported the rule assumes that it does not happen.
  const auto overflow = [](const Site& site) { return site.possible && site.rule.starts_with("FN2"); };
  if (std::ranges::any_of(probe.sites, overflow)) return {};
  for (int i = 0; i < tries; ++i) {
    const std::vector<Tensor> results = probe.evaluate(random_members(rng, probe));
    for (std::size_t o = 0; o < results.size(); ++o) {
      const std::string why = leaves(results[o], probe.ranges[o]);
      if (!why.empty()) return describe(probe) + ": output " + std::to_string(o) + ": " + why;
    }
  }
  return {};
}

}  // namespace finity

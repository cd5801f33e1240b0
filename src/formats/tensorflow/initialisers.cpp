#include "formats/tensorflow/initialisers.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "formats/tensorflow/attr_value.h"
#include "formats/tensorflow/tensor_proto.h"
#include "tensor/convert.h"

namespace finity::tensorflow {

namespace {

constexpr int kDeepest = 40;
constexpr double kMost = std::numeric_limits<double>::infinity();
// One more is still an int64.
constexpr double kMostSteps = 0x1p62;
// The generator turns uniform draws of at least 1e-7 into normal ones: no draw is larger than sqrt(-2 ln 1e-7).
constexpr double kLargestNormal = 5.6780;
// A constant is scanned up to this size.
constexpr std::int64_t kMostElements = std::int64_t{1} << 24;

std::string_view node_of(std::string_view input) { return input.substr(0, input.find(':')); }

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return result;
}

}  // namespace

Initialisers::Initialisers(const GraphDef& graph) : graph_(graph) {
  for (const NodeDef& node : graph.nodes) nodes_.emplace(node.name, &node);
  for (const NodeDef& node : graph.nodes) {
    if ((node.op != "Assign" && node.op != "AssignVariableOp") || node.inputs.size() < 2) continue;
    const auto value = nodes_.find(node_of(node.inputs[1]));
    if (value == nodes_.end()) continue;
    // What a checkpoint gives is not how training starts.
    const NodeDef* from = value->second;
    for (int steps = 0; steps < 8 && from->op == "Identity" && !from->inputs.empty(); ++steps) {
      const auto next = nodes_.find(node_of(from->inputs[0]));
      if (next == nodes_.end()) break;
      from = next->second;
    }
    if (from->op.starts_with("Restore")) continue;
    values_.emplace(node_of(node.inputs[0]), node.inputs[1]);
  }
  never_negative_.emplace(graph, nodes_, [this](const NodeDef& constant) {
    const std::optional<Bounds> known = constant_bounds(constant);
    return known ? known->lo : std::numeric_limits<double>::quiet_NaN();
  });
}

InitialWeight::Support Initialisers::of(const NodeDef& variable, DType dtype) const {
  const std::string name = lower(variable.name);
  const auto found = values_.find(variable.name);
  std::optional<Bounds> start;
  if (found != values_.end()) start = bounds(found->second, 0);
  const bool drawn = start && start->drawn;
  if (!drawn && contains(name, "variance")) return {0, kMost, "a variance"};
  const std::string_view last = std::string_view(name).substr(name.rfind('/') + 1);
  if (!drawn && (contains(last, "step") || contains(last, "count")))
    return {1, dtype == DType::int64 ? kMostSteps : kMost, "a count of steps"};
  if (!start) {
    const std::string why = found == values_.end() ? "no initialiser found" : "initialiser not understood";
    return {-kMost, kMost, why + ", any finite value"};
  }
  if (start->lo == 0 && start->hi == 0 && is_float(dtype)) {
    if (never_negative_->holds(variable.name))
      return {0, 1, "starts at zero and no step makes it negative, taken to be in [0, 1]"};
    return {-1, 1, "starts at zero, taken to be in [-1, 1]"};
  }
  return {start->lo, start->hi, drawn ? "what its initialiser can draw" : "what its initialiser gives"};
}

std::optional<Initialisers::Bounds> Initialisers::bounds(std::string_view input, int depth) const {
  const auto found = nodes_.find(node_of(input));
  if (found == nodes_.end() || depth > kDeepest) return std::nullopt;
  // Once for each node: what two operands share would double the work at every step back.
  const auto [known, fresh] = bounds_by_node_.try_emplace(found->first);
  std::optional<Bounds>& result = known->second;
  if (fresh) result = bounds_of(*found->second, depth);
  return result;
}

std::optional<Initialisers::Bounds> Initialisers::constant_bounds(const NodeDef& node) const {
  const auto attr = std::ranges::find(node.attrs, "value", &NamedBytes::first);
  if (attr == node.attrs.end()) return std::nullopt;
  const AttrValue value = read_attr_value(attr->second);
  if (value.kind != AttrValue::Kind::tensor) return std::nullopt;
  Tensor tensor;
  try {
    const TensorFields fields = read_tensor_fields(value.messages.front());
    const std::int64_t count = element_count(fields.dims);
    const bool numbers = is_float(fields.dtype) || is_int(fields.dtype) || fields.dtype == DType::boolean;
    if (!numbers || count == 0) return std::nullopt;
    if (std::optional<Tensor> one = repeated_element(fields)) tensor = *std::move(one);
    else if (count > kMostElements) return std::nullopt;
    else tensor = TensorProtoConstant(fields, graph_.owner).load();
  } catch (const Error&) {
    return std::nullopt;
  }
  const std::vector<double> all = elements<double>(tensor);
  Bounds result{.lo = all.front(), .hi = all.front()};
  for (const double x : all) {
    if (!std::isfinite(x)) return std::nullopt;
    result.lo = std::min(result.lo, x);
    result.hi = std::max(result.hi, x);
  }
  return result;
}

std::optional<Initialisers::Bounds> Initialisers::bounds_of(const NodeDef& node, int depth) const {
  const std::string_view op = node.op;
  const auto in = [&](std::size_t i) -> std::optional<Bounds> {
    return i < node.inputs.size() ? bounds(node.inputs[i], depth + 1) : std::nullopt;
  };
  if (op == "Const") return constant_bounds(node);
  if (op == "RandomUniform" || op == "StatelessRandomUniform" || op == "StatelessRandomUniformV2") {
    return Bounds{.lo = 0, .hi = 1, .drawn = true};
  }
  if (op == "TruncatedNormal" || op == "StatelessTruncatedNormal" || op == "StatelessTruncatedNormalV2") {
    return Bounds{.lo = -2, .hi = 2, .drawn = true};
  }
  if (op == "RandomStandardNormal" || op == "StatelessRandomNormal" || op == "StatelessRandomNormalV2") {
    return Bounds{.lo = -kLargestNormal, .hi = kLargestNormal, .drawn = true};
  }
  if (op == "ZerosLike") return Bounds{};
  if (op == "OnesLike") return Bounds{.lo = 1, .hi = 1};
  if (op == "Fill") return in(1);
  if (op == "Identity" || op == "Reshape" || op == "Cast" || op == "Transpose" || op == "ExpandDims" ||
      op == "Squeeze" || op == "Tile" || op == "BroadcastTo") {
    return in(0);
  }
  // Another variable's start.
  if (op == "VariableV2" || op == "Variable" || op == "VarHandleOp" || op == "ReadVariableOp") {
    const std::string_view variable =
        op == "ReadVariableOp" && !node.inputs.empty() ? node_of(node.inputs[0]) : node.name;
    const auto found = values_.find(variable);
    return found == values_.end() ? std::nullopt : bounds(found->second, depth + 1);
  }
  if (node.inputs.empty()) return std::nullopt;
  const std::optional<Bounds> a = in(0);
  if (!a) return std::nullopt;
  if (op == "Neg") return Bounds{.lo = -a->hi, .hi = -a->lo, .drawn = a->drawn};
  const std::optional<Bounds> b = in(1);
  if (!b) return std::nullopt;
  const bool drawn = a->drawn || b->drawn;
  if (op == "Add" || op == "AddV2") return Bounds{.lo = a->lo + b->lo, .hi = a->hi + b->hi, .drawn = drawn};
  if (op == "Sub") return Bounds{.lo = a->lo - b->hi, .hi = a->hi - b->lo, .drawn = drawn};
  if (op == "Mul") {
    const double corners[] = {a->lo * b->lo, a->lo * b->hi, a->hi * b->lo, a->hi * b->hi};
    const auto [lo, hi] = std::ranges::minmax(corners);
    return Bounds{.lo = lo, .hi = hi, .drawn = drawn};
  }
  return std::nullopt;
}

}  // namespace finity::tensorflow

#include "formats/tensorflow/never_negative.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "formats/tensorflow/attr_value.h"
#include "formats/tensorflow/tensor_proto.h"

namespace finity::tensorflow {

namespace {

constexpr int kDeepest = 24;
constexpr std::size_t kMostVisits = 10'000;  // of nodes, to answer one question

std::string_view node_of(std::string_view input) { return input.substr(0, input.find(':')); }

template <std::size_t N>
bool is_one_of(std::string_view op, const std::array<std::string_view, N>& list) {
  return std::ranges::find(list, op) != list.end();
}

constexpr std::array<std::string_view, 3> kVariables = {"VariableV2", "Variable", "VarHandleOp"};
// The value of the first operand, moved or repeated.
constexpr std::array<std::string_view, 16> kHandOn = {
    "Identity", "ReadVariableOp", "RefIdentity", "Reshape",  "Switch", "Transpose",      "ExpandDims",   "Squeeze",
    "Tile",     "StopGradient",   "BroadcastTo", "GatherV2", "Gather", "ResourceGather", "StridedSlice", "Slice"};
constexpr std::array<std::string_view, 12> kNeverBelow = {"Square", "Abs",   "Exp",    "Sigmoid",  "Softmax",
                                                          "Relu",   "Relu6", "L2Loss", "Softplus", "SquaredDifference",
                                                          "Size",   "Rsqrt"};
constexpr std::array<std::string_view, 7> kOfFirst = {
    "Sum", "Mean", "Max", "Min", "Prod", "Sqrt", "UnsortedSegmentSum"};
constexpr std::array<std::string_view, 7> kOfBoth = {"Add", "AddV2", "AddN", "Mul", "RealDiv", "Minimum", "ConcatV2"};

// An op that stores into variables: for each operand that is one, whether what is stored keeps it from below zero.
struct Writer {
  std::string_view op = {};
  std::array<int, 4> kept = {-1, -1, -1, -1};     // places of operands that stay as they are, whatever is stored
  std::array<int, 4> written = {-1, -1, -1, -1};  // places of operands that may become anything
};

// Of optimisers: sums and means of squares are kept, the variable and its momentum are not.
constexpr Writer kWriters[] = {
    {"Adam", {2, -1, -1, -1}, {0, 1, -1, -1}},           {"RMSProp", {1, -1, -1, -1}, {0, 2, -1, -1}},
    {"CenteredRMSProp", {2, -1, -1, -1}, {0, 1, 3, -1}}, {"Adagrad", {1, -1, -1, -1}, {0, -1, -1, -1}},
    {"AdagradV2", {1, -1, -1, -1}, {0, -1, -1, -1}},     {"ProximalAdagrad", {1, -1, -1, -1}, {0, -1, -1, -1}},
    {"Ftrl", {1, -1, -1, -1}, {0, 2, -1, -1}},           {"Adadelta", {1, 2, -1, -1}, {0, -1, -1, -1}},
    {"Momentum", {-1, -1, -1, -1}, {0, 1, -1, -1}},      {"GradientDescent", {-1, -1, -1, -1}, {0, -1, -1, -1}},
};

const Writer* optimiser(std::string_view op) {
  for (const std::string_view prefix : {"ResourceSparseApply", "ResourceApply", "SparseApply", "Apply"}) {
    if (!op.starts_with(prefix)) continue;
    const std::string_view rest = op.substr(prefix.size());
    const auto found = std::ranges::find(kWriters, rest, &Writer::op);
    return found == std::end(kWriters) ? nullptr : found;
  }
  return nullptr;
}

// Casts between floats, and of truth to them: integers wrap.
bool keeps_numbers(const NodeDef& cast) {
  const auto dtype = [&](std::string_view name) {
    const auto attr = std::ranges::find(cast.attrs, name, &NamedBytes::first);
    if (attr == cast.attrs.end()) return DType::undefined;
    const AttrValue value = read_attr_value(attr->second);
    return value.integers.empty() ? DType::undefined : dtype_from_tf(value.integers.front());
  };
  const DType from = dtype("SrcT");
  return is_float(dtype("DstT")) && (is_float(from) || from == DType::boolean);
}

// Is this computed from what the variable holds? Some steps back, and among not too many nodes: a file may name one
// operand very often.
bool depends_on(const NeverNegative::Nodes& nodes, std::string_view input, std::string_view variable) {
  constexpr int kSteps = 7;
  std::unordered_set<const NodeDef*> seen;
  std::vector<std::string_view> open = {input};
  for (int steps = 0; steps < kSteps && !open.empty(); ++steps) {
    std::vector<std::string_view> next;
    for (const std::string_view each : open) {
      const auto found = each.starts_with('^') ? nodes.end() : nodes.find(node_of(each));
      if (found == nodes.end() || !seen.insert(found->second).second) continue;
      if (found->second->name == variable) return true;
      if (seen.size() > kMostVisits) return false;
      next.insert(next.end(), found->second->inputs.begin(), found->second->inputs.end());
    }
    open = std::move(next);
  }
  return false;
}

// A step of training, not where it starts or what a checkpoint gives.
bool updates(const NeverNegative::Nodes& nodes, const NodeDef& use, std::size_t place, std::string_view variable) {
  const std::string_view op = use.op;
  if (const Writer* writer = optimiser(op))
    return std::ranges::find(writer->kept, static_cast<int>(place)) != writer->kept.end();
  if (place != 0) return false;
  if (op == "Assign" || op == "AssignVariableOp")
    return use.inputs.size() > 1 && depends_on(nodes, use.inputs[1], variable);
  return op.starts_with("AssignAdd") || op == "ScatterAdd" || op == "ResourceScatterAdd";
}

bool only_reads(std::string_view op) {
  return op == "ReadVariableOp" || op == "Identity" || op == "VarIsInitializedOp" || op == "IsVariableInitialized" ||
         op == "VariableShape" || op.starts_with("Save") || op == "ResourceGather" || op == "ResourceGatherNd";
}

// Of a constant whose elements are all the same.
std::optional<double> number(const NeverNegative::Nodes& nodes, std::string_view input,
                             const std::function<double(const NodeDef&)>& least) {
  const auto found = nodes.find(node_of(input));
  if (found == nodes.end() || found->second->op != "Const") return std::nullopt;
  const auto attr = std::ranges::find(found->second->attrs, "value", &NamedBytes::first);
  if (attr == found->second->attrs.end()) return std::nullopt;
  const AttrValue value = read_attr_value(attr->second);
  const double smallest = least(*found->second);
  if (value.kind != AttrValue::Kind::tensor || std::isnan(smallest)) return std::nullopt;
  const TensorFields fields = read_tensor_fields(value.messages.front());
  const bool single = element_count(fields.dims) == 1 || repeated_element(fields);
  return single ? std::optional(smallest) : std::nullopt;
}

}  // namespace

NeverNegative::NeverNegative(const GraphDef& graph, const Nodes& nodes, std::function<double(const NodeDef&)> least)
    : nodes_(nodes), least_(std::move(least)) {
  // What no step updates is trained elsewhere, and may come back as anything.
  std::unordered_set<std::string_view> updated;
  for (const NodeDef& node : graph.nodes) {
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      const std::string_view variable = variable_of(node.inputs[i]);
      if (!variable.empty() && updates(nodes_, node, i, variable)) updated.insert(variable);
    }
  }
  for (const NodeDef& node : graph.nodes) {
    if (is_one_of(node.op, kVariables) && !updated.contains(node.name)) negative_.insert(node.name);
  }
  // Taken for granted of the others at first; what breaks it is taken out until nothing changes.
  for (bool changed = true; changed;) {
    changed = false;
    for (const NodeDef& node : graph.nodes) {
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const std::string_view variable = variable_of(node.inputs[i]);
        if (variable.empty() || negative_.contains(variable) || keeps(node, i)) continue;
        negative_.insert(variable);
        changed = true;
      }
    }
  }
}

// The variable whose handle or reference an input is; empty: none.
std::string_view NeverNegative::variable_of(std::string_view input) const {
  if (input.starts_with('^')) return {};
  std::string_view variable;
  std::vector<std::string_view> way;  // nodes that give the reference on; a file may lead them in a circle
  for (auto found = nodes_.find(node_of(input)); found != nodes_.end();) {
    const NodeDef& node = *found->second;
    const auto known = variables_.find(node.name);
    if (known != variables_.end()) variable = known->second;
    else if (is_one_of(node.op, kVariables)) variable = node.name;
    const bool gives_on = node.op.starts_with("Assign") || node.op.starts_with("Scatter") || node.op.starts_with("Ref");
    if (known != variables_.end() || !variable.empty() || !gives_on) break;
    variables_.emplace(node.name, std::string_view());
    way.push_back(node.name);
    found = node.inputs.empty() ? nodes_.end() : nodes_.find(node_of(node.inputs[0]));
  }
  for (const std::string_view name : way) variables_[name] = variable;
  return variable;
}

// Whether this use of a variable that is not negative leaves it so.
bool NeverNegative::keeps(const NodeDef& use, std::size_t place) const {
  const std::string_view op = use.op;
  if (const Writer* writer = optimiser(op))
    return std::ranges::find(writer->written, static_cast<int>(place)) == writer->written.end();
  if (op.starts_with("Apply") || op.starts_with("ResourceApply") || op.starts_with("SparseApply") ||
      op.starts_with("ResourceSparseApply"))
    return false;                                           // an optimiser that is not known
  if (op == "RefMerge" || op == "RefSelect") return false;  // which reference it gives on is not followed
  const bool is_target = place == 0;
  if (op == "Assign" || op == "AssignVariableOp" || op == "AssignAdd" || op == "AssignAddVariableOp")
    return !is_target || (use.inputs.size() > 1 && not_negative(use.inputs[1], 0));
  if (op == "ScatterAdd" || op == "ScatterUpdate" || op == "ResourceScatterAdd" || op == "ResourceScatterUpdate")
    return !is_target || (use.inputs.size() > 2 && not_negative(use.inputs[2], 0));
  if (op.starts_with("Assign") || op.starts_with("Scatter") || op.starts_with("ResourceScatter") ||
      op.find("Assign") != std::string_view::npos)
    return !is_target;
  const auto found = nodes_.find(node_of(use.inputs[place]));
  if (found != nodes_.end() && found->second->op != "VarHandleOp") return true;  // reads what a reference holds
  return only_reads(op);  // a handle may be written to by what is not known here, a function say
}

bool NeverNegative::not_negative(std::string_view input, int depth) const {
  const auto found = nodes_.find(node_of(input));
  if (depth == 0) visits_ = 0;
  if (found == nodes_.end() || depth > kDeepest || ++visits_ > kMostVisits) return false;
  return op_not_negative(*found->second, depth);
}

bool NeverNegative::op_not_negative(const NodeDef& node, int depth) const {
  const std::string_view op = node.op;
  const auto in = [&](std::size_t i) { return i < node.inputs.size() && not_negative(node.inputs[i], depth + 1); };
  if (op == "Const") return least_(node) >= 0;
  if (op.starts_with("Restore")) return true;  // of a run that kept to it
  if (is_one_of(op, kVariables)) return !negative_.contains(node.name);
  if (op.starts_with("Assign") || op.starts_with("Scatter")) {
    const std::string_view variable = variable_of(node.name);
    return !variable.empty() && !negative_.contains(variable);
  }
  if (is_one_of(op, kNeverBelow) || op == "ZerosLike" || op == "OnesLike" || op == "RandomUniform") return true;
  if (is_one_of(op, kHandOn) || is_one_of(op, kOfFirst)) return in(0);
  if (op == "Fill") return in(1);
  if (op == "Cast") return keeps_numbers(node) && in(0);
  if (op == "Maximum") return in(0) || in(1);
  if (op == "Select" || op == "SelectV2") return in(1) && in(2);
  if (op == "Mul" && node.inputs.size() == 2 && node.inputs[0] == node.inputs[1]) return true;
  if (op == "Sub" && node.inputs.size() == 2) {  // 1 - beta2, as optimisers of sparse gradients write it
    const std::optional<double> from = number(nodes_, node.inputs[0], least_),
                                less = number(nodes_, node.inputs[1], least_);
    return from && less && *from >= *less;
  }
  if (!is_one_of(op, kOfBoth)) return false;
  std::size_t count = 0;
  for (const std::string_view each : node.inputs) count += each.starts_with('^') ? 0 : 1;
  if (op == "ConcatV2") --count;
  for (std::size_t i = 0; i < count; ++i) {
    if (!in(i)) return false;
  }
  return count > 0;
}

}  // namespace finity::tensorflow

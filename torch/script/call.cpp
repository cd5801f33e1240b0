#include "torch/script/call.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ops/table/op.h"
#include "tensor/convert.h"
#include "torch/value.h"

namespace finity {

namespace {

constexpr int kOpset = 21;

Attrs attrs_of(AttrEntries entries) {
  Attrs attrs;
  for (const auto& [name, value] : entries) attrs.set(std::string(name), value);
  return attrs;
}

}  // namespace

// ---- ScriptGraph

ScriptGraph::ScriptGraph() : types_(builder_.peek(), {}) {
  if (builder_.peek().bodies().empty()) builder_.add_body("main");
  builder_.info().ir_version = 10;
  builder_.info().opsets = {{"", kOpset}, {"finity", 1}, {"aten", 1}};
  builder_.info().producer_name = "TorchScript";
}

std::string ScriptGraph::fresh(const std::string& name) {
  int& count = names_[name];
  if (++count == 1) return name;
  std::string numbered;
  do numbered = name + "_" + std::to_string(count++);
  while (names_.contains(numbered));
  names_[numbered] = 1;
  return numbered;
}

ValueId ScriptGraph::input(const std::string& name, Type type) {
  const ValueId id = builder_.add_input(Graph::kMain, fresh(name), type);
  types_.set(id, std::move(type));
  return id;
}

ValueId ScriptGraph::constant(Tensor tensor, const std::string& name) {
  const std::string called = fresh(name.empty() ? "constant" : name);
  const ValueId id = builder_.add_constant(Graph::kMain, called, make_constant(std::move(tensor)));
  types_.add_constant(id);
  return id;
}

const Tensor* ScriptGraph::known(ValueId id) const {
  const auto& known = types_.types().known;
  return id.at() < known.size() && known[id.at()] ? &*known[id.at()] : nullptr;
}

std::vector<ValueId> ScriptGraph::place(Node node, std::size_t outputs) {
  node.body = Graph::kMain;
  while (!node.inputs.empty() && !node.inputs.back().valid()) node.inputs.pop_back();
  for (std::size_t i = 0; i < outputs; ++i) {
    node.outputs.push_back(
        builder_.add_value(Graph::kMain, fresh(place_.empty() ? std::string(node.op_type) : place_)));
  }
  node.name = builder_.peek().value(node.outputs.front()).name;
  const NodeId id = builder_.add_node(std::move(node));
  types_.add_node(builder_.peek().node(id));
  return builder_.peek().node(id).outputs;
}

std::vector<ValueId> ScriptGraph::add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                                      std::size_t outputs, std::string_view domain) {
  const OpDef* def = find_op(domain, op);
  if (def == nullptr) throw Unsupported("there is no op " + std::string(op));
  Node node = node_of(*def, kOpset);
  node.inputs = std::move(inputs);
  node.attrs = std::move(attrs);
  return place(std::move(node), outputs);
}

std::vector<ValueId> ScriptGraph::add_unknown(std::string_view op, std::vector<ValueId> inputs, std::size_t outputs) {
  const std::size_t colons = op.find("::");
  const bool has_domain = colons != std::string_view::npos;
  Node node;
  node.op_type = builder_.intern(has_domain ? op.substr(colons + 2) : op);
  node.domain = builder_.intern(has_domain ? op.substr(0, colons) : "aten");
  node.version = 1;
  node.inputs = std::move(inputs);
  builder_.info().opsets.try_emplace(std::string(node.domain), 1);
  return place(std::move(node), std::max<std::size_t>(outputs, 1));
}

Graph ScriptGraph::finish() && {
  builder_.drop_unneeded();
  return std::move(builder_).build();
}

// ---- arguments

bool ScriptCall::has(std::string_view name) const {
  const auto found = arguments_.find(name);
  return found != arguments_.end() && !found->second.is_none();
}

const ScriptItem& ScriptCall::argument(std::string_view name) const {
  const auto found = arguments_.find(name);
  if (found == arguments_.end()) throw Unsupported("has no argument '" + std::string(name) + "'");
  return found->second;
}

std::int64_t ScriptCall::integer(std::string_view name) const {
  const ScriptItem& item = argument(name);
  if (item.id.valid()) {
    const Tensor* known = graph_.known(item.id);
    if (known != nullptr && known->size() == 1) return elements<std::int64_t>(*known)[0];
  }
  if (!item.constant.isInt()) throw Unsupported("argument '" + std::string(name) + "' is not a constant");
  return item.constant.toInt();
}

std::int64_t ScriptCall::integer(std::string_view name, std::int64_t fallback) const {
  return has(name) ? integer(name) : fallback;
}

double ScriptCall::real(std::string_view name, double fallback) const {
  if (!has(name)) return fallback;
  const ScriptItem& item = argument(name);
  if (item.id.valid() || !item.constant.isScalar())
    throw Unsupported("argument '" + std::string(name) + "' is not a constant");
  return item.constant.toScalar().toDouble();
}

bool ScriptCall::flag(std::string_view name, bool fallback) const {
  if (!has(name)) return fallback;
  const ScriptItem& item = argument(name);
  if (!item.constant.isBool()) throw Unsupported("argument '" + std::string(name) + "' is not a constant");
  return item.constant.toBool();
}

std::string ScriptCall::text(std::string_view name, std::string_view fallback) const {
  if (!has(name)) return std::string(fallback);
  const ScriptItem& item = argument(name);
  if (!item.constant.isString()) throw Unsupported("argument '" + std::string(name) + "' is not a constant");
  return item.constant.toStringRef();
}

Ints ScriptCall::ints(std::string_view name) const {
  const ScriptItem& item = argument(name);
  if (item.is_list) {
    Ints result;
    for (const ScriptItem& one : item.items) {
      const Tensor* known = one.id.valid() ? graph_.known(one.id) : nullptr;
      if (known != nullptr && known->size() == 1) result.push_back(elements<std::int64_t>(*known)[0]);
      else if (one.constant.isInt()) result.push_back(one.constant.toInt());
      else throw Unsupported("argument '" + std::string(name) + "' is not a constant");
    }
    return result;
  }
  if (item.constant.isInt()) return {item.constant.toInt()};
  if (!item.constant.isIntList()) throw Unsupported("argument '" + std::string(name) + "' is not a constant");
  return item.constant.toIntVector();
}

Ints ScriptCall::ints(std::string_view name, Ints fallback) const {
  return has(name) ? ints(name) : std::move(fallback);
}

ValueId ScriptCall::from(const ScriptItem& item) {
  if (item.id.valid()) return item.id;
  const c10::IValue& constant = item.constant;
  if (constant.isTensor()) {
    const at::Tensor tensor = constant.toTensor();
    return graph_.constant(to_host(tensor, dtype_of(tensor.scalar_type())));
  }
  if (constant.isBool())
    return graph_.constant(to_host(at::scalar_tensor(constant.toBool(), at::kBool), DType::boolean));
  if (constant.isInt()) return graph_.constant(Tensor::scalar(constant.toInt()));
  if (constant.isDouble())
    return graph_.constant(to_host(at::scalar_tensor(constant.toDouble(), at::kFloat), DType::float32));
  throw Unsupported("an argument is no tensor");
}

ValueId ScriptCall::tensor(std::string_view name) { return from(argument(name)); }

ValueId ScriptCall::optional_tensor(std::string_view name) { return has(name) ? tensor(name) : ValueId{}; }

std::vector<ValueId> ScriptCall::tensors(std::string_view name) {
  const ScriptItem& list = argument(name);
  std::vector<ValueId> result;
  if (!list.is_list && list.constant.isTensorList()) {
    for (const at::Tensor& tensor : list.constant.toTensorVector()) result.push_back(from({.constant = tensor}));
    return result;
  }
  if (!list.is_list) throw Unsupported("argument '" + std::string(name) + "' is not a list");
  for (const ScriptItem& item : list.items) result.push_back(from(item));
  return result;
}

ValueId ScriptCall::int_vector(std::string_view name) {
  const ScriptItem& list = argument(name);
  if (list.id.valid()) return list.id;
  if (!list.is_list) return vector_of(ints(name));
  const bool constant = std::ranges::all_of(list.items, [](const ScriptItem& item) { return !item.id.valid(); });
  if (constant) return vector_of(ints(name));
  std::vector<ValueId> parts;
  for (const ScriptItem& item : list.items) {
    parts.push_back(item.id.valid() ? add("Reshape", {item.id, vector_of({1})}) : vector_of({item.constant.toInt()}));
  }
  return add("Concat", std::move(parts), {{"axis", std::int64_t{0}}});
}

namespace {

// Of the same kind, numbers and tensors of rank 0 follow the others.
int category(DType dtype) { return dtype == DType::boolean ? 0 : is_int(dtype) ? 1 : 2; }

bool is_number(const ScriptItem& item) {
  if (item.id.valid()) return false;
  return item.constant.isScalar() || item.constant.isBool() ||
         (item.constant.isTensor() && item.constant.toTensor().dim() == 0);
}

}  // namespace

std::pair<ValueId, ValueId> ScriptCall::alike(std::string_view left, std::string_view right) {
  ValueId a = tensor(left), b = tensor(right);
  const DType da = dtype(a), db = dtype(b);
  if (da == db || da == DType::undefined || db == DType::undefined) return {a, b};
  DType common = dtype_of(c10::promoteTypes(carrier(da), carrier(db)));
  if (is_number(argument(right)) && category(db) <= category(da)) common = da;
  if (is_number(argument(left)) && category(da) <= category(db)) common = db;
  return {cast(a, common), cast(b, common)};
}

// ---- nodes

ValueId ScriptCall::add(std::string_view op, std::vector<ValueId> inputs, AttrEntries attrs, std::string_view domain) {
  return graph_.add(op, std::move(inputs), attrs_of(attrs), 1, domain).front();
}

std::vector<ValueId> ScriptCall::add_many(std::string_view op, std::vector<ValueId> inputs, AttrEntries attrs,
                                          std::size_t count) {
  return graph_.add(op, std::move(inputs), attrs_of(attrs), count);
}

ValueId ScriptCall::vector_of(Ints numbers) { return graph_.constant(Tensor::vector_of(numbers)); }

ValueId ScriptCall::number_like(double x, ValueId like) {
  if (dtype(like) == DType::undefined) throw Unsupported("the element type of an operand is not known");
  const double one[] = {x};
  return graph_.constant(from_elements<double>(dtype(like), {}, one));
}

ValueId ScriptCall::cast(ValueId id, DType to) {
  return dtype(id) == to ? id : add("Cast", {id}, {{"to", static_cast<std::int64_t>(to)}});
}

std::size_t ScriptCall::rank(ValueId id) const {
  const Type& type = graph_.type(id);
  if (!type.ranked) throw Unsupported("the rank of an operand is not known (--shape gives that of inputs)");
  return type.shape.size();
}

std::int64_t ScriptCall::size(ValueId id, std::int64_t axis) const {
  const Type& type = graph_.type(id);
  const auto at = static_cast<std::size_t>(axis);
  return type.ranked && at < type.shape.size() ? type.shape[at].size : -1;
}

std::int64_t ScriptCall::axis(std::string_view name, ValueId of) const {
  const std::int64_t axis = integer(name);
  return axis >= 0 ? axis : axis + static_cast<std::int64_t>(rank(of));
}

}  // namespace finity

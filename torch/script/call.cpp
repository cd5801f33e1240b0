#include "torch/script/call.h"

#include <c10/core/ScalarType.h>

#include <algorithm>
#include <iterator>
#include <unordered_set>
#include <utility>

#include "base/error.h"
#include "graph/users.h"
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
  node.body = here();
  // What is inside a branch or loop is known there only.
  for (const ValueId id : node.inputs) {
    if (!id.valid()) continue;
    const BodyId body = builder_.peek().value(id).body;
    if (body != Graph::kMain && std::ranges::find(open_, body) == open_.end())
      throw Error("'" + builder_.peek().value(id).name + "' is read outside of its branch or loop");
  }
  while (!node.inputs.empty() && !node.inputs.back().valid()) node.inputs.pop_back();
  for (std::size_t i = 0; i < outputs; ++i) {
    node.outputs.push_back(builder_.add_value(here(), fresh(place_.empty() ? std::string(node.op_type) : place_)));
  }
  node.name = builder_.peek().value(node.outputs.front()).name;
  node.captures = captures_of(builder_.peek(), node.attrs);
  const NodeId id = builder_.add_node(std::move(node));
  types_.add_node(builder_.peek().node(id));
  return builder_.peek().node(id).outputs;
}

// ---- bodies of branches and loops

BodyId ScriptGraph::open_body(const std::string& name) {
  const BodyId body = builder_.add_body(fresh(name));
  open_.push_back(body);
  return body;
}

ValueId ScriptGraph::body_input(const std::string& name, Type type) {
  const ValueId id = builder_.add_input(here(), fresh(name), {});
  types_.set(id, std::move(type));
  return id;
}

void ScriptGraph::close_body(std::span<const ValueId> outputs) {
  const BodyId body = here();
  for (ValueId id : outputs) {
    // What comes from outside, or straight from an input, is named anew.
    const Value& value = builder_.peek().value(id);
    if (value.body != body || !value.producer.valid()) id = add("Identity", {id}, {}, 1).front();
    builder_.add_output(body, id);
  }
  drop_unneeded(body);
  open_.pop_back();
}

void ScriptGraph::drop_unneeded(BodyId body) {
  std::vector<ValueId> open = builder_.body(body).outputs;
  std::unordered_set<NodeId> needed;
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (!id.valid() || builder_.value(id).body != body) continue;
    const NodeId producer = builder_.value(id).producer;
    if (!producer.valid() || !needed.insert(producer).second) continue;
    std::ranges::copy(builder_.node(producer).inputs, std::back_inserter(open));
    std::ranges::copy(builder_.node(producer).captures, std::back_inserter(open));
  }
  std::erase_if(builder_.body(body).nodes, [&](NodeId id) { return !needed.contains(id); });
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
  const auto found = std::ranges::find(arguments_, name, &Arguments::value_type::first);
  return found != arguments_.end() && !found->second.is_none();
}

const ScriptItem& ScriptCall::argument(std::string_view name) const {
  const auto found = std::ranges::find(arguments_, name, &Arguments::value_type::first);
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
  if (item.is_stacked || item.is_list || item.is_unset || item.is_collecting)
    throw Unsupported("an argument is no tensor");
  if (item.id.valid()) return item.id;
  const c10::IValue& constant = item.constant;
  if (constant.isTensor()) {
    const at::Tensor tensor = constant.toTensor();
    return graph_.constant(to_host(tensor, dtype_of(tensor.scalar_type())));
  }
  if (constant.isBool())
    return graph_.constant(to_host(at::scalar_tensor(constant.toBool(), at::kBool), DType::boolean));
  if (constant.isInt()) return graph_.constant(Tensor::scalar(constant.toInt()));
  if (constant.isDouble()) return graph_.constant(from_elements<double>(kScriptFloat, {}, {constant.toDouble()}));
  throw Unsupported("an argument is no tensor");
}

ValueId ScriptCall::as(const ScriptItem& item, DType dtype) { return cast(from(item), dtype); }

ValueId ScriptCall::tensor(std::string_view name) { return from(argument(name)); }

ValueId ScriptCall::optional_tensor(std::string_view name) { return has(name) ? tensor(name) : ValueId{}; }

std::vector<ScriptItem> ScriptCall::items(std::string_view name) const {
  const ScriptItem& list = argument(name);
  if (list.is_list) return list.items;
  if (!list.is_constant() || !list.constant.isList())
    throw Unsupported("argument '" + std::string(name) + "' is not a list of known length");
  std::vector<ScriptItem> items;
  for (const c10::IValue& one : list.constant.toListRef()) items.push_back({.constant = one});
  return items;
}

std::vector<ValueId> ScriptCall::tensors(std::string_view name) {
  std::vector<ValueId> result;
  for (const ScriptItem& item : items(name)) result.push_back(from(item));
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

DType promoted(DType a, DType b) {
  if (a == DType::undefined || a == b) return b;
  return b == DType::undefined ? a : dtype_of(c10::promoteTypes(carrier(a), carrier(b)));
}

// The element type of operands by how they count: tensors with axes, those without, numbers.
struct Common {
  DType of[3] = {DType::undefined, DType::undefined, DType::undefined};

  void take(std::size_t level, DType dtype) { of[level] = promoted(of[level], dtype); }
  DType result() const {
    DType all = of[0];
    for (const DType next : {of[1], of[2]}) {
      if (all == DType::undefined) all = next;
      else if (next != DType::undefined && category(next) > category(all)) all = lifted(all, next);
    }
    return all;
  }
  // Integers that meet a number with a fraction become float32.
  DType lifted(DType all, DType next) const {
    const bool by_number = next == of[2];
    return by_number && next == kScriptFloat ? DType::float32 : promoted(all, next);
  }
};

}  // namespace

bool is_number(const ScriptItem& item) {
  if (item.id.valid()) return item.is_number;
  return item.constant.isScalar() || item.constant.isBool();
}

std::vector<ValueId> ScriptCall::alike(const std::vector<ScriptItem>& items) {
  std::vector<ValueId> ids;
  Common with_axes, without;
  bool only_numbers = true;
  for (const ScriptItem& item : items) ids.push_back(from(item));
  // Nothing is known of what follows.
  if (std::ranges::any_of(ids, [&](ValueId id) { return dtype(id) == DType::undefined; })) return ids;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const ValueId id = ids[i];
    const Type& type = graph_.type(id);
    const bool number = is_number(items[i]);
    only_numbers = only_numbers && number;
    const std::size_t level = number ? 2 : type.ranked && type.shape.empty() ? 1 : 0;
    with_axes.take(level, dtype(id));
    without.take(number ? 2 : type.ranked && !type.shape.empty() ? 0 : 1, dtype(id));
  }
  const DType common = with_axes.result();
  if (common != without.result())
    throw Unsupported("the rank of an operand is not known (--shape gives that of inputs)");
  if (only_numbers) {
    const DType number = promoted_numbers(ids);
    return ids_as(std::move(ids), number);
  }
  return ids_as(std::move(ids), common);
}

std::vector<ValueId> ScriptCall::alike_tensors(std::vector<ScriptItem> items) {
  std::vector<ValueId> ids;
  for (const ScriptItem& item : items) ids.push_back(from(item));
  DType common = DType::undefined;
  for (const ValueId id : ids) {
    if (dtype(id) == DType::undefined) return ids;
    common = promoted(common, dtype(id));
  }
  return ids_as(std::move(ids), common);
}

std::vector<ValueId> ScriptCall::ids_as(std::vector<ValueId> ids, DType dtype) {
  for (ValueId& id : ids) id = cast(id, dtype);
  return ids;
}

DType ScriptCall::promoted_numbers(const std::vector<ValueId>& ids) const {
  DType all = DType::undefined;
  for (const ValueId id : ids) all = promoted(all, dtype(id));
  return all;
}

std::pair<ValueId, ValueId> ScriptCall::alike(std::string_view left, std::string_view right) {
  const std::vector<ValueId> both = alike({argument(left), argument(right)});
  return {both[0], both[1]};
}

// ---- nodes

ValueId ScriptCall::add(std::string_view op, std::vector<ValueId> inputs, AttrEntries attrs, std::string_view domain) {
  return graph_.add(op, std::move(inputs), attrs_of(attrs), 1, domain).front();
}

std::vector<ValueId> ScriptCall::add_many(std::string_view op, std::vector<ValueId> inputs, AttrEntries attrs,
                                          std::size_t count) {
  return graph_.add(op, std::move(inputs), attrs_of(attrs), count);
}

std::vector<ValueId> ScriptCall::add_with(std::string_view op, std::vector<ValueId> inputs,
                                          std::span<const std::pair<std::string_view, Attr>> entries,
                                          std::size_t count) {
  Attrs attrs;
  for (const auto& [name, value] : entries) attrs.set(std::string(name), value);
  return graph_.add(op, std::move(inputs), std::move(attrs), count);
}

std::vector<ValueId> ScriptCall::add_split(ValueId x, ValueId sizes, std::int64_t axis, std::size_t count) {
  return add_many("Split", {x, sizes}, {{"axis", axis}}, count);
}

ValueId ScriptCall::vector_of(Ints numbers) { return graph_.constant(Tensor::vector_of(numbers)); }

ValueId ScriptCall::number_like(double x, ValueId like) {
  if (dtype(like) == DType::undefined) throw Unsupported("the element type of an operand is not known");
  const double one[] = {x};
  return graph_.constant(from_elements<double>(dtype(like), {}, one));
}

ValueId ScriptCall::cast(ValueId id, DType to) {
  if (dtype(id) == to) return id;
  const Tensor* constant = graph_.known(id);
  if (constant != nullptr && constant->size() == 1 && is_float(to) && constant->dtype() != DType::boolean)
    return graph_.constant(from_elements<double>(to, constant->dims(), elements<double>(*constant)));
  return add("Cast", {id}, {{"to", static_cast<std::int64_t>(to)}});
}

DType ScriptCall::element_type(std::string_view name) const {
  return dtype_of(static_cast<at::ScalarType>(integer(name)));
}

Dims ScriptCall::dims(ValueId id) const {
  const auto dims = graph_.type(id).dims();
  if (!dims) throw Unsupported("the sizes of an operand are not known (--shape gives those of inputs)");
  return *dims;
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

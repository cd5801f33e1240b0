#include <algorithm>
#include <utility>

#include "formats/onnx/graph_reader.h"

namespace finity::onnx {

namespace {

// More attributes than any operator has; keeps the search for duplicates cheap.
constexpr std::size_t kMaxAttributes = 1000;

}  // namespace

// Scans one node ahead, so that the names the next one looks up are on their way from memory.
void GraphReader::read_nodes(const std::vector<Bytes>& nodes, std::span<const ValueId> outputs, Scope& scope) {
  NodeFields fields;
  NodeFields next;
  if (!nodes.empty()) scan_node(nodes.front(), file_, losses_, next);
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    std::swap(fields, next);
    if (i + 1 < nodes.size()) {
      scan_node(nodes[i + 1], file_, losses_, next);
      for (const std::string_view input : next.inputs) scope.names.prefetch(input);
    }
    const auto named = std::ranges::count_if(fields.outputs, [](std::string_view name) { return !name.empty(); });
    if (superseded_.empty() || !superseded_.contains(nodes[i].data())) {
      read_node(fields, outputs.first(static_cast<std::size_t>(named)), scope);
    }
    outputs = outputs.subspan(static_cast<std::size_t>(named));
  }
}

void GraphReader::read_node(const NodeFields& fields, std::span<const ValueId> outputs, Scope& scope) {
  charge(kNodeCost + fields.own_bytes);
  try {
    if (fields.attributes.size() > kMaxAttributes) throw Error("has more than 1000 attributes");
    const Meaning& meaning = ops_.find(*scope.ops, fields);
    if (meaning.function != nullptr) inline_call(fields, *meaning.function, scope);
    else add_node(fields, meaning, outputs, scope);
  } catch (Error& error) {
    add_context(error, describe(fields));
    throw;
  }
}

void GraphReader::add_node(const NodeFields& fields, const Meaning& meaning, std::span<const ValueId> outputs,
                           Scope& scope) {
  Node node;
  node.op = meaning.op;
  node.op_type = meaning.op_type;
  node.domain = meaning.domain;
  node.version = meaning.version;
  node.body = scope.body;
  node.inputs.reserve(fields.inputs.size());
  for (const std::string_view name : fields.inputs) node.inputs.push_back(resolve(name, scope));
  node.outputs.reserve(fields.outputs.size());
  std::size_t named = 0;
  for (const std::string_view name : fields.outputs)
    node.outputs.push_back(name.empty() ? ValueId{} : outputs[named++]);
  locate_node(fields, scope, node);
  for (const Bytes attribute : fields.attributes) read_attribute(attribute, scope, node.attrs);
  builder_.add_node(std::move(node));
}

void GraphReader::locate_node(const NodeFields& fields, const Scope& scope, Node& node) {
  if (scope.frame != nullptr && scope.frame->transparent)
    return locate_node(scope.frame->call, scope.frame->caller, node);
  node.name = fields.name;
  if (scope.frame != nullptr && !fields.name.empty()) node.name = scope.frame->prefix + "/" + node.name;
  charge(node.name.size());
  node.where = {.offset = fields.offset, .origin = read_origin(fields, scope)};
}

std::shared_ptr<const Origin> GraphReader::read_origin(const NodeFields& fields, const Scope& scope) {
  std::shared_ptr<const Origin> outer = scope.frame == nullptr ? nullptr : scope.frame->origin;
  if (fields.doc.empty() && fields.overload.empty() && fields.metadata.empty()) return outer;
  auto origin = outer ? std::make_shared<Origin>(*outer) : std::make_shared<Origin>();
  origin->doc = fields.doc;
  origin->overload = fields.overload;
  for (const std::string& call : origin->calls) charge(call.size());
  for (const Bytes property : fields.metadata) {
    const auto [key, value] = scan_property(property, file_);
    if (key == kCallKey) origin->calls.emplace_back(value);
    else origin->metadata.emplace_back(key, value);
  }
  return origin;
}

void GraphReader::read_attribute(Bytes message, Scope& scope, Attrs& attrs) {
  AttributeFields attribute = scan_attribute(message, file_);
  const std::string_view name = attribute.name;
  if (name.empty()) throw Error("has an attribute without a name");
  if (attribute.described) losses_.add(Loss::attribute_docs);
  if (attribute.unknown) losses_.add(Loss::unknown_fields);
  try {
    if (attrs.find(name) != nullptr) throw Error("is given twice");
    std::optional<Attr> value = attribute.reference.empty() ? read_value(std::move(attribute), scope)
                                                            : read_reference(attribute.reference, scope);
    if (value) attrs.set(std::string(name), std::move(*value));
  } catch (Error& error) {
    add_context(error, "attribute '" + std::string(name) + "'");
    throw;
  }
}

// Nothing for an attribute without a value (IR 1 cannot say which empty list it is): the op's default then holds.
std::optional<Attr> GraphReader::read_value(AttributeFields attribute, Scope& scope) {
  charge(attribute.own_bytes);
  const AttrKind kind = kind_of(attribute);
  switch (kind) {
    case AttrKind::none: valueless_attributes_.add(attribute.name); return std::nullopt;
    case AttrKind::real: return Attr(attribute.real);
    case AttrKind::integer: return Attr(attribute.integer);
    case AttrKind::reals: return Attr(std::move(attribute.reals));
    case AttrKind::integers: return Attr(std::move(attribute.integers));
    case AttrKind::text:
    case AttrKind::tensor:
    case AttrKind::graph:
    case AttrKind::sparse_tensor:
    case AttrKind::type: return read_part(kind, attribute.part, scope);
    default: return read_parts(kind, attribute.parts, scope);
  }
}

Attr GraphReader::read_part(AttrKind kind, Bytes part, Scope& scope) {
  std::string_view name;
  switch (kind) {
    case AttrKind::tensor:
    case AttrKind::tensors: return read_constant(part, false, name);
    case AttrKind::sparse_tensor:
    case AttrKind::sparse_tensors: return read_constant(part, true, name);
    case AttrKind::graph:
    case AttrKind::graphs: return read_subgraph(part, scope);
    case AttrKind::type:
    case AttrKind::types: charge(part.size()); return types_.read(part, scope.frame == nullptr);
    default: charge(part.size()); return std::string(as_text(part));
  }
}

namespace {

template <class T, class F>
Attr list_of(const std::vector<Bytes>& parts, F&& read) {
  std::vector<T> list;
  list.reserve(parts.size());
  for (const Bytes part : parts) list.push_back(std::get<T>(read(part)));
  return list;
}

}  // namespace

Attr GraphReader::read_parts(AttrKind kind, const std::vector<Bytes>& parts, Scope& scope) {
  const auto read = [&](Bytes part) { return read_part(kind, part, scope); };
  switch (kind) {
    case AttrKind::tensors:
    case AttrKind::sparse_tensors: return list_of<ConstantPtr>(parts, read);
    case AttrKind::graphs: return list_of<BodyId>(parts, read);
    case AttrKind::types: return list_of<Type>(parts, read);
    default: return list_of<std::string>(parts, read);
  }
}

BodyId GraphReader::read_subgraph(Bytes message, Scope& scope) {
  if (message.empty()) throw Error("holds an empty graph");
  const BodyId body = builder_.add_body({});
  Scope inner{.parent = &scope, .frame = scope.frame, .ops = scope.ops};
  read_body(message, body, inner);
  return body;
}

}  // namespace finity::onnx

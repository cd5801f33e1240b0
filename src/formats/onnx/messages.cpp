#include "formats/onnx/messages.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/error.h"

namespace finity::onnx {

namespace {

std::string_view canonical_domain(std::string_view domain) { return domain == "ai.onnx" ? std::string_view() : domain; }

void add_opset(Cursor import, Opsets& opsets) {
  const Cursor start = import;
  std::string_view domain;
  std::int64_t version = 0;
  while (import.next()) {
    if (import.field() == 1) domain = canonical_domain(import.text());
    if (import.field() == 2) version = import.integer();
  }
  if (version < 0 || version > std::numeric_limits<int>::max()) {
    start.fail("operator set '" + std::string(domain) + "' has the version " + std::to_string(version));
  }
  if (version > 0) opsets[std::string(domain)] = static_cast<int>(version);
}

void add_property(const Cursor& cursor, const std::byte* file, Properties& properties) {
  const auto [key, value] = scan_property(cursor.bytes(), file);
  properties.emplace_back(key, value);
}

// One field of ModelProto; false when it is not one.
bool read_model_field(const Cursor& cursor, const std::byte* file, ModelFields& model, Losses& losses) {
  ModelInfo& info = model.info;
  switch (cursor.field()) {
    case 1: info.ir_version = cursor.integer(); return true;
    case 2: info.producer_name = cursor.text(); return true;
    case 3: info.producer_version = cursor.text(); return true;
    case 4: info.domain = cursor.text(); return true;
    case 5: info.model_version = cursor.integer(); return true;
    case 6: info.doc = cursor.text(); return true;
    case 7:
      if (model.graph.data() != nullptr) cursor.fail("a second graph");
      model.graph = cursor.bytes();
      return true;
    case 8: add_opset(cursor.message(), info.opsets); return true;
    case 14: add_property(cursor, file, info.metadata); return true;
    case 20: losses.add(Loss::training); return true;
    case 25: model.functions.push_back(cursor.bytes()); return true;
    case 26: losses.add(Loss::devices); return true;
    default: losses.add(Loss::unknown_fields); return false;
  }
}

// A part whose bytes are accounted for elsewhere.
void add_part(const Cursor& cursor, std::vector<Bytes>& parts, std::size_t& own_bytes) {
  parts.push_back(cursor.bytes());
  own_bytes -= cursor.bytes().size();
}

void clear(NodeFields& node) {
  node.name = node.op_type = node.domain = node.overload = node.doc = {};
  node.inputs.clear();
  node.outputs.clear();
  node.attributes.clear();
  node.metadata.clear();
}

}  // namespace

ModelFields scan_model(Bytes file, Losses& losses) {
  if (file.empty()) throw Error("is not an ONNX model: the file is empty");
  ModelFields model;
  bool recognised = false;
  try {
    for (Cursor cursor(file, file.data()); cursor.next();) {
      if (read_model_field(cursor, file.data(), model, losses)) recognised = true;
    }
  } catch (Error& error) {
    if (!recognised) error.in("is not an ONNX model");
    throw;
  }
  if (model.graph.data() == nullptr) throw Error("is not an ONNX model: it has no graph");
  return model;
}

GraphFields scan_graph(Bytes message, const std::byte* file, Losses& losses) {
  GraphFields graph;
  graph.own_bytes = message.size();
  for (Cursor cursor(message, file); cursor.next();) {
    switch (cursor.field()) {
      case 1: add_part(cursor, graph.nodes, graph.own_bytes); break;
      case 2: graph.name = cursor.text(); break;
      case 5: add_part(cursor, graph.constants, graph.own_bytes); break;
      case 10: graph.doc = cursor.text(); break;
      case 11: graph.inputs.push_back(cursor.bytes()); break;
      case 12: graph.outputs.push_back(cursor.bytes()); break;
      case 13: graph.value_infos.push_back(cursor.bytes()); break;
      case 14: losses.add(Loss::quantization); break;
      case 15: add_part(cursor, graph.sparse_constants, graph.own_bytes); break;
      case 16: add_property(cursor, file, graph.metadata); break;
      default: losses.add(Loss::unknown_fields);
    }
  }
  return graph;
}

void scan_node(Bytes message, const std::byte* file, Losses& losses, NodeFields& node) {
  clear(node);
  node.own_bytes = message.size();
  node.offset = static_cast<std::uint64_t>(message.data() - file);
  for (Cursor cursor(message, file); cursor.next();) {
    switch (cursor.field()) {
      case 1: node.inputs.push_back(cursor.text()); break;
      case 2: node.outputs.push_back(cursor.text()); break;
      case 3: node.name = cursor.text(); break;
      case 4: node.op_type = cursor.text(); break;
      case 5: add_part(cursor, node.attributes, node.own_bytes); break;
      case 6: node.doc = cursor.text(); break;
      case 7: node.domain = canonical_domain(cursor.text()); break;
      case 8: node.overload = cursor.text(); break;
      case 9: node.metadata.push_back(cursor.bytes()); break;
      case 10: losses.add(Loss::devices); break;
      default: losses.add(Loss::unknown_fields);
    }
  }
  if (node.op_type.empty())
    throw Error("byte " + std::to_string(node.offset) + ": node '" + std::string(node.name) + "' has no op_type");
}

ValueInfoFields scan_value_info(Bytes message, const std::byte* file) {
  ValueInfoFields value;
  for (Cursor cursor(message, file); cursor.next();) {
    switch (cursor.field()) {
      case 1: value.name = cursor.text(); break;
      case 2: value.type = cursor.bytes(); break;
      default: value.described = true;
    }
  }
  return value;
}

Function scan_function(Bytes message, const std::byte* file) {
  Function function;
  for (Cursor cursor(message, file); cursor.next();) {
    switch (cursor.field()) {
      case 1: function.name = cursor.text(); break;
      case 4: function.inputs.push_back(cursor.text()); break;
      case 5: function.outputs.push_back(cursor.text()); break;
      case 7: function.nodes.push_back(cursor.bytes()); break;
      case 9: add_opset(cursor.message(), function.opsets); break;
      case 10: function.domain = canonical_domain(cursor.text()); break;
      case 11: function.defaults.emplace_back(attribute_name(cursor.bytes(), file), cursor.bytes()); break;
      case 12: function.value_infos.push_back(cursor.bytes()); break;
      case 13: function.overload = cursor.text(); break;
      default: break;  // documentation; a function is gone once it is inlined
    }
  }
  return function;
}

std::string_view attribute_name(Bytes message, const std::byte* file) {
  for (Cursor cursor(message, file); cursor.next();) {
    if (cursor.field() == 1) return cursor.text();
  }
  return as_text(message.last(0));
}

std::pair<std::string_view, std::string_view> scan_property(Bytes message, const std::byte* file) {
  std::pair<std::string_view, std::string_view> property;
  for (Cursor cursor(message, file); cursor.next();) {
    if (cursor.field() == 1) property.first = cursor.text();
    if (cursor.field() == 2) property.second = cursor.text();
  }
  return property;
}

std::string describe(const NodeFields& node) {
  std::string text = "node ";
  if (!node.name.empty()) text += "'" + std::string(node.name) + "' ";
  else if (!node.outputs.empty()) text += "producing '" + std::string(node.outputs.front()) + "' ";
  return text + "(" + qualified(node.domain, node.op_type) + ")";
}

std::string qualified(std::string_view domain, std::string_view name) {
  return domain.empty() ? std::string(name) : std::string(domain) + "." + std::string(name);
}

}  // namespace finity::onnx

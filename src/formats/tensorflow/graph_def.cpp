#include "formats/tensorflow/graph_def.h"

#include "base/error.h"

namespace finity::tensorflow {

using wire::Cursor;

namespace {

NamedBytes read_entry(Cursor cursor) {
  NamedBytes entry;
  while (cursor.next()) {
    if (cursor.field() == 1) entry.first = cursor.text();
    if (cursor.field() == 2) entry.second = cursor.bytes();
  }
  return entry;
}

NodeDef read_node(Bytes message, const std::byte* file) {
  NodeDef node;
  node.offset = static_cast<std::uint64_t>(message.data() - file);
  for (Cursor cursor(message, file); cursor.next();) {
    switch (cursor.field()) {
      case 1: node.name = cursor.text(); break;
      case 2: node.op = cursor.text(); break;
      case 3: node.inputs.push_back(cursor.text()); break;
      case 5: node.attrs.push_back(read_entry(cursor.message())); break;
      default: break;
    }
  }
  return node;
}

ArgDef read_arg(Cursor cursor) {
  ArgDef arg;
  while (cursor.next()) {
    switch (cursor.field()) {
      case 1: arg.name = cursor.text(); break;
      case 3: arg.type = cursor.integer(); break;
      case 4: arg.type_attr = cursor.text(); break;
      case 5: arg.number_attr = cursor.text(); break;
      case 6: arg.type_list_attr = cursor.text(); break;
      default: break;
    }
  }
  return arg;
}

FunctionDef read_function(Bytes message, const std::byte* file) {
  FunctionDef function;
  for (Cursor cursor(message, file); cursor.next();) {
    if (cursor.field() == 1) function.signature = read_op_def(cursor.bytes(), file);
    if (cursor.field() == 3) function.nodes.push_back(read_node(cursor.bytes(), file));
    if (cursor.field() == 4) {
      const NamedBytes entry = read_entry(cursor.message());
      function.returns[entry.first] = wire::as_text(entry.second);
    }
  }
  return function;
}

void read_library(Cursor cursor, const std::byte* file, GraphDef& graph) {
  while (cursor.next()) {
    if (cursor.field() != 1) continue;
    FunctionDef function = read_function(cursor.bytes(), file);
    const std::string_view name = function.signature.name;
    graph.functions.insert_or_assign(name, std::move(function));
  }
}

}  // namespace

OpSignature read_op_def(Bytes message, const std::byte* file) {
  OpSignature op;
  for (Cursor cursor(message, file); cursor.next();) {
    if (cursor.field() == 1) op.name = cursor.text();
    if (cursor.field() == 2) op.inputs.push_back(read_arg(cursor.message()));
    if (cursor.field() == 3) op.outputs.push_back(read_arg(cursor.message()));
  }
  return op;
}

void read_graph_def(Bytes message, const std::byte* file, GraphDef& graph) {
  for (Cursor cursor(message, file); cursor.next();) {
    if (cursor.field() == 1) graph.nodes.push_back(read_node(cursor.bytes(), file));
    if (cursor.field() == 2) read_library(cursor.message(), file, graph);
    if (cursor.field() != 4) continue;
    for (Cursor versions = cursor.message(); versions.next();) {
      if (versions.field() == 1) graph.producer = versions.integer();
    }
  }
}

DType dtype_from_tf(std::int64_t code) {
  constexpr DType kTypes[] = {
      DType::undefined,  DType::float32,     DType::float64,   DType::int32,     DType::uint8,   DType::int16,
      DType::int8,       DType::string,      DType::complex64, DType::int64,     DType::boolean, DType::int8,
      DType::uint8,      DType::int32,       DType::bfloat16,  DType::int16,     DType::uint16,  DType::uint16,
      DType::complex128, DType::float16,     DType::undefined, DType::undefined, DType::uint32,  DType::uint64,
      DType::float8e5m2, DType::float8e4m3fn};
  if (code > 100) code -= 100;  // a reference
  return code < 0 || code >= static_cast<std::int64_t>(std::size(kTypes)) ? DType::undefined : kTypes[code];
}

}  // namespace finity::tensorflow

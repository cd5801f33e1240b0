#include "formats/tensorflow/tensorflow.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/mapped_file.h"
#include "formats/tensorflow/attr_value.h"
#include "formats/tensorflow/importer.h"
#include "formats/tensorflow/source.h"

namespace finity {

namespace {

Graph import(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& name,
             const std::string& directory, std::vector<Note>& notes) {
  try {
    const tensorflow::GraphDef graph = tensorflow::read_source(bytes, std::move(owner), directory, notes);
    if (graph.nodes.empty()) throw Error("the graph has no nodes");
    return tensorflow::Importer(graph, name, notes).run();
  } catch (Error& error) {
    error.in(name);
    throw;
  }
}

bool holds_variable(std::string_view op) { return op == "VariableV2" || op == "Variable" || op == "VarHandleOp"; }

// Elements of the shape that a variable declares; 0 when a size is not known.
std::int64_t declared_elements(const tensorflow::NodeDef& node) {
  const auto attr = std::ranges::find(node.attrs, "shape", &tensorflow::NamedBytes::first);
  if (attr == node.attrs.end()) return 0;
  const tensorflow::AttrValue value = tensorflow::read_attr_value(attr->second);
  if (value.kind != tensorflow::AttrValue::Kind::shape) return 0;
  const std::optional<Dims> dims = tensorflow::read_shape(value.messages.front(), DType::float32).dims();
  return dims ? element_count(*dims) : 0;
}

void add_nodes(const std::vector<tensorflow::NodeDef>& from, bool in_function, std::vector<TensorFlowNode>& to) {
  for (const tensorflow::NodeDef& node : from) {
    to.push_back({.name = std::string(node.name),
                  .op = std::string(node.op),
                  .offset = node.offset,
                  .parameters = holds_variable(node.op) ? declared_elements(node) : 0,
                  .in_function = in_function});
  }
}

}  // namespace

std::vector<TensorFlowNode> tensorflow_nodes(std::string_view bytes, const std::string& name) {
  std::vector<Note> notes;
  std::vector<TensorFlowNode> nodes;
  try {
    const auto copy = std::make_shared<const std::string>(bytes);
    const auto directory = std::filesystem::path(name).parent_path().string();
    const tensorflow::GraphDef graph = tensorflow::read_source(std::as_bytes(std::span(*copy)), copy, directory, notes);
    add_nodes(graph.nodes, false, nodes);
    for (const auto& function : graph.functions) add_nodes(function.second.nodes, true, nodes);
  } catch (Error& error) {
    error.in(name);
    throw;
  }
  return nodes;
}

bool looks_like_tensorflow(std::span<const std::byte> file) {
  return tensorflow::recognise(file) != tensorflow::SourceKind::none;
}

Graph read_tensorflow(const std::string& path, std::vector<Note>& notes) {
  const auto file = MappedFile::open(path);
  return import(file->bytes(), file, path, std::filesystem::path(path).parent_path().string(), notes);
}

Graph read_tensorflow(std::string_view bytes, const std::string& name, std::vector<Note>& notes) {
  const auto copy = std::make_shared<const std::string>(bytes);
  return import(std::as_bytes(std::span(*copy)), copy, name, {}, notes);
}

}  // namespace finity

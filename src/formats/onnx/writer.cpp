#include <algorithm>
#include <limits>
#include <utility>

#include "formats/onnx/attribute_writer.h"
#include "formats/onnx/graph_reader.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx/opset_versions.h"
#include "formats/onnx/tensor_writer.h"
#include "formats/onnx/type_proto.h"
#include "formats/onnx/value_names.h"
#include "formats/onnx/version_functions.h"

namespace finity::onnx {

namespace {

// What protobuf, and so every other reader, takes.
constexpr std::size_t kMaxModelBytes = std::numeric_limits<std::int32_t>::max();

class ModelWriter {
 public:
  explicit ModelWriter(const Graph& graph);
  std::string write();

 private:
  void reserve();
  std::int64_t ir_version() const;
  void write_imports(std::int64_t ir);
  void write_graph(BodyId id);
  void write_constants(const Body& body);
  void write_value_infos(const Body& body);
  void write_value(int field, ValueId id);
  void write_node(const Node& node);
  void write_attributes(const Node& node);
  void write_origin(const Origin& origin);
  void write_property(int field, std::string_view key, std::string_view value);
  void write_properties(int field, const Properties& properties);

  const Graph& graph_;
  ValueNames names_;
  VersionFunctions versions_;
  std::vector<char> is_output_;  // of its own body, per value
  WireWriter out_;
};

ModelWriter::ModelWriter(const Graph& graph)
    : graph_(graph), names_(graph), versions_(graph), is_output_(graph.values().size(), 0) {
  for (const Body& body : graph.bodies()) {
    const BodyId here{static_cast<std::int32_t>(&body - graph.bodies().data())};
    for (const ValueId output : body.outputs) {
      if (graph.value(output).body == here) is_output_[output.at()] = 1;
    }
  }
}

std::string ModelWriter::write() {
  const ModelInfo& info = graph_.info();
  reserve();
  const std::int64_t ir = ir_version();
  out_.integer(1, ir);
  out_.text_if(2, info.producer_name);
  out_.text_if(3, info.producer_version);
  out_.text_if(4, info.domain);
  if (info.model_version != 0) out_.integer(5, info.model_version);
  out_.text_if(6, info.doc);
  out_.message(7, [&] { write_graph(Graph::kMain); });
  write_imports(ir);
  write_properties(14, info.metadata);
  versions_.write(out_);
  std::string model = out_.take();
  if (model.size() > kMaxModelBytes) throw Error("the model is larger than 2 GB, which a single ONNX file cannot be");
  return model;
}

void ModelWriter::reserve() {
  std::size_t size = 1024 + 128 * graph_.nodes().size();
  for (const Value& value : graph_.values()) {
    size += value.name.size() + (value.constant ? value.constant->raw().size() + 64 : 64);
  }
  if (size > 2 * kMaxModelBytes) throw Error("the model is larger than 2 GB, which a single ONNX file cannot be");
  out_.reserve(size);
}

std::int64_t ModelWriter::ir_version() const {
  const ModelInfo& info = graph_.info();
  std::int64_t ir = info.ir_version;
  if (ir == 0) {
    constexpr std::int64_t kFreeConstants = 4;  // before it, an initializer had to be an input too
    const auto import = versions_.imports().find("");
    ir = std::max<std::int64_t>(kFreeConstants, import == versions_.imports().end() ? 0 : ir_of_opset(import->second));
  }
  if (versions_.any()) ir = std::max<std::int64_t>(ir, kFunctionsIr);
  return std::max<std::int64_t>(ir, required_ir(graph_));
}

void ModelWriter::write_imports(std::int64_t ir) {
  const Opsets& imports = versions_.imports();
  if (ir < kOpsetsIr && imports == Opsets{{"", 1}}) return;
  const auto write = [&](std::string_view domain, int version) {
    out_.message(8, [&] {
      out_.text(1, domain);
      out_.integer(2, version);
    });
  };
  for (const auto& [domain, version] : imports) write(domain, version);
  if (versions_.any()) write(kVersionDomain, 1);
}

void ModelWriter::write_graph(BodyId id) {
  const Body& body = graph_.body(id);
  for (const NodeId node : body.nodes) out_.message(1, [&] { write_node(graph_.node(node)); });
  out_.text(2, body.name);
  write_constants(body);
  out_.text_if(10, body.doc);
  for (const ValueId input : body.inputs) write_value(11, input);
  for (const ValueId output : body.outputs) write_value(12, output);
  write_value_infos(body);
  write_properties(16, body.metadata);
}

void ModelWriter::write_constants(const Body& body) {
  for (const ValueId id : body.constants) {
    const Constant& constant = *graph_.value(id).constant;
    try {
      if (is_sparse(constant)) out_.message(15, [&] { write_sparse_tensor(out_, constant, names_[id]); });
      else out_.message(5, [&] { write_tensor(out_, constant, names_[id]); });
    } catch (Error& error) {
      error.in("initializer '" + graph_.value(id).name + "'");
      throw;
    }
  }
}

void ModelWriter::write_value_infos(const Body& body) {
  for (const NodeId node : body.nodes) {
    for (const ValueId output : graph_.node(node).outputs) {
      if (!output.valid() || is_output_[output.at()] != 0) continue;
      if (graph_.value(output).type.kind != Type::Kind::unknown) write_value(13, output);
    }
  }
}

void ModelWriter::write_value(int field, ValueId id) {
  const Type& type = graph_.value(id).type;
  out_.message(field, [&] {
    out_.text(1, names_[id]);
    // A tensor of an unknown format is said by saying nothing: readers refuse element type 0.
    const bool nameless = type.kind == Type::Kind::tensor && type.dtype == DType::undefined;
    if (type.kind != Type::Kind::unknown && !nameless) out_.message(2, [&] { write_type(out_, graph_, type); });
  });
}

void ModelWriter::write_node(const Node& node) {
  const bool wrapped = versions_.needed(node);
  // A wrapper has no parameters for omitted operands.
  for (const ValueId input : node.inputs) {
    if (input.valid() || !wrapped) out_.text(1, names_[input]);
  }
  for (const ValueId output : node.outputs) {
    if (output.valid() || !wrapped) out_.text(2, names_[output]);
  }
  out_.text_if(3, node.name);
  out_.text(4, wrapped ? versions_.name_for(node) : node.op_type);
  write_attributes(node);
  out_.text_if(7, wrapped ? kVersionDomain : node.domain);
  if (node.where.origin) write_origin(*node.where.origin);
}

void ModelWriter::write_attributes(const Node& node) {
  const auto write_body = [this](BodyId body) { write_graph(body); };
  for (const auto& attr : node.attrs) {
    try {
      out_.message(5, [&] { write_attribute(out_, graph_, attr.first, attr.second, write_body); });
    } catch (Error& error) {
      error.in(describe(graph_, node) + ": attribute '" + attr.first + "'");
      throw;
    }
  }
}

void ModelWriter::write_origin(const Origin& origin) {
  out_.text_if(6, origin.doc);
  out_.text_if(8, origin.overload);
  write_properties(9, origin.metadata);
  for (const std::string& call : origin.calls) write_property(9, kCallKey, call);
}

void ModelWriter::write_properties(int field, const Properties& properties) {
  for (const auto& [key, value] : properties) write_property(field, key, value);
}

void ModelWriter::write_property(int field, std::string_view key, std::string_view value) {
  out_.message(field, [&] {
    out_.text(1, key);
    out_.text(2, value);
  });
}

}  // namespace

}  // namespace finity::onnx

namespace finity {

std::string write_onnx(const Graph& graph) { return onnx::ModelWriter(graph).write(); }

}  // namespace finity

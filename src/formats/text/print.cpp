#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/text/print_literals.h"
#include "formats/text/quote.h"
#include "formats/text/scope_names.h"
#include "formats/text/text.h"

namespace finity {

namespace {

using textform::as_name;
using textform::quoted;

constexpr int kMaxDepth = 64;
constexpr std::size_t kLineWidth = 100;  // longer lists of inputs or outputs take a line per item

std::string join(const std::vector<std::string>& items, std::string_view separator = ", ") {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += separator;
    text += items[i];
  }
  return text;
}

std::string print_properties(const Properties& properties) {
  std::vector<std::string> items;
  for (const auto& [key, value] : properties) items.push_back(quoted(key) + ": " + quoted(value));
  return "{" + join(items) + "}";
}

std::string_view normal_domain(std::string_view domain) { return domain == "ai.onnx" ? "" : domain; }

class Printer {
 public:
  Printer(const Graph& graph, const PrintOptions& options) : graph_(graph), options_(options), names_(graph) {
    find_header_types();
  }

  std::string print() {
    print_header();
    print_body(Graph::kMain, 0);
    return std::move(out_) + "\n";
  }

 private:
  void find_header_types();
  void print_header();
  void print_body(BodyId id, int depth);
  void print_list(const std::vector<std::string>& items, const std::string& indent);
  void print_statements(const Body& body, int depth);
  void print_node(const Node& node, int depth);
  void print_attrs(const Attrs& attrs, int depth);
  void print_attr(const Attr& attr, int depth);
  void print_origin(const Node& node);

  std::string name_of(ValueId id) const { return id.valid() ? as_name(names_.of(id)) : "_"; }
  std::string declaration(ValueId id) const;
  std::string constant_declaration(ValueId id) const;
  std::string op_of(const Node& node) const;
  std::string version_suffix(const Node& node) const;

  const Graph& graph_;
  const PrintOptions& options_;
  textform::ScopeNames names_;
  std::unordered_set<ValueId> typed_by_header_;  // outputs of bodies whose type stands in the header
  std::string out_;
};

// Inputs, constants and captured values are declared elsewhere already.
void Printer::find_header_types() {
  for (std::size_t i = 0; i < graph_.bodies().size(); ++i) {
    for (const ValueId id : graph_.bodies()[i].outputs) {
      if (!id.valid()) continue;
      const Value& value = graph_.value(id);
      if (value.producer.valid() && value.body.at() == i) typed_by_header_.insert(id);
    }
  }
}

std::string Printer::declaration(ValueId id) const {
  const Type& type = graph_.value(id).type;
  if (type.kind == Type::Kind::unknown) return name_of(id);
  return name_of(id) + ": " + textform::print_type(graph_, type);
}

// The type is written once where the declared and the constant's own agree.
std::string Printer::constant_declaration(ValueId id) const {
  const Value& value = graph_.value(id);
  const Constant& constant = *value.constant;
  const bool undeclared = value.type.kind == Type::Kind::unknown;
  if (!undeclared && value.type != Type::tensor_of(constant.dtype(), constant.dims())) {
    return declaration(id) + " = " + textform::print_constant(constant, options_.max_elements);
  }
  return name_of(id) + ": " + textform::print_tensor_type(constant.dtype(), constant.dims()) + " = " +
         (constant.sparse() ? "sparse " : "") + textform::print_elements(constant, options_.max_elements);
}

void Printer::print_header() {
  const ModelInfo& info = graph_.info();
  std::vector<std::string> entries;
  const auto number = [&](const std::string& key, std::int64_t value) {
    if (value != 0) entries.push_back(key + " = " + std::to_string(value));
  };
  const auto text = [&](const std::string& key, const std::string& value) {
    if (!value.empty()) entries.push_back(key + " = " + quoted(value));
  };
  number("ir_version", info.ir_version);
  text("producer_name", info.producer_name);
  text("producer_version", info.producer_version);
  text("domain", info.domain);
  number("model_version", info.model_version);
  text("doc", info.doc);
  if (!info.metadata.empty()) entries.push_back("metadata = " + print_properties(info.metadata));
  if (!entries.empty()) out_ += "model {" + join(entries) + "}\n";
  for (const auto& [domain, version] : info.opsets) {
    if (domain == "ai.onnx" && info.opsets.contains("")) continue;
    const std::string_view shown = normal_domain(domain);
    out_ += "opset " + (shown.empty() ? "" : as_name(shown) + " ") + std::to_string(version) + "\n";
  }
}

void Printer::print_body(BodyId id, int depth) {
  // A body stands two levels further in than the one around it.
  if (depth == 2 * kMaxDepth) throw Error("graphs are nested deeper than " + std::to_string(kMaxDepth));
  const Body& body = graph_.body(id);
  const std::string indent(2 * static_cast<std::size_t>(depth), ' ');
  std::vector<std::string> inputs;
  for (const ValueId input : body.inputs) {
    inputs.push_back(graph_.value(input).constant ? constant_declaration(input) : declaration(input));
  }
  std::vector<std::string> outputs;
  for (const ValueId output : body.outputs) {
    outputs.push_back(typed_by_header_.contains(output) ? declaration(output) : name_of(output));
  }
  out_ += "graph ";
  if (!body.name.empty()) out_ += as_name(body.name) + " ";
  print_list(inputs, indent);
  out_ += " -> ";
  print_list(outputs, indent);
  if (!body.doc.empty()) out_ += " doc " + quoted(body.doc);
  if (!body.metadata.empty()) out_ += " meta " + print_properties(body.metadata);
  out_ += " {\n";
  print_statements(body, depth + 1);
  out_ += indent + "}";
}

void Printer::print_list(const std::vector<std::string>& items, const std::string& indent) {
  const std::string line = join(items);
  if (line.size() + indent.size() <= kLineWidth) {
    out_ += "(" + line + ")";
  } else {
    out_ += "(\n" + indent + "  " + join(items, ",\n" + indent + "  ") + "\n" + indent + ")";
  }
}

void Printer::print_statements(const Body& body, int depth) {
  const std::string indent(2 * static_cast<std::size_t>(depth), ' ');
  const std::unordered_set<ValueId> inputs(body.inputs.begin(), body.inputs.end());
  for (const ValueId id : body.constants) {
    if (!inputs.contains(id)) out_ += indent + "const " + constant_declaration(id) + "\n";
  }
  for (const NodeId id : body.nodes) {
    out_ += indent;
    print_node(graph_.node(id), depth);
    out_ += "\n";
  }
}

std::string Printer::op_of(const Node& node) const {
  const std::string_view domain = normal_domain(node.domain);
  const bool splits = !node.op_type.empty() && node.op_type.find('.') == std::string_view::npos;
  if (domain.empty()) return splits ? as_name(node.op_type) : quoted(node.op_type);
  std::string whole = std::string(domain) + "." + std::string(node.op_type);
  if (splits && as_name(whole) == whole) return whole;
  return quoted(domain) + "." + quoted(node.op_type);
}

std::string Printer::version_suffix(const Node& node) const {
  const auto& opsets = graph_.info().opsets;
  const std::string_view domain = normal_domain(node.domain);
  auto found = opsets.find(domain);
  if (found == opsets.end() && domain.empty()) found = opsets.find("ai.onnx");
  const int usual = found != opsets.end() ? found->second : domain.empty() ? -1 : 1;
  return node.version == usual ? "" : ":" + std::to_string(node.version);
}

void Printer::print_node(const Node& node, int depth) {
  std::vector<std::string> results;
  for (const ValueId id : node.outputs) {
    results.push_back(id.valid() && !typed_by_header_.contains(id) ? declaration(id) : name_of(id));
  }
  std::vector<std::string> operands;
  for (const ValueId id : node.inputs) operands.push_back(name_of(id));
  out_ += (results.empty() ? "()" : join(results)) + " = " + op_of(node) + version_suffix(node);
  out_ += "(" + join(operands) + ")";
  if (!node.attrs.empty()) print_attrs(node.attrs, depth);
  if (!node.name.empty()) out_ += " @ " + quoted(node.name);
  print_origin(node);
}

void Printer::print_origin(const Node& node) {
  if (!node.where.origin) return;
  const Origin& origin = *node.where.origin;
  if (!origin.doc.empty()) out_ += " doc " + quoted(origin.doc);
  if (!origin.metadata.empty()) out_ += " meta " + print_properties(origin.metadata);
  if (!origin.overload.empty()) out_ += " overload " + quoted(origin.overload);
  std::vector<std::string> calls;
  for (const std::string& call : origin.calls) calls.push_back(quoted(call));
  if (!calls.empty()) out_ += " from [" + join(calls) + "]";
}

// On one line, unless graphs are among them.
void Printer::print_attrs(const Attrs& attrs, int depth) {
  const bool tall = !bodies_of(attrs).empty();
  const std::string indent = tall ? "\n" + std::string(2 * static_cast<std::size_t>(depth), ' ') : "";
  const char* separator = " {";
  for (const auto& [name, value] : attrs) {
    out_ += separator;
    out_ += tall ? indent + "  " : "";
    out_ += as_name(name) + " = ";
    print_attr(value, depth + 1);
    separator = tall ? "," : ", ";
  }
  out_ += indent + "}";
}

void Printer::print_attr(const Attr& attr, int depth) {
  const auto one = [&]<class T>(const T& value) {
    if constexpr (std::is_same_v<T, std::int64_t>) out_ += std::to_string(value);
    else if constexpr (std::is_same_v<T, float>) out_ += textform::print_float_attr(value);
    else if constexpr (std::is_same_v<T, std::string>) out_ += quoted(value);
    else if constexpr (std::is_same_v<T, ConstantPtr>) out_ += textform::print_constant(*value, options_.max_elements);
    else if constexpr (std::is_same_v<T, BodyId>) print_body(value, depth);
    else out_ += "type(" + textform::print_type(graph_, value) + ")";
  };
  const auto any = [&]<class T>(const T& value) {
    if constexpr (requires { typename T::value_type; } && !std::is_same_v<T, std::string>) {
      if (value.empty()) out_ += std::string(kind_name(attr)) + " ";
      const char* separator = "";
      out_ += "[";
      for (const auto& item : value) {
        out_ += std::exchange(separator, ", ");
        one(item);
      }
      out_ += "]";
    } else {
      one(value);
    }
  };
  std::visit(any, attr);
}

}  // namespace

std::string print_graph(const Graph& graph, const PrintOptions& options) { return Printer(graph, options).print(); }

}  // namespace finity

#include "formats/onnx/version_functions.h"

#include <algorithm>

#include "formats/onnx/attribute_writer.h"
#include "formats/onnx/graph_reader.h"

namespace finity::onnx {

namespace {

std::string presence(const std::vector<ValueId>& operands) {
  std::string text;
  for (const ValueId operand : operands) text += operand.valid() ? 'x' : '-';
  return text;
}

const std::string& overload_of(const Node& node) {
  static const std::string kNone;
  return node.where.origin ? node.where.origin->overload : kNone;
}

// Two nodes with the same key can share a function.
std::string key_of(const Node& node) {
  std::string key(node.domain);
  const auto add = [&](std::string_view part) { key.append(1, '\0').append(part); };
  add(node.op_type);
  add(std::to_string(node.version));
  add(overload_of(node));
  add(presence(node.inputs));
  add(presence(node.outputs));
  for (const auto& [name, value] : node.attrs) {
    add(name);
    add(std::to_string(static_cast<int>(kind_of(value))));
  }
  return key;
}

void write_operands(WireWriter& out, int field, const std::vector<ValueId>& operands, char letter, bool omitted) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].valid()) out.text(field, letter + std::to_string(i));
    else if (omitted) out.text(field, {});
  }
}

void write_inner_node(WireWriter& out, const Node& node) {
  write_operands(out, 1, node.inputs, 'x', true);
  write_operands(out, 2, node.outputs, 'y', true);
  out.text(4, node.op_type);
  for (const auto& attr : node.attrs) {
    out.message(5, [&] {
      out.text(1, attr.first);
      out.integer(20, static_cast<std::int64_t>(kind_of(attr.second)));
      out.text(21, attr.first);
    });
  }
  out.text_if(7, node.domain);
  out.text_if(8, overload_of(node));
}

void write_function(WireWriter& out, const std::string& name, const Node& node) {
  out.text(1, name);
  write_operands(out, 4, node.inputs, 'x', false);
  write_operands(out, 5, node.outputs, 'y', false);
  for (const auto& [attribute, value] : node.attrs) out.text(6, attribute);
  out.message(7, [&] { write_inner_node(out, node); });
  out.message(9, [&] {
    out.text(1, node.domain);
    out.integer(2, node.version);
  });
  out.text(10, kVersionDomain);
  out.text_if(13, overload_of(node));
}

}  // namespace

VersionFunctions::VersionFunctions(const Graph& graph) : imports_(graph.info().opsets) {
  for (const Node& node : graph.nodes()) imports_.try_emplace(std::string(node.domain), std::max(1, node.version));
  any_ = std::ranges::any_of(graph.nodes(), [&](const Node& node) { return needed(node); });
}

bool VersionFunctions::needed(const Node& node) const {
  return node.version != 0 && node.version != imports_.find(node.domain)->second;
}

std::string_view VersionFunctions::name_for(const Node& node) {
  const Wrapper*& known = by_key_[key_of(node)];
  if (known == nullptr) {
    const std::string number = std::to_string(wrappers_.size() + 1);
    known = &wrappers_.emplace_back(
        Wrapper{std::string(node.op_type) + "_" + std::to_string(node.version) + "_" + number, &node});
  }
  return known->name;
}

void VersionFunctions::write(WireWriter& out) const {
  for (const Wrapper& wrapper : wrappers_) {
    out.message(25, [&] { write_function(out, wrapper.name, *wrapper.node); });
  }
}

std::string versions_apart(const Graph& graph) {
  const VersionFunctions functions(graph);
  const Node* newest = nullptr;
  for (const Node& node : graph.nodes()) {
    if (functions.needed(node) && (newest == nullptr || node.version > newest->version)) newest = &node;
  }
  if (newest == nullptr) return {};
  const int imported = functions.imports().find(newest->domain)->second;
  return "the model imports operator set " + std::to_string(imported) + ", and " + describe(graph, *newest) +
         " means that of set " + std::to_string(newest->version) +
         ": it stands in a model function that imports this one, which not every library observes" +
         (newest->version > imported
              ? "; export the model for a newer set, " + std::to_string(newest->version) + " at best"
              : "");
}

}  // namespace finity::onnx

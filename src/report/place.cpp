// Where an alarm is: names that users find in the file, and the Python line behind it.
#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

#include "report/collect.h"

namespace finity {

namespace {

// How a node is told from its neighbours when others are inserted: by name, by what it produces, by position.
std::string identity(const Graph& graph, const Node& node) {
  if (!node.name.empty()) return node.name;
  for (const ValueId id : node.outputs) {
    if (id.valid() && !graph.value(id).name.empty()) return graph.value(id).name;
  }
  const auto* first = graph.nodes().data();
  return "#" + std::to_string(&node - first);
}

std::string attribute_of(const Node& owner, BodyId body) {
  for (const auto& [name, attr] : owner.attrs) {
    if (const auto* one = std::get_if<BodyId>(&attr); one != nullptr && *one == body) return name;
  }
  return "body";
}

std::string body_scope(const Graph& graph, BodyId id) {
  const NodeId owner = graph.body(id).owner;
  if (!owner.valid()) return "";
  const Node& node = graph.node(owner);
  const std::string outer = scope_of(graph, node);
  return outer + (outer.empty() ? "" : "/") + identity(graph, node) + "." + attribute_of(node, id);
}

std::string_view property(const Properties& properties, std::string_view key) {
  for (const auto& [name, value] : properties) {
    if (name == key) return value;
  }
  return {};
}

// The frames of one entry: File "PATH", line NUMBER, in FUNCTION
std::pair<std::string, int> frame_at(std::string_view text, std::size_t start) {
  constexpr std::string_view kLine = "\", line ";
  const std::size_t end = text.find('"', start);
  if (end == std::string_view::npos || text.substr(end, kLine.size()) != kLine) return {};
  int line = 0;
  const char* digits = text.data() + end + kLine.size();
  std::from_chars(digits, text.data() + text.size(), line);
  return {std::string(text.substr(start, end - start)), line};
}

bool is_library(const std::string& file) {
  return file.find("site-packages/") != std::string::npos || file.find("dist-packages/") != std::string::npos ||
         file.starts_with("<");
}

}  // namespace

std::string scope_of(const Graph& graph, const Node& node) {
  std::string scope = node.body.valid() ? body_scope(graph, node.body) : "";
  if (node.where.origin == nullptr) return scope;
  for (const std::string& call : node.where.origin->calls) scope += (scope.empty() ? "" : "/") + call;
  return scope;
}

std::pair<std::string, int> python_line(std::string_view stack_trace) {
  constexpr std::string_view kFile = "File \"";
  std::pair<std::string, int> best;
  for (std::size_t at = 0; (at = stack_trace.find(kFile, at)) != std::string_view::npos;) {
    at += kFile.size();
    std::pair<std::string, int> frame = frame_at(stack_trace, at);
    if (frame.second <= 0) continue;
    // Innermost last; a line of the user's beats one inside a library.
    if (best.second == 0 || !is_library(frame.first) || is_library(best.first)) best = std::move(frame);
  }
  return best;
}

Place place_of(const Graph& graph, const Finding& finding) {
  Place place;
  if (!finding.node.valid()) {
    place.output = finding.value.valid() ? graph.value(finding.value).name : "";
    const auto& inputs = graph.main().inputs;
    const bool input = std::ranges::find(inputs, finding.value) != inputs.end();
    place.title = (input ? "input '" : "constant '") + place.output + "'";
    if (finding.value.valid() && graph.value(finding.value).body.valid()) {
      place.scope = body_scope(graph, graph.value(finding.value).body);
    }
    return place;
  }
  const Node& node = graph.node(finding.node);
  place.title = describe(graph, node);
  place.node = node.name;
  place.op = qualified_op(node);
  place.output = node.name.empty() ? identity(graph, node) : "";
  if (!node.outputs.empty() && node.outputs.front().valid()) place.output = graph.value(node.outputs.front()).name;
  place.scope = scope_of(graph, node);
  if (node.where.origin != nullptr) {
    const auto [file, line] = python_line(property(node.where.origin->metadata, "pkg.torch.onnx.stack_trace"));
    place.source_file = file;
    place.source_line = line;
  }
  return place;
}

std::string fingerprint(const Rule& rule, const Place& place, int operand, std::size_t occurrence) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  const auto add = [&](std::string_view text) {
    for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
    hash = (hash ^ 0xff) * 0x100000001b3;  // no byte of UTF-8: keeps the parts apart
  };
  add(rule.code);
  add(place.scope);
  add(place.name());
  add(place.op);
  add(std::to_string(operand));
  if (occurrence > 0) add(std::to_string(occurrence));
  std::array<char, 20> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(hash));
  return text.data();
}

}  // namespace finity

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

struct Frame {
  std::string_view file = {};
  int line = 0;
};

int number_at(std::string_view text, std::size_t start) {
  int number = 0;
  std::from_chars(text.data() + std::min(start, text.size()), text.data() + text.size(), number);
  return number;
}

// One line of a trace: `File "PATH", line NUMBER, in FUNCTION`, or `PATH(NUMBER): FUNCTION` as older exporters write.
Frame frame_of(std::string_view text) {
  constexpr std::string_view kFile = "File \"";
  constexpr std::string_view kLine = "\", line ";
  if (const std::size_t quote = text.find(kFile); quote != std::string_view::npos) {
    const std::size_t start = quote + kFile.size();
    const std::size_t end = text.find(kLine, start);
    if (end == std::string_view::npos) return {};
    return {text.substr(start, end - start), number_at(text, end + kLine.size())};
  }
  const std::size_t end = text.rfind("): ");
  const std::size_t bracket = end == std::string_view::npos ? end : text.rfind('(', end);
  if (bracket == std::string_view::npos || text.find_first_not_of("0123456789", bracket + 1) != end) return {};
  const std::size_t start = std::min(text.find_first_not_of(" \t"), bracket);
  const std::string_view file = text.substr(start, bracket - start);
  if (!file.ends_with(".py") && !file.starts_with("<")) return {};  // some other text
  return {file, number_at(text, bracket + 1)};
}

// 2: the user's own line; 1: a library that models are written with; 0: the framework, or code without a file.
int interest(std::string_view file) {
  const auto holds = [&](std::string_view part) { return file.find(part) != std::string_view::npos; };
  if (file.starts_with("<")) return file.starts_with("<ipython-input") ? 2 : 0;
  constexpr std::string_view kFramework[] = {"/torch/nn/", "/torch/onnx/", "/torch/jit/",     "/torch/_",
                                             "/torch/fx/", "/torch/utils", "-packages/torch/"};
  if (std::ranges::any_of(kFramework, holds)) return 0;
  if (holds("site-packages/") || holds("dist-packages/")) return 1;
  return holds("/lib/python3") ? 0 : 2;
}

// Outside of these calls lies the script that exported the model, which is no part of it.
bool starts_export(std::string_view file) {
  return file.find("/torch/onnx/") != std::string_view::npos || file.find("/torch/jit/") != std::string_view::npos;
}

}  // namespace

std::string scope_of(const Graph& graph, const Node& node) {
  std::string scope = node.body.valid() ? body_scope(graph, node.body) : "";
  if (node.where.origin == nullptr) return scope;
  for (const std::string& call : node.where.origin->calls) scope += (scope.empty() ? "" : "/") + call;
  return scope;
}

// Traces of File "..." lines have the innermost call last, those of doc strings have it first.
std::pair<std::string, int> python_line(std::string_view stack_trace) {
  const bool innermost_last = stack_trace.find("File \"") != std::string_view::npos;
  Frame best;
  for (std::size_t at = 0; at < stack_trace.size();) {
    const std::size_t end = std::min(stack_trace.find('\n', at), stack_trace.size());
    const Frame frame = frame_of(stack_trace.substr(at, end - at));
    at = end + 1;
    if (!innermost_last && starts_export(frame.file)) break;
    if (frame.line <= 0 || interest(frame.file) == 0) continue;
    const int more = best.line == 0 ? 1 : interest(frame.file) - interest(best.file);
    if (more > 0 || (more == 0 && innermost_last)) best = frame;
  }
  return {std::string(best.file), best.line};
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
    const std::string_view trace = property(node.where.origin->metadata, "pkg.torch.onnx.stack_trace");
    const auto [file, line] = python_line(trace.empty() ? std::string_view(node.where.origin->doc) : trace);
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

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/format.h"
#include "cli/summary.h"
#include "formats/model_format.h"
#include "formats/text/text.h"
#include "types/infer.h"

namespace finity {

namespace {

struct Options {
  std::string model;
  std::vector<std::string> shapes;
  std::string format = "text";
  bool dump = false;
  std::int64_t max_elements = 64;
};

std::string joined(const std::map<std::string, std::int64_t>& counts) {
  std::string text;
  for (const auto& [key, count] : counts) text += (text.empty() ? "" : ", ") + key + " " + with_thousands(count);
  return text;
}

void print_ports(const char* title, const std::vector<Summary::Port>& ports) {
  std::size_t width = 0;
  for (const Summary::Port& port : ports) width = std::max(width, std::min<std::size_t>(port.name.size(), 40));
  std::printf("%s\n", title);
  for (const Summary::Port& port : ports) {
    std::printf("  %s  %s%s\n", padded(port.name, width).c_str(), port.type.c_str(),
                port.has_default ? "  (has a default)" : "");
  }
}

// Some producers write whole paragraphs.
std::string first_line(const std::string& text) {
  const std::size_t end = text.find('\n');
  return end == std::string::npos ? text : text.substr(0, end) + " ...";
}

void print_header(const Graph& graph) {
  const ModelInfo& info = graph.info();
  std::string opsets;
  for (const auto& [domain, version] : info.opsets) {
    opsets += (opsets.empty() ? "" : ", ") + domain_name(domain) + " " + std::to_string(version);
  }
  std::printf("%s: IR version %lld, opset %s", info.file.c_str(), static_cast<long long>(info.ir_version),
              opsets.c_str());
  if (!info.producer_name.empty()) std::printf(", made by %s", first_line(info.producer_name).c_str());
  if (!info.producer_version.empty()) std::printf(" %s", first_line(info.producer_version).c_str());
  std::printf("\n");
}

void print_dynamic_dims(const Summary& summary) {
  if (summary.dynamic_dims.empty()) return;
  std::string names;
  for (const std::string& name : summary.dynamic_dims) names += (names.empty() ? "" : ", ") + name;
  std::printf("dynamic dimensions: %s (bind with --shape %s:SIZES%s)\n", names.c_str(),
              summary.inputs.front().name.c_str(), names == "?" ? "" : " or --shape DIMENSION=SIZE");
}

void print_text(const Graph& graph, const Summary& summary, const std::vector<Note>& notes) {
  print_header(graph);
  print_ports("inputs", summary.inputs);
  print_ports("outputs", summary.outputs);
  print_dynamic_dims(summary);
  std::printf("parameters: %s in %s tensors, %s", with_thousands(summary.parameters).c_str(),
              with_thousands(summary.parameter_tensors).c_str(), human_bytes(summary.parameter_bytes).c_str());
  if (!summary.parameter_dtypes.empty()) std::printf(" (%s)", joined(summary.parameter_dtypes).c_str());
  std::printf("\n");
  if (summary.missing_tensors > 0)
    std::printf("missing weights: %lld tensors\n", static_cast<long long>(summary.missing_tensors));
  std::printf("computed values: %s\n", joined(summary.value_dtypes).c_str());
  std::printf("nodes: %s of %zu op types", with_thousands(summary.nodes).c_str(), summary.ops.size());
  if (summary.subgraphs > 0) std::printf(", %lld subgraphs", static_cast<long long>(summary.subgraphs));
  std::printf("\n");
  for (const Summary::OpCount& op : summary.ops) {
    std::printf("  %7s  %s\n", with_thousands(op.nodes).c_str(), op.op.c_str());
  }
  for (const Summary::OpCount& op : summary.ops) {
    if (op.not_modelled.empty()) continue;
    std::printf("not modelled: %s (%s nodes): %s\n", op.op.c_str(), with_thousands(op.nodes).c_str(),
                op.not_modelled.c_str());
  }
  print_notes(notes);
}

nlohmann::ordered_json ports_json(const std::vector<Summary::Port>& ports) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Summary::Port& port : ports) {
    list.push_back({{"name", port.name}, {"type", port.type}, {"has_default", port.has_default}});
  }
  return list;
}

void print_json(const Graph& graph, const Summary& summary, const std::vector<Note>& notes) {
  const ModelInfo& info = graph.info();
  nlohmann::ordered_json json;
  json["file"] = info.file;
  json["ir_version"] = info.ir_version;
  for (const auto& [domain, version] : info.opsets) json["opsets"][domain_name(domain)] = version;
  json["producer"] = {{"name", info.producer_name}, {"version", info.producer_version}};
  json["inputs"] = ports_json(summary.inputs);
  json["outputs"] = ports_json(summary.outputs);
  json["dynamic_dimensions"] = summary.dynamic_dims;
  json["parameters"] = {{"elements", summary.parameters},
                        {"tensors", summary.parameter_tensors},
                        {"bytes", summary.parameter_bytes},
                        {"missing_tensors", summary.missing_tensors},
                        {"dtypes", summary.parameter_dtypes}};
  json["value_dtypes"] = summary.value_dtypes;
  json["nodes"] = summary.nodes;
  json["subgraphs"] = summary.subgraphs;
  json["ops"] = nlohmann::ordered_json::array();
  json["not_modelled"] = nlohmann::ordered_json::array();
  for (const Summary::OpCount& op : summary.ops) {
    json["ops"].push_back({{"op", op.op}, {"nodes", op.nodes}});
    if (!op.not_modelled.empty()) {
      json["not_modelled"].push_back({{"op", op.op}, {"nodes", op.nodes}, {"reason", op.not_modelled}});
    }
  }
  json["notes"] = nlohmann::ordered_json::array();
  for (const Note& note : notes) json["notes"].push_back({{"where", note.where}, {"text", note.text}});
  // Names come from the file and need not be UTF-8.
  std::printf("%s\n", json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
}

void inspect(const Options& options) {
  std::vector<Note> notes;
  Bindings bindings;
  for (const std::string& shape : options.shapes) add_binding(bindings, shape);
  const Graph graph = read_model(options.model, notes, bindings);
  if (options.dump) {
    const std::string text = print_graph(graph, {.max_elements = options.max_elements});
    std::fwrite(text.data(), 1, text.size(), stdout);
    return;
  }
  Types types;
  try {
    types = infer_types(graph, bindings);
  } catch (Error& error) {
    error.in(options.model);
    throw;
  }
  notes.insert(notes.end(), types.notes.begin(), types.notes.end());
  const Summary summary = summarize(graph, types);
  if (options.format == "json") print_json(graph, summary, notes);
  else print_text(graph, summary, notes);
}

}  // namespace

void add_inspect(CLI::App& app, int& /*exit_code*/) {
  CLI::App* command = app.add_subcommand("inspect", "Show what is in a model: inputs, outputs, ops, parameters");
  auto options = std::make_shared<Options>();
  command->add_option("model", options->model, "ONNX or text file")->required();
  command->add_option("--shape", options->shapes, "Bind dimensions: x:1,3,224,224 or batch=1 (repeatable)");
  command->add_option("--format", options->format, "text or json")->check(CLI::IsMember({"text", "json"}));
  command->add_flag("--dump", options->dump, "Print the whole graph in the text form");
  command->add_option("--max-elements", options->max_elements,
                      "With --dump: larger constants are elided; -1 prints all (default 64)");
  command->callback([options] { inspect(*options); });
}

}  // namespace finity

#include <cstdio>
#include <functional>
#include <string>

#include "base/atomic_file.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "formats/model_format.h"
#include "formats/onnx/onnx.h"
#include "formats/text/text.h"
#include "graph/builder.h"
#include "graph/unique_names.h"

namespace finity {

namespace {

struct Options {
  std::string model;
  std::string output;
  bool name_nodes = false;
};

std::string written(const Graph& graph, const std::string& path) {
  if (path.ends_with(".onnx")) return write_onnx(graph);
  if (path.ends_with(".txt")) return print_graph(graph, {.max_elements = -1});
  throw Error(path + ": the name must end in .onnx or .txt");
}

// Converters and keep lists speak of nodes by name, and exporters leave some without.
Graph with_named_nodes(const Graph& graph) {
  UniqueNames names;
  for (const Node& node : graph.nodes()) names.take(node.name);
  GraphBuilder builder(graph);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    Node& node = builder.node({static_cast<std::int32_t>(i)});
    if (!node.name.empty()) continue;
    node.name = names.make(std::string(node.op_type) + "_" + std::to_string(i));
  }
  return std::move(builder).build();
}

void convert(const Options& options) {
  std::vector<Note> notes;
  Graph graph = read_model(options.model, notes);
  if (options.name_nodes) graph = with_named_nodes(graph);
  std::string content;
  try {
    content = written(graph, options.output);
  } catch (Error& error) {
    error.in(options.model);
    throw;
  }
  write_file_atomically(options.output, content);
  print_notes(notes);
}

}  // namespace

void add_convert(CLI::App& app, int& /*exit_code*/) {
  CLI::App* command = app.add_subcommand("convert", "Write a model as ONNX or in the text form");
  auto options = std::make_shared<Options>();
  command->add_option("model", options->model, "ONNX or text file")->required();
  command->add_option("-o,--output", options->output, "File to write; its ending, .onnx or .txt, decides the format")
      ->required();
  command->add_flag("--name-nodes", options->name_nodes, "Give a name to every node that has none");
  command->callback([options] { convert(*options); });
}

}  // namespace finity

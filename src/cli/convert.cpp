#include <cstdio>

#include "base/atomic_file.h"
#include "base/error.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "formats/model_format.h"
#include "formats/onnx/onnx.h"
#include "formats/text/text.h"

namespace finity {

namespace {

struct Options {
  std::string model;
  std::string output;
};

std::string written(const Graph& graph, const std::string& path) {
  if (path.ends_with(".onnx")) return write_onnx(graph);
  if (path.ends_with(".txt")) return print_graph(graph, {.max_elements = -1});
  throw Error(path + ": the name must end in .onnx or .txt");
}

void convert(const Options& options) {
  std::vector<Note> notes;
  const Graph graph = read_model(options.model, notes);
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
  command->callback([options] { convert(*options); });
}

}  // namespace finity

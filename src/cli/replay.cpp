// finity replay DIR: runs a witness again, in the reference and in whatever other engine there is.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "backends/backends.h"
#include "base/mapped_file.h"
#include "cli/commands.h"
#include "cli/program_witness.h"
#include "cli/witness.h"
#include "exec/first_failure.h"
#include "exec/reference.h"
#include "exec/torch_worker.h"
#include "formats/model_format.h"
#include "formats/onnx/test_data.h"
#include "formats/onnx/version_functions.h"
#include "fuzz/folder.h"
#include "report/words.h"

namespace finity {

namespace {

namespace fs = std::filesystem;

constexpr int kReplays = 20;

struct Options {
  std::string folder;
  std::string onnxruntime;
  std::string backends;
};

struct Witness {
  Graph graph = {};
  std::string bytes = {};  // of the model
  Inputs inputs = {};
  std::uint64_t seed = 0;  // of random ops
  bool flush_subnormals = false;
};

Witness read_witness(const fs::path& folder) {
  const std::string model = (folder / kWitnessModel).string();
  if (!fs::is_regular_file(model)) throw Error(folder.string() + ": holds no " + std::string(kWitnessModel));
  std::vector<Note> notes;
  Witness witness;
  witness.graph = read_model(model, notes);
  const auto file = MappedFile::open(model);
  witness.bytes.assign(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  witness.inputs = read_test_data((folder / "test_data_set_0").string(), witness.graph).inputs;
  return witness;
}

nlohmann::json read_description(const fs::path& folder) {
  const fs::path path = folder / kWitnessDescription;
  if (!fs::is_regular_file(path)) return {};
  const auto file = MappedFile::open(path.string());
  const std::string_view text(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  auto json = nlohmann::json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object()) throw Error(path.string() + ": is not JSON");
  return json;
}

void print_description(const nlohmann::json& json) {
  if (!json.is_object()) return;
  const auto field = [&](const char* name) {
    return json.contains(name) && json[name].is_string() ? printable(json[name].get<std::string>()) : std::string("?");
  };
  std::printf("%s: %s at %s\n", field("model").c_str(), field("rule").c_str(), field("node").c_str());
  std::printf("  when it was found: %s\n", field("seen").c_str());
}

std::string output_text(const Graph& graph, const std::vector<Datum>& outputs) {
  std::string text;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!has_non_finite_element(outputs[i])) continue;
    text += (text.empty() ? "" : ", ") + ("'" + printable(graph.value(graph.main().outputs[i]).name) + "'");
  }
  return text.empty() ? "every output is finite" : "not finite: " + text;
}

// True when the failure shows in a run of the reference, at an output or on the way.
bool replay_reference(const Witness& witness) {
  FailureFinder failures(witness.graph);
  std::string first;
  RunOptions options = {.seed = witness.seed, .flush_subnormals = witness.flush_subnormals};
  options.watch = [&](const Node& node, std::span<const Datum> inputs, std::span<const Datum> outputs) {
    failures.saw(node, inputs, outputs);
    const bool bad = std::ranges::any_of(outputs, has_non_finite_element);
    if (bad && first.empty()) first = describe(witness.graph, node);
  };
  std::string ended;
  try {
    ended = output_text(witness.graph, run_reference(witness.graph, witness.inputs, options));
  } catch (const Error& error) {
    if (first.empty()) throw;
    ended = "stopped: " + printable(error.what());  // behind the failure, which is what counts
  }
  std::printf("reference: %s", ended.c_str());
  std::printf(first.empty() ? "\n" : "; %s made the first NaN or Inf\n", printable(first).c_str());
  return !first.empty();
}

// What a library gives with the model as it is, or as it optimises it.
std::string replay_text(Worker& worker, Request request, Optimisation level, const Graph& graph) {
  request.level = level;
  const Answer answer = worker.run(request);
  if (!answer.done()) {
    const std::string apart = answer.outcome == Answer::Outcome::refused ? onnx::versions_apart(graph) : "";
    return std::string(name(answer.outcome)) + ": " + printable(answer.text) +
           (apart.empty() ? "" : "\n  perhaps because " + printable(apart));
  }
  std::vector<Datum> outputs;
  for (const auto& [name, datum] : answer.outputs) outputs.push_back(datum);
  return output_text(graph, outputs);
}

void replay_in(Backend& backend, const Witness& witness) {
  const auto library = std::string(backend.kind().library.substr(0, backend.kind().library.find(',')));
  Request request = {.model = witness.bytes};
  for (const auto& [name, datum] : witness.inputs) request.run.inputs.emplace_back(name, datum);
  for (const ValueId id : witness.graph.main().outputs) request.run.outputs.push_back(witness.graph.value(id).name);
  try {
    Worker& worker = backend.worker();
    const std::string title = library + " " + worker.hello().version;
    const std::string text = replay_text(worker, request, Optimisation::none, witness.graph);
    std::printf("%s: %s\n", title.c_str(), text.c_str());
    if (!backend.kind().levels) return;
    const std::string optimised = replay_text(worker, request, Optimisation::all, witness.graph);
    if (optimised != text) std::printf("%s, optimised: %s\n", title.c_str(), optimised.c_str());
  } catch (const Error& error) {
    std::printf("%s: not run: %s\n", library.c_str(), printable(error.what()).c_str());
  }
}

// A library of ONNX Runtime that somebody names is taken in place of one that is installed.
std::optional<Backend> named_onnxruntime(const Options& options) {
  const char* set = std::getenv("FINITY_ONNXRUNTIME");
  const std::string library = !options.onnxruntime.empty() ? options.onnxruntime : set != nullptr ? set : "";
  if (library.empty()) return std::nullopt;
  const std::string program = program_beside("onnxruntime-worker");
  if (program.empty()) throw Error("the program onnxruntime-worker is not beside finity");
  return Backend(parse_backend("ort"), {.command = {program, library}});
}

// Those that were asked for; else LibTorch and ONNX Runtime, as far as they are there.
std::vector<Backend> libraries(const Options& options) {
  std::vector<Backend> found;
  if (!options.backends.empty()) {
    for (const BackendName& name : parse_backends(options.backends)) found.push_back(open_backend(name));
    return found;
  }
  std::optional<Backend> named = named_onnxruntime(options);
  for (const char* name : {"torch", "ort"}) {
    try {
      if (named && std::string_view(name) == "ort") found.push_back(std::move(*named));
      else found.push_back(open_backend(name));
    } catch (const Error&) {
      continue;  // it is not installed
    }
  }
  return found;
}

// Of a run without complaints. What is not decided was not found right.
std::string verdict(const fuzz::Counts& counts) {
  if (counts.refused > 0) return "does not take the model";
  if (counts.undecided == 0) return "nothing wrong";
  if (counts.undecided == counts.elements) return "nothing wrong, but no element could be judged";
  return "nothing wrong (" + std::to_string(100 * (counts.elements - counts.undecided) / counts.elements) +
         "% of the elements could be judged)";
}

// A finding of `finity fuzz`, judged again: in the library it was found in, or in others.
int replay_finding(const Options& options) {
  const fuzz::StoredFinding stored = fuzz::read_finding(options.folder);
  const std::vector<fuzz::BackendSpec> specs =
      options.backends.empty() ? std::vector{stored.backend} : fuzz::parse_specs(options.backends);
  std::printf("%s in %s\n  when it was found, in %s: %s\n", printable(stored.symptom).c_str(),
              printable(stored.op).c_str(), stored.backend.text().c_str(), printable(stored.text).c_str());
  bool shows = false;
  for (const fuzz::BackendSpec& spec : specs) {
    fuzz::Backend backend(spec);
    fuzz::Counts counts;
    // What a library reads without having written it differs from run to run.
    std::vector<fuzz::Complaint> complaints;
    for (int i = 0; i < kReplays && complaints.empty(); ++i)
      complaints = fuzz::judge_again(backend, stored.evidence, counts);
    for (const fuzz::Complaint& c : complaints) {
      std::printf("%s: %s in %s%s: %s\n", spec.text().c_str(), std::string(name(c.symptom)).c_str(), c.op.c_str(),
                  c.level == Optimisation::none ? "" : " (optimised)", printable(c.text).c_str());
      shows |= stored.symptom == name(c.symptom);
    }
    if (complaints.empty()) std::printf("%s: %s\n", spec.text().c_str(), verdict(counts).c_str());
  }
  return shows ? 1 : 0;
}

int replay(const Options& options) {
  if (fuzz::is_finding(options.folder)) return replay_finding(options);
  const nlohmann::json description = read_description(options.folder);
  Witness witness = read_witness(options.folder);
  std::vector<Backend> backends = libraries(options);
  print_description(description);
  const bool is_program = fs::is_regular_file(fs::path(options.folder) / kProgramDescription);
  const bool run_failed = is_program && replay_program(options.folder);
  witness.flush_subnormals = description.is_object() && description.value("flush_subnormals", false);
  const std::string seed = description.is_object() ? description.value("random_ops_seed", "0") : "0";
  std::from_chars(seed.data(), seed.data() + seed.size(), witness.seed);
  if (is_program) std::printf("the last step alone, forward and backward:\n");
  const bool failed = replay_reference(witness) || run_failed;
  for (Backend& backend : backends) replay_in(backend, witness);
  return failed ? 1 : 0;
}

}  // namespace

void add_replay(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("replay", "Run a witness of check or trigger, or a finding of fuzz, again");
  auto options = std::make_shared<Options>();
  command->add_option("folder", options->folder, "Written by --witness, or a folder of findings/")->required();
  command->add_option(
      "--onnxruntime", options->onnxruntime,
      "Shared library of ONNX Runtime to run a witness in (default: $FINITY_ONNXRUNTIME, or the newest that is "
      "installed)");
  command->add_option(
      "--backends", options->backends,
      "Libraries to run it in: torch, ort@1.30.0, ... (default: LibTorch and ONNX Runtime; a finding of fuzz: "
      "where it was found)");
  command->callback([options, &exit_code] { exit_code = replay(*options); });
}

}  // namespace finity

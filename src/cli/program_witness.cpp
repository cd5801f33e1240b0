#include "cli/program_witness.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "cli/witness.h"
#include "exec/torch_worker.h"
#include "formats/npz/npz.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx/test_data.h"
#include "formats/png/png.h"
#include "graph/builder.h"
#include "program/draws.h"
#include "program/read_program.h"
#include "program/remote.h"
#include "program/suspects.h"
#include "program/trainer.h"
#include "report/words.h"
#include "tensor/convert.h"

namespace finity {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kProgramModel = "program.onnx";
constexpr std::string_view kRun = "run.npz";

void write(const fs::path& file, const std::string& bytes) { write_file_atomically(file.string(), bytes); }

// The program with just the samples of the last batch: the run has its own.
void write_description(const fs::path& folder, const Program& program, const TrainingRun& run) {
  Program small = program;
  for (ProgramInput& input : small.inputs) {
    if (!input.draw) input.data = run.last_inputs.at(input.name);
  }
  const PrintedProgram printed = print_program(small, std::string(kProgramModel), "npz:data.npz#");
  write(folder / kProgramDescription, printed.text);
  NamedTensors arrays(printed.data.begin(), printed.data.end());
  write(folder / "data.npz", write_npz(arrays));
  write(folder / kProgramModel, write_onnx(*program.graph));
}

void write_run(const fs::path& folder, const TrainingRun& run) {
  NamedTensors arrays;
  for (const auto& [name, datum] : tensors_of(run)) {
    if (!datum.tensor()->empty()) arrays.emplace_back(name, *datum.tensor());
  }
  write(folder / kRun, write_npz(arrays));
}

// The last step alone: forward and backward pass as one model, with the weights of that moment.
void write_last_step(const fs::path& folder, const Program& program, const TrainingRun& run) {
  GraphBuilder builder(training_step(program));
  NamedTensors arrays;
  std::vector<ValueId> inputs = builder.peek().main().inputs;
  for (const ProgramWeight& weight : program.weights) {
    if (std::ranges::find(inputs, weight.id) == inputs.end()) {
      builder.value(weight.id).constant = make_constant(run.last_weights.at(weight.name));
    }
  }
  const Graph graph = std::move(builder).build();
  fs::create_directories(folder / "test_data_set_0");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string& name = graph.value(inputs[i]).name;
    const auto fed = run.last_inputs.find(name);
    const Tensor& tensor = fed != run.last_inputs.end() ? fed->second : run.last_weights.at(name);
    arrays.emplace_back(name, tensor);
    write(folder / "test_data_set_0" / ("input_" + std::to_string(i) + ".pb"), write_tensor_proto(tensor, name));
  }
  write(folder / kWitnessModel, write_onnx(graph));
  write(folder / "inputs.npz", write_npz(arrays));
}

void write_finding(const fs::path& folder, const Program& program, const ProgramOutcome& outcome,
                   const ProgramSearch& search) {
  const nlohmann::ordered_json json = {
      {"model", program.name},
      {"rule", outcome.rule},
      {"node", outcome.node},
      {"seen", outcome.what},
      {"in_gradient", outcome.in_gradient},
      {"steps", outcome.steps},
      {"strategy", std::string(name(search.strategy))},
      {"seed", search.seed},
      {"random_ops_seed", std::to_string(seed_for(search.seed, "look", outcome.steps))},
      {"flush_subnormals", program.flush_subnormals},
      {"engine", outcome.engine},
      {"replay", "finity replay ."}};
  write(folder / kWitnessDescription, json.dump(2) + "\n");
}

// The suspect loss over the search, logarithmic where it spans many orders.
std::string drawn_trace(const ProgramOutcome& outcome) {
  constexpr double kWidth = 640, kHeight = 240, kEdge = 40;
  std::vector<double> heights;
  for (const double point : outcome.trace) {
    heights.push_back(point > 0 ? std::log10(std::max(point, 1e-50)) : -50);
  }
  const auto [low, high] = std::ranges::minmax(heights);
  const double span = std::max(high - low, 1e-9);
  std::string points;
  for (std::size_t i = 0; i < heights.size(); ++i) {
    char point[48];
    const double x =
        kEdge + kWidth * static_cast<double>(i) / static_cast<double>(std::max<std::size_t>(heights.size() - 1, 1));
    std::snprintf(point, sizeof point, "%.1f,%.1f ", x, kEdge + kHeight * (high - heights[i]) / span);
    points += point;
  }
  char text[640];
  std::snprintf(
      text, sizeof text,
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"720\" height=\"320\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"720\" height=\"320\" fill=\"white\"/>\n"
      "<text x=\"40\" y=\"20\">distance to the unsafe values over %llu passes (powers of ten: %.1f to %.1f)</text>\n",
      static_cast<unsigned long long>(outcome.iterations), high, low);
  return text +
         ("<polyline fill=\"none\" stroke=\"#c03030\" stroke-width=\"1.5\" points=\"" + points + "\"/>\n</svg>\n");
}

// For each sample the nearest of the data.
Tensor nearest_samples(const Tensor& samples, const Tensor& data, std::size_t most) {
  const std::vector<double> own = elements<double>(samples), known = elements<double>(data);
  const auto count = std::min(most, static_cast<std::size_t>(samples.dim(0)));
  const std::size_t width = own.size() / static_cast<std::size_t>(samples.dim(0));
  std::vector<double> nearest;
  for (std::size_t k = 0; k < count; ++k) {
    double best = std::numeric_limits<double>::infinity();
    std::size_t at = 0;
    for (std::size_t from = 0; from < known.size(); from += width) {
      double distance = 0;
      for (std::size_t i = 0; i < width && distance < best; ++i) {
        const double away = own[k * width + i] - known[from + i];
        distance += away * away;
      }
      if (!(distance < best)) continue;
      best = distance;
      at = from;
    }
    nearest.insert(nearest.end(), known.begin() + static_cast<std::ptrdiff_t>(at),
                   known.begin() + static_cast<std::ptrdiff_t>(at + width));
  }
  Dims dims = samples.dims();
  dims[0] = static_cast<std::int64_t>(count);
  return from_elements<double>(samples.dtype(), dims, nearest);
}

// Inputs that are images: those of the last step, and the samples of the data they resemble most.
void write_pictures(const fs::path& folder, const Program& program, const TrainingRun& run) {
  constexpr std::size_t kMost = 64;
  for (const ProgramInput& input : program.inputs) {
    const Tensor& last = run.last_inputs.at(input.name);
    if (!input.batched || input.draw || last.rank() < 2 || last.empty() || !is_float(last.dtype())) continue;
    const std::optional<ImageShape> shape = image_shape(Dims(last.dims().begin() + 1, last.dims().end()));
    if (!shape || !input.range->bounded()) continue;
    std::string name = input.name;
    std::ranges::replace_if(
        name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
    const auto picture = [&](const Tensor& samples) {
      return write_png(picture_of(samples, *shape, input.range->lo, input.range->hi, kMost));
    };
    write(folder / (name + "_after.png"), picture(last));
    if (!input.data.empty()) write(folder / (name + "_before.png"), picture(nearest_samples(last, input.data, kMost)));
  }
}

TrainingRun read_run(const fs::path& folder) {
  const std::string path = (folder / kRun).string();
  const auto file = MappedFile::open(path);
  try {
    NamedData data;
    for (auto& [name, tensor] : read_npz(file->bytes())) data.emplace_back(name, std::move(tensor));
    TrainingRun run = run_from(data);
    if (run.steps.empty()) throw Error("it holds no steps");
    return run;
  } catch (Error& error) {
    error.in(path);
    throw;
  }
}

void say(const std::string& engine, const Repeated& repeated) {
  const std::string when =
      repeated.step == 0 ? "at the first step" : "after " + counted(repeated.step, "training step");
  if (!repeated.failed) std::printf("%s: trained from the start: stays finite\n", engine.c_str());
  else
    std::printf("%s: trained from the start: not finite %s%s\n", engine.c_str(), when.c_str(),
                repeated.weights_failed ? ", in what training computes" : "");
}

}  // namespace

std::string write_program_witness(const Program& program, const ProgramOutcome& outcome, const ProgramSearch& search,
                                  const std::string& folder, std::size_t number) {
  const std::string name = fs::path(program.name).stem().string() + (number > 1 ? "-" + std::to_string(number) : "");
  const fs::path target = fs::path(folder) / name;
  const fs::path partial = target.parent_path() / ("." + target.filename().string() + ".partial");
  try {
    fs::remove_all(partial);
    fs::create_directories(partial);
    write_description(partial, program, outcome.run);
    write_run(partial, outcome.run);
    write_last_step(partial, program, outcome.run);
    write_finding(partial, program, outcome, search);
    write_pictures(partial, program, outcome.run);
    if (outcome.trace.size() > 1) write(partial / "distance.svg", drawn_trace(outcome));
    fs::remove_all(target);
    fs::rename(partial, target);
  } catch (const fs::filesystem_error& error) {
    throw Error("--witness: cannot write " + target.string() + ": " + error.code().message());
  }
  return target.string();
}

bool replay_program(const std::string& folder) {
  const Program program = read_program((fs::path(folder) / kProgramDescription).string());
  const TrainingRun run = read_run(folder);
  bool failed = false;
  if (const std::optional<WorkerOptions> options = torch_worker()) {
    Worker worker(*options);
    const std::optional<Repeated> repeated = repeat_in_worker(program, run, worker);
    if (repeated) {
      say("LibTorch", *repeated);
      failed |= repeated->failed;
    } else {
      std::printf("LibTorch: cannot run this program\n");
    }
  }
  constexpr std::size_t kFew = 200;
  if (run.steps.size() > kFew && failed) {
    std::printf("reference: %s are too many for it\n", counted(run.steps.size(), "step").c_str());
    return failed;
  }
  const std::unique_ptr<TrainingEngine> engine = make_reference_engine(program);
  const std::size_t pass = engine->add_pass({.read = program.watch_ids});
  const Repeated repeated = repeat_run(program, *engine, run, pass);
  say("reference", repeated);
  return failed || repeated.failed;
}

}  // namespace finity

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "base/atomic_file.h"
#include "base/mapped_file.h"
#include "base/memory_error.h"
#include "base/time_limit.h"
#include "cli/commands.h"
#include "cli/format.h"
#include "exec/compare.h"
#include "exec/draw.h"
#include "exec/first_failure.h"
#include "exec/reference.h"
#include "formats/model_format.h"
#include "formats/npz/npz.h"
#include "formats/onnx/test_data.h"
#include "gradient/expand.h"
#include "report/words.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity {

namespace {

namespace fs = std::filesystem;

struct Options {
  std::string model;
  std::vector<std::string> shapes;
  std::string data;
  std::string output;
  std::uint64_t seed = 0;
  double time_limit = 0;
  bool compare = false;
  bool trace = false;
  bool only_nonfinite = false;
  Tolerance tolerance;
};

// Named arrays may hold inputs and, for --compare, expected outputs.
TestData read_named_arrays(const std::string& path, const Graph& graph) {
  const auto file = MappedFile::open(path);
  NamedTensors arrays;
  try {
    arrays = read_npz(file->bytes());
  } catch (Error& error) {
    error.in(path);
    throw;
  }
  TestData data;
  data.outputs.resize(graph.main().outputs.size());
  for (auto& [name, tensor] : arrays) {
    bool used = false;
    for (const ValueId id : graph.main().inputs) {
      if (graph.value(id).name != name) continue;
      // numpy has no bfloat16 and the like: wider arrays stand for them.
      const DType wanted = graph.value(id).type.dtype;
      const bool narrow = is_float(wanted) && is_float(tensor.dtype()) && info(wanted).bits < info(tensor.dtype()).bits;
      data.inputs[name] = narrow ? from_elements<double>(wanted, tensor.dims(), elements<double>(tensor)) : tensor;
      used = true;
    }
    for (std::size_t i = 0; i < graph.main().outputs.size(); ++i) {
      if (graph.value(graph.main().outputs[i]).name != name) continue;
      data.outputs[i] = tensor;
      used = true;
    }
    if (!used) throw Error(path + ": array '" + name + "' is neither an input nor an output of the model");
  }
  return data;
}

TestData read_data(const std::string& path, const Graph& graph) {
  if (!fs::is_directory(path)) return read_named_arrays(path, graph);
  // A test folder with its data sets inside, or one data set.
  if (fs::is_directory(path + "/test_data_set_0")) return read_test_data(path + "/test_data_set_0", graph);
  return read_test_data(path, graph);
}

// Sizes of the given inputs are bindings too.
Bindings bindings_for(const Options& options, const Inputs& inputs) {
  Bindings bindings;
  for (const std::string& shape : options.shapes) add_binding(bindings, shape);
  for (const auto& [name, datum] : inputs) {
    if (datum.tensor() != nullptr && !bindings.inputs.contains(name)) bindings.inputs[name] = datum.tensor()->dims();
  }
  return bindings;
}

void check_dtypes(const Graph& graph, const Inputs& inputs) {
  for (const ValueId id : graph.main().inputs) {
    const auto given = inputs.find(graph.value(id).name);
    if (given == inputs.end() || given->second.tensor() == nullptr) continue;
    const DType wanted = graph.value(id).type.dtype;
    const DType actual = given->second.tensor()->dtype();
    if (wanted != DType::undefined && wanted != actual) {
      throw Error("input '" + given->first + "' is " + std::string(name(actual)) + ", the model declares " +
                  std::string(name(wanted)));
    }
  }
}

void print_trace(const Graph& graph, const Node& node, std::span<const Datum> outputs, bool only_nonfinite) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!node.outputs[i].valid() || (only_nonfinite && !has_non_finite_element(outputs[i]))) continue;
    std::printf("%s  %s  %s\n", describe(graph, node).c_str(), graph.value(node.outputs[i]).name.c_str(),
                describe(outputs[i]).c_str());
  }
}

void print_outputs(const Graph& graph, const std::vector<Datum>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    std::printf("%s  %s\n", graph.value(graph.main().outputs[i]).name.c_str(), describe(outputs[i]).c_str());
  }
}

void print_failure(const Graph& graph, const FirstFailure& failure) {
  std::printf("  %s made it first: element %s of '%s' is %s\n", printable(describe(graph, *failure.node)).c_str(),
              to_string(failure.index).c_str(), printable(graph.value(failure.value).name).c_str(),
              number_text(failure.element, failure.dtype).c_str());
  for (const OperandThere& operand : failure.operands) {
    const std::string there = operand.element
                                  ? "is " + number_text(*operand.element, operand.datum.tensor()->dtype()) + " there"
                                  : "is " + describe(operand.datum);
    std::printf("    operand '%s' %s\n", printable(graph.value(operand.value).name).c_str(), there.c_str());
  }
}

// Says who made the elements of the outputs that are not finite. False when there are some and nothing excuses them.
bool outputs_are_finite(const Graph& graph, const Inputs& inputs, const std::vector<Datum>& outputs,
                        const FailureFinder& failures) {
  bool finite = true;
  std::set<const FirstFailure*> told;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!has_non_finite_element(outputs[i])) continue;
    finite = false;
    const ValueId id = graph.main().outputs[i];
    const FirstFailure* failure = failures.behind(id);
    const std::string start = "output '" + printable(graph.value(id).name) + "' is not finite";
    if (failure == nullptr) {
      const ValueId given = failures.given_behind(id);
      const std::string what =
          given.valid() ? "'" + printable(graph.value(given).name) + "'" : "an input or a constant";
      std::printf("%s because %s is not\n", start.c_str(), what.c_str());
    } else std::printf("%s%s\n", start.c_str(), told.contains(failure) ? ": the same cause" : "");
    if (failure != nullptr && told.insert(failure).second) print_failure(graph, *failure);
  }
  const auto given = [](const auto& input) { return has_non_finite_element(input.second); };
  const bool excused = std::ranges::any_of(inputs, given);
  if (!finite && excused) std::printf("the inputs were not finite either\n");
  return finite || excused;
}

void write_outputs(const std::string& path, const Graph& graph, const std::vector<Datum>& outputs) {
  NamedTensors arrays;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = graph.value(graph.main().outputs[i]).name;
    if (const Tensor* tensor = outputs[i].tensor()) arrays.emplace_back(name, *tensor);
    const Sequence* items = outputs[i].sequence();
    for (std::size_t k = 0; items != nullptr && k < items->size(); ++k) {
      if (const Tensor* tensor = (*items)[k].tensor()) arrays.emplace_back(name + "." + std::to_string(k), *tensor);
    }
  }
  write_file_atomically(path, write_npz(arrays));
}

// True when every expected output was met.
bool print_comparison(const Graph& graph, const std::vector<Datum>& outputs, const TestData& data,
                      const Tolerance& tolerance) {
  bool good = true;
  std::size_t compared = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const std::string& name = graph.value(graph.main().outputs[i]).name;
    if (!outputs[i].present() && i < data.outputs.size() && data.outputs[i].present()) {
      std::printf("compare %s: not computed\n", name.c_str());
      good = false;
      continue;
    }
    if (i >= data.outputs.size() || !data.outputs[i].present()) {
      std::printf("compare %s: nothing to compare with\n", name.c_str());
      continue;
    }
    const Compared result = compare(outputs[i], data.outputs[i], tolerance);
    ++compared;
    good = good && result.within;
    if (!result.same_form) {
      std::printf("compare %s: %s\n", name.c_str(), result.why.c_str());
      continue;
    }
    std::printf("compare %s: %s, largest difference %s absolute, %s relative", name.c_str(),
                result.identical ? "identical"
                : result.within  ? "within tolerance"
                                 : "DIFFERENT",
                short_number(result.largest_absolute).c_str(), short_number(result.largest_relative).c_str());
    if (result.beyond > 0) std::printf(", %s elements beyond the tolerance", with_thousands(result.beyond).c_str());
    std::printf("\n");
  }
  if (compared == 0) throw Error("--compare: the data holds no expected outputs");
  return good;
}

std::vector<Datum> evaluate(const Graph& graph, const Options& options, Inputs& inputs, std::vector<Note>& lost,
                            FailureFinder& failures) {
  check_dtypes(graph, inputs);
  const Types types = infer_types(graph, bindings_for(options, inputs));
  if (options.data.empty()) draw_inputs(graph, types, options.seed, inputs);
  RunOptions run_options{.seed = options.seed, .unsupported = &lost};
  if (options.trace) {
    run_options.trace = [&](const Node& node, std::span<const Datum> results) {
      print_trace(graph, node, results, options.only_nonfinite);
    };
  }
  run_options.watch = [&](const Node& node, std::span<const Datum> operands, std::span<const Datum> results) {
    failures.saw(node, operands, results);
  };
  std::vector<Datum> outputs = run_reference(graph, inputs, run_options);
  if (!lost.empty() && std::ranges::none_of(outputs, &Datum::present))
    throw Error(lost.front().where + ": " + lost.front().text);
  return outputs;
}

int run(const Options& options) {
  std::vector<Note> notes;
  const Graph graph = with_gradients_written_out(read_model(options.model, notes, bindings_for(options, {})));
  TestData data;
  if (!options.data.empty()) data = read_data(options.data, graph);
  if (options.compare && options.data.empty()) throw Error("--compare needs --data with the expected outputs");
  std::vector<Datum> outputs;
  std::vector<Note> lost;
  FailureFinder failures(graph);
  try {
    const TimeLimit limit(options.time_limit);
    with_memory_errors([&] { outputs = evaluate(graph, options, data.inputs, lost, failures); });
  } catch (Error& error) {
    error.in(options.model);
    throw;
  }
  if (options.data.empty() && !data.inputs.empty()) {
    std::printf("inputs drawn with seed %llu: floats in [0, 1), integers in [0, 10)\n",
                static_cast<unsigned long long>(options.seed));
  }
  print_outputs(graph, outputs);
  print_notes(lost);
  const bool finite = outputs_are_finite(graph, data.inputs, outputs, failures);
  if (!options.output.empty()) write_outputs(options.output, graph, outputs);
  if (!options.compare) return finite ? 0 : 1;
  return print_comparison(graph, outputs, data, options.tolerance) ? 0 : 1;
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "run", "Evaluate a model with the reference evaluation; exit 1 when finite inputs give NaN or Inf");
  auto options = std::make_shared<Options>();
  command->add_option("model", options->model, "ONNX or text file")->required();
  command->add_option("--data", options->data,
                      "test_data_set folder, a folder of them, or an .npz file with named arrays");
  command->add_option("--shape", options->shapes, "Bind dimensions: x:1,3,224,224 or batch=1 (repeatable)");
  command->add_option("--seed", options->seed, "For drawn inputs and random ops (default 0)");
  command->add_option("--time-limit", options->time_limit, "Seconds after which the run is given up");
  command->add_option("-o,--output", options->output, "Write the outputs to this .npz file");
  command->add_flag("--compare", options->compare,
                    "Compare with the expected outputs in the data; exit 1 when they differ");
  command->add_option("--rtol", options->tolerance.relative, "Relative tolerance of --compare (default 1e-3)");
  command->add_option("--atol", options->tolerance.absolute, "Absolute tolerance of --compare (default 1e-7)");
  command->add_flag("--trace", options->trace,
                    "Print the range and the first non-finite element of every node's outputs");
  command
      ->add_flag("--only-nonfinite", options->only_nonfinite, "With --trace: only outputs that hold NaN or infinities")
      ->needs("--trace");
  command->callback([options, &exit_code] { exit_code = run(*options); });
}

}  // namespace finity

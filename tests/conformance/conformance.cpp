#include "conformance/conformance.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/atomic_file.h"
#include "base/error.h"
#include "exec/compare.h"
#include "exec/reference.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx/test_data.h"
#include "gradient/expand.h"
#include "ops/table/op.h"
#include "support/support.h"
#include "types/infer.h"

namespace finity {

namespace fs = std::filesystem;

std::vector<std::string> official_tests(const std::string& root) {
  std::vector<std::string> tests;
  for (const char* suite : {"node", "simple", "pytorch-converted", "pytorch-operator"}) {
    for (const auto& entry : fs::directory_iterator(fs::path(root) / suite)) {
      if (fs::exists(entry.path() / "model.onnx")) tests.push_back(suite + ("/" + entry.path().filename().string()));
    }
  }
  std::ranges::sort(tests);
  return tests;
}

namespace {

Outcome run_data_set(const Graph& graph, const std::string& directory) {
  const TestData data = read_test_data(directory, graph);
  const Types types = infer_types(graph);
  const std::vector<Datum> outputs = run_reference(graph, data.inputs);
  if (const std::string why = type_contradiction(graph, types, outputs); !why.empty()) return {"failed", why};
  Outcome outcome{"exact", ""};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Compared result = compare(outputs[i], data.outputs[i]);
    if (!result.within) {
      std::ostringstream why;
      why << "output " << i << ": " << result.why;
      if (result.same_form) why << result.beyond << " elements differ by up to " << result.largest_absolute;
      return {"failed", why.str()};
    }
    if (!result.identical) outcome.grade = "tolerance";
  }
  return outcome;
}

// Where the expected data itself is wrong; reviewed by hand.
std::string data_problem(const std::string& test) {
  if (test.find("FLOAT_to_BFLOAT16") != std::string::npos) {
    return "the data of ONNX 1.12 cut bfloat16 off instead of rounding to nearest";
  }
  if (test == "node/test_adam_multiple") return "the data were made with epsilon 0.01, the node does not set it";
  return {};
}

bool draws_random_numbers(const Graph& graph) {
  return std::ranges::any_of(graph.nodes(),
                             [](const Node& node) { return node.op != nullptr && node.op->traits.random; });
}

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  std::ranges::replace(text, '\t', ' ');
  return text;
}

}  // namespace

Outcome run_official_test(const std::string& root, const std::string& test) {
  const std::string directory = root + "/" + test;
  try {
    std::vector<Note> notes;
    const Graph graph = with_gradients_written_out(read_onnx(directory + "/model.onnx", notes));
    Outcome worst{"exact", ""};
    for (int set = 0; fs::exists(directory + "/test_data_set_" + std::to_string(set)); ++set) {
      const Outcome outcome = run_data_set(graph, directory + "/test_data_set_" + std::to_string(set));
      if (outcome.grade == "failed" && draws_random_numbers(graph)) {
        return {"unsupported", "the expected values depend on numpy's random generator"};
      }
      if (outcome.grade == "failed" && !data_problem(test).empty()) return {"unsupported", data_problem(test)};
      if (outcome.grade == "failed") return {"failed", one_line(outcome.reason)};
      if (outcome.grade == "tolerance") worst = outcome;
    }
    return worst;
  } catch (const Unsupported& error) {
    return {"unsupported", one_line(error.what())};
  } catch (const std::exception& error) {
    return {"failed", one_line(error.what())};
  }
}

std::map<std::string, Outcome> read_outcomes(const std::string& path) {
  std::map<std::string, Outcome> result;
  std::istringstream lines(read_text_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream cells(line);
    std::string test;
    Outcome outcome;
    std::getline(cells, test, '\t');
    std::getline(cells, outcome.grade, '\t');
    std::getline(cells, outcome.reason);
    result[test] = outcome;
  }
  return result;
}

void write_outcomes(const std::string& path, const std::map<std::string, Outcome>& outcomes) {
  std::string text =
      "# What the reference evaluation gives for each official ONNX test (package libonnx-testdata):\n"
      "#   exact        every output bit for bit\n"
      "#   tolerance    within ONNX's own tolerance (relative 1e-3, absolute 1e-7)\n"
      "#   unsupported  with the reason\n"
      "# Changed only deliberately: build/bin/conformance --update\n";
  for (const auto& [test, outcome] : outcomes) {
    text += test + "\t" + outcome.grade + (outcome.reason.empty() ? "" : "\t" + outcome.reason) + "\n";
  }
  write_file_atomically(path, text);
}

}  // namespace finity

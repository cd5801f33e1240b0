#include "backends/probe.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <system_error>

#include "backends/probe_cases.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "exec/reference.h"
#include "formats/onnx/onnx.h"
#include "formats/text/cases.h"
#include "graph/builder.h"
#include "ops/table/op.h"
#include "types/infer.h"

namespace finity {

namespace fs = std::filesystem;

namespace {

constexpr int kCasesOfOp = 6;

struct Probe {
  std::string op = {};
  Graph graph = {};
  NamedData inputs = {};
};

NamedData inputs_of(const OpCase& test) {
  NamedData inputs;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) {
    inputs.emplace_back(test.graph.value(test.graph.main().inputs[i]).name, test.inputs[i]);
  }
  return inputs;
}

// Cases of errors and of what the reference does not run prove nothing.
bool is_valid(const OpCase& test) {
  if (!test.error.empty() || test.graph.main().nodes.empty()) return false;
  const auto unknown = [](const Node& node) { return node.op == nullptr; };
  if (std::ranges::any_of(test.graph.nodes(), unknown)) return false;
  try {
    const NamedData inputs = inputs_of(test);
    infer_types(test.graph);
    run_reference(test.graph, Inputs(inputs.begin(), inputs.end()));
    return true;
  } catch (const Error&) {
    return false;
  }
}

std::vector<Probe> probes(int cases_of_op) {
  std::map<std::string, int> count;
  std::vector<Probe> result;
  for (const std::string_view file : probe_cases()) {
    for (OpCase& test : parse_cases(file, "cases")) {
      if (test.graph.main().nodes.empty()) continue;
      const Node& last = test.graph.node(test.graph.main().nodes.back());
      // Ops of finity's own are no library's business.
      if (last.op == nullptr || last.op->identity.domain == "finity") continue;
      if (count[qualified_name(*last.op)] >= cases_of_op || !is_valid(test)) continue;
      ++count[qualified_name(*last.op)];
      NamedData inputs = inputs_of(test);
      result.push_back({.op = qualified_name(*last.op), .graph = std::move(test.graph), .inputs = std::move(inputs)});
    }
  }
  return result;
}

Answer run_once(Backend& backend, const Graph& graph, const NamedData& inputs) {
  RunRequest run{.inputs = inputs};
  for (const ValueId id : graph.main().outputs) run.outputs.push_back(graph.value(id).name);
  return backend.worker().run({.model = write_onnx(graph), .run = std::move(run)});
}

Graph with_constants(const Graph& graph, const NamedData& inputs) {
  GraphBuilder builder(graph);
  std::vector<ValueId>& ids = builder.body(Graph::kMain).inputs;
  for (std::size_t i = 1; i < ids.size(); ++i) {
    const Tensor* tensor = inputs[i].second.tensor();
    if (tensor == nullptr) continue;
    builder.value(ids[i]).constant = make_constant(*tensor);
    builder.body(Graph::kMain).constants.push_back(ids[i]);
  }
  ids.resize(std::min<std::size_t>(ids.size(), 1));
  return std::move(builder).build();
}

// Changes with whatever the answers depend on.
std::string state_of(Backend& backend) {
  std::size_t hash = std::hash<std::string>{}(backend.name());
  const auto mix = [&](std::size_t more) { hash = hash * 1099511628211U ^ more; };
  for (const std::string_view file : probe_cases()) mix(std::hash<std::string_view>{}(file));
  for (const std::string& part : backend.command()) {
    std::error_code missing;
    const auto time = fs::last_write_time(part, missing);
    if (!missing) mix(static_cast<std::size_t>(time.time_since_epoch().count()));
  }
  std::ostringstream text;
  text << std::hex << hash;
  return text.str();
}

std::string cache_file(Backend& backend) {
  return (fs::path(cache_folder()) / ("support-" + backend.name() + ".tsv")).string();
}

// Nothing when the file is missing, of another state, or damaged.
Support read_support(const std::string& path, const std::string& state) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line != "# " + state) return {};
  Support support;
  while (std::getline(file, line)) {
    std::istringstream cells(line);
    std::string op;
    OpSupport counts;
    if (!(cells >> op >> counts.ran >> counts.declined >> counts.refused >> counts.crashed)) return {};
    support[op] = counts;
  }
  return support;
}

void write_support(const std::string& path, const std::string& state, const Support& support) {
  std::string text = "# " + state + "\n";
  for (const auto& [op, counts] : support) {
    text += op + "\t" + std::to_string(counts.ran) + "\t" + std::to_string(counts.declined) + "\t" +
            std::to_string(counts.refused) + "\t" + std::to_string(counts.crashed) + "\n";
  }
  std::error_code ignored;
  fs::create_directories(fs::path(path).parent_path(), ignored);
  write_file_atomically(path, text);
}

}  // namespace

std::string qualified_name(const OpDef& op) {
  return op.identity.domain.empty() ? std::string(op.identity.name)
                                    : std::string(op.identity.domain) + "." + std::string(op.identity.name);
}

Answer run_either_way(Backend& backend, const Graph& graph, const NamedData& inputs) {
  Answer answer = run_once(backend, graph, inputs);
  if (answer.outcome != Answer::Outcome::unsupported || inputs.size() < 2) return answer;
  return run_once(backend, with_constants(graph, inputs), {inputs.front()});
}

Support probe(Backend& backend, int cases_of_op, const std::function<void(double)>& tell) {
  Support support;
  const std::vector<Probe> all = probes(cases_of_op);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (i % 50 == 0) tell(static_cast<double>(i) / static_cast<double>(all.size()));
    const Answer answer = run_either_way(backend, all[i].graph, all[i].inputs);
    OpSupport& counts = support[all[i].op];
    switch (answer.outcome) {
      case Answer::Outcome::done: ++counts.ran; break;
      case Answer::Outcome::unsupported: ++counts.declined; break;
      case Answer::Outcome::refused: ++counts.refused; break;
      default: ++counts.crashed;
    }
  }
  return support;
}

Support support_of(Backend& backend, const std::function<void(double)>& tell, bool anew) {
  const std::string path = cache_file(backend), state = state_of(backend);
  if (!anew) {
    Support known = read_support(path, state);
    if (!known.empty()) return known;
  }
  Support support = probe(backend, kCasesOfOp, tell);
  write_support(path, state, support);
  return support;
}

}  // namespace finity

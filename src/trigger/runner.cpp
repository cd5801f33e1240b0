#include "trigger/runner.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "exec/first_failure.h"
#include "formats/onnx/onnx.h"
#include "graph/builder.h"
#include "ops/table/build_call.h"
#include "ops/table/op.h"

namespace finity {

namespace {

constexpr double kSlowSeconds = 0.1;

// What an op draws lies in its range.
bool is_draw(const CheckedGraph& model, const Node& node, ValueId out) {
  // What Dropout and Bernoulli give also depends on their operands.
  const bool only_draws = node.op != nullptr && node.op->traits.random && node.op->analysis.vjp == flat;
  const bool draws = only_draws && node.body == Graph::kMain && node.outputs.size() == 1;
  return draws && out.valid() && !model.analysis.ranges[out.at()].hull().integer && model.analysis.reached[out.at()] &&
         is_float(model.types[out].dtype) && model.types[out].dims().has_value();
}

}  // namespace

Premises search_space(const CheckedGraph& model) {
  Premises space = model.premises;
  for (const Node& node : model.graph.nodes()) {
    for (const ValueId out : node.outputs) {
      if (is_draw(model, node, out)) space.of[out.at()] = std::make_shared<AbsTensor>(model.analysis.ranges[out.at()]);
    }
  }
  return space;
}

Runner::Runner(const CheckedGraph& model, std::uint64_t seed, Worker* torch)
    : model_(model), space_(search_space(model)), seed_(seed), torch_(torch) {}

void Runner::prepare_request() {
  GraphBuilder builder(model_.graph);
  std::set<ValueId> outputs(model_.graph.main().outputs.begin(), model_.graph.main().outputs.end());
  for (const Finding& finding : model_.analysis.findings) {
    const bool open = finding.verdict == Verdict::possible && finding.node.valid();
    if (!open || model_.graph.node(finding.node).body != Graph::kMain) continue;
    for (const ValueId out : model_.graph.node(finding.node).outputs) {
      if (out.valid() && is_float(model_.types[out].dtype) && outputs.insert(out).second) {
        builder.add_output(Graph::kMain, out);
      }
    }
  }
  const Graph graph = std::move(builder).build();
  request_.model = write_onnx(graph);
  for (const ValueId id : graph.main().outputs) request_.run.outputs.push_back(graph.value(id).name);
}

// LibTorch saw nothing that is not finite. When in doubt the reference runs.
bool Runner::looks_harmless(const Drawn& drawn) {
  if (!slow_ || torch_ == nullptr || !drawn.weights.empty() || drawn.flush_subnormals) return false;
  if (request_.model.empty()) prepare_request();
  request_.run.inputs.clear();
  for (const auto& [name, datum] : drawn.inputs) request_.run.inputs.emplace_back(name, datum);
  const Answer answer = torch_->run(request_);
  if (!answer.done()) torch_ = nullptr;
  const auto is_bad = [](const auto& output) { return has_non_finite_element(output.second); };
  return answer.done() && std::ranges::none_of(answer.outputs, is_bad);
}

std::vector<FailingRun> Runner::run(const Drawn& drawn) {
  ++runs_;
  if (looks_harmless(drawn)) return {};
  const auto start = std::chrono::steady_clock::now();
  VerifyReport report;
  const std::vector<Datum> outputs = verify_run(model_.graph, model_.analysis, drawn, seed_, report);
  slow_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > kSlowSeconds;
  if (report.failed > 0) {
    failure_ = report.first_failure;
    ++stopped_;
  }
  const auto shared = std::make_shared<const Drawn>(drawn);
  const bool shows = outputs.empty() || std::ranges::any_of(outputs, has_non_finite_element);
  for (FailingRun& witness : report.witnesses) {
    if (!shows) witness.what += " (the outputs stay finite)";
    witness.drawn = shared;
    witness.outputs = outputs;
  }
  return std::move(report.witnesses);
}

void Runner::forget_stops() {
  failure_.clear();
  stopped_ = 0;
}

std::optional<FailingRun> Runner::run_for(const Drawn& drawn, std::size_t finding) {
  for (FailingRun& witness : run(drawn)) {
    if (witness.finding == finding) return std::move(witness);
  }
  return std::nullopt;
}

}  // namespace finity

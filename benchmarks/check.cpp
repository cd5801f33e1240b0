// Analysis of long chains and of networks of full size. Targets: 200,000 nodes in at
// most 1 s and three times the time of reading; growth linear in the nodes; BERT-base
// and ResNet-50 under 1 s, the scan of the weights included.
#include <benchmark/benchmark.h>

#include <map>

#include "check/analyze.h"
#include "formats/onnx/onnx.h"
#include "models.h"

namespace {

using finity::Graph;

Graph read(const std::string& model) {
  std::vector<finity::Note> notes;
  return finity::read_onnx({.bytes = std::as_bytes(std::span(model.data(), model.size())),
                            .owner = nullptr,
                            .name = "model",
                            .directory = {}},
                           notes);
}

const std::string& chain(std::int64_t nodes) {
  static std::map<std::int64_t, std::string> models;
  std::string& model = models[nodes];
  if (model.empty()) model = finity::chain_model(nodes);
  return model;
}

void run_analysis(benchmark::State& state, const std::string& model) {
  const Graph graph = read(model);
  const finity::Types types = finity::infer_types(graph);
  std::size_t findings = 0;
  for (auto _ : state) {
    const finity::Premises premises = finity::premises(graph, types, {}, 64);
    findings = 0;
    for (const finity::Finding& finding : finity::analyze(graph, types, premises).findings) {
      findings += finding.verdict != finity::Verdict::proved ? 1 : 0;
    }
  }
  state.counters["nodes"] = static_cast<double>(graph.nodes().size());
  state.counters["alarms"] = static_cast<double>(findings);
}

void read_chain(benchmark::State& state) {
  const std::string& model = chain(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(read(model).nodes().size());
}

void analyze_chain(benchmark::State& state) { run_analysis(state, chain(state.range(0))); }
void analyze_bert(benchmark::State& state) { run_analysis(state, finity::bert_model()); }
void analyze_resnet(benchmark::State& state) { run_analysis(state, finity::resnet_model()); }

BENCHMARK(read_chain)->Arg(200'000)->Unit(benchmark::kMillisecond);
BENCHMARK(analyze_chain)
    ->Arg(1'000)
    ->Arg(10'000)
    ->Arg(100'000)
    ->Arg(200'000)
    ->Arg(1'000'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(analyze_bert)->Unit(benchmark::kMillisecond);
BENCHMARK(analyze_resnet)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();

// Reading a 200,000-node graph, next to protobuf's bare parse of the same bytes.
// Target: read_onnx takes at most twice the parse's CPU time.
#include <benchmark/benchmark.h>
#include <onnx/onnx_pb.h>

#include <memory>

#include "formats/onnx/onnx.h"
#include "models.h"
#include "types/infer.h"

namespace {

constexpr std::int64_t kNodes = 200'000;

const std::string& model() {
  static const std::string kModel = finity::chain_model(kNodes);
  return kModel;
}

finity::Graph read() {
  std::vector<finity::Note> notes;
  return finity::read_onnx({.bytes = std::as_bytes(std::span(model().data(), model().size())),
                            .owner = nullptr,
                            .name = "chain",
                            .directory = {}},
                           notes);
}

void protobuf_parse(benchmark::State& state) {
  model();
  for (auto _ : state) {
    onnx::ModelProto proto;
    if (!proto.ParseFromString(model())) state.SkipWithError("does not parse");
    benchmark::DoNotOptimize(proto.graph().node_size());
  }
}

void read_onnx(benchmark::State& state) {
  model();
  for (auto _ : state) benchmark::DoNotOptimize(read().nodes().size());
}

void infer_types(benchmark::State& state) {
  const finity::Graph graph = read();
  for (auto _ : state) benchmark::DoNotOptimize(finity::infer_types(graph).of.size());
}

BENCHMARK(protobuf_parse)->Unit(benchmark::kMillisecond);
BENCHMARK(read_onnx)->Unit(benchmark::kMillisecond);
BENCHMARK(infer_types)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();

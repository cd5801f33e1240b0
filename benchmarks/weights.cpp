// The pass over constant weights that bounds matrix products and convolutions, in
// bytes of weights per second; and whole range rules on layers of usual size.
#include <benchmark/benchmark.h>

#include <vector>

#include "base/rng.h"
#include "graph/builder.h"
#include "ops/linear/weight_sums.h"
#include "ops/table/op.h"
#include "ops/table/range_call.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity {
namespace {

Tensor random_weights(DType dtype, const Dims& dims) {
  Rng rng(1);
  std::vector<float> values(static_cast<std::size_t>(element_count(dims)));
  for (float& value : values) value = static_cast<float>(rng.uniform(-1, 1));
  return from_elements<float>(dtype, dims, values);
}

// Summed over the rows (MatMul's layout) or over the columns (that of Gemm with transB, and of Conv).
void sum_weights(benchmark::State& state, DType dtype, bool over_rows) {
  constexpr std::int64_t kSize = 3072;
  const Tensor weights = random_weights(dtype, {kSize, kSize});
  const WeightAxis axes[] = {{kSize, over_rows}, {kSize, !over_rows}};
  for (auto _ : state) benchmark::DoNotOptimize(weight_sums({dtype, weights.bytes()}, axes).magnitude.data());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(weights.bytes().size()));
  state.SetItemsProcessed(state.iterations() * weights.size());
}
BENCHMARK_CAPTURE(sum_weights, float32_rows, DType::float32, true);
BENCHMARK_CAPTURE(sum_weights, float32_columns, DType::float32, false);
BENCHMARK_CAPTURE(sum_weights, float16_rows, DType::float16, true);
BENCHMARK_CAPTURE(sum_weights, float16_columns, DType::float16, false);
BENCHMARK_CAPTURE(sum_weights, bfloat16_rows, DType::bfloat16, true);
BENCHMARK_CAPTURE(sum_weights, int8_rows, DType::int8, true);

// One layer with a constant second operand, as the checker runs it.
void range_rule(benchmark::State& state, const char* op, const Dims& x, const Dims& w) {
  GraphBuilder builder;
  const BodyId body = builder.add_body("g");
  Node node;
  node.op = find_op("", op);
  node.op_type = node.op->identity.name;
  node.version = 13;
  node.body = body;
  builder.info().opsets[""] = 13;
  node.inputs = {builder.add_input(body, "x", Type::tensor_of(DType::float32, x)),
                 builder.add_constant(body, "w", make_constant(random_weights(DType::float32, w)))};
  node.outputs = {builder.add_value(body, "y")};
  builder.add_output(body, node.outputs[0]);
  builder.add_node(node);
  const Graph graph = std::move(builder).build();
  const Types types = infer_types(graph);
  const AbsTensor range = uniform(DType::float32, x, Range{.lo = -50, .hi = 50});
  const AbsTensor weights = uniform(DType::float32, w, Range{.lo = -1, .hi = 1});
  const RangeSettings settings;
  for (auto _ : state) {
    Symbols symbols;
    const Node& one = graph.nodes()[0];
    RangeCall call(call_of(graph, one),
                   {{&range, &types[one.inputs[0]], nullptr, nullptr},
                    {&weights, &types[one.inputs[1]], graph.value(one.inputs[1]).constant, nullptr}},
                   {&types[one.outputs[0]]}, settings, symbols);
    one.op->analysis.range(call);
    benchmark::DoNotOptimize(call.outs().data());
  }
  state.SetBytesProcessed(state.iterations() * element_count(w) * 4);
}
BENCHMARK_CAPTURE(range_rule, matmul_768x3072, "MatMul", {1, 128, 768}, {768, 3072});
BENCHMARK_CAPTURE(range_rule, matmul_768x30522, "MatMul", {1, 128, 768}, {768, 30522});
BENCHMARK_CAPTURE(range_rule, conv_512x512x3x3, "Conv", {1, 512, 14, 14}, {512, 512, 3, 3});
BENCHMARK_CAPTURE(range_rule, conv_64x3x7x7, "Conv", {1, 3, 224, 224}, {64, 3, 7, 7});
BENCHMARK_CAPTURE(range_rule, matmul_8x8, "MatMul", {1, 8}, {8, 8});
BENCHMARK_CAPTURE(range_rule, conv_8x8x1x1, "Conv", {1, 8, 4, 4}, {8, 8, 1, 1});

}  // namespace
}  // namespace finity

BENCHMARK_MAIN();

// Neighbouring numbers, run by run, so that a bound that is missed anywhere shows: kernels cut their argument into
// pieces, and the ends of the pieces are where they fail.
#include <algorithm>
#include <bit>
#include <cmath>

#include "base/error.h"
#include "formats/text/text.h"
#include "kernels/subjects.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity::kernels {

namespace {

bool sweepable(const OpDef& op) {
  const Signature& signature = signature_of(op);
  return op.traits.elementwise && !op.traits.random && op.analysis.range != nullptr && op.identity.until == 0 &&
         signature.inputs.size() == 1 && signature.outputs.size() == 1;
}

// The op on as many numbers. Operator set 18 defined bodies of many functions, which a runtime may take there only.
std::optional<Graph> call_of(const OpDef& op, DType dtype, std::size_t count, int opset) {
  const std::string domain(op.identity.domain);
  const std::string text =
      "opset " + std::to_string(opset) + "\n" + (domain.empty() ? "" : "opset " + domain + " 1\n") +
      "graph sweep (x: " + std::string(name(dtype)) + "[" + std::to_string(count) +
      "]) -> (y) {\n  y = " + (domain.empty() ? "" : domain + ".") + std::string(op.identity.name) + "(x)\n}\n";
  try {
    Graph graph = parse_graph(text, "sweep");
    infer_types(graph);
    return graph;
  } catch (const Error&) {
    return std::nullopt;  // not in this format, or it wants attributes
  }
}

void visit_run(const OpDef& op, const Graph& graph, const Tensor& numbers, const std::string& name,
               const Visitor& visit) {
  Subject subject{.op = qualified_op(graph.nodes().front()), .name = std::string(op.identity.name) + ", " + name};
  subject.types = infer_types(graph);
  subject.dtype = dtype_label(graph, subject.types, graph.nodes().front());
  subject.graph = graph;
  const ValueId id = graph.main().inputs.front();
  subject.inputs[graph.value(id).name] = numbers;
  const std::vector<double> values = elements<double>(numbers);
  const auto [lo, hi] = std::ranges::minmax(values);
  subject.premises = premises(graph, subject.types, {}, 1);
  subject.premises->of[id.at()] =
      std::make_shared<AbsTensor>(uniform(numbers.dtype(), numbers.dims(), from_bounds(numbers.dtype(), lo, hi)));
  visit(subject);
}

void sweep_float32(const OpDef& op, std::uint64_t seed, std::uint64_t step, int opset, const Visitor& visit) {
  constexpr std::uint32_t kRun = 1 << 16;
  const std::optional<Graph> graph = call_of(op, DType::float32, kRun, opset);
  if (!graph) return;
  const auto first = std::bit_cast<std::uint32_t>(0x1p-14F), last = std::bit_cast<std::uint32_t>(0x1p8F);
  Rng rng(seed + std::hash<std::string_view>{}(op.identity.name));
  for (std::uint32_t start = first + kRun * static_cast<std::uint32_t>(rng.below(step)); start < last;
       start += kRun * static_cast<std::uint32_t>(step)) {
    for (const std::uint32_t sign : {0U, 0x80000000U}) {
      Tensor numbers(DType::float32, {kRun});
      const std::span<float> values = numbers.mutable_data<float>();
      for (std::uint32_t i = 0; i < kRun; ++i) values[i] = std::bit_cast<float>((start + i) | sign);
      visit_run(op, *graph, numbers, "from " + std::to_string(values.front()), visit);
    }
  }
}

void sweep_float16(const OpDef& op, int opset, const Visitor& visit) {
  constexpr std::uint16_t kRun = 256, kInfinity = 0x7c00;
  const std::optional<Graph> graph = call_of(op, DType::float16, kRun, opset);
  if (!graph) return;
  for (const std::uint16_t sign : {0, 0x8000}) {
    for (std::uint16_t start = 0; start < kInfinity; start = static_cast<std::uint16_t>(start + kRun)) {
      Tensor numbers(DType::float16, {kRun});
      const std::span<std::uint16_t> bits = numbers.mutable_data<std::uint16_t>();
      for (std::uint16_t i = 0; i < kRun; ++i) bits[i] = static_cast<std::uint16_t>((start + i) | sign);
      visit_run(op, *graph, numbers, "bits from " + std::to_string(start | sign), visit);
    }
  }
}

}  // namespace

void each_sweep(std::uint64_t seed, std::uint64_t step, const Visitor& visit) {
  for (const OpDef* op : all_ops()) {
    if (!sweepable(*op)) continue;
    for (const int opset : {18, 22}) {
      sweep_float16(*op, opset, visit);
      sweep_float32(*op, seed, step, opset, visit);
    }
  }
}

}  // namespace finity::kernels

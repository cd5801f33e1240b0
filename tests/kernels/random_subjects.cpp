// Subjects that nobody wrote.
#include <algorithm>

#include "base/error.h"
#include "exec/random_call.h"
#include "formats/text/text.h"
#include "kernels/subjects.h"
#include "support/graph_generator.h"

namespace finity::kernels {

namespace {

constexpr std::int64_t kMostElements = 1 << 16;

// The reference answers it, and the answer is not huge.
bool answered(const RandomCall& call) {
  try {
    const std::vector<Datum> outputs = run_reference(call.graph, call.inputs);
    return std::ranges::all_of(outputs, [](const Datum& output) {
      return output.tensor() == nullptr || output.tensor()->size() <= kMostElements;
    });
  } catch (const Error&) {
    return false;
  }
}

// ONNX gives no meaning to keepdims = 5.
bool means_something(const std::string& name, const Attr& attr) {
  const auto* number = std::get_if<std::int64_t>(&attr);
  const bool truth = name == "keepdims" || name == "noop_with_empty_axes";
  return number == nullptr || !truth || *number == 0 || *number == 1;
}

// In versions of the operator sets that runtimes know.
bool sensible(const RandomCall& call) {
  const Node& node = call.graph.nodes().front();
  const int newest = node.domain.empty() ? 23 : node.domain == "com.microsoft" ? 1 : 5;
  return node.version >= node.op->identity.since && node.version <= newest &&
         std::ranges::all_of(node.attrs, [](const auto& attr) { return means_something(attr.first, attr.second); });
}

// Memory on a scale that no premise of a test needs.
bool huge_integers(const RandomCall& call) {
  return std::ranges::any_of(call.inputs, [](const auto& input) {
    const Tensor* tensor = input.second.tensor();
    return tensor != nullptr && tensor->dtype() == DType::int64 &&
           std::ranges::any_of(tensor->data<std::int64_t>(), [](std::int64_t x) { return x > 1000 || x < -1000; });
  });
}

}  // namespace

void each_random_call(std::uint64_t seed, std::uint64_t calls, const Visitor& visit) {
  for (const OpDef* op : callable_ops()) {
    for (std::uint64_t i = 0; i < calls; ++i) {
      RandomCall call = random_call(*op, seed * 1000003 + i, 1);
      if (!sensible(call) || huge_integers(call) || !answered(call)) continue;
      Subject subject;
      try {
        subject.types = infer_types(call.graph);
      } catch (const Error&) {
        continue;
      }
      const Node& node = call.graph.nodes().front();
      subject.op = qualified_op(node);
      subject.dtype = dtype_label(call.graph, subject.types, node);
      subject.name = "random call " + std::to_string(i);
      subject.graph = std::move(call.graph);
      subject.inputs = std::move(call.inputs);
      visit(subject);
    }
  }
}

void each_random_graph(std::uint64_t seed, std::uint64_t count, const Visitor& visit) {
  for (std::uint64_t i = 1; i <= count; ++i) {
    const RandomModel model = random_model(seed * 1000003 + i);
    Subject subject{.op = "random graph", .dtype = "float32", .name = "random graph " + std::to_string(i)};
    subject.graph = parse_graph(model.text, subject.name);
    subject.types = infer_types(subject.graph);
    subject.premises = premises(subject.graph, subject.types, model.contract, 64);
    visit(subject);
  }
}

}  // namespace finity::kernels

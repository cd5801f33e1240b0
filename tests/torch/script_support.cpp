#include "torch/script_support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <sstream>

#include "exec/reference.h"
#include "tensor/convert.h"
#include "torch/value.h"

namespace finity {

namespace jit = ::torch::jit;

jit::Module script_module(const std::string& forward, const Weights& weights) {
  jit::Module module("m");
  for (const auto& [name, tensor] : weights) module.register_parameter(name, tensor, /*is_buffer=*/true);
  module.define(forward);
  return module;
}

std::string saved(const jit::Module& module) {
  std::ostringstream stream;
  module.save(stream);
  return stream.str();
}

at::Tensor ramp(at::IntArrayRef dims, double lo, double hi) {
  std::int64_t count = 1;
  for (const std::int64_t size : dims) count *= size;
  return at::linspace(lo, hi, count).reshape(dims);
}

at::Tensor drawn(at::IntArrayRef dims, double lo, double hi, std::uint64_t seed) {
  at::manual_seed(seed);
  return at::rand(dims) * (hi - lo) + lo;
}

namespace {

void walk(const Graph& graph, const Body& body, const std::function<void(const Node&)>& visit) {
  for (const NodeId id : body.nodes) {
    visit(graph.node(id));
    for (const BodyId inner : bodies_of(graph.node(id).attrs)) walk(graph, graph.body(inner), visit);
  }
}

void flatten(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
  if (value.isTensor()) tensors.push_back(value.toTensor());
  else if (value.isTuple()) {
    for (const c10::IValue& one : value.toTupleRef().elements()) flatten(one, tensors);
  } else if (value.isList()) {
    for (const c10::IValue& one : value.toListRef()) flatten(one, tensors);
  } else if (value.isScalar()) {
    tensors.push_back(at::scalar_tensor(value.toScalar(), value.toScalar().type()));
  }
}

void expect_close(const Tensor& got, const at::Tensor& wanted, double tolerance) {
  ASSERT_EQ(got.dims(), wanted.sizes().vec());
  EXPECT_EQ(is_float(got.dtype()), at::isFloatingType(wanted.scalar_type()));
  const at::Tensor wide = wanted.to(at::kDouble).contiguous();
  const std::vector<double> numbers = elements<double>(got);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const double expected = wide.data_ptr<double>()[i];
    if (std::isnan(expected) || std::isinf(expected)) {
      EXPECT_EQ(std::isnan(numbers[i]), std::isnan(expected)) << "element " << i;
      EXPECT_TRUE(std::isnan(expected) || numbers[i] == expected) << "element " << i;
    } else {
      EXPECT_NEAR(numbers[i], expected, tolerance * std::max(1.0, std::abs(expected))) << "element " << i;
    }
  }
}

}  // namespace

std::vector<std::string> unknown_nodes(const Graph& graph) {
  std::vector<std::string> names;
  walk(graph, graph.main(), [&](const Node& node) {
    if (node.op == nullptr) names.push_back(std::string(node.domain) + "::" + std::string(node.op_type));
  });
  return names;
}

int count_nodes(const Graph& graph, std::string_view op) {
  int count = 0;
  walk(graph, graph.main(), [&](const Node& node) { count += node.op_type == op ? 1 : 0; });
  return count;
}

void expect_same(jit::Module module, const ImportedScript& read, const at::Tensor& x, double tolerance) {
  module.eval();
  std::vector<at::Tensor> wanted;
  flatten(module.forward({x.clone()}), wanted);
  const Graph& graph = read.graph;
  Inputs inputs;
  if (!graph.main().inputs.empty())
    inputs.emplace(graph.value(graph.main().inputs[0]).name, Datum(to_host(x, dtype_of(x.scalar_type()))));
  const std::vector<Datum> outputs = run_reference(graph, inputs, {});
  ASSERT_EQ(outputs.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    ASSERT_NE(outputs[i].tensor(), nullptr);
    expect_close(*outputs[i].tensor(), wanted[i], tolerance);
  }
}

}  // namespace finity

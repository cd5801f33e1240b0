// TorchScript modules are read into the graph of the op table: what it computes is what LibTorch's own interpreter
// computes, and what cannot be said stays unknown by name.
#include "torch/script/script.h"

#include <gtest/gtest.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/error.h"
#include "check/check_graph.h"
#include "check/contract.h"
#include "exec/reference.h"
#include "exec/torchscript.h"
#include "formats/model_format.h"
#include "tensor/convert.h"
#include "torch/script_support.h"
#include "torch/value.h"

namespace finity {

namespace {

namespace jit = ::torch::jit;

jit::Module module_of(const std::string& forward, const Weights& weights) {
  jit::Module module("m");
  for (const auto& [name, tensor] : weights) module.register_parameter(name, tensor, false);
  module.define(forward);
  return module;
}

struct Script {
  const char* name;
  const char* body;                               // of forward(self, x), with weights w and b
  std::vector<std::int64_t> input, weight, bias;  // shapes
};

const Script kScripts[] = {
    {"linear", "return torch.relu(torch.linear(x, self.w, self.b))", {2, 3}, {4, 3}, {4}},
    {"addmm", "return torch.addmm(self.b, x, self.w, beta=0.5, alpha=2)", {2, 3}, {3, 4}, {4}},
    {"conv", "return torch.conv2d(x, self.w, self.b, [1, 2], [1, 0], [1, 1], 1)", {1, 2, 5, 6}, {3, 2, 3, 3}, {3}},
    {"pools", "return torch.max_pool2d(x, [2, 2]) * 2 + torch.avg_pool2d(x, [2, 2])", {1, 2, 4, 4}, {1}, {1}},
    {"softmax", "return torch.log_softmax(x, -1) + torch.softmax(x, 0)", {3, 4}, {1}, {1}},
    {"layer_norm", "return torch.layer_norm(x, [4], self.w, self.b, 1e-5)", {3, 4}, {4}, {4}},
    {"batch_norm",
     "return torch.batch_norm(x, self.w, self.b, self.b, self.w, False, 0.1, 1e-5, False)",
     {2, 3, 4},
     {3},
     {3}},
    {"means", "return (x - torch.mean(x, [1], True)) / torch.sqrt(torch.sum(x * x, [1], True) + 1)", {2, 5}, {1}, {1}},
    {"shapes", "return torch.cat([x.view([2, 6]), torch.flatten(x, 1)], 1).t().unsqueeze(0)", {2, 3, 2}, {1}, {1}},
    {"slices", "return x[:, 1:3].permute([1, 0, 2]).transpose(0, 2)", {2, 4, 3}, {1}, {1}},
    {"sizes", "return x.reshape([x.size(0), -1]) + x.size(1)", {2, 3, 2}, {1}, {1}},
    {"all sizes", "a, b, c = x.size()\n  return x.reshape([a * b, c]).t() * x.size()[-1]", {2, 3, 4}, {1}, {1}},
    {"like another", "return (x * 2).flatten().view(x.size()) - 1", {2, 3, 2}, {1}, {1}},
    {"clamps", "return torch.clamp(x, -1, 1) + torch.clamp(x, max=0.5) - torch.relu6(x)", {3, 3}, {1}, {1}},
    {"scaled", "return torch.sub(x, x * x, alpha=3) + torch.pow(x, 2) - 1 / (x * x + 1)", {3, 3}, {1}, {1}},
    {"activations", "return torch.sigmoid(x) * torch.tanh(x) + torch.gelu(x) + torch.silu(x)", {3, 3}, {1}, {1}},
    {"where", "return torch.where(x > 0, x, torch.exp(x)).masked_fill(x < -1, 0.5)", {3, 3}, {1}, {1}},
    {"best", "v, i = torch.max(x, 1)\n  return v", {3, 4}, {1}, {1}},
    {"parts", "a, b = torch.chunk(x, 2, 1)\n  return a * b", {2, 6}, {1}, {1}},
    {"in place", "y = x * 1\n  y.add_(1)\n  return torch.relu_(y)", {2, 3}, {1}, {1}},
    {"product", "return torch.matmul(x, self.w) + torch.dropout(x, 0.5, False).sum()", {2, 3}, {3, 2}, {1}},
};

Tensor reference_result(const Graph& graph, const at::Tensor& x) {
  const std::string input = graph.value(graph.main().inputs.at(0)).name;
  const std::vector<Datum> outputs = run_reference(graph, {{input, Datum(to_host(x, DType::float32))}}, {});
  return *outputs.at(0).tensor();
}

}  // namespace

TEST(TorchScript, ComputesWhatLibTorchComputes) {
  for (const Script& script : kScripts) {
    SCOPED_TRACE(script.name);
    const Weights weights = {{"w", ramp(script.weight, 0.5, 1.5)}, {"b", ramp(script.bias, -0.25, 0.75)}};
    jit::Module module = module_of("def forward(self, x):\n  " + std::string(script.body) + "\n", weights);
    const at::Tensor x = ramp(script.input, -2, 2);
    const ImportedScript read = import_script(saved(module));
    for (const Node& node : read.graph.nodes()) {
      if (node.outputs.empty()) continue;
      EXPECT_NE(node.op, nullptr) << node.domain << "::" << node.op_type;
    }
    module.eval();
    const at::Tensor expected = module.forward({x.clone()}).toTensor().to(at::kDouble).contiguous();
    const Tensor result = reference_result(read.graph, x);
    ASSERT_EQ(result.dims(), expected.sizes().vec());
    const std::vector<double> numbers = elements<double>(result);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const double wanted = expected.data_ptr<double>()[i];
      EXPECT_NEAR(numbers[i], wanted, 1e-5 * std::max(1.0, std::abs(wanted))) << "element " << i;
    }
  }
}

TEST(TorchScript, IsCheckedLikeAnyModel) {
  const auto verdict_of = [](const std::string& body) {
    const jit::Module module = module_of("def forward(self, x):\n  return " + body + "\n", {});
    Contract contract;
    add_range(contract, "x:[0,1]");
    Graph graph = import_script(saved(module)).graph;
    const CheckedGraph checked = check_graph(std::move(graph), contract, {});
    std::vector<std::string> open;
    for (const Finding& finding : checked.analysis.findings) {
      if (finding.verdict != Verdict::proved) open.emplace_back(finding.rule);
    }
    return open;
  };
  EXPECT_EQ(verdict_of("torch.log(x)"), std::vector<std::string>{"FN102"});
  EXPECT_EQ(verdict_of("torch.log(torch.clamp(x, min=1e-6))"), std::vector<std::string>{});
}

TEST(TorchScript, WhatIsNotKnownStaysANamedNode) {
  const jit::Module module =
      module_of("def forward(self, x):\n  y = torch.erfinv(x)\n  return torch.igamma(y, y)\n", {});
  const ImportedScript read = import_script(saved(module));
  std::vector<std::string> unknown;
  for (const NodeId id : read.graph.main().nodes) {
    const Node& node = read.graph.node(id);
    if (node.op == nullptr) unknown.push_back(std::string(node.domain) + "::" + std::string(node.op_type));
  }
  EXPECT_EQ(unknown.front(), "aten::erfinv");
  EXPECT_EQ(unknown.back(), "aten::igamma");
}

// Every alias of what is changed would have to change with it: a graph without that would compute something else.
TEST(TorchScript, ChangesOfWhatIsReadUnderAnotherNameAreRefused) {
  for (const char* body : {"y = x * 1\n  z = y[0]\n  y[0].add_(1)\n  return torch.log(z)",
                           "y = x * 1\n  z = y.reshape([-1])\n  y.add_(1)\n  return z",
                           "y = x * 1\n  zs = [y[0], y[1]]\n  y.mul_(2)\n  return zs[0]"}) {
    const jit::Module module = module_of("def forward(self, x):\n  " + std::string(body) + "\n", {});
    EXPECT_THROW(import_script(saved(module)), Error) << body;
  }
}

// As the commands read it: through the worker, which answers with a model that needs no LibTorch.
TEST(TorchScript, FilesAreReadThroughTheWorker) {
  const auto file = std::filesystem::temp_directory_path() / ("finity-script-" + std::to_string(::getpid()) + ".pt");
  const Weights weights = {{"w", ramp({4, 3}, 0.5, 1.5)}, {"b", ramp({4}, -0.25, 0.75)}};
  jit::Module module =
      module_of("def forward(self, x):\n  return torch.erfinv(torch.linear(x, self.w, self.b))\n", weights);
  write_file_atomically(file.string(), saved(module));
  set_script_reader(script_in_onnx);
  std::vector<Note> notes;
  const Graph graph = read_model(file.string(), notes);
  const auto is_product = [&](NodeId id) { return graph.node(id).op_type == "MatMul" && graph.node(id).op != nullptr; };
  const auto is_unknown = [&](NodeId id) { return graph.node(id).op_type == "erfinv" && graph.node(id).op == nullptr; };
  EXPECT_TRUE(std::ranges::any_of(graph.main().nodes, is_product));
  EXPECT_TRUE(std::ranges::any_of(graph.main().nodes, is_unknown));
  const auto says_why = [](const Note& note) { return note.text == "aten::erfinv: is not known"; };
  EXPECT_TRUE(std::ranges::any_of(notes, says_why));
  write_file_atomically(file.string(), saved(module).substr(600));
  EXPECT_THROW(read_model(file.string(), notes), Error);
  std::filesystem::remove(file);
}

TEST(TorchScript, OtherArchivesAreRefused) {
  EXPECT_THROW(import_script("PK\x03\x04 and nothing else"), Error);
  EXPECT_THROW(import_script(saved(module_of("def other(self, x):\n  return x\n", {}))), Error);
}

}  // namespace finity

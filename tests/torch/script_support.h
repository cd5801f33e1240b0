// Modules of TorchScript made of source text, and what LibTorch's own interpreter computes with them.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>

#include <string>
#include <utility>
#include <vector>

#include "torch/script/script.h"

namespace finity {

using Weights = std::vector<std::pair<std::string, at::Tensor>>;

// With one method: the text of forward(self, x).
torch::jit::Module script_module(const std::string& forward, const Weights& weights = {});
// As torch.jit.save writes it.
std::string saved(const torch::jit::Module& module);
at::Tensor ramp(at::IntArrayRef dims, double lo, double hi);
at::Tensor drawn(at::IntArrayRef dims, double lo, double hi, std::uint64_t seed);

// The names of nodes that nothing is known of, in every body.
std::vector<std::string> unknown_nodes(const Graph& graph);
// How many nodes there are of an op, in every body that is used.
int count_nodes(const Graph& graph, std::string_view op);

// Expects that the graph computes what the module does, result by result.
void expect_same(torch::jit::Module module, const ImportedScript& read, const at::Tensor& x, double tolerance = 1e-5);

}  // namespace finity

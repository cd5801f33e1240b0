// A model under test together with its inputs, in a form that generators write and the reducer cuts down: a list of
// steps over named tensors. Only graph() makes an ordinary Graph of it.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "exec/reference.h"
#include "graph/graph.h"
#include "tensor/tensor.h"

namespace finity::fuzz {

struct Step {
  std::string op = {};
  std::string domain = {};
  std::vector<std::string> inputs = {};   // "": omitted
  std::vector<std::string> outputs = {};  // "": not asked for
  Attrs attrs = {};
};

struct Sample {
  std::string origin = {};  // how it was made: "sweep Conv", "chain", "layer norm"
  int opset = 17;
  std::map<std::string, Tensor, std::less<>> inputs = {};
  std::map<std::string, Tensor, std::less<>> constants = {};
  std::vector<Step> steps = {};  // in an order in which they can run
  std::vector<std::string> outputs = {};
};

// `exposed`: every result of a step is an output. Throws Error when the op table refuses the sample.
Graph graph(const Sample& sample, bool exposed = false);
Inputs inputs_of(const Sample& sample);

// Names that no step computes.
bool is_given(const Sample& sample, std::string_view name);
const Tensor* given(const Sample& sample, std::string_view name);
// Drops steps, inputs and constants that no output needs.
void drop_unneeded(Sample& sample);
// A name that nothing in the sample has.
std::string fresh_name(const Sample& sample, std::string_view stem);
// Results of steps that no step uses.
std::vector<std::string> loose_ends(const Sample& sample);
// "Pad -> MaxPool": the ops in order.
std::string op_chain(const Sample& sample);

}  // namespace finity::fuzz

// The backward pass of a sample: its loss (the sum of one output) and the derivatives of the loss by every float
// input and weight, written by the op table's rules as ordinary steps. Libraries without derivatives run these steps;
// what libraries with derivatives of their own answer is compared with them.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/backend.h"
#include "fuzz/oracle.h"

namespace finity::fuzz {

struct Backward {
  Sample sample = {};  // forward, loss and derivatives; all of them outputs
  std::string loss = {};
  std::vector<std::pair<std::string, std::string>> derivatives = {};  // of what, and its name
};

// Nothing when there is no float output, or a step has no derivative or only one in finity's own ops.
std::optional<Backward> with_backward(const Sample& sample);

// Compares a library's own derivatives with what the rules allow.
std::vector<Complaint> judge_derivatives(Backend& backend, const Sample& sample, Counts& counts);

// A graph and its inputs as a sample. Throws Error when it has subgraphs or an input is missing.
Sample sample_of(const Graph& model, const Inputs& inputs);

}  // namespace finity::fuzz

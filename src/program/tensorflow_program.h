// A TensorFlow training graph as a program: its placeholders are inputs, its variables start as their initialisers say
// and are trained on the loss whose gradients its optimiser applies. Only what the losses depend on is kept; the
// backward pass and the update are the program's own.
#pragma once

#include <string>
#include <vector>

#include "check/contract.h"
#include "program/program.h"

namespace finity {

struct TensorFlowProgram {
  bool trains = false;  // false: the file is no TensorFlow graph, or has no optimiser
  Program program = {};
  std::vector<std::string> assumptions = {};  // what was taken for granted, for people
};

// What the contract leaves open of the inputs is guessed as a check does it. Throws Error with the file and the reason
// when the graph is trained in a way that cannot be run: ops that are not modelled, sizes that are not known.
TensorFlowProgram tensorflow_program(const std::string& path, const Contract& contract, const Bindings& bindings);

}  // namespace finity

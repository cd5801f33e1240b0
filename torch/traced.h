// A program as TorchScript: the calls of one run are traced, and interpreted as they are, or frozen and rewritten by
// `optimize_for_inference`, which merges convolutions with what follows and hands more to oneDNN.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "torch/program.h"

namespace finity {

class ScriptedProgram {
 public:
  // Traces the nodes of the plan from these values of the run to the wanted ones. Throws Unsupported when that cannot
  // be traced, Error with the library's words when it fails to rewrite the trace.
  ScriptedProgram(const TorchProgram& program, std::vector<NodeId> plan, TorchRun& run, std::vector<ValueId> given,
                  std::vector<ValueId> wanted, bool rewrite);
  ~ScriptedProgram();

  // The trace as a file that torch::jit::load reads.
  std::string file() const;
  // The wanted values for what is given in the run.
  std::vector<TorchValue> run(const TorchRun& run) const;

 private:
  struct Compiled;
  std::unique_ptr<Compiled> compiled_;
  std::vector<ValueId> given_;
  bool rewritten_;
  std::vector<DType> dtypes_;  // of the wanted values
};

}  // namespace finity

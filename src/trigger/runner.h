// Runs of the model in its real formats, judged against the analysis: which findings came true.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "check/check_graph.h"
#include "check/verify.h"
#include "exec/worker.h"

namespace finity {

// What a search may choose: inputs, weights that are declared to vary, and the draws of random ops.
Premises search_space(const CheckedGraph& model);

class Runner {
 public:
  // Where the reference is slow, `torch` says first whether a run is worth it; null: every run is.
  Runner(const CheckedGraph& model, std::uint64_t seed, Worker* torch);

  // The findings that this input makes true, each with a witness. Counts as one run.
  std::vector<FailingRun> run(const Drawn& drawn);
  // The witness for one finding, if this input makes it come true.
  std::optional<FailingRun> run_for(const Drawn& drawn, std::size_t finding);

  const CheckedGraph& model() const { return model_; }
  const Premises& space() const { return space_; }
  std::uint64_t seed() const { return seed_; }
  std::size_t runs() const { return runs_; }
  const std::string& failure() const { return failure_; }  // why the last run that stopped did
  std::size_t stopped() const { return stopped_; }         // runs that did not come to their end
  void forget_stops();

 private:
  bool looks_harmless(const Drawn& drawn);
  void prepare_request();

  const CheckedGraph& model_;
  Premises space_;
  std::uint64_t seed_;
  Worker* torch_;
  bool slow_ = false;     // the reference took long the last time
  Request request_ = {};  // of the model with the results of all open sites as outputs
  std::size_t runs_ = 0;
  std::size_t stopped_ = 0;
  std::string failure_;
};

// Makes a witness smaller while it stays one, and while `keeps` says so: elements that do not matter become 0 or the
// nearest allowed number, the others get as few digits as they bear.
FailingRun shrink(Runner& runner, const FailingRun& witness, std::size_t most_runs,
                  const std::function<bool(const Drawn&)>& keeps);

}  // namespace finity

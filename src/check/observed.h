// The numbers that runs of a model really give, from the smallest to the largest of every value. They prove nothing,
// and whoever prints them says so; beside a proved range they tell how far a proof is from what people will see.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "exec/reference.h"
#include "exec/worker.h"
#include "types/infer.h"

namespace finity {

struct ObservedRange {
  double lo = std::numeric_limits<double>::infinity();  // of the finite elements
  double hi = -std::numeric_limits<double>::infinity();

  bool seen() const { return lo <= hi; }
  double magnitude() const { return seen() ? std::max(std::abs(lo), std::abs(hi)) : 0; }
};

class Observer {
 public:
  // With `torch` runs are quick, and values inside subgraphs are not seen; null: by the reference.
  Observer(const Graph& graph, const Types& types, Worker* torch);

  // One more run. Throws Error when the model cannot be run on this.
  void run(const Inputs& inputs, std::uint64_t seed);

  std::size_t runs() const { return runs_; }
  const ObservedRange& of(ValueId id) const { return ranges_[id.at()]; }

 private:
  void look_at(ValueId id, const Datum& datum);
  bool run_in_torch(const Inputs& inputs);
  void prepare_request();

  const Graph& graph_;
  const Types& types_;
  Worker* torch_;
  Request request_ = {};         // of the model with every float of the main body as an output
  std::vector<ValueId> wanted_;  // by output of the request
  std::vector<ObservedRange> ranges_;
  std::size_t runs_ = 0;
};

}  // namespace finity

// A search without slopes: one change after the other is tried on an input, and what comes no farther away is kept.
#pragma once

#include <functional>

#include "trigger/probe.h"

namespace finity {

class Tinker {
 public:
  // `space` says what each element may be.
  Tinker(const CheckedGraph& model, const Premises& space, const Probe& probe, Rng& rng, std::uint64_t seed)
      : model_(model), space_(space), probe_(probe), rng_(rng), seed_(seed) {}

  // Tries `changes` of them; `nearer` is told of each input that comes nearer than those before, and how near.
  void run(Drawn from, int changes, const std::function<void(const Drawn&, double)>& nearer,
           const std::function<bool()>& over);

 private:
  std::optional<Drawn> changed(const Drawn& from);
  void change(std::vector<double>& values, const Box& box, bool integers);
  double anything(const Box& box, std::size_t i);
  double moved(double x, const Box& box, std::size_t i, bool integers);

  const CheckedGraph& model_;
  const Premises& space_;
  const Probe& probe_;
  Rng& rng_;
  std::uint64_t seed_;
};

}  // namespace finity

// What normalising a row does to ranges: x becomes (x - mean) / sqrt(variance +
// epsilon), or x / sqrt(mean(x^2) + epsilon). A variance that is a mean of squared
// distances is never negative; that of a row with an element at distance d is at least
// d^2 / n, so no result exceeds sqrt(n), and none d / sqrt(epsilon). Computed as
// mean(x^2) - mean(x)^2 it is wrong by e, a few units of mean(x^2): negative (FN305) where
// epsilon does not outweigh that, and too small by so much that results reach
// sqrt(n (1 + e / epsilon)).
#pragma once

#include <vector>

#include "ops/norm/norm_stages.h"
#include "ops/shared/range_groups.h"
#include "ops/table/range_call.h"

namespace finity {

struct NormSpec {
  std::vector<DType> formats = {};  // in which rows may be computed
  double epsilon = 0;
  Centre centre = Centre::mean;
  bool added_to_root = false;  // sqrt(variance) + epsilon
  // In which the variance may also be computed as mean(x^2) - mean(x)^2.
  std::vector<DType> differences = {};
};

class RowNorm {
 public:
  RowNorm(const RangeCall& call, NormSpec spec) : call_(call), spec_(std::move(spec)) {}

  // The elements of each part, rounded into `dtype`.
  std::vector<Range> normalized(const Group& row, DType dtype);
  // Statistics of the row.
  Range mean(const Group& row, DType dtype) const;
  Range variance(const Group& row, DType dtype) const;
  Range inverse_deviation(const Group& row, DType dtype) const;
  // The sites of all rows seen: variance and epsilon both zero (FN304) or below zero (FN305), squares or their sum
  // infinite (FN205). Ranges hold for rows without them.
  void report(RangeCall& call, int operand) const;

 private:
  struct Arithmetic {
    DType format = DType::float32;
    bool difference = false;
  };
  std::vector<Arithmetic> all_ways() const;

  const RangeCall& call_;
  NormSpec spec_;
  Range seen_ = {};
  bool vanishes_ = false, always_vanishes_ = true, overflows_ = false, negative_ = false;
};

// x, perhaps wrong by `slack`, rounded into another format.
Range rounded_range(DType dtype, const Range& x, double slack = 0);
// Those of `formats` in which the node's op may compute a variance as a difference of squares.
std::vector<DType> difference_formats(const RangeCall& call, const std::vector<DType>& formats);
// Formats of the arithmetic on rows of `dtype`, where the op itself asks for `stash`.
std::vector<DType> row_formats(const RangeCall& call, DType dtype, DType stash);

// A parameter with one element per channel (or fewer, each for a run of `repeat` channels).
class ChannelParameter {
 public:
  ChannelParameter(RangeCall& call, std::size_t input, std::int64_t channels, std::int64_t repeat = 1);
  // The same value without looking at channels.
  const Range& hull() const { return hull_; }
  bool differs() const { return !each_.empty(); }
  Range at(std::size_t channel) const { return each_.empty() ? hull_ : each_[channel / repeat_]; }

 private:
  std::vector<Range> each_ = {};
  Range hull_ = {};
  std::size_t repeat_ = 1;
};

// f(cell, channel) on every cell of x and channel of an axis of known size; channels are joined where there would be
// more than max_cells cells.
using ChannelRange = std::function<Range(const Range& cell, std::size_t channel)>;
AbsTensor map_channels(const AbsTensor& x, std::size_t axis, DType dtype, std::size_t max_cells, const ChannelRange& f);

// normalized * scale + bias, rounded after each step or once.
Range scaled_and_shifted(DType dtype, const Range& normalized, const Range& scale, const Range& bias);
// The same on tensors whose parameters are inputs `scale` and `bias` (which may be omitted), broadcast to x.
AbsTensor scaled_and_shifted(RangeCall& call, const AbsTensor& normalized, std::size_t scale, std::size_t bias,
                             DType dtype);

void range_layer_norm(RangeCall& call);
void range_rms_norm(RangeCall& call);
void range_group_norm(RangeCall& call);
void range_batch_norm(RangeCall& call);
void range_instance_norm(RangeCall& call);
void range_mean_variance_norm(RangeCall& call);
void range_lp_norm(RangeCall& call);
void range_local_response_norm(RangeCall& call);

}  // namespace finity

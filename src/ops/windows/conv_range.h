// Range rules of convolutions. X is [N, C, spatial...]; its cuts along the batch and
// the channels are used, spatial positions are taken together. A tap that falls into
// the padding is a term that is missing, so 0 joins what the tap may read.
#pragma once

#include <span>

#include "ops/linear/contract_range.h"

namespace finity {

struct ConvSpec {
  std::int64_t groups = 1;
  bool padded = true;  // some output may miss some taps
};
// From attributes `group`, `auto_pad`, `pads`, `kernel_shape` and the weights' shape.
ConvSpec conv_spec(const RangeCall& call, const AbsTensor& w);

// Sums for weights [M, C / groups, kernel...]; `addend` has one number per output channel, and is only used when the
// weights are known.
Contracted conv_sums(const RangeCall& call, const AbsTensor& x, const ContractOperand& w, const ConvSpec& spec,
                     const Type& result, std::span<const double> addend = {});
// The bias of output channels as conv_sums takes it; empty when it is not known.
std::vector<double> channel_addend(RangeCall& call, std::size_t input);
// Adds a bias [M] to the channels, the second axis.
void add_channels(SumGrid& grid, const AbsTensor& bias);

// Taps of a kernel, numbered row-major, by the positions of the finer image (the operand of a convolution, the result
// of a transposed one) that they can meet at: two taps of different classes never meet.
std::vector<std::vector<std::int64_t>> tap_classes(std::span<const std::int64_t> kernel,
                                                   std::span<const std::int64_t> strides,
                                                   std::span<const std::int64_t> dilations);
// An attribute with one positive number per axis; ones when it is absent.
std::vector<std::int64_t> steps_of(const RangeCall& call, std::string_view name, std::size_t rank);

AbsTensor conv_range(RangeCall& call);  // of inputs X, W, B
void range_conv(RangeCall& call);
void range_causal_conv(RangeCall& call);
void range_conv_transpose(RangeCall& call);
void range_col2im(RangeCall& call);
void range_deform_conv(RangeCall& call);

}  // namespace finity

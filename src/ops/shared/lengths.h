// Euclidean lengths of rows: the second bound of a tensor besides the ranges of its elements. Through many layers of
// sums it grows far more slowly, because by Cauchy and Schwarz a sum of products is at most the product of two lengths,
// and a matrix stretches a row by at most its largest singular value.
//
// A row is what lies along some axes of a tensor, mostly all but the batch. Lengths are those of the numbers a library
// really computes, so a rule (OpAnalysis::length) adds what rounding can do; the bounds' own arithmetic is rounded up.
// A bound of Inf says nothing, and comparisons are written so that NaN says nothing either.
#pragma once

#include <cstdint>
#include <span>

#include "ops/table/range_call.h"

namespace finity {

// Is the axis one of these, a bit each?
inline bool has_axis(std::uint32_t axes, std::size_t axis) { return axis < 32 && (axes >> axis & 1U) != 0; }

struct Rows {
  std::uint32_t axes = 0;  // bit set over the axes of the tensor
  // Each element is multiplied by scale[its index along `scaled`] first; empty: by nothing. So a factor per channel is
  // met with the weights that made the channel, and not as the largest of all factors.
  std::span<const double> scale = {};
  std::size_t scaled = 0;
  int levels = 0;  // how often the scale was handed on
  // Only Length::reach is asked for: what takes long for the rows' sake may be left out (then Length::rough is set).
  bool for_reach = false;
};

struct Length {
  double rows = kInf;   // no row is longer
  double reach = kInf;  // no result, nor anything on the way to it, is larger; only of rows without a scale
  bool rough = false;   // rows may be much shorter than `rows` says: for_reach was heeded
};

// ---- rows ----------------------------------------------------------------------------
std::uint32_t all_but_first(std::size_t rank);
double largest_factor(const Rows& rows);
Rows without_scale(const Rows& rows);
// The same rows with factors of their own; `product` holds what is handed on.
Rows with_scale(const Rows& rows, std::span<const double> factors, std::size_t axis, std::vector<double>& product);
// Elements along the axes, at most.
double count_along(const Type& type, std::uint32_t axes);

// ---- bounds --------------------------------------------------------------------------
// What the elements' ranges say; Inf where they may be infinite or NaN.
double length_by_elements(const AbsTensor& x, const Rows& rows);
double exact_length(const Tensor& tensor, const Rows& rows);
// Of operand i broadcast to the shape of the result.
double operand_length(RangeCall& call, std::size_t i, const Rows& rows);
// Each element off by `relative` of itself and by `absolute`.
double with_error(double length, double relative, double absolute, double count);
// Relative to the sum of the magnitudes of the terms, for every format partial sums may be kept in.
double sum_error(const RangeCall& call, DType dtype, double terms);
// Of `terms` products that may underflow, and of their rounded sum.
double sum_underflow(DType dtype, double terms);

double euclidean_size(std::span<const double> values);
double euclidean_size(std::span<const float> values);
// Larger than the magnitude of x; Inf where there is none.
double power_of_two_above(double x);

// At least the largest singular value of the matrix [rows, columns], a little more: by norms of powers of its Gram
// matrix, or by simpler norms where that would take too long.
double spectral_bound(std::span<const double> matrix, std::size_t rows, std::size_t columns);
// The same of the matrix whose column j is multiplied by factors[j % size], if there are any; `size` is at least its
// Frobenius norm.
double spectral_bound(std::span<const float> matrix, std::size_t rows, std::size_t columns,
                      std::span<const double> factors, double size);

// One group of a convolution with weights [out, in, taps...].
struct KernelShape {
  std::int64_t out = 0, in = 0;
  std::vector<std::int64_t> taps = {}, strides = {}, dilations = {};  // per axis
};
// At least how much it stretches an image, a little more; Inf where finding out would take too long.
double symbol_bound(std::span<const float> weights, const KernelShape& kernel);

// ---- rules -----------------------------------------------------------------------------
using LengthRule = Length(RangeCall&, const Rows&);
LengthRule length_not_larger;  // |f(x)| <= |x|
LengthRule length_leaky;       // |f(x)| <= max(1, |alpha|) |x|
LengthRule length_selu;
LengthRule length_prelu;
LengthRule length_clip;
LengthRule length_cast;
LengthRule length_sum;  // Add, Sub, Sum
LengthRule length_mean;
LengthRule length_product;
LengthRule length_quotient;
LengthRule length_extreme;  // Max, Min
LengthRule length_where;
LengthRule length_concat;
LengthRule length_part;     // some of the elements, each once, along the same axes
LengthRule length_reshape;  // the same elements; rows are kept where they are all but the first axis
LengthRule length_transpose;
LengthRule length_pad;
LengthRule length_max_pool;
LengthRule length_average_pool;
LengthRule length_global_max_pool;
LengthRule length_global_average_pool;
LengthRule length_conv;
LengthRule length_conv_transpose;
LengthRule length_matmul;
LengthRule length_gemm;
LengthRule length_given_moments;  // BatchNormalization

}  // namespace finity

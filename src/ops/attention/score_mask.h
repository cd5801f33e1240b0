// Masks and biases of attention scores in the forms ONNX Runtime's ops take.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace finity {

// Sizes of the scores, [batch, heads, queries, keys].
struct ScoreDims {
  std::int64_t batch = 0, heads = 0, queries = 0, keys = 0;
};

// A float tensor [batch or 1, heads or 1, queries or 1, keys] that is added to the scores.
class ScoreBias {
 public:
  ScoreBias(const Tensor& bias, const ScoreDims& scores, std::string_view name);
  double at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    return values_[static_cast<std::size_t>(b * strides_[0] + h * strides_[1] + i * strides_[2] + j * strides_[3])];
  }

 private:
  std::vector<double> values_;
  std::vector<std::int64_t> strides_;
};

// An integer mask that tells which keys are padding. Forms by shape:
//   [batch]                  number of keys, padding to the right
//   [2 * batch]              where the keys end, then where they begin
//   [batch, keys]            1 for a key, 0 for padding
//   [batch, queries, keys]   the same per query
//   [batch, 1, m, m]         the same for all positions up to m, queries being the last ones of `keys`
// [batch, 1] and [1, 1] for more keys than one are placeholders that mask nothing.
class PaddingMask {
 public:
  PaddingMask(const Tensor& mask, const ScoreDims& scores, std::string_view name);
  bool hides(std::int64_t b, std::int64_t i, std::int64_t j) const;

 private:
  enum class Form : std::uint8_t { none, ends, ends_and_starts, keys, queries_and_keys, positions };

  Form form_of(const Dims& dims) const;

  ScoreDims scores_;
  Form form_ = Form::none;
  std::int64_t positions_ = 0;
  std::vector<std::int64_t> values_;
};

}  // namespace finity

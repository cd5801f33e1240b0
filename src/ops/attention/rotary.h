// Rotary positions: pairs of features of a head are rotated by an angle that
// depends on the token's position and the pair. Shared by ONNX's RotaryEmbedding
// and the com.microsoft ops that rotate.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "ops/attention/heads.h"
#include "tensor/convert.h"

namespace finity {

// Cosines and sines, one row per position and one column per pair.
template <class A>
class RotaryTables {
 public:
  RotaryTables(const Tensor& cos, const Tensor& sin) : cos_(elements<A>(cos)), sin_(elements<A>(sin)) {
    if (cos.rank() == 0 || cos.dims() != sin.dims()) {
      throw Error("cos_cache has shape " + to_string(cos.dims()) + ", sin_cache " + to_string(sin.dims()));
    }
    pairs_ = cos.dims().back();
    rows_ = pairs_ == 0 ? 0 : cos.size() / pairs_;
  }

  std::int64_t pairs() const { return pairs_; }
  std::int64_t rows() const { return rows_; }

  // Rotates the first 2 * pairs() features of a row in place. Pairs are neighbours when interleaved, else a feature
  // and the one pairs() further on.
  void rotate(A* features, std::int64_t position, bool interleaved) const {
    if (pairs_ == 0) return;
    if (position < 0 || position >= rows_) {
      throw Error("position " + std::to_string(position) + " is outside the " + std::to_string(rows_) +
                  " rows of the caches");
    }
    for (std::int64_t k = 0; k < pairs_; ++k) {
      A& first = features[interleaved ? 2 * k : k];
      A& second = features[interleaved ? 2 * k + 1 : k + pairs_];
      const auto at = static_cast<std::size_t>(position * pairs_ + k);
      const A real = cos_[at] * first - sin_[at] * second;
      second = sin_[at] * first + cos_[at] * second;
      first = real;
    }
  }

 private:
  std::vector<A> cos_, sin_;
  std::int64_t pairs_ = 0;
  std::int64_t rows_ = 0;
};

// position(batch, index) gives the table row of a token.
template <class A, class Position>
void rotate_heads(Heads<A>& x, const RotaryTables<A>& tables, bool interleaved, const Position& position) {
  if (2 * tables.pairs() > x.size) {
    throw Error("the caches have " + std::to_string(tables.pairs()) + " columns for heads of size " +
                std::to_string(x.size));
  }
  for (std::int64_t b = 0; b < x.batch; ++b) {
    for (std::int64_t h = 0; h < x.heads; ++h) {
      for (std::int64_t i = 0; i < x.length; ++i) {
        tables.rotate(x.values.data() + x.row(b, h, i), position(b, i), interleaved);
      }
    }
  }
}

}  // namespace finity

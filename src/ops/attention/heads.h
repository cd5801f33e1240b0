// Scaled dot-product attention over heads, shared by ONNX's Attention and the
// com.microsoft ones. All arithmetic is in A (float for float16, bfloat16 and
// float32; double for float64); the caller rounds the result into its dtype.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/shared/accumulate.h"
#include "ops/shared/shapes.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {

// [batch, heads, length, size], row-major.
template <class A>
struct Heads {
  std::int64_t batch = 0, heads = 0, length = 0, size = 0;
  std::vector<A> values = {};

  std::size_t row(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return static_cast<std::size_t>(((b * heads + h) * length + i) * size);
  }
};

struct AttentionRule {
  double scale = 0;         // of the product of query and key
  bool scale_roots = true;  // each side by the root of the scale before the product, or the product afterwards
  double softcap = 0;       // 0: none
  // Added to a score; -inf forbids the key. Indices: batch, head, query, key.
  std::function<double(std::int64_t, std::int64_t, std::int64_t, std::int64_t)> bias = {};
  // A score per query head that takes part in the softmax and belongs to no key.
  std::function<double(std::int64_t)> sink = {};
  DType softmax_type = DType::undefined;  // if given, scores are rounded to it before the softmax and weights after
  int keep = -1;  // which scores to return: 0 raw, 1 after softcap, 2 with bias, 3 probabilities
};

template <class A>
struct Attended {
  Heads<A> output;
  std::vector<A> scores;  // [batch, heads, queries, keys] when asked for
};

template <class A>
class Attender {
 public:
  Attender(const Heads<A>& query, const Heads<A>& key, const Heads<A>& value, const AttentionRule& rule)
      : query_(query),
        key_(key),
        value_(value),
        rule_(rule),
        root_(rule.scale_roots ? std::sqrt(static_cast<A>(rule.scale)) : A{1}),
        factor_(rule.scale_roots ? A{1} : static_cast<A>(rule.scale)),
        share_(key.heads > 0 ? query.heads / key.heads : 1),
        row_(static_cast<std::size_t>(key.length)) {}

  Attended<A> run() {
    result_.output = {query_.batch, query_.heads, query_.length, value_.size, {}};
    result_.output.values.resize(static_cast<std::size_t>(query_.batch * query_.heads * query_.length * value_.size));
    for (std::int64_t b = 0; b < query_.batch; ++b) {
      for (std::int64_t h = 0; h < query_.heads; ++h) {
        for (std::int64_t i = 0; i < query_.length; ++i) attend_one(b, h, i);
      }
    }
    return std::move(result_);
  }

 private:
  static constexpr A kForbidden = -std::numeric_limits<A>::infinity();

  void attend_one(std::int64_t b, std::int64_t h, std::int64_t i) {
    bool any = false;
    for (std::int64_t j = 0; j < key_.length; ++j) {
      const A bias = rule_.bias ? static_cast<A>(rule_.bias(b, h, i, j)) : A{0};
      any = any || !(bias == kForbidden);
      row_[static_cast<std::size_t>(j)] = score(b, h, i, j, bias);
    }
    if (any) softmax_row(h);
    else std::fill(row_.begin(), row_.end(), A{0});
    if (rule_.keep == 3) result_.scores.insert(result_.scores.end(), row_.begin(), row_.end());
    A* out = result_.output.values.data() + result_.output.row(b, h, i);
    for (std::int64_t d = 0; d < value_.size; ++d) {
      out[d] = pairwise_sum<A>(key_.length, [&](std::int64_t j) {
        return row_[static_cast<std::size_t>(j)] *
               value_.values[value_.row(b, h / share_, j) + static_cast<std::size_t>(d)];
      });
    }
  }

  A score(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j, A bias) {
    const A* q = query_.values.data() + query_.row(b, h, i);
    const A* k = key_.values.data() + key_.row(b, h / share_, j);
    // With scale_roots both sides are scaled before they are multiplied, as ONNX does against overflow.
    A score = pairwise_sum<A>(query_.size, [&](std::int64_t d) { return (q[d] * root_) * (k[d] * root_); }) * factor_;
    keep(0, score);
    if (rule_.softcap > 0) score = std::tanh(score / static_cast<A>(rule_.softcap)) * static_cast<A>(rule_.softcap);
    keep(1, score);
    score += bias;
    keep(2, score);
    return score;
  }

  void keep(int stage, A score) {
    if (rule_.keep == stage) result_.scores.push_back(score);
  }

  A rounded(A x) const {
    return rule_.softmax_type == DType::undefined
               ? x
               : static_cast<A>(round_to(rule_.softmax_type, static_cast<double>(x)));
  }

  void softmax_row(std::int64_t h) {
    for (A& score : row_) score = rounded(score);
    const A sink = rule_.sink ? static_cast<A>(rule_.sink(h)) : kForbidden;
    A largest = std::max(row_.front(), sink);
    for (const A score : row_) {
      // A NaN score must reach the result: it becomes the largest and stays it.
      if (!(score <= largest) && !std::isnan(largest)) largest = score;
    }
    for (A& score : row_) score = std::exp(score - largest);
    A total = pairwise_sum<A>(key_.length, [&](std::int64_t j) { return row_[static_cast<std::size_t>(j)]; });
    if (rule_.sink) total += std::exp(sink - largest);
    for (A& weight : row_) weight = rounded(weight / total);
  }

  const Heads<A>& query_;
  const Heads<A>& key_;
  const Heads<A>& value_;
  const AttentionRule& rule_;
  A root_;
  A factor_;
  std::int64_t share_;
  std::vector<A> row_;
  Attended<A> result_;
};

// A query whose keys are all forbidden gives zeros. Query head h uses key head h / (heads / key.heads).
template <class A>
Attended<A> attend(const Heads<A>& query, const Heads<A>& key, const Heads<A>& value, const AttentionRule& rule) {
  return Attender<A>(query, key, value, rule).run();
}

// A tensor [batch, heads, length, size] or, with its heads packed in the last axis, [batch, length, heads * size].
template <class A>
Heads<A> heads_of(const Tensor& tensor, std::int64_t heads, std::string_view name) {
  if (tensor.rank() == 4) return {tensor.dim(0), tensor.dim(1), tensor.dim(2), tensor.dim(3), elements<A>(tensor)};
  require_rank(tensor, name, 3);
  if (heads <= 0 || tensor.dim(2) % heads != 0 || tensor.dim(2) == 0) {
    throw Error(std::string(name) + " of shape " + to_string(tensor.dims()) + " does not split into " +
                std::to_string(heads) + " heads");
  }
  Heads<A> result{tensor.dim(0), heads, tensor.dim(1), tensor.dim(2) / heads, {}};
  const std::vector<A> packed = elements<A>(tensor);
  result.values.resize(packed.size());
  std::size_t from = 0;
  for (std::int64_t b = 0; b < result.batch; ++b) {
    for (std::int64_t i = 0; i < result.length; ++i) {
      for (std::int64_t h = 0; h < heads; ++h, from += static_cast<std::size_t>(result.size)) {
        std::copy_n(packed.begin() + static_cast<std::ptrdiff_t>(from), result.size,
                    result.values.begin() + static_cast<std::ptrdiff_t>(result.row(b, h, i)));
      }
    }
  }
  return result;
}

// [batch, length, heads * size].
template <class A>
Tensor packed_tensor(const Heads<A>& heads, DType dtype) {
  std::vector<A> packed;
  packed.reserve(heads.values.size());
  for (std::int64_t b = 0; b < heads.batch; ++b) {
    for (std::int64_t i = 0; i < heads.length; ++i) {
      for (std::int64_t h = 0; h < heads.heads; ++h) {
        const auto row = heads.values.begin() + static_cast<std::ptrdiff_t>(heads.row(b, h, i));
        packed.insert(packed.end(), row, row + heads.size);
      }
    }
  }
  return from_elements<A>(dtype, {heads.batch, heads.length, heads.heads * heads.size}, packed);
}

template <class A>
Tensor tensor_of(const Heads<A>& heads, DType dtype) {
  return from_elements<A>(dtype, {heads.batch, heads.heads, heads.length, heads.size}, heads.values);
}

// past along the length axis, then fresh.
template <class A>
Heads<A> appended(const Heads<A>& past, const Heads<A>& fresh) {
  if (past.batch != fresh.batch || past.heads != fresh.heads || past.size != fresh.size) {
    throw Error("the past state does not fit the new keys and values");
  }
  Heads<A> result{fresh.batch, fresh.heads, past.length + fresh.length, fresh.size, {}};
  for (std::int64_t b = 0; b < fresh.batch; ++b) {
    for (std::int64_t h = 0; h < fresh.heads; ++h) {
      for (const Heads<A>* part : {&past, &fresh}) {
        const auto start = part->values.begin() + static_cast<std::ptrdiff_t>(part->row(b, h, 0));
        result.values.insert(result.values.end(), start, start + part->length * part->size);
      }
    }
  }
  return result;
}

// Shapes that attention cannot be computed with are refused before any index is formed.
template <class A>
void check_heads(const Heads<A>& query, const Heads<A>& key, const Heads<A>& value) {
  const bool batches = query.batch == key.batch && key.batch == value.batch;
  const bool lengths = key.length == value.length && key.heads == value.heads && query.size == key.size;
  const bool shared = key.heads > 0 && query.heads % key.heads == 0;
  if (!batches || !lengths || !shared) throw Error("query, key and value do not fit together");
}

}  // namespace finity

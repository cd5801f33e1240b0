// Ranges of scaled dot-product attention, shared by ONNX's Attention and the
// com.microsoft ones. Weights of a query are >= 0 and add up to 1, so the output is a
// mean of values however large the scores are; the scores themselves may overflow
// their format (FN204), and a row of scores that are all -Inf has no softmax (FN301).
#pragma once

#include "ops/linear/dot_range.h"

namespace finity {

struct AttentionRange {
  DType dtype = DType::undefined;
  Range query = {}, key = {}, value = {};  // keys and values with those of a cache
  std::int64_t head_size = -1;             // -1: unknown
  std::int64_t keys = -1;                  // with those of a cache
  double scale = 0;                        // 0: 1 / sqrt(head_size)
  bool scale_roots = true;                 // queries and keys are scaled before they are multiplied
  double softcap = 0;                      // 0: none
  Range bias = point(0);                   // what is added to scores; -Inf forbids the key
  bool masked = false;                     // keys can be forbidden at all
  bool may_forbid_all = false;             // all keys of one query can be, by something else than the mask
  const AbsTensor* mask = nullptr;         // part of the bias whose rows may be forbidden as a whole
  bool mask_alone = true;                  // false: what the mask leaves may still be forbidden by something else
  int mask_operand = -1;
  bool sink = false;                      // a score that takes part and belongs to no key
  DType softmax_type = DType::undefined;  // scores are rounded to it before, weights after the softmax
};

struct AttendedRange {
  Range raw = {}, capped = {}, biased = {};  // scores
  Range total = {};                          // of the weights of a query
  bool may_forbid_all = false;
};
// Scores and weights, with their sites.
AttendedRange attend_range(RangeCall& call, const AttentionRange& attention);
// The output for values in this range (a part of attention.value).
Range attended(const RangeCall& call, const AttentionRange& attention, const AttendedRange& scores,
               const Range& values);
// The output, cut along its last axis like the operand `fresh` of values where that corresponds. What a cache adds to
// the values is not told apart.
AbsTensor attended_output(const RangeCall& call, const AttentionRange& attention, const AttendedRange& scores,
                          const AbsTensor& fresh, bool cached, const Type& type);

// In some row along the last axis, every element of the mask may be -Inf once `scores` are added (false, for booleans).
bool may_forbid_row(const AbsTensor& mask, DType dtype, const Range& scores);
// What a mask adds: booleans become 0 or -Inf.
Range mask_bias(const AbsTensor& mask);

// x rotated by pairs: cos * a - sin * b and sin * a + cos * b.
Range rotated_range(RangeCall& call, const Range& x, std::size_t cos, std::size_t sin);

void range_attention(RangeCall& call);
void range_rotary(RangeCall& call);
void range_linear_attention(RangeCall& call);
void range_microsoft_attention(RangeCall& call);
void range_multi_head(RangeCall& call);
void range_group_query(RangeCall& call);
void range_microsoft_rotary(RangeCall& call);

}  // namespace finity

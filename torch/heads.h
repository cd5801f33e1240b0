// Heads of attention as LibTorch tensors [batch, heads, length, size], shared by ONNX's ops and the com.microsoft ones.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>

namespace finity {

// A tensor of rank 3 has its heads packed in the last axis. Throws Error when it does not split.
at::Tensor heads_of(const at::Tensor& x, std::int64_t heads);
// Back to [batch, length, heads * size].
at::Tensor packed_heads(const at::Tensor& x);
// Rotates the first 2 * pairs features; cos and sin are [batch or 1, 1, length, pairs].
at::Tensor rotated(const at::Tensor& x, const at::Tensor& cos, const at::Tensor& sin, bool interleaved);

}  // namespace finity

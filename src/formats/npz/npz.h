// numpy's .npz and .npy: a zip archive of arrays, stored or deflated.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tensor/tensor.h"

namespace finity {

using NamedTensors = std::vector<std::pair<std::string, Tensor>>;

bool looks_like_npz(std::span<const std::byte> head);
// Members in file order, names without ".npy". Throws Error naming the member.
NamedTensors read_npz(std::span<const std::byte> bytes);
// Uncompressed, no time stamps: the same tensors give the same bytes. Formats numpy
// does not have (bfloat16, 8-bit floats, int4) are widened exactly: to float32 or int8.
std::string write_npz(const NamedTensors& tensors);

Tensor read_npy(std::span<const std::byte> bytes);
std::string write_npy(const Tensor& tensor);

}  // namespace finity

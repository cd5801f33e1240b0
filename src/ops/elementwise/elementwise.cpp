#include "ops/elementwise/elementwise.h"

namespace finity {

namespace {

// Strides of `from` seen through the broadcast shape `to`: 0 where it repeats.
std::vector<std::int64_t> broadcast_strides(const Dims& from, const Dims& to) {
  std::vector<std::int64_t> result(to.size(), 0);
  const std::vector<std::int64_t> own = strides_of(from);
  const std::size_t offset = to.size() - from.size();
  for (std::size_t i = 0; i < from.size(); ++i) result[offset + i] = from[i] == 1 ? 0 : own[i];
  return result;
}

// Positions in row-major order of `dims` for a tensor with these strides.
std::vector<std::int64_t> positions(const Dims& dims, const std::vector<std::int64_t>& strides) {
  std::vector<std::int64_t> result{0};
  result.reserve(static_cast<std::size_t>(element_count(dims)));
  if (element_count(dims) == 0) return {};
  // Built up axis by axis from the last: each step repeats what is there, shifted by one stride.
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    const std::size_t block = result.size();
    for (std::int64_t k = 1; k < dims[axis]; ++k) {
      for (std::size_t i = 0; i < block; ++i) result.push_back(result[i] + k * strides[axis]);
    }
  }
  return result;
}

}  // namespace

BroadcastPairs broadcast_pairs(const Dims& a, const Dims& b) {
  BroadcastPairs pairs;
  pairs.dims = broadcast(a, b);
  if (element_count(pairs.dims) > Tensor::kMaxBytes / 16)
    throw Error("tensor " + to_string(pairs.dims) + " is too large");
  pairs.a = positions(pairs.dims, broadcast_strides(a, pairs.dims));
  pairs.b = positions(pairs.dims, broadcast_strides(b, pairs.dims));
  return pairs;
}

Tensor broadcast_to(const Tensor& tensor, const Dims& dims) {
  if (tensor.dims() == dims) return tensor;
  if (tensor.rank() > dims.size() || broadcast(tensor.dims(), dims) != dims) {
    throw Error("shape " + to_string(tensor.dims()) + " does not broadcast to " + to_string(dims));
  }
  if (element_count(dims) > Tensor::kMaxBytes / 16) throw Error("tensor " + to_string(dims) + " is too large");
  return gather_elements(tensor, dims, positions(dims, broadcast_strides(tensor.dims(), dims)));
}

}  // namespace finity

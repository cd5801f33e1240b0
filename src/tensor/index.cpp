#include "tensor/index.h"

#include <algorithm>

namespace finity {

std::vector<std::int64_t> strides_of(std::span<const std::int64_t> dims) {
  std::vector<std::int64_t> strides(dims.size());
  std::int64_t step = 1;
  for (std::size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    step *= dims[i];
  }
  return strides;
}

IndexCounter::IndexCounter(Dims dims) : dims_(std::move(dims)), index_(dims_.size(), 0) {
  valid_ = std::ranges::none_of(dims_, [](std::int64_t dim) { return dim <= 0; });
}

void IndexCounter::next() {
  for (std::size_t axis = dims_.size(); axis-- > 0;) {
    if (++index_[axis] < dims_[axis]) return;
    index_[axis] = 0;
  }
  valid_ = false;
}

}  // namespace finity

// Walking over the indices of a tensor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace finity {

// Row-major strides in elements.
std::vector<std::int64_t> strides_of(std::span<const std::int64_t> dims);

// Counts through all indices of `dims` in row-major order:
//   for (IndexCounter at(dims); at.valid(); at.next()) use(at.index());
class IndexCounter {
 public:
  explicit IndexCounter(Dims dims);
  bool valid() const { return valid_; }
  void next();
  const std::vector<std::int64_t>& index() const { return index_; }

 private:
  Dims dims_;
  std::vector<std::int64_t> index_;
  bool valid_ = true;
};

}  // namespace finity

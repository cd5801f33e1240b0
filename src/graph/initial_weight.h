// A weight whose trained numbers are not in the file, but of which it is known what training starts from: the variables
// of a TensorFlow graph without its checkpoint.
#pragma once

#include <string>
#include <utility>

#include "graph/constant.h"

namespace finity {

class InitialWeight final : public Constant {
 public:
  // All that an initialiser can give. An infinite end stands for the largest finite number.
  struct Support {
    double lo = 0;
    double hi = 0;
    std::string words = {};  // "truncated normal", "zeros, taken to be small"
  };

  InitialWeight(DType dtype, Dims dims, Support support)
      : Constant(dtype, std::move(dims)), support_(std::move(support)) {}

  const Support& support() const { return support_; }
  Tensor load() const override;
  std::string missing() const override { return "only its initialiser is known: " + support_.words; }

 private:
  Support support_;
};

}  // namespace finity

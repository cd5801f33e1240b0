#include "graph/constant.h"

#include "base/error.h"

namespace finity {

MissingConstant::MissingConstant(DType dtype, Dims dims, std::string reason)
    : Constant(dtype, std::move(dims)), reason_(std::move(reason)) {}

Tensor MissingConstant::load() const { throw Error(reason_); }

}  // namespace finity

// What Gemm computes with, read once for inference, evaluation, ranges, lengths, gradients and lowerings; QGemm, too.
#pragma once

#include "ops/table/call.h"

namespace finity {

// alpha * A * B + beta * C, where A and B may be turned first.
struct GemmAttrs {
  double alpha = 1;
  double beta = 1;
  bool turned_a = false;
  bool turned_b = false;
};

inline GemmAttrs read_gemm(const Call& call) {
  return {.alpha = call.real("alpha"),
          .beta = call.real("beta", 1),
          .turned_a = call.integer("transA") != 0,
          .turned_b = call.integer("transB") != 0};
}

}  // namespace finity

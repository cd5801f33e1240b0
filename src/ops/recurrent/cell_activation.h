// Activation functions named by the `activations` attribute of recurrent ops.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "domain/range.h"
#include "ops/table/call.h"

namespace finity {

struct CellActivation {
  double (*function)(double x, double alpha, double beta) = nullptr;
  double alpha = 0;
  double beta = 0;
  double clip = std::numeric_limits<double>::infinity();
  bool exponential = false;  // its usual formula has an exp(x) that may overflow

  // Clips x to [-clip, clip], then applies the function; NaN stays NaN.
  double operator()(double x) const {
    if (x > clip) x = clip;
    else if (x < -clip) x = -clip;
    return function(x, alpha, beta);
  }
};

// The node's activations, `defaults` for each direction when it names none. Values of activation_alpha and
// activation_beta go in order to the functions that take one; what is missing has the function's default.
// Throws Error on an unknown name or too few names.
std::vector<CellActivation> cell_activations(const Call& call, const std::vector<std::string>& defaults,
                                             std::size_t directions);

}  // namespace finity

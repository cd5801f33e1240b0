// Comparing what was computed with what was expected, by ONNX's own measure:
// |actual - expected| <= absolute + relative * |expected|, NaN equal to NaN.
#pragma once

#include <cstdint>
#include <string>

#include "ops/table/datum.h"

namespace finity {

struct Tolerance {
  double relative = 1e-3;  // what ONNX's backend tests use
  double absolute = 1e-7;
};

struct Compared {
  bool same_form = true;  // kind, dtype and dimensions agree; otherwise `why` says how not
  bool identical = true;  // every element, bit for bit (NaN equals NaN)
  bool within = true;
  double largest_absolute = 0;
  double largest_relative = 0;
  std::int64_t beyond = 0;  // elements outside the tolerance
  std::int64_t worst = -1;  // position of the largest absolute difference
  std::string why;
};

Compared compare(const Datum& actual, const Datum& expected, const Tolerance& tolerance = {});

}  // namespace finity

#include "trigger/distance_text.h"

#include <cmath>
#include <cstdio>

namespace finity {

std::string distance_text(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", x);
  return text;
}

std::string unsafe_values_text(const UnsafeSet& set) {
  std::string text;
  for (const Unsafe& part : set) {
    if (!text.empty()) text += " or ";
    if (part.lo == part.hi) text += distance_text(part.lo);
    else if (std::isinf(part.lo)) text += "<= " + distance_text(part.hi);
    else if (std::isinf(part.hi)) text += ">= " + distance_text(part.lo);
    else text += "in [" + distance_text(part.lo) + ", " + distance_text(part.hi) + "]";
  }
  return text;
}

}  // namespace finity

#include "support/case_slopes.h"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace finity {

namespace {

constexpr double kStep = 1e-5;

}  // namespace

std::string with_scalar(const std::string& text, const std::string& dtype) {
  std::istringstream lines(text);
  std::string result, output;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("  expect") || line.starts_with("  error") || line.starts_with("  tolerance")) continue;
    result += line + "\n";
    const std::size_t end = line.find_first_of(",= (", 2);
    if (line.starts_with("  ") && line[2] != ' ' && line[2] != '}' && end != std::string::npos)
      output = line.substr(2, end - 2);
  }
  if (output.empty()) return {};
  return result + "  sq_ = Mul(" + output + ", " + output + ")\n  sum_ = ReduceSum(sq_) {keepdims = 0}\n" +
         "  expect " + dtype + "[] {0}\n";
}

std::optional<double> slope(const std::function<double(double)>& f) {
  const double here = f(0), up = (f(kStep) - here) / kStep, down = (here - f(-kStep)) / kStep;
  const double finer = (f(kStep / 2) - f(-kStep / 2)) / kStep, central = (up + down) / 2;
  const double scale = std::max({1.0, std::abs(central), std::abs(here)});
  const bool smooth = std::abs(up - down) <= 1e-3 * scale && std::abs(finer - central) <= 1e-6 * scale;
  return std::isfinite(central) && smooth ? std::optional(finer) : std::nullopt;
}

}  // namespace finity

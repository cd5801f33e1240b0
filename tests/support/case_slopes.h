// Cases of testdata/ops made into functions with one result, and slopes to hold derivatives against.
#pragma once

#include <functional>
#include <optional>
#include <string>

namespace finity {

// The case with the sum of the squares of its first result as its only output, sum_; empty when it has no such form.
// `dtype` is that of the sum.
std::string with_scalar(const std::string& text, const std::string& dtype);

// A function with a kink or a step at 0 has no derivative to compare with.
std::optional<double> slope(const std::function<double(double)>& f);

}  // namespace finity

// What kernels of an op may do besides computing its definition and rounding once. A
// proof must hold for the implementations people run, so range rules ask RangeCall for
// it. It is data at the op, in columns that are kept apart: `specified` is what any
// library may do and still be called right (an oracle for library bugs reads only
// this); `measured` is what a certain version of a certain library was seen to do;
// `elsewhere` is what the standard's own function body or older versions do.
// docs/assumptions.md lists all of it.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace finity {

// Which implementations a proof holds for.
enum class Runtime : std::uint8_t {
  exact,     // definitions, correctly rounded
  measured,  // also ONNX Runtime, as measured
  any        // also function bodies of the standard and older versions
};

// For a function that is not correctly rounded.
struct Allowance {
  int ulps = 0;       // units in the last place of the result
  double of_one = 0;  // unit roundoffs of 1 (of float32 for narrower formats), where its formulas cancel
  double beyond = 0;  // unit roundoffs by which it may leave the values it takes, as tanh leaves [-1, 1]
};

// Other ways to compute an op than its definition, with results that differ in more than the last digits.
enum class Way : std::uint8_t {
  difference_of_squares,  // a variance as mean(x^2) - mean(x)^2, which rounding makes negative
  broadcast_differs,      // the same, in float64, where the scale does not have a row's size
  no_epsilon,             // nothing is added to the deviation, which is zero in rows of equal elements
  factor_and_term,        // (x - mean) / deviation * scale + bias as x * factor + term
  starts_from_zero,       // log-sum-exp subtracts max(0, elements) when the first element is -Inf
  no_shift,               // log-sum-exp subtracts nothing (in narrow formats, if measured)
  lowest_for_nothing,     // the maximum of nothing but -Inf (or NaN) is the lowest finite number
  passes_over_nan,        // a maximum may be any element of a row that holds NaN
  clips_less,             // recurrent ops do not clip all that the definition clips
  plain_softplus,         // log(exp(x) + 1), which overflows
  scales_last,            // a constant factor of an operand is applied to the sum of products
  scales_weights,         // a constant factor behind it is multiplied into its weights
  longer_transform,       // Fourier transforms of other than 2^k points go through longer ones, not yet divided
  sums_first,             // an axis that only one factor has is summed before anything is multiplied
  leaves_out_padding,     // the zeros of a Pad in front of it are taken for its own padding
  far_weights,            // linear weights of positions too far away for neighbours to differ do not add up to one
};

class Ways {
 public:
  constexpr Ways() = default;
  constexpr Ways(std::initializer_list<Way> ways) {  // NOLINT(google-explicit-constructor): {a, b} in a table
    for (const Way way : ways) bits_ |= bit(way);
  }
  constexpr bool has(Way way) const { return (bits_ & bit(way)) != 0; }
  constexpr bool none() const { return bits_ == 0; }

 private:
  static constexpr std::uint32_t bit(Way way) { return std::uint32_t{1} << static_cast<unsigned>(way); }
  std::uint32_t bits_ = 0;
};

// One line for people: what the way does.
std::string_view describe(Way way);
// Every way, in order.
inline constexpr int kWays = static_cast<int>(Way::far_weights) + 1;

inline constexpr std::string_view kOnnxRuntime = "ONNX Runtime 1.30";

struct Grants {
  Allowance specified = {.ulps = 4};  // of each exp, log, ... that the op computes; sums and + - * / round once
  Allowance measured = {};
  Ways ways = {};                     // measured too
  Ways elsewhere = {};                // in function bodies and older versions
  std::string_view measured_on = {};  // library and version; "": nothing but `specified` was seen
  // It has kernels of its own for float16, and sees its operands rounded where others see more digits. Movement of data
  // mostly has, and need not say so. Read off the library's list of kernels, 1.30.
  bool narrow_kernels = false;
};

}  // namespace finity

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "base/error.h"
#include "ops/elementwise/cast.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// ---- numbers to text -------------------------------------------------------

// Decimal digits and the exponent of the first: 0.25 is {"25", -1}.
struct Decimal {
  std::string digits;
  int exponent = 0;
};

double parsed(const char* first, const char* last) {
  double value = 0;
  std::from_chars(first, last, value);
  return value;
}

Decimal shortest_decimal(DType dtype, double magnitude) {
  constexpr int kEnough = 17;
  char buffer[64];
  char* end = buffer;
  for (int precision = 0; precision < kEnough; ++precision) {
    end = std::to_chars(buffer, buffer + sizeof buffer, magnitude, std::chars_format::scientific, precision).ptr;
    if (round_to(dtype, parsed(buffer, end)) == magnitude) break;
  }
  const std::string text(buffer, end);
  const std::size_t e = text.find('e');
  Decimal result{.digits = text.substr(0, 1), .exponent = std::stoi(text.substr(e + 1))};
  if (e > 2) result.digits += text.substr(2, e - 2);
  return result;
}

std::string plain(const Decimal& decimal) {
  const auto count = static_cast<int>(decimal.digits.size());
  if (decimal.exponent < 0) {
    return "0." + std::string(static_cast<std::size_t>(-decimal.exponent - 1), '0') + decimal.digits;
  }
  const int whole = decimal.exponent + 1;
  if (whole >= count) return decimal.digits + std::string(static_cast<std::size_t>(whole - count), '0');
  const auto point = static_cast<std::size_t>(whole);
  return decimal.digits.substr(0, point) + "." + decimal.digits.substr(point);
}

std::string scientific(const Decimal& decimal) {
  std::string text = decimal.digits.substr(0, 1);
  if (decimal.digits.size() > 1) text += "." + decimal.digits.substr(1);
  const int size = std::abs(decimal.exponent);
  return text + (decimal.exponent < 0 ? "e-" : "e+") + (size < 10 ? "0" : "") + std::to_string(size);
}

// ---- text to numbers -------------------------------------------------------

[[noreturn]] void not_a_number(const std::string& text) { throw Error("string '" + text + "' is not a number"); }

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// Without surrounding space and a leading plus, which from_chars does not take.
std::string_view bare(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-' && text[1] != '+') text.remove_prefix(1);
  return text;
}

double read_double(const std::string& text) {
  const std::string name = lower_case(std::string(bare(text)));
  if (name == "nan") return kNaN;
  if (name == "inf" || name == "-inf") return name[0] == '-' ? -HUGE_VAL : HUGE_VAL;
  const bool numeric = !name.empty() && name.find_first_not_of("0123456789.e+-") == std::string::npos;
  double value = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), value);
  if (!numeric || end != name.data() + name.size() || error == std::errc::invalid_argument) not_a_number(text);
  // Outside double's range from_chars leaves the value alone, strtod gives the Inf or zero it rounds to.
  return error == std::errc::result_out_of_range ? std::strtod(name.c_str(), nullptr) : value;
}

template <class Integer>
std::optional<Integer> read_exact(const std::string& text) {
  const std::string_view digits = bare(text);
  Integer value{};
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

// Exact where the text is an integer; "100.5" is 100.
std::uint64_t read_integer(const std::string& text) {
  if (const auto number = read_exact<std::int64_t>(text)) return static_cast<std::uint64_t>(*number);
  if (const auto number = read_exact<std::uint64_t>(text)) return *number;
  const double value[] = {read_double(text)};
  return elements<std::uint64_t>(from_elements<double>(DType::float64, {}, value)).front();
}

Tensor cast_numbers(const Tensor& from, DType to, const CastOptions& options);

Tensor from_strings(const Tensor& from, DType to, const CastOptions& options) {
  if (is_int(to)) {
    std::vector<std::uint64_t> values;
    for (const std::string& text : from.strings()) values.push_back(read_integer(text));
    return from_elements<std::uint64_t>(to, from.dims(), values);
  }
  std::vector<double> values;
  for (const std::string& text : from.strings()) values.push_back(read_double(text));
  return cast_numbers(from_elements<double>(DType::float64, from.dims(), values), to, options);
}

Tensor to_strings(const Tensor& from) {
  std::vector<std::string> texts;
  if (is_float(from.dtype())) {
    for (const double value : elements<double>(from)) texts.push_back(number_text(from.dtype(), value));
  } else if (from.dtype() == DType::uint64) {
    for (const std::uint64_t value : elements<std::uint64_t>(from)) texts.push_back(std::to_string(value));
  } else {
    for (const std::int64_t value : elements<std::int64_t>(from)) texts.push_back(std::to_string(value));
  }
  return Tensor::of_strings(from.dims(), std::move(texts));
}

// ---- numbers to numbers ----------------------------------------------------

double saturated(DType to, double x, const CastOptions& options) {
  if (std::isinf(x) && is_fnuz(to) && !options.saturate_infinity_fnuz) return kNaN;
  const double limit = float_format(to).max_finite;
  return std::isnan(x) ? x : std::clamp(x, -limit, limit);
}

// A power of two between 2^-127 and 2^127. What is below zero has no meaning there: NaN.
double to_e8m0(double x, const CastOptions& options) {
  constexpr double kSmallest = 0x1p-127;
  constexpr double kLargest = 0x1p127;
  if (std::isnan(x) || x < 0) return kNaN;
  if (x < kSmallest) return options.saturate ? kSmallest : kNaN;
  if (std::isinf(x)) return options.saturate ? kLargest : kNaN;
  int exponent = 0;
  const double fraction = std::frexp(x, &exponent);  // in [0.5, 1)
  const double floor = std::ldexp(1.0, exponent - 1);
  const bool up = options.rounding == CastOptions::Rounding::up        ? fraction > 0.5
                  : options.rounding == CastOptions::Rounding::nearest ? fraction >= 0.75
                                                                       : false;
  const double rounded = up ? 2 * floor : floor;
  if (rounded <= kLargest) return rounded;
  return options.saturate ? kLargest : kNaN;
}

Tensor cast_numbers(const Tensor& from, DType to, const CastOptions& options) {
  const bool narrow_float = is_float8(to) || to == DType::float8e8m0;
  if (!is_float(from.dtype()) && !narrow_float) {
    if (from.dtype() == DType::uint64) return from_elements(to, from.dims(), elements<std::uint64_t>(from));
    return from_elements(to, from.dims(), elements<std::int64_t>(from));
  }
  std::vector<double> values = elements<double>(from);
  if (to == DType::float8e8m0) {
    for (double& value : values) value = to_e8m0(value, options);
  } else if (is_float8(to) && options.saturate) {
    for (double& value : values) value = saturated(to, value, options);
  } else if (is_int(to) && info(to).bits < 8) {
    for (double& value : values) value = std::nearbyint(value);  // wider integers truncate
  }
  return from_elements(to, from.dims(), values);
}

}  // namespace

std::string number_text(DType dtype, double value) {
  if (std::isnan(value)) return "NaN";
  const std::string sign = std::signbit(value) ? "-" : "";
  if (std::isinf(value)) return sign + "INF";
  if (value == 0) return sign + "0";
  const Decimal decimal = shortest_decimal(dtype, std::abs(value));
  const bool moderate = decimal.exponent >= -4 && decimal.exponent < 16;
  return sign + (moderate ? plain(decimal) : scientific(decimal));
}

Tensor cast(const Tensor& from, DType to, const CastOptions& options) {
  if (from.dtype() == to) return from;
  if (is_complex(from.dtype()) || is_complex(to)) throw Error("complex numbers cannot be cast");
  if (from.dtype() == DType::string) return from_strings(from, to, options);
  if (to == DType::string) return to_strings(from);
  return cast_numbers(from, to, options);
}

}  // namespace finity

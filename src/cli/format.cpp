#include "cli/format.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "tensor/convert.h"

namespace finity {

std::string with_thousands(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::int64_t>(digits.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    digits.insert(static_cast<std::size_t>(at), ",");
  }
  return digits;
}

std::string human_bytes(std::uint64_t bytes) {
  static constexpr std::array<const char*, 5> kUnits = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto amount = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (amount >= 1024 && unit + 1 < kUnits.size()) {
    amount /= 1024;
    ++unit;
  }
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", amount, kUnits[unit]);
  return text.data();
}

std::string short_number(double number) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.6g", number);
  return text.data();
}

std::string padded(std::string_view text, std::size_t width) {
  std::string result(text);
  if (result.size() < width) result.append(width - result.size(), ' ');
  return result;
}

std::string domain_name(std::string_view domain) { return domain.empty() ? "ai.onnx" : std::string(domain); }

void print_notes(const std::vector<Note>& notes, std::size_t most) {
  for (std::size_t i = 0; i < notes.size() && i < most; ++i) {
    std::printf("note: %s%s%s\n", notes[i].where.c_str(), notes[i].where.empty() ? "" : ": ", notes[i].text.c_str());
  }
  if (notes.size() > most) std::printf("note: and %zu more\n", notes.size() - most);
}

Extent extent_of(const Tensor& tensor) {
  Extent extent;
  extent.count = tensor.size();
  const std::vector<double> values = elements<double>(tensor);
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double value = values[i];
    if (std::isfinite(value)) {
      extent.low = extent.finite == 0 ? value : std::min(extent.low, value);
      extent.high = extent.finite == 0 ? value : std::max(extent.high, value);
      sum += value;
      ++extent.finite;
      continue;
    }
    if (extent.first_bad < 0) extent.first_bad = static_cast<std::int64_t>(i);
    if (std::isnan(value)) ++extent.nan;
    else ++(value > 0 ? extent.positive_inf : extent.negative_inf);
  }
  if (extent.finite > 0) extent.mean = sum / static_cast<double>(extent.finite);
  return extent;
}

namespace {

std::string index_text(const Dims& dims, std::int64_t position) {
  Dims index(dims.size());
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    index[axis] = position % dims[axis];
    position /= dims[axis];
  }
  return to_string(index);
}

std::string bad_text(const Tensor& tensor, const Extent& extent) {
  std::string text;
  const auto add = [&](std::int64_t count, const char* what) {
    if (count > 0) text += (text.empty() ? "  " : ", ") + with_thousands(count) + " " + what;
  };
  add(extent.nan, "NaN");
  add(extent.positive_inf, "+Inf");
  add(extent.negative_inf, "-Inf");
  return text.empty() ? text : text + ", first at " + index_text(tensor.dims(), extent.first_bad);
}

}  // namespace

std::string describe(const Datum& datum) {
  if (datum.sequence() != nullptr) return "sequence of " + std::to_string(datum.sequence()->size());
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr) return "not computed";
  std::string text = std::string(name(tensor->dtype())) + to_string(tensor->dims());
  if (tensor->dtype() == DType::string || is_complex(tensor->dtype()) || tensor->empty()) return text;
  const Extent extent = extent_of(*tensor);
  if (extent.finite > 0) text += "  [" + short_number(extent.low) + ", " + short_number(extent.high) + "]";
  return text + bad_text(*tensor, extent);
}

}  // namespace finity

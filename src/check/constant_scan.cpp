#include "check/constant_scan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "tensor/convert.h"

namespace finity {

namespace {

// Floats in an order that integers have: the compiler can then take several at once.
std::int32_t sortable(float x) {
  const auto bits = std::bit_cast<std::int32_t>(x);
  return bits ^ ((bits >> 31) & 0x7fffffff);
}

float from_sortable(std::int32_t key) { return std::bit_cast<float>(key ^ ((key >> 31) & 0x7fffffff)); }

void include(Range& range, double x) {
  if (std::isnan(x)) {
    range.nan = true;
  } else if (std::isinf(x)) {
    (x > 0 ? range.pinf : range.ninf) = true;
  } else {
    range.lo = std::min(range.lo, x);
    range.hi = std::max(range.hi, x);
  }
}

Range scan_floats(const std::byte* bytes, std::size_t count) {
  std::int32_t least = std::numeric_limits<std::int32_t>::max();
  std::int32_t most = std::numeric_limits<std::int32_t>::min();
  for (std::size_t i = 0; i < count; ++i) {
    float x = 0;
    std::memcpy(&x, bytes + 4 * i, 4);
    const std::int32_t key = sortable(x);
    least = std::min(least, key);
    most = std::max(most, key);
  }
  Range range;
  if (count == 0) return range;
  const float lo = from_sortable(least);
  const float hi = from_sortable(most);
  if (std::isfinite(lo) && std::isfinite(hi)) return {.lo = lo, .hi = hi};
  for (std::size_t i = 0; i < count; ++i) {
    float x = 0;
    std::memcpy(&x, bytes + 4 * i, 4);
    include(range, x);
  }
  return range;
}

}  // namespace

Range scan_constant(const Constant& constant) {
  const DType dtype = constant.dtype();
  const bool number = is_float(dtype) || is_int(dtype) || dtype == DType::boolean;
  if (!number || !constant.missing().empty()) return {};
  const std::span<const std::byte> raw = constant.raw();
  if (dtype == DType::float32 && !raw.empty()) return scan_floats(raw.data(), raw.size() / 4);
  const Tensor tensor = constant.load();
  if (dtype == DType::float32) return scan_floats(tensor.bytes().data(), static_cast<std::size_t>(tensor.size()));
  Range range;
  for (const double x : elements<double>(tensor)) include(range, x);
  return range;
}

}  // namespace finity

// Ranges of known elements: one pass over weights, and grids that follow the data.
#include "domain/constant_cells.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>

#include "domain/grid.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

// A float's bits as an integer that orders like the float: minima and maxima of integers are fast to find, and
// infinities and NaNs are the keys beyond those of finite values. Its own inverse.
template <class Key>
Key ordered(Key bits) {
  return static_cast<Key>(bits ^ ((bits >> (8 * sizeof(Key) - 1)) & std::numeric_limits<Key>::max()));
}

template <class Key>
struct Extremes {
  Key low = std::numeric_limits<Key>::max();
  Key high = std::numeric_limits<Key>::min();
  Key small = std::numeric_limits<Key>::max();  // bits of the smallest absolute value
};

template <class Key>
void look_at(Extremes<Key>& extremes, Key bits) {
  const Key key = ordered(bits);
  extremes.low = std::min(extremes.low, key);
  extremes.high = std::max(extremes.high, key);
  extremes.small = std::min(extremes.small, static_cast<Key>(bits & std::numeric_limits<Key>::max()));
}

// Several independent lanes, so that the compiler can use vector registers.
template <class Key>
Extremes<Key> scan(const std::byte* bytes, std::size_t count) {
  constexpr std::size_t kLanes = 64 / sizeof(Key);
  std::array<Key, kLanes> low{};
  std::array<Key, kLanes> high{};
  std::array<Key, kLanes> small{};
  low.fill(std::numeric_limits<Key>::max());
  high.fill(std::numeric_limits<Key>::min());
  small.fill(std::numeric_limits<Key>::max());
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    std::array<Key, kLanes> bits;  // NOLINT(cppcoreguidelines-pro-type-member-init): filled by the next line
    std::memcpy(bits.data(), bytes + i * sizeof(Key), sizeof bits);
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const Key key = ordered(bits[lane]);
      const Key absolute = static_cast<Key>(bits[lane] & std::numeric_limits<Key>::max());
      low[lane] = key < low[lane] ? key : low[lane];
      high[lane] = key > high[lane] ? key : high[lane];
      small[lane] = absolute < small[lane] ? absolute : small[lane];
    }
  }
  Extremes<Key> result;
  for (; i < count; ++i) {
    Key bits = 0;
    std::memcpy(&bits, bytes + i * sizeof(Key), sizeof(Key));
    look_at(result, bits);
  }
  result.low = std::min(result.low, *std::min_element(low.begin(), low.end()));
  result.high = std::max(result.high, *std::max_element(high.begin(), high.end()));
  result.small = std::min(result.small, *std::min_element(small.begin(), small.end()));
  return result;
}

// Is the finite float with these bits an integer? Its mantissa has `mantissa` bits.
template <class Key>
bool is_integer(Key bits, Key infinity, int mantissa) {
  const Key absolute = static_cast<Key>(bits & std::numeric_limits<Key>::max());
  if (absolute == 0) return true;
  const int bias = static_cast<int>(infinity >> mantissa) / 2;
  const int exponent = static_cast<int>(absolute >> mantissa) - bias;
  if (exponent < 0) return false;
  if (exponent >= mantissa) return true;
  return (absolute & ((Key{1} << (mantissa - exponent)) - 1)) == 0;
}

// Element by element, for what the fast pass cannot say.
template <class Decode>
Range careful_range(std::size_t begin, std::size_t end, Decode decode) {
  Range range;
  bool integer = true;
  double smallest = kInf;
  for (std::size_t i = begin; i < end; ++i) {
    const double x = decode(i);
    if (std::isnan(x)) {
      range.nan = true;
    } else if (std::isinf(x)) {
      (x > 0 ? range.pinf : range.ninf) = true;
    } else {
      range.lo = std::min(range.lo, x + 0.0);
      range.hi = std::max(range.hi, x + 0.0);
      integer = integer && x == std::floor(x);
      smallest = std::min(smallest, std::abs(x));
    }
  }
  range.integer = integer && range.has_finite();
  range.nonzero = smallest > 0 && range.lo <= 0 && range.hi >= 0;
  if (range.nonzero) range.gap = smallest;
  return range;
}

template <class Key, class Decode>
Range float_range(const std::byte* bytes, std::size_t count, Key infinity, int mantissa, Decode decode) {
  const auto bits_at = [&](std::size_t i) {
    Key bits = 0;
    std::memcpy(&bits, bytes + i * sizeof(Key), sizeof(Key));
    return bits;
  };
  const Extremes<Key> found = scan<Key>(bytes, count);
  const auto value_at = [&](std::size_t i) { return decode(bits_at(i)); };
  // ordered(-Inf) is -infinity - 1.
  if (found.high >= infinity || found.low <= static_cast<Key>(-infinity - 1)) return careful_range(0, count, value_at);
  Range range;
  range.lo = decode(ordered(found.low)) + 0.0;  // not -0
  range.hi = decode(ordered(found.high)) + 0.0;
  range.nonzero = found.small != 0 && range.lo <= 0 && range.hi >= 0;
  if (range.nonzero) range.gap = decode(found.small);
  range.integer = true;
  for (std::size_t i = 0; i < count && range.integer; ++i) range.integer = is_integer(bits_at(i), infinity, mantissa);
  return range;
}

// Ends beyond 2^53 may not be doubles: the next double outwards.
template <class T>
double as_bound(T value, bool up) {
  const double x = static_cast<double>(value);
  if (std::abs(x) < 0x1p53) return x;
  return std::nextafter(x, up ? kInf : -kInf);
}

template <class T>
Range integer_range(std::span<const T> values) {
  T low = std::numeric_limits<T>::max();
  T high = std::numeric_limits<T>::min();
  bool zero = false;
  for (const T value : values) {
    low = std::min(low, value);
    high = std::max(high, value);
    zero |= value == 0;
  }
  Range range{.lo = as_bound(low, false), .hi = as_bound(high, true), .integer = true};
  range.nonzero = !zero && range.lo <= 0 && range.hi >= 0;
  return range;
}

// Of formats that have a fast pass.
std::optional<Range> plain_float_range(DType dtype, const std::byte* bytes, std::size_t count) {
  switch (dtype) {
    case DType::float32:
      return float_range<std::int32_t>(bytes, count, 0x7f800000, 23, [](std::int32_t bits) {
        return static_cast<double>(std::bit_cast<float>(bits));
      });
    case DType::float64:
      return float_range<std::int64_t>(bytes, count, 0x7ff0000000000000, 52,
                                       [](std::int64_t bits) { return std::bit_cast<double>(bits); });
    case DType::float16:
    case DType::bfloat16:
      return float_range<std::int16_t>(
          bytes, count, dtype == DType::float16 ? std::int16_t{0x7c00} : std::int16_t{0x7f80},
          dtype == DType::float16 ? 10 : 7,
          [dtype](std::int16_t bits) { return decode_float(dtype, static_cast<std::uint16_t>(bits)); });
    default: return std::nullopt;
  }
}

Range range_of_part(const Tensor& tensor, std::size_t begin, std::size_t end) {
  const DType dtype = tensor.dtype();
  const std::size_t count = end - begin;
  if (count == 0) return {};
  if (!is_float(dtype) && !is_int(dtype) && dtype != DType::boolean) return top(dtype);
  const std::byte* bytes = tensor.bytes().data() + begin * static_cast<std::size_t>(info(dtype).memory_bytes);
  if (const std::optional<Range> range = plain_float_range(dtype, bytes, count)) return *range;
  if (is_float(dtype)) {
    return careful_range(begin, end,
                         [&](std::size_t i) { return decode_float(dtype, tensor.data<std::uint8_t>()[i]); });
  }
  if (dtype == DType::boolean) {
    return careful_range(begin, end, [&](std::size_t i) { return tensor.data<std::uint8_t>()[i] != 0 ? 1.0 : 0.0; });
  }
  return with_storage(dtype, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) return integer_range(tensor.data<T>().subspan(begin, count));
    else return top(dtype);
  });
}

// Where elements of this many bytes differ from those before them, up to `most` places.
template <class Bits>
Cuts changes(const Tensor& tensor, std::size_t most) {
  const std::byte* bytes = tensor.bytes().data();
  const auto count = static_cast<std::size_t>(tensor.size());
  Cuts cuts;
  Bits before{};
  for (std::size_t i = 0; i < count && cuts.size() < most; ++i) {
    Bits bits{};
    std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
    if (i > 0 && bits != before) cuts.push_back(static_cast<std::int64_t>(i));
    before = bits;
  }
  return cuts;
}

Cuts changes(const Tensor& tensor, std::size_t most) {
  switch (info(tensor.dtype()).memory_bytes) {
    case 1: return changes<std::uint8_t>(tensor, most);
    case 2: return changes<std::uint16_t>(tensor, most);
    case 4: return changes<std::uint32_t>(tensor, most);
    default: return changes<std::uint64_t>(tensor, most);
  }
}

// Where a vector's elements change, if that is at no more than max_cells - 1 places; else even chunks.
Cuts cuts_of_vector(const Tensor& tensor, std::size_t max_cells) {
  Cuts cuts = changes(tensor, max_cells);
  if (cuts.size() < max_cells) return cuts;
  const auto count = static_cast<std::size_t>(tensor.size());
  cuts.clear();
  for (std::size_t i = 1; i < max_cells; ++i) cuts.push_back(static_cast<std::int64_t>(count * i / max_cells));
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  return cuts;
}

Cuts every_cut(std::int64_t size) {
  Cuts cuts(static_cast<std::size_t>(std::max<std::int64_t>(size - 1, 0)));
  std::iota(cuts.begin(), cuts.end(), std::int64_t{1});
  return cuts;
}

// One cell for each element of an axis.
AbsTensor cells_along(const Tensor& tensor, std::size_t axis) {
  std::vector<Cuts> cuts(tensor.rank());
  cuts[axis] = every_cut(tensor.dim(axis));
  AbsTensor result = empty_grid(tensor.dtype(), tensor.dims(), std::move(cuts));
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < tensor.rank(); ++i) inner *= tensor.dim(i);
  for (std::int64_t i = 0; i < tensor.size(); i += inner) {
    const auto begin = static_cast<std::size_t>(i);
    Range& cell = result.cells[static_cast<std::size_t>(i / inner % tensor.dim(axis))];
    cell = join(cell, range_of_part(tensor, begin, begin + static_cast<std::size_t>(inner)));
  }
  return result;
}

// The axis of a table whose columns may mean different things: short, next to a long one.
int column_axis(const Tensor& tensor, std::size_t max_cells) {
  constexpr std::int64_t kFewColumns = 8;
  constexpr std::int64_t kFewElements = 1 << 16;
  if (tensor.size() > kFewElements) return -1;
  for (std::size_t axis = tensor.rank(); axis-- > 0;) {
    const std::int64_t size = tensor.dim(axis);
    if (size > 1 && size <= kFewColumns && size <= static_cast<std::int64_t>(max_cells)) return static_cast<int>(axis);
  }
  return -1;
}

AbsTensor gridded(const Tensor& tensor, std::size_t max_cells) {
  const auto count = static_cast<std::size_t>(tensor.size());
  std::size_t long_axes = 0;
  std::size_t axis = 0;
  for (std::size_t i = 0; i < tensor.rank(); ++i) {
    if (tensor.dim(i) <= 1) continue;
    ++long_axes;
    axis = i;
  }
  if (count <= 1 || max_cells <= 1) return uniform(tensor.dtype(), tensor.dims(), range_of(tensor));
  if (count > max_cells && long_axes > 1) {
    const int columns = column_axis(tensor, max_cells);
    if (columns >= 0) return cells_along(tensor, static_cast<std::size_t>(columns));
    return uniform(tensor.dtype(), tensor.dims(), range_of(tensor));
  }
  std::vector<Cuts> cuts(tensor.rank());
  for (std::size_t i = 0; i < tensor.rank() && long_axes > 1; ++i) cuts[i] = every_cut(tensor.dim(i));
  if (long_axes == 1) cuts[axis] = cuts_of_vector(tensor, max_cells);
  AbsTensor result = empty_grid(tensor.dtype(), tensor.dims(), std::move(cuts));
  for (std::size_t i = 0; i < result.cells.size(); ++i) {
    const bool vector = long_axes == 1;
    const std::size_t begin = vector ? static_cast<std::size_t>(result.block_start(axis, i)) : i;
    const std::size_t length = vector ? static_cast<std::size_t>(result.block_length(axis, i)) : 1;
    result.cells[i] = range_of_part(tensor, begin, begin + length);
  }
  return result;
}

}  // namespace

Range range_of(const Tensor& tensor) { return range_of_part(tensor, 0, static_cast<std::size_t>(tensor.size())); }

namespace {

// Masks: whether every row of the last axis has an element that is not masked, which cells may be too coarse to tell.
void add_mask_rows(const Tensor& tensor, AbsTensor& result) {
  const bool mask = tensor.dtype() == DType::boolean || (is_float(tensor.dtype()) && result.hull().ninf);
  if (!mask || tensor.empty() || tensor.rank() == 0 || tensor.rank() > 32) return;
  const std::vector<double> values = elements<double>(tensor);
  const auto length = static_cast<std::size_t>(tensor.dims().back());
  Range largest, smallest;
  for (std::size_t at = 0; at < values.size(); at += length) {
    double high = -kInf, low = kInf;
    for (std::size_t i = at; i < at + length; ++i) {
      if (std::isnan(values[i])) return;
      high = std::max(high, values[i]);
      low = std::min(low, values[i]);
    }
    largest = join(largest, point(high));
    smallest = join(smallest, point(low));
  }
  const std::uint32_t axes = std::uint32_t{1} << (tensor.rank() - 1);
  if (!largest.ninf) result.relations.push_back(RowBound{.axes = axes, .of = Of::largest, .in = largest});
  if (tensor.dtype() == DType::boolean) {
    result.relations.push_back(RowBound{.axes = axes, .of = Of::smallest, .in = smallest});
  }
}

}  // namespace

AbsTensor from_tensor(std::shared_ptr<const Tensor> tensor, std::size_t max_cells) {
  const DType dtype = tensor->dtype();
  const bool numbers = is_float(dtype) || is_int(dtype) || dtype == DType::boolean;
  AbsTensor result = numbers ? gridded(*tensor, max_cells) : uniform(dtype, tensor->dims(), range_of(*tensor));
  simplify(result, max_cells);
  if (tensor->size() <= kExactElements) {
    add_mask_rows(*tensor, result);
    result.exact = std::move(tensor);
  }
  return result;
}

AbsTensor from_constant(const Constant& constant, std::size_t max_cells) {
  const Dims& dims = constant.dims();
  const std::int64_t count = element_count(dims);
  const std::span<const std::byte> raw = constant.raw();
  const bool plain = raw.size() == static_cast<std::size_t>(count * info(constant.dtype()).memory_bytes);
  // One cell, and elements that nobody will ask for: see gridded().
  const bool table = std::ranges::count_if(dims, [](std::int64_t size) { return size > 1; }) > 1;
  if (plain && table && count > kExactElements && static_cast<std::size_t>(count) > max_cells) {
    const auto range = plain_float_range(constant.dtype(), raw.data(), static_cast<std::size_t>(count));
    if (range) return uniform(constant.dtype(), dims, *range);
  }
  return from_tensor(std::make_shared<const Tensor>(constant.load()), max_cells);
}

}  // namespace finity

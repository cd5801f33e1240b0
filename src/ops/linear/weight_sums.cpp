#include "ops/linear/weight_sums.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>

#include "base/wide.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

// Elements are decoded into a buffer this long that stays in the nearest cache.
constexpr std::size_t kChunk = 1024;
// Inner loops of constant length let the compiler use vectors at -O2.
constexpr std::size_t kLanes = 8;

// ---- decoding ----------------------------------------------------------------

// Scaling by a power of two does the normalisation of subnormals; the largest exponent stands for Inf and NaN.
float decode_half(std::uint16_t bits) {
  const float magnitude =
      std::bit_cast<float>(static_cast<std::uint32_t>(bits & 0x7fffU) << 13) * std::bit_cast<float>(0x77800000U);
  const float infinite = magnitude > 65504.0F ? std::numeric_limits<float>::infinity() : magnitude;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(infinite) | static_cast<std::uint32_t>(bits & 0x8000U)
                                                                           << 16);
}

float decode_brain(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }

// One element from its storage; C is float where that is exact.
template <class C, DType D, class T>
C decode(T stored) {
  if constexpr (D == DType::float16) return decode_half(stored);
  else if constexpr (D == DType::bfloat16) return decode_brain(stored);
  else return static_cast<C>(stored);
}

template <class C, DType D, class T>
void read(const std::byte* from, std::size_t count, C* to) {
  if constexpr (std::is_same_v<C, T>) {
    std::memcpy(to, from, count * sizeof(T));
  } else {
    T stored[kChunk];
    std::memcpy(stored, from, count * sizeof(T));
    std::size_t i = 0;
    for (; i + kLanes <= count; i += kLanes) {
      for (std::size_t lane = 0; lane < kLanes; ++lane) to[i + lane] = decode<C, D, T>(stored[i + lane]);
    }
    for (; i < count; ++i) to[i] = decode<C, D, T>(stored[i]);
  }
}

// The formats of 8 bits and fewer that have no arithmetic of their own: a byte each in memory.
template <DType D>
void read_small_float(const std::byte* from, std::size_t count, float* to) {
  for (std::size_t i = 0; i < count; ++i) {
    to[i] = static_cast<float>(decode_float(D, std::to_integer<std::uint32_t>(from[i])));
  }
}

// How elements of a dtype are read: into floats where that is exact, else into doubles.
struct Reader {
  std::size_t width = 0;
  void (*floats)(const std::byte*, std::size_t, float*) = nullptr;
  void (*doubles)(const std::byte*, std::size_t, double*) = nullptr;
};

Reader reader_of(DType dtype) {
  using enum DType;
  switch (dtype) {
    case float32: return {4, read<float, float32, float>, nullptr};
    case float16: return {2, read<float, float16, std::uint16_t>, nullptr};
    case bfloat16: return {2, read<float, bfloat16, std::uint16_t>, nullptr};
    case float64: return {8, nullptr, read<double, float64, double>};
    case int8: return {1, read<float, int8, std::int8_t>, nullptr};
    case uint8: return {1, read<float, uint8, std::uint8_t>, nullptr};
    case int16: return {2, read<float, int16, std::int16_t>, nullptr};
    case uint16: return {2, read<float, uint16, std::uint16_t>, nullptr};
    case int32: return {4, nullptr, read<double, int32, std::int32_t>};
    case uint32: return {4, nullptr, read<double, uint32, std::uint32_t>};
    case int64: return {8, nullptr, read<double, int64, std::int64_t>};
    case uint64: return {8, nullptr, read<double, uint64, std::uint64_t>};
    case float8e4m3fn: return {1, read_small_float<float8e4m3fn>, nullptr};
    case float8e4m3fnuz: return {1, read_small_float<float8e4m3fnuz>, nullptr};
    case float8e5m2: return {1, read_small_float<float8e5m2>, nullptr};
    case float8e5m2fnuz: return {1, read_small_float<float8e5m2fnuz>, nullptr};
    default: return {};
  }
}

// ---- adding ------------------------------------------------------------------

template <class C>
void subtract_one(C* values, std::size_t count, double offset) {
  if (offset == 0) return;
  for (std::size_t i = 0; i < count; ++i) values[i] -= static_cast<C>(offset);
}

template <class C>
void subtract_each(C* values, std::size_t count, const double* offsets) {
  for (std::size_t i = 0; i < count; ++i) values[i] -= static_cast<C>(offsets[i]);
}

// Everything into one sum.
template <class C>
inline __attribute__((always_inline)) void add_to_one(const C* values, std::size_t count, double& sum,
                                                      double& magnitude) {
  double sums[kLanes] = {}, magnitudes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const C value = values[i + lane];
      sums[lane] += static_cast<double>(value);
      magnitudes[lane] += static_cast<double>(std::abs(value));
    }
  }
  for (; i < count; ++i) {
    sums[0] += static_cast<double>(values[i]);
    magnitudes[0] += static_cast<double>(std::abs(values[i]));
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    sum += sums[lane];
    magnitude += magnitudes[lane];
  }
}

// Each value into a sum of its own.
template <class C>
inline __attribute__((always_inline)) void add_to_each(const C* values, std::size_t count, double* __restrict sums,
                                                       double* __restrict magnitudes) {
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      sums[i + lane] += static_cast<double>(values[i + lane]);
      magnitudes[i + lane] += static_cast<double>(std::abs(values[i + lane]));
    }
  }
  for (; i < count; ++i) {
    sums[i] += static_cast<double>(values[i]);
    magnitudes[i] += static_cast<double>(std::abs(values[i]));
  }
}

// Without branches, which signs of weights would mislead half the time.
template <class C>
inline __attribute__((always_inline)) void replace_by_signs(C* values, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) values[i] = (values[i] > 0 ? C{1} : C{0}) - (values[i] < 0 ? C{1} : C{0});
}

// Nearly all the time of a large network goes into these.
FINITY_WIDE void keep_signs(float* values, std::size_t count) { replace_by_signs(values, count); }
void keep_signs(double* values, std::size_t count) { replace_by_signs(values, count); }
FINITY_WIDE void add_all(const float* values, std::size_t count, double& sum, double& magnitude) {
  add_to_one(values, count, sum, magnitude);
}
FINITY_WIDE void add_each(const float* values, std::size_t count, double* sums, double* magnitudes) {
  add_to_each(values, count, sums, magnitudes);
}
void add_all(const double* values, std::size_t count, double& sum, double& magnitude) {
  add_to_one(values, count, sum, magnitude);
}
void add_each(const double* values, std::size_t count, double* sums, double* magnitudes) {
  add_to_each(values, count, sums, magnitudes);
}

// ---- walking -----------------------------------------------------------------

// Neighbouring axes of one kind are one axis.
std::vector<WeightAxis> merged(std::span<const WeightAxis> axes) {
  std::vector<WeightAxis> result;
  for (const WeightAxis& axis : axes) {
    if (axis.size == 1) continue;
    if (!result.empty() && result.back().summed == axis.summed) result.back().size *= axis.size;
    else result.push_back(axis);
  }
  return result;
}

template <class C>
class Summer {
 public:
  Summer(void (*read)(const std::byte*, std::size_t, C*), std::size_t width, const WeightData& data,
         std::vector<WeightAxis> axes, std::span<const std::int64_t> cuts, std::span<const double> offsets,
         WeightSums& result, bool signs)
      : read_(read),
        width_(width),
        data_(data),
        axes_(std::move(axes)),
        cuts_(cuts),
        offsets_(offsets),
        out_(result),
        signs_(signs) {}

  void run() { walk(0, 0, 0, 0); }

 private:
  // The two innermost axes are done by loops over contiguous memory. `depth` counts along the summed axes.
  void walk(std::size_t axis, std::int64_t element, std::int64_t column, std::int64_t depth) {
    if (axis == axes_.size()) return add_row(element, 1, column, depth);
    const WeightAxis& here = axes_[axis];
    if (axis + 1 == axes_.size()) {
      if (here.summed) add_row(element, here.size, column, depth);
      else add_columns(element, 1, here.size, column, depth);
      return;
    }
    if (axis + 2 == axes_.size() && here.summed) {
      return add_columns(element, here.size, axes_[axis + 1].size, column, depth);
    }
    std::int64_t elements = 1, same_kind = 1;
    for (std::size_t i = axis + 1; i < axes_.size(); ++i) {
      elements *= axes_[i].size;
      if (axes_[i].summed == here.summed) same_kind *= axes_[i].size;
    }
    for (std::int64_t i = 0; i < here.size; ++i) {
      walk(axis + 1, element + i * elements, column + (here.summed ? 0 : i * same_kind),
           depth + (here.summed ? i * same_kind : 0));
    }
  }

  std::size_t segment_of(std::int64_t depth) const {
    return static_cast<std::size_t>(std::ranges::upper_bound(cuts_, depth) - cuts_.begin());
  }
  std::int64_t segment_end(std::size_t segment, std::int64_t end) const {
    return segment < cuts_.size() ? std::min(cuts_[segment], end) : end;
  }
  double offset(std::int64_t column) const {
    if (offsets_.empty()) return 0;
    return offsets_[offsets_.size() == 1 ? 0 : static_cast<std::size_t>(column)];
  }
  const std::byte* at(std::int64_t element) const {
    return data_.bytes.data() + static_cast<std::size_t>(element) * width_;
  }

  // `count` contiguous elements of one column.
  void add_row(std::int64_t element, std::int64_t count, std::int64_t column, std::int64_t depth) {
    const std::int64_t end = depth + count;
    while (depth < end) {
      const std::size_t segment = segment_of(depth);
      const std::int64_t stop = std::min(segment_end(segment, end), depth + static_cast<std::int64_t>(kChunk));
      const auto length = static_cast<std::size_t>(stop - depth);
      read_(at(element), length, buffer_);
      subtract_one(buffer_, length, offset(column));
      if (signs_) keep_signs(buffer_, length);
      const std::size_t to = segment * out_.columns + static_cast<std::size_t>(column);
      add_all(buffer_, length, out_.sum[to], out_.magnitude[to]);
      element += stop - depth;
      depth = stop;
    }
  }

  // A matrix [rows, columns], summed over its rows. Few columns at a time, so that their sums stay in the cache.
  void add_columns(std::int64_t element, std::int64_t rows, std::int64_t columns, std::int64_t column,
                   std::int64_t depth) {
    for (std::int64_t first = 0; first < columns; first += static_cast<std::int64_t>(kChunk)) {
      const auto length = static_cast<std::size_t>(std::min<std::int64_t>(columns - first, kChunk));
      std::size_t segment = segment_of(depth);
      for (std::int64_t row = 0; row < rows; ++row) {
        while (segment < cuts_.size() && cuts_[segment] <= depth + row) ++segment;
        read_(at(element + row * columns + first), length, buffer_);
        if (offsets_.size() > 1) subtract_each(buffer_, length, offsets_.data() + column + first);
        else subtract_one(buffer_, length, offset(column));
        if (signs_) keep_signs(buffer_, length);
        const std::size_t to = segment * out_.columns + static_cast<std::size_t>(column + first);
        add_each(buffer_, length, out_.sum.data() + to, out_.magnitude.data() + to);
      }
    }
  }

  void (*read_)(const std::byte*, std::size_t, C*);
  std::size_t width_;
  const WeightData& data_;
  std::vector<WeightAxis> axes_;
  std::span<const std::int64_t> cuts_;
  std::span<const double> offsets_;
  WeightSums& out_;
  bool signs_;  // add up 1, 0 and -1 instead
  C buffer_[kChunk];
};

}  // namespace

bool is_weight_type(DType dtype) { return reader_of(dtype).width != 0; }

namespace {

WeightSums summed(const WeightData& data, std::span<const WeightAxis> axes, std::span<const std::int64_t> cuts,
                  std::span<const double> offsets, bool signs) {
  const Reader reader = reader_of(data.dtype);
  WeightSums result;
  std::size_t elements = 1;
  for (const WeightAxis& axis : axes) {
    elements *= static_cast<std::size_t>(axis.size);
    if (!axis.summed) result.columns *= static_cast<std::size_t>(axis.size);
  }
  assert(elements * reader.width <= data.bytes.size() && reader.width != 0);
  result.segments = cuts.size() + 1;
  result.sum.resize(result.segments * result.columns, 0);
  result.magnitude.resize(result.segments * result.columns, 0);
  if (elements == 0) return result;
  if (reader.floats != nullptr) {
    Summer<float>(reader.floats, reader.width, data, merged(axes), cuts, offsets, result, signs).run();
  } else {
    Summer<double>(reader.doubles, reader.width, data, merged(axes), cuts, offsets, result, signs).run();
  }
  return result;
}

FINITY_WIDE void take_smallest(const float* values, std::size_t count, float* smallest) {
  for (std::size_t i = 0; i + kLanes <= count; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float size = std::abs(values[i + lane]);
      const float seen = size > 0 ? size : smallest[lane];
      smallest[lane] = seen < smallest[lane] ? seen : smallest[lane];
    }
  }
}

// Of the magnitudes that are not zero; 0 where that is not known.
double smallest_weight(const WeightData& data) {
  const Reader reader = reader_of(data.dtype);
  if (reader.floats == nullptr) return 0;
  float buffer[kChunk], smallest[kLanes];
  std::ranges::fill(smallest, std::numeric_limits<float>::infinity());
  const std::size_t total = data.bytes.size() / reader.width;
  for (std::size_t first = 0; first < total; first += kChunk) {
    const std::size_t length = std::min(kChunk, total - first);
    reader.floats(data.bytes.data() + first * reader.width, length, buffer);
    std::fill(buffer + length, buffer + kChunk, 0.0F);
    take_smallest(buffer, kChunk, smallest);
  }
  return static_cast<double>(*std::ranges::min_element(smallest));
}

}  // namespace

WeightSums weight_sums(const WeightData& data, std::span<const WeightAxis> axes, std::span<const std::int64_t> cuts,
                       std::span<const double> offsets) {
  WeightSums result = summed(data, axes, cuts, offsets, false);
  // A tiny weight vanishes in a sum beside large ones of the other sign: what seems to have but one sign is counted,
  // if there is a weight so tiny. Each sum is off by at most 2^-53 of its magnitude per term.
  double terms = 1;
  for (const WeightAxis& axis : axes) terms *= axis.summed ? static_cast<double>(axis.size) : 1;
  std::optional<double> smallest = offsets.empty() ? std::nullopt : std::optional(0.0);
  std::optional<WeightSums> signs;
  for (std::size_t i = 0; i < result.sum.size(); ++i) {
    if (!(result.magnitude[i] > 0) || std::abs(result.sum[i]) < result.magnitude[i]) continue;
    if (!is_float(data.dtype)) break;  // integers add up exactly
    if (!smallest) smallest = smallest_weight(data);
    if (*smallest > terms * 0x1p-51 * result.magnitude[i]) continue;
    if (!signs) signs = summed(data, axes, cuts, offsets, true);
    if (std::abs(signs->sum[i]) == signs->magnitude[i]) continue;
    const double lost = result.magnitude[i] * (signs->magnitude[i] + 16) * 0x1p-52;
    result.magnitude[i] += std::max(lost, 4 * std::numeric_limits<double>::denorm_min());
  }
  return result;
}

bool has_zero(const WeightData& data) {
  const Reader reader = reader_of(data.dtype);
  const auto search = [&]<class C>(void (*read)(const std::byte*, std::size_t, C*)) {
    C buffer[kChunk];
    const std::size_t total = data.bytes.size() / reader.width;
    for (std::size_t first = 0; first < total; first += kChunk) {
      const std::size_t length = std::min(kChunk, total - first);
      read(data.bytes.data() + first * reader.width, length, buffer);
      if (std::find(buffer, buffer + length, C{0}) != buffer + length) return true;
    }
    return false;
  };
  return reader.floats != nullptr ? search(reader.floats) : search(reader.doubles);
}

}  // namespace finity

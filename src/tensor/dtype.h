// Element types. The numbers are those of ONNX's TensorProto.DataType, the
// widest list of the formats we read; other formats translate to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace finity {

enum class DType : std::uint8_t {
  undefined = 0,
  float32 = 1,
  uint8 = 2,
  int8 = 3,
  uint16 = 4,
  int16 = 5,
  int32 = 6,
  int64 = 7,
  string = 8,
  boolean = 9,
  float16 = 10,
  float64 = 11,
  uint32 = 12,
  uint64 = 13,
  complex64 = 14,
  complex128 = 15,
  bfloat16 = 16,
  float8e4m3fn = 17,
  float8e4m3fnuz = 18,
  float8e5m2 = 19,
  float8e5m2fnuz = 20,
  uint4 = 21,
  int4 = 22,
  float4e2m1 = 23,
  float8e8m0 = 24,
  uint2 = 25,
  int2 = 26,
};
inline constexpr int kDTypeCount = 27;

enum class DTypeClass : std::uint8_t { none, floating, signed_integer, unsigned_integer, boolean, string, complex };

struct DTypeInfo {
  std::string_view name;
  DTypeClass kind = DTypeClass::none;
  int bits = 0;          // as stored in files
  int memory_bytes = 0;  // as held by Tensor: types below 8 bits take a byte per element
};

const DTypeInfo& info(DType dtype);
inline std::string_view name(DType dtype) { return info(dtype).name; }
std::optional<DType> dtype_from_name(std::string_view name);
std::optional<DType> dtype_from_code(std::int64_t code);

inline bool is_float(DType t) { return info(t).kind == DTypeClass::floating; }
inline bool is_signed_int(DType t) { return info(t).kind == DTypeClass::signed_integer; }
inline bool is_unsigned_int(DType t) { return info(t).kind == DTypeClass::unsigned_integer; }
inline bool is_int(DType t) { return is_signed_int(t) || is_unsigned_int(t); }
inline bool is_complex(DType t) { return info(t).kind == DTypeClass::complex; }

// What rounding to a floating format needs to know. max_finite is also the
// saturation value; `infinite` and `negative_zero` say whether the format has them.
struct FloatFormat {
  int mantissa_bits = 0;  // explicit ones
  int min_exponent = 0;   // of the smallest normal number
  double max_finite = 0;
  bool infinite = true;
  bool negative_zero = true;
  bool nan = true;
};

const FloatFormat& float_format(DType dtype);

// Smallest and largest value of an integer type, as signed/unsigned 64-bit numbers.
std::int64_t int_min(DType dtype);
std::uint64_t int_max(DType dtype);

}  // namespace finity

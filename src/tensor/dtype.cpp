#include "tensor/dtype.h"

#include <array>
#include <string>

#include "base/error.h"

namespace finity {

namespace {

using enum DTypeClass;

constexpr std::array<DTypeInfo, kDTypeCount> kInfo = {{
    {"undefined", none, 0, 0},
    {"float32", floating, 32, 4},
    {"uint8", unsigned_integer, 8, 1},
    {"int8", signed_integer, 8, 1},
    {"uint16", unsigned_integer, 16, 2},
    {"int16", signed_integer, 16, 2},
    {"int32", signed_integer, 32, 4},
    {"int64", signed_integer, 64, 8},
    {"string", string, 0, 0},
    {"bool", boolean, 8, 1},
    {"float16", floating, 16, 2},
    {"float64", floating, 64, 8},
    {"uint32", unsigned_integer, 32, 4},
    {"uint64", unsigned_integer, 64, 8},
    {"complex64", complex, 64, 8},
    {"complex128", complex, 128, 16},
    {"bfloat16", floating, 16, 2},
    {"float8e4m3fn", floating, 8, 1},
    {"float8e4m3fnuz", floating, 8, 1},
    {"float8e5m2", floating, 8, 1},
    {"float8e5m2fnuz", floating, 8, 1},
    {"uint4", unsigned_integer, 4, 1},
    {"int4", signed_integer, 4, 1},
    {"float4e2m1", floating, 4, 1},
    {"float8e8m0", floating, 8, 1},
    {"uint2", unsigned_integer, 2, 1},
    {"int2", signed_integer, 2, 1},
}};

constexpr FloatFormat kFloat64{52, -1022, 0x1.fffffffffffffp1023};
constexpr FloatFormat kFloat32{23, -126, 0x1.fffffep127};
constexpr FloatFormat kFloat16{10, -14, 65504.0};
constexpr FloatFormat kBFloat16{7, -126, 0x1.fep127};
constexpr FloatFormat kE4M3FN{3, -6, 448.0, false};
constexpr FloatFormat kE4M3FNUZ{3, -7, 240.0, false, false};
constexpr FloatFormat kE5M2{2, -14, 57344.0};
constexpr FloatFormat kE5M2FNUZ{2, -15, 57344.0, false, false};
constexpr FloatFormat kE2M1{1, 0, 6.0, false, true, false};
constexpr FloatFormat kE8M0{0, -127, 0x1p127, false, false};

}  // namespace

const DTypeInfo& info(DType dtype) { return kInfo[static_cast<std::size_t>(dtype)]; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (int code = 1; code < kDTypeCount; ++code) {
    if (kInfo[static_cast<std::size_t>(code)].name == name) return static_cast<DType>(code);
  }
  return std::nullopt;
}

std::optional<DType> dtype_from_code(std::int64_t code) {
  if (code <= 0 || code >= kDTypeCount) return std::nullopt;
  return static_cast<DType>(code);
}

const FloatFormat& float_format(DType dtype) {
  switch (dtype) {
    case DType::float16: return kFloat16;
    case DType::bfloat16: return kBFloat16;
    case DType::float32: return kFloat32;
    case DType::float8e4m3fn: return kE4M3FN;
    case DType::float8e4m3fnuz: return kE4M3FNUZ;
    case DType::float8e5m2: return kE5M2;
    case DType::float8e5m2fnuz: return kE5M2FNUZ;
    case DType::float4e2m1: return kE2M1;
    case DType::float8e8m0: return kE8M0;
    case DType::float64: return kFloat64;
    // A rule that asks all the same gets no answer, and its node no proof.
    default: throw Error("asked for the float format of " + std::string(name(dtype)));
  }
}

std::int64_t int_min(DType dtype) {
  if (!is_signed_int(dtype)) return 0;
  return static_cast<std::int64_t>(~std::uint64_t{0} << (info(dtype).bits - 1));
}

std::uint64_t int_max(DType dtype) {
  if (dtype == DType::boolean) return 1;
  const int bits = info(dtype).bits - (is_signed_int(dtype) ? 1 : 0);
  return bits == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << bits) - 1;
}

}  // namespace finity

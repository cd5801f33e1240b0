#include "formats/text/literals.h"

#include <charconv>
#include <cmath>
#include <complex>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/text/text.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity::textform {

namespace {

constexpr int kMaxTypeDepth = 64;

// A constant that the file keeps as a sparse tensor.
class SparseConstant final : public Constant {
 public:
  explicit SparseConstant(ConstantPtr dense) : Constant(dense->dtype(), dense->dims()), dense_(std::move(dense)) {}
  Tensor load() const override { return dense_->load(); }
  std::string missing() const override { return dense_->missing(); }
  bool sparse() const override { return true; }

 private:
  ConstantPtr dense_;
};

struct TensorType {
  DType dtype = DType::undefined;
  Dims dims = {};
};

template <class Float>
std::optional<Float> from_text(std::string_view text) {
  Float value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc()) return std::nullopt;
  return value;
}

// Decimals go to float32 directly: through double they could be rounded twice. Only underflow needs the detour.
std::optional<double> decimal(std::string_view text, DType dtype) {
  if (dtype == DType::float32) {
    if (const auto narrow = from_text<float>(text)) return static_cast<double>(*narrow);
  }
  return from_text<double>(text);
}

std::string why_not(DType dtype, double value) {
  const double rounded = round_to(dtype, value);
  const std::string format(name(dtype));
  if (std::isnan(value)) return std::isnan(rounded) ? "" : format + " has no nan";
  if (std::isinf(value)) return std::isinf(rounded) ? "" : format + " has no infinity";
  const bool lost_zero = value == 0 && rounded != 0;
  return std::isfinite(rounded) && !lost_zero ? "" : "the number does not fit " + format;
}

template <class Int>
Int read_int(Lexer& in, DType dtype, Int low, Int high) {
  const Token token = in.peek();
  if (token.kind != Token::Kind::integer) in.fail_expected("an integer");
  in.take();
  Int value = 0;
  const char* end = token.text.data() + token.text.size();
  const auto result = std::from_chars(token.text.data(), end, value);
  if (result.ec != std::errc() || result.ptr != end || value < low || value > high) {
    in.fail(token.offset, "the number does not fit " + std::string(name(dtype)));
  }
  return value;
}

bool read_bool(Lexer& in) {
  if (in.accept_word("true")) return true;
  if (in.accept_word("false")) return false;
  in.fail_expected("true or false");
}

std::complex<double> read_complex(Lexer& in, DType part) {
  in.expect("(");
  const double real = read_real(in, part);
  in.expect(",");
  const double imaginary = read_real(in, part);
  in.expect(")");
  return {real, imaginary};
}

// Grows with the text, so a type that promises more than the braces hold costs nothing.
template <class T, class Read>
std::vector<T> read_elements(Lexer& in, std::int64_t count, Read read) {
  std::vector<T> values;
  const std::size_t start = in.peek().offset;
  const auto expected = static_cast<std::size_t>(count);
  const std::string promise = "expected " + std::to_string(count) + (count == 1 ? " element" : " elements");
  in.list("{", "}", [&] {
    if (values.size() == expected) in.fail(in.peek().offset, promise + " but found more");
    values.push_back(read());
  });
  if (values.size() != expected) in.fail(start, promise + " but found " + std::to_string(values.size()));
  return values;
}

Tensor read_filled(Lexer& in, TensorType type, std::int64_t count) {
  const DType dtype = type.dtype;
  if (dtype == DType::string) {
    const auto read = [&] { return in.string("a string"); };
    return Tensor::of_strings(std::move(type.dims), read_elements<std::string>(in, count, read));
  }
  if (dtype == DType::boolean) {
    const auto values = read_elements<std::int64_t>(in, count, [&] { return read_bool(in) ? 1 : 0; });
    return from_elements(dtype, std::move(type.dims), values);
  }
  if (is_complex(dtype)) {
    const DType part = dtype == DType::complex64 ? DType::float32 : DType::float64;
    const auto values = read_elements<std::complex<double>>(in, count, [&] { return read_complex(in, part); });
    return from_elements(dtype, std::move(type.dims), values);
  }
  if (is_float(dtype)) {
    const auto values = read_elements<double>(in, count, [&] { return read_real(in, dtype); });
    return from_elements(dtype, std::move(type.dims), values);
  }
  if (is_unsigned_int(dtype)) {
    const auto read = [&] { return read_int<std::uint64_t>(in, dtype, 0, int_max(dtype)); };
    return from_elements(dtype, std::move(type.dims), read_elements<std::uint64_t>(in, count, read));
  }
  const auto high = static_cast<std::int64_t>(int_max(dtype));
  const auto read = [&] { return read_int<std::int64_t>(in, dtype, int_min(dtype), high); };
  return from_elements(dtype, std::move(type.dims), read_elements<std::int64_t>(in, count, read));
}

Dims read_dims(Lexer& in) {
  Dims dims;
  in.list("[", "]", [&] { dims.push_back(in.integer("a size", 0)); });
  return dims;
}

// A dtype's name, or ? for an unknown one.
DType read_dtype(Lexer& in, std::string_view what) {
  if (in.accept("?")) return DType::undefined;
  const std::optional<DType> dtype =
      in.peek().kind == Token::Kind::name ? dtype_from_name(in.peek().text) : std::nullopt;
  if (!dtype) in.fail_expected(what);
  in.take();
  return *dtype;
}

std::int64_t checked_count(Lexer& in, std::size_t offset, const Dims& dims) {
  try {
    return element_count(dims);
  } catch (const Error& error) {
    in.fail(offset, error.what());
  }
}

TensorType declared_tensor(Lexer& in, const Type& declared) {
  Type dense = declared;
  if (dense.kind == Type::Kind::sparse_tensor) dense.kind = Type::Kind::tensor;
  std::optional<Dims> dims = dense.dims();
  if (!dims) in.fail(in.peek().offset, "these elements need a type with known sizes, as in float32[2] {1, 2}");
  return {.dtype = dense.dtype, .dims = std::move(*dims)};
}

Dim read_dim(Lexer& in, GraphBuilder& builder) {
  if (in.accept("?")) return {};
  if (in.peek().kind == Token::Kind::integer) return Dim::of(in.integer("a size", 0));
  return {.size = -1, .symbol = builder.symbol(in.name("a size, a symbol or ?"))};
}

Type read_shape(Lexer& in, GraphBuilder& builder, Type type) {
  const std::size_t start = in.peek().offset;
  bool ranked = true;
  in.list("[", "]", [&] {
    if (in.accept("...")) ranked = false;
    else type.shape.push_back(read_dim(in, builder));
  });
  if (!ranked && !type.shape.empty()) in.fail(start, "'...' stands alone: the rank is known or it is not");
  type.ranked = ranked;
  return type;
}

Type read_type_at(Lexer& in, GraphBuilder& builder, int depth);

// sequence(type), optional(type), map(key, type)
Type read_container(Lexer& in, GraphBuilder& builder, Type::Kind kind, int depth) {
  if (depth == kMaxTypeDepth) in.fail(in.peek().offset, "types are nested deeper than " + std::to_string(depth));
  Type type;
  type.kind = kind;
  in.take();
  in.expect("(");
  if (kind == Type::Kind::map) {
    type.dtype = read_dtype(in, "the type of the keys");
    in.expect(",");
  }
  type.element = std::make_shared<const Type>(read_type_at(in, builder, depth + 1));
  in.expect(")");
  return type;
}

Type read_type_at(Lexer& in, GraphBuilder& builder, int depth) {
  if (in.at_word("sequence")) return read_container(in, builder, Type::Kind::sequence, depth);
  if (in.at_word("optional")) return read_container(in, builder, Type::Kind::optional, depth);
  if (in.at_word("map")) return read_container(in, builder, Type::Kind::map, depth);
  const bool sparse = in.accept_word("sparse");
  const bool unknown = in.at("?");
  Type type = Type::tensor(read_dtype(in, "a type"));
  if (sparse) type.kind = Type::Kind::sparse_tensor;
  else if (unknown && !in.at("[")) return {};
  return read_shape(in, builder, std::move(type));
}

}  // namespace

double read_real(Lexer& in, DType dtype) {
  const Token token = in.peek();
  std::optional<double> value;
  if (token.kind == Token::Kind::integer || token.kind == Token::Kind::real) value = decimal(token.text, dtype);
  else if (in.at_word("inf")) value = std::numeric_limits<double>::infinity();
  else if (in.at_word("nan")) value = std::numeric_limits<double>::quiet_NaN();
  else in.fail_expected("a number");
  in.take();
  const std::string reason = value ? why_not(dtype, *value) : "the number does not fit " + std::string(name(dtype));
  if (!reason.empty()) in.fail(token.offset, reason);
  return round_to(dtype, *value);
}

Type read_type(Lexer& in, GraphBuilder& builder) { return read_type_at(in, builder, 0); }

Tensor read_tensor(Lexer& in, DType dtype) {
  const std::size_t start = in.peek().offset;
  TensorType type{.dtype = dtype, .dims = read_dims(in)};
  const std::int64_t count = checked_count(in, start, type.dims);
  return read_filled(in, std::move(type), count);
}

Tensor read_tensor(Lexer& in) {
  const std::size_t start = in.peek().offset;
  const DType dtype = read_dtype(in, "a tensor such as float32[2] {1, 2}");
  if (dtype == DType::undefined) in.fail(start, "a tensor needs an element type");
  return read_tensor(in, dtype);
}

ConstantPtr read_constant(Lexer& in, const Type& declared) {
  const bool sparse = in.accept_word("sparse");
  const std::size_t start = in.peek().offset;
  TensorType type;
  if (in.at("{")) {
    type = declared_tensor(in, declared);
  } else {
    type.dtype = read_dtype(in, "a tensor such as float32[2] {1, 2}");
    type.dims = read_dims(in);
  }
  const std::int64_t count = checked_count(in, start, type.dims);
  ConstantPtr constant;
  if (Lexer ahead = in; ahead.accept("{") && ahead.accept("...")) {
    const std::string reason = ahead.at("}") ? std::string(kElidedReason) : ahead.string("'}' or a reason");
    ahead.expect("}");
    in = ahead;
    constant = std::make_shared<const MissingConstant>(type.dtype, std::move(type.dims), reason);
  } else {
    if (type.dtype == DType::undefined) in.fail(start, "a tensor needs an element type");
    constant = make_constant(read_filled(in, std::move(type), count));
  }
  return sparse ? std::make_shared<const SparseConstant>(std::move(constant)) : constant;
}

}  // namespace finity::textform

namespace finity {

Tensor parse_tensor(std::string_view text) {
  textform::Lexer in(text, "");
  Tensor tensor = textform::read_tensor(in);
  if (!in.at_end()) in.fail_expected("the end of the text");
  return tensor;
}

}  // namespace finity

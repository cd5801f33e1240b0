#include "formats/text/print_literals.h"

#include <array>
#include <charconv>
#include <cmath>
#include <complex>
#include <type_traits>

#include "base/error.h"
#include "formats/text/quote.h"
#include "formats/text/text.h"
#include "tensor/convert.h"

namespace finity::textform {

namespace {

template <class Float>
std::string shortest(Float value) {
  if (std::isnan(value)) return "nan";
  std::array<char, 64> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

std::string dtype_name(DType dtype) { return dtype == DType::undefined ? "?" : std::string(name(dtype)); }

template <class Items, class Print>
std::string joined(const Items& items, Print print) {
  std::string text;
  for (const auto& item : items) {
    if (!text.empty()) text += ", ";
    text += print(item);
  }
  return text;
}

std::string print_dim(const Graph& graph, const Dim& dim) {
  if (dim.known()) return std::to_string(dim.size);
  return dim.symbol.valid() ? as_name(graph.symbol(dim.symbol)) : "?";
}

std::string print_shape(const Graph& graph, const Type& type) {
  if (!type.ranked) return "[...]";
  return "[" + joined(type.shape, [&](const Dim& dim) { return print_dim(graph, dim); }) + "]";
}

std::string print_element_type(const Graph& graph, const Type& type) {
  return type.element ? print_type(graph, *type.element) : "?";
}

template <class Part>
std::string print_complex(const std::complex<Part>& value) {
  return "(" + shortest(value.real()) + ", " + shortest(value.imag()) + ")";
}

std::string print_floats(const Tensor& tensor) {
  if (tensor.dtype() == DType::float64) return joined(tensor.data<double>(), shortest<double>);
  // Every narrower format is a subset of float32.
  return joined(elements<float>(tensor), shortest<float>);
}

std::string print_all(const Tensor& tensor) {
  switch (info(tensor.dtype()).kind) {
    case DTypeClass::floating: return print_floats(tensor);
    case DTypeClass::signed_integer:
      return joined(elements<std::int64_t>(tensor), [](std::int64_t x) { return std::to_string(x); });
    case DTypeClass::unsigned_integer:
      return joined(elements<std::uint64_t>(tensor), [](std::uint64_t x) { return std::to_string(x); });
    case DTypeClass::boolean:
      return joined(tensor.data<std::uint8_t>(), [](std::uint8_t x) { return std::string(x != 0 ? "true" : "false"); });
    case DTypeClass::string: return joined(tensor.strings(), [](const std::string& x) { return quoted(x); });
    case DTypeClass::complex:
      if (tensor.dtype() == DType::complex64) return joined(tensor.data<std::complex<float>>(), print_complex<float>);
      return joined(tensor.data<std::complex<double>>(), print_complex<double>);
    case DTypeClass::none: break;
  }
  return "...";
}

std::string elided(const std::string& reason) {
  return reason.empty() || reason == kElidedReason ? "{...}" : "{... " + quoted(reason) + "}";
}

}  // namespace

std::string print_number(double value) { return shortest(value); }
std::string print_number(float value) { return shortest(value); }

std::string print_float_attr(float value) {
  std::string text = shortest(value);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::string print_type(const Graph& graph, const Type& type) {
  switch (type.kind) {
    case Type::Kind::unknown: return "?";
    case Type::Kind::tensor: return dtype_name(type.dtype) + print_shape(graph, type);
    case Type::Kind::sparse_tensor: return "sparse " + dtype_name(type.dtype) + print_shape(graph, type);
    case Type::Kind::sequence: return "sequence(" + print_element_type(graph, type) + ")";
    case Type::Kind::optional: return "optional(" + print_element_type(graph, type) + ")";
    case Type::Kind::map: return "map(" + dtype_name(type.dtype) + ", " + print_element_type(graph, type) + ")";
  }
  return "?";
}

std::string print_tensor_type(DType dtype, const Dims& dims) {
  return dtype_name(dtype) + "[" + joined(dims, [](std::int64_t dim) { return std::to_string(dim); }) + "]";
}

// An Error of load() is the reason that stands in the text: a dump shows what is there, whatever is broken.
std::string print_elements(const Constant& constant, std::int64_t max_elements) {
  if (const std::string reason = constant.missing(); !reason.empty()) return elided(reason);
  try {
    if (max_elements >= 0 && element_count(constant.dims()) > max_elements) return elided("");
    return "{" + print_all(constant.load()) + "}";
  } catch (const Error& error) {
    return elided(error.what());
  }
}

std::string print_constant(const Constant& constant, std::int64_t max_elements) {
  const std::string type = print_tensor_type(constant.dtype(), constant.dims());
  return (constant.sparse() ? "sparse " : "") + type + " " + print_elements(constant, max_elements);
}

}  // namespace finity::textform

namespace finity {

std::string print_tensor(const Tensor& tensor) {
  return textform::print_tensor_type(tensor.dtype(), tensor.dims()) + " {" + textform::print_all(tensor) + "}";
}

}  // namespace finity

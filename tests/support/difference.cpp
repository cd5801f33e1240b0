#include "support/difference.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#include "exec/compare.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity {

namespace {

double largest_magnitude(const Tensor& tensor) {
  double largest = 0;
  for (const double x : elements<double>(tensor)) {
    if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  }
  return largest;
}

struct Granted {
  bool exact = true;
  bool elementwise = true;
  double roundings = 0;
};

Granted granted(const Graph& graph, const NamedData& inputs) {
  Granted result;
  for (const Node& node : graph.nodes()) {
    if (node.op == nullptr) continue;
    result.exact = result.exact && node.op->traits.exact;
    result.elementwise = result.elementwise && node.op->traits.elementwise;
    result.roundings += node.op->analysis.grants.specified.ulps;
  }
  if (result.elementwise) return result;
  for (const auto& [name, datum] : inputs) {
    if (datum.tensor() != nullptr) result.roundings += static_cast<double>(datum.tensor()->size());
  }
  for (const Value& value : graph.values()) {
    if (value.constant) result.roundings += static_cast<double>(element_count(value.constant->dims()));
  }
  return result;
}

std::string tensor_difference(const Granted& granted, const Tensor& actual, const Tensor& expected) {
  if (actual.dtype() != expected.dtype() || actual.dims() != expected.dims() || !is_float(expected.dtype()) ||
      info(expected.dtype()).bits < 16 || granted.exact) {
    const Compared result = compare(actual, expected, {0, 0});
    return result.within ? "" : "differs: " + result.why;
  }
  const FloatFormat& format = float_format(expected.dtype());
  const double unit = std::ldexp(1.0, -format.mantissa_bits), least = std::ldexp(1.0, format.min_exponent);
  const double common = granted.elementwise ? 0 : largest_magnitude(expected);
  const std::vector<double> a = elements<double>(actual), b = elements<double>(expected);
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    const double scale = std::max({std::abs(b[i]), least, common});
    if (std::isfinite(a[i]) && std::isfinite(b[i]) && std::abs(a[i] - b[i]) <= granted.roundings * unit * scale)
      continue;
    std::ostringstream text;
    text.precision(17);
    text << "element " << i << " is " << a[i] << ", expected " << b[i] << ", granted " << granted.roundings
         << " roundings";
    return text.str();
  }
  return {};
}

}  // namespace

std::string with_dtype(std::string text, const std::string& dtype) {
  for (std::size_t at = 0; (at = text.find("float32", at)) != std::string::npos; at += dtype.size()) {
    text.replace(at, std::string("float32").size(), dtype);
  }
  return text;
}

std::vector<std::string> single_cases(const std::string& text) {
  std::vector<std::string> result;
  std::string opsets;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("case ")) result.push_back(opsets);
    if (line.starts_with("opset ")) opsets += line + "\n";
    else if (!result.empty()) result.back() += line + "\n";
  }
  return result;
}

std::string difference(const Graph& graph, const NamedData& inputs, const Datum& actual, const Datum& expected) {
  const Granted how = granted(graph, inputs);
  if (actual.tensor() != nullptr && expected.tensor() != nullptr)
    return tensor_difference(how, *actual.tensor(), *expected.tensor());
  if (actual.sequence() == nullptr || expected.sequence() == nullptr)
    return actual.present() == expected.present() ? "" : "is of another kind";
  if (actual.sequence()->size() != expected.sequence()->size()) return "has another length";
  for (std::size_t i = 0; i < actual.sequence()->size(); ++i) {
    const std::string why = difference(graph, inputs, (*actual.sequence())[i], (*expected.sequence())[i]);
    if (!why.empty()) return "item " + std::to_string(i) + ": " + why;
  }
  return {};
}

}  // namespace finity

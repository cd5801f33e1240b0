#include "muffin/params.h"

#include <cstdio>

#include "tensor/tensor.h"

namespace finity::muffin {

namespace {

template <class T>
T value_of(const LayerSpec& spec, std::string_view name) {
  const auto found = spec.params.find(name);
  const T* value = found == spec.params.end() ? nullptr : std::get_if<T>(&found->second);
  return value == nullptr ? T{} : *value;
}

}  // namespace

std::int64_t LayerSpec::number(std::string_view name) const { return value_of<std::int64_t>(*this, name); }
double LayerSpec::real(std::string_view name) const { return value_of<double>(*this, name); }
std::string LayerSpec::word(std::string_view name) const { return value_of<std::string>(*this, name); }
std::vector<std::int64_t> LayerSpec::list(std::string_view name) const {
  return value_of<std::vector<std::int64_t>>(*this, name);
}

std::string to_string(const Param& param) {
  if (const auto* number = std::get_if<std::int64_t>(&param)) return std::to_string(*number);
  if (const auto* word = std::get_if<std::string>(&param)) return *word;
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&param)) return finity::to_string(*list);
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", std::get<double>(param));
  return text;
}

std::string to_string(const LayerSpec& spec) {
  std::string text;
  for (const auto& [name, value] : spec.params) text += (text.empty() ? "" : ", ") + name + "=" + to_string(value);
  if (spec.inner) text += (text.empty() ? "" : ", ") + to_string(*spec.inner);
  return spec.kind + "(" + text + ")";
}

}  // namespace finity::muffin

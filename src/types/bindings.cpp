#include <algorithm>
#include <charconv>

#include "base/suggest.h"
#include "types/infer.h"

namespace finity {

namespace {

[[noreturn]] void malformed(std::string_view text) {
  throw Error("shape '" + std::string(text) + "' is not of the form NAME:1,3,224,224 or SYMBOL=4");
}

std::int64_t parse_size(std::string_view digits, std::string_view whole) {
  std::int64_t size = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), size);
  if (error != std::errc() || end != digits.data() + digits.size() || size < 0) malformed(whole);
  return size;
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

Dims parse_dims(std::string_view list, std::string_view whole) {
  list = trimmed(list);
  if (list.starts_with('[')) {
    if (!list.ends_with(']')) malformed(whole);
    list = trimmed(list.substr(1, list.size() - 2));
  }
  Dims dims;
  if (list.empty()) return dims;
  while (true) {
    const std::size_t end = list.find_first_of(",x");
    dims.push_back(parse_size(trimmed(list.substr(0, end)), whole));
    if (end == std::string_view::npos) return dims;
    list.remove_prefix(end + 1);
  }
}

}  // namespace

void add_binding(Bindings& bindings, std::string_view text) {
  // Names may contain colons (TensorFlow's "x:0"), sizes may not.
  const std::size_t colon = text.rfind(':');
  const std::size_t equals = text.rfind('=');
  if (colon != std::string_view::npos && (equals == std::string_view::npos || colon > equals)) {
    if (colon == 0) malformed(text);
    bindings.inputs[std::string(text.substr(0, colon))] = parse_dims(text.substr(colon + 1), text);
  } else if (equals != std::string_view::npos && equals > 0) {
    bindings.symbols[std::string(text.substr(0, equals))] = parse_size(trimmed(text.substr(equals + 1)), text);
  } else {
    malformed(text);
  }
}

Bindings matching_bindings(const Graph& graph, const Bindings& bindings,
                           std::vector<std::pair<std::string, std::string>>& unmatched) {
  std::vector<std::string> names;
  for (const ValueId id : graph.main().inputs) names.push_back(graph.value(id).name);
  const std::vector<std::string> symbols(graph.symbols().begin(), graph.symbols().end());
  Bindings result;
  for (const auto& [name, dims] : bindings.inputs) {
    if (std::ranges::find(names, name) != names.end()) result.inputs.emplace(name, dims);
    else unmatched.emplace_back(name, "the model has no input named '" + name + "'" + did_you_mean(name, names));
  }
  for (const auto& [name, size] : bindings.symbols) {
    if (graph.find_symbol(name).valid()) result.symbols.emplace(name, size);
    else unmatched.emplace_back(name, "the model has no dimension named '" + name + "'" + did_you_mean(name, symbols));
  }
  return result;
}

}  // namespace finity

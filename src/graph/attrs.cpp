#include "graph/attrs.h"

#include <array>

namespace finity {

std::string_view kind_name(const Attr& attr) {
  static constexpr std::array<std::string_view, std::variant_size_v<Attr>> kNames = {
      "int", "float", "string", "tensor", "graph", "type", "ints", "floats", "strings", "tensors", "graphs", "types"};
  return kNames[attr.index()];
}

void Attrs::set(std::string name, Attr value) {
  for (auto& [key, old] : entries_) {
    if (key == name) {
      old = std::move(value);
      return;
    }
  }
  entries_.emplace_back(std::move(name), std::move(value));
}

std::vector<BodyId> bodies_of(const Attrs& attrs) {
  std::vector<BodyId> result;
  for (const auto& [name, value] : attrs) {
    if (const auto* one = std::get_if<BodyId>(&value)) result.push_back(*one);
    if (const auto* many = std::get_if<std::vector<BodyId>>(&value))
      result.insert(result.end(), many->begin(), many->end());
  }
  return result;
}

}  // namespace finity

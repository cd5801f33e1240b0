// Node attributes: a small vector of named values, in file order.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/ids.h"
#include "graph/constant.h"
#include "graph/type.h"

namespace finity {

using Attr = std::variant<std::int64_t, float, std::string, ConstantPtr, BodyId, Type, std::vector<std::int64_t>,
                          std::vector<float>, std::vector<std::string>, std::vector<ConstantPtr>, std::vector<BodyId>,
                          std::vector<Type>>;

// In words a user reads: "int", "float", "string", "tensor", "graph", "type", "ints", ...
std::string_view kind_name(const Attr& attr);

class Attrs {
 public:
  const Attr* find(std::string_view name) const {
    for (const auto& [key, value] : entries_) {
      if (key == name) return &value;
    }
    return nullptr;
  }
  void set(std::string name, Attr value);
  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }

 private:
  std::vector<std::pair<std::string, Attr>> entries_;
};

// Every body an attribute list refers to.
std::vector<BodyId> bodies_of(const Attrs& attrs);

}  // namespace finity

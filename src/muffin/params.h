// A layer as people write it down: its type, its parameters by name, and the seed of its weights. Two layers with the
// same text and the same operands compute the same, so layers can be copied, moved and counted.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace finity::muffin {

using Param = std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>>;

struct LayerSpec {
  std::string kind = {};  // "conv2D"
  std::map<std::string, Param, std::less<>> params = {};
  std::uint64_t seed = 0;                       // of its weights
  std::shared_ptr<const LayerSpec> inner = {};  // of time_distributed and bidirectional

  // What was set before; 0, "" or nothing when it was not.
  std::int64_t number(std::string_view name) const;
  double real(std::string_view name) const;
  std::string word(std::string_view name) const;
  std::vector<std::int64_t> list(std::string_view name) const;
  bool flag(std::string_view name) const { return number(name) != 0; }
  void set(std::string name, Param value) { params[std::move(name)] = std::move(value); }
};

std::string to_string(const Param& param);
// "conv2D(filters=3, kernel=2)".
std::string to_string(const LayerSpec& spec);

}  // namespace finity::muffin

// Gives each name once: "x", "x_2", "x_3". Whoever adds values to a graph asks here, so that no two of them are called
// the same.
#pragma once

#include <algorithm>
#include <string>
#include <unordered_map>

#include "graph/graph.h"

namespace finity {

class UniqueNames {
 public:
  UniqueNames() = default;
  // The names of all values of the graph are taken.
  explicit UniqueNames(const Graph& graph) {
    for (const Value& value : graph.values()) take(value.name);
  }

  void take(const std::string& name) { given_.try_emplace(name, 1); }

  // `wanted`, or `wanted` with a number when it is taken.
  std::string make(const std::string& wanted) {
    return make(wanted, [](const std::string&) { return false; });
  }
  // `taken` says whether somebody else has a name, who did not tell.
  template <class F>
  std::string make(const std::string& wanted, F&& taken) {
    int& last = given_[wanted];  // stays where it is when names are added
    if (++last == 1 && !taken(wanted)) return wanted;
    for (;; ++last) {
      std::string candidate = wanted + "_" + std::to_string(std::max(last, 2));
      if (!taken(candidate) && given_.try_emplace(candidate, 1).second) return candidate;
    }
  }

 private:
  std::unordered_map<std::string, int> given_;  // and the last number given to it
};

}  // namespace finity

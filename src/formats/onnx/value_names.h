// ONNX connects values by name. A graph need not have usable names (a program made
// it, or two calls were inlined), so the writer gives every value one that is unique
// in its body and hides no name from outside that its body uses. A name that already
// is like this stays as it is.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

namespace finity::onnx {

class ValueNames {
 public:
  explicit ValueNames(const Graph& graph);
  // Empty for an omitted operand.
  std::string_view operator[](ValueId id) const { return id.valid() ? names_[id.at()] : std::string_view(); }

 private:
  struct Taken {
    std::unordered_set<std::string_view> names = {};
    std::unordered_map<std::string_view, int> last_number = {};  // of names that were wanted again
  };

  // The names of outer values that the body uses.
  Taken captured_names(const Graph& graph, BodyId body) const;
  void name(const Value& value, ValueId id, Taken& taken);

  std::vector<std::string_view> names_;
  std::deque<std::string> made_;
};

}  // namespace finity::onnx

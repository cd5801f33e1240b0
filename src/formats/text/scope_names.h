// Names under which values are printed: their own wherever the parser would find
// the same value by it, else a fresh one. A graph refers to values by id, so two
// values of a body may share a name, and an inner value may hide a captured one.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "graph/graph.h"

namespace finity::textform {

class ScopeNames {
 public:
  explicit ScopeNames(const Graph& graph);

  const std::string& of(ValueId id) const;

 private:
  void enter_definitions();
  void check_uses();
  ValueId resolve(std::string_view name, BodyId from) const;
  void rename(ValueId id);

  const Graph& graph_;
  std::vector<std::unordered_map<std::string_view, ValueId>> scopes_;  // by body
  std::unordered_set<std::string> taken_;                              // filled by the first rename
  std::unordered_map<ValueId, std::string> renamed_;
};

}  // namespace finity::textform

#include "domain/facts.h"

namespace finity {

bool speaks_of_rows(const Fact& fact) {
  using Kind = Fact::Kind;
  return fact.kind == Kind::row_max || fact.kind == Kind::row_sum || fact.kind == Kind::row_norm ||
         fact.kind == Kind::row_min;
}

const Fact* find_fact(const Facts& facts, Fact::Kind kind, ValueId source) {
  if (!source.valid()) return nullptr;
  for (const Fact& fact : facts) {
    if (fact.kind == kind && fact.source == source) return &fact;
  }
  return nullptr;
}

const Fact* find_fact(const Facts& facts, Fact::Kind kind) {
  for (const Fact& fact : facts) {
    if (fact.kind == kind) return &fact;
  }
  return nullptr;
}

}  // namespace finity

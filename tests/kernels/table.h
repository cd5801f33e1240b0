// testdata/kernels/ENGINE-VERSION.tsv: what is known of every op in a runtime. What lies outside its range has a
// reason, written by a person; a row that is new or different fails.
#pragma once

#include <compare>
#include <map>
#include <string>
#include <vector>

#include "exec/protocol.h"
#include "kernels/trial.h"

namespace finity::kernels {

struct Key {
  std::string op = {};
  std::string dtype = {};

  auto operator<=>(const Key&) const = default;
};
using Results = std::map<Key, Tally>;

struct Row {
  std::string outcome = {};
  std::string reason = {};
};
using Table = std::map<Key, Row>;

// "inside", "outside: NaN", "not implemented", ...
std::string outcome_of(const Tally& tally);

// So that nothing is left out in silence.
void add_ops_without_cases(Results& results);

Table read_table(const std::string& path);
// Reasons stay with rows whose outcome is the same.
void write_table(const std::string& path, const Results& results, const Table& old, const Hello& hello);
// One line per difference. `whole`: rows without a result are differences, too.
std::vector<std::string> compare(const Results& results, const Table& table, bool whole);

}  // namespace finity::kernels

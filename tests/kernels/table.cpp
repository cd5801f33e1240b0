#include "kernels/table.h"

#include <algorithm>
#include <set>
#include <sstream>

#include "base/atomic_file.h"
#include "ops/table/op.h"
#include "support/support.h"

namespace finity::kernels {

namespace {

constexpr const char* kHeader =
    "# What ONNX Runtime computes, compared with what `finity check` claims, op by op and format by format, on the "
    "cases\n"
    "# of testdata/ops and on operands drawn around them:\n"
    "#   inside            every result lies in its range, every NaN and infinity was announced\n"
    "#   announced         it only ran on operands for which a finding had announced a failure\n"
    "#   claims nothing    it ran, and the range of its results is everything\n"
    "#   outside: KINDS    NaN, infinite, beyond (finite numbers), relation (between elements) or form (shape, type);\n"
    "#                     \"optimised\": only when the runtime may change the model. Reasons are "
    "mostly drawn from the symptoms\n"
    "#   not implemented   in this format\n"
    "#   refused           every case; with its first message\n"
    "#   no case\n"
    "# op, format, cases, runs, results compared, of these nothing claimed, outcome, reason.\n"
    "# Changed only deliberately: build/bin/kernels --update; the numbers are for information.\n";

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  std::ranges::replace(text, '\t', ' ');
  return text.substr(0, 200);
}

std::string note_of(const Tally& tally) {
  if (tally.runs > 0) return {};
  if (!tally.first_crash.empty()) return one_line(tally.first_crash);
  return one_line(tally.first_refusal.empty() ? tally.first_unsupported : tally.first_refusal);
}

// "outside: NaN, beyond" -> NaN, beyond; "crashed" -> crashed; nothing for what is as it should be.
std::set<std::string> troubles(const std::string& outcome) {
  std::set<std::string> kinds;
  if (outcome == "crashed") kinds.insert(outcome);
  if (!outcome.starts_with("outside: ")) return kinds;
  std::istringstream in(outcome.substr(9));
  for (std::string kind; std::getline(in >> std::ws, kind, ',');) kinds.insert(kind);
  return kinds;
}

bool not_always(const Row& row) { return row.reason.starts_with("not always:"); }

// As the table says, or less where it says that it varies.
bool acceptable(const std::string& outcome, const Row& row) {
  if (outcome == row.outcome) return true;
  const std::set<std::string> allowed = troubles(row.outcome);
  return not_always(row) && std::ranges::all_of(troubles(outcome), [&](const std::string& kind) {
           return allowed.contains(kind) || allowed.contains(kind.substr(0, kind.find(' ')));
         });
}

std::string outside(const Tally& tally) {
  std::set<std::string> kinds;
  for (const auto& [key, escape] : tally.escapes) {
    const bool as_written = tally.escapes.contains(escape.kind + " ");
    kinds.insert(escape.kind + (as_written || escape.level.empty() ? "" : " " + escape.level));
  }
  std::string text;
  for (const std::string& kind : kinds) text += (text.empty() ? "outside: " : ", ") + kind;
  return text;
}

}  // namespace

std::string outcome_of(const Tally& tally) {
  if (!tally.escapes.empty()) return outside(tally);
  if (tally.crashed > 0) return "crashed";
  if (tally.judged.tensors > tally.judged.vacuous) return "inside";
  if (tally.judged.tensors > 0) return "claims nothing";
  if (tally.runs > 0) return "announced";
  if (tally.refused > 0) return "refused";
  return tally.unsupported > 0 ? "not implemented" : "no case";
}

void add_ops_without_cases(Results& results) {
  std::set<std::string> seen;
  for (const auto& [key, tally] : results) seen.insert(key.op);
  for (const OpDef* op : all_ops()) {
    const std::string label =
        (op->identity.domain.empty() ? "" : std::string(op->identity.domain) + ".") + std::string(op->identity.name);
    if (!seen.contains(label)) results[{label, "none"}];
  }
}

Table read_table(const std::string& path) {
  Table table;
  std::istringstream lines(read_text_file(path));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream in(line);
    std::vector<std::string> cells(8);
    for (std::string& cell : cells) std::getline(in, cell, '\t');
    table[{cells[0], cells[1]}] = {cells[6], cells[7]};
  }
  return table;
}

void write_table(const std::string& path, const Results& results, const Table& old, const Hello& hello) {
  std::ostringstream text;
  text << "# " << hello.engine << " " << hello.version << "\n" << kHeader;
  for (const auto& [key, tally] : results) {
    const std::string outcome = outcome_of(tally);
    const auto known = old.find(key);
    const bool same = known != old.end() && acceptable(outcome, known->second);
    const std::string reason = same ? known->second.reason : note_of(tally);
    text << key.op << "\t" << key.dtype << "\t" << tally.cases << "\t" << tally.runs << "\t" << tally.judged.tensors
         << "\t" << tally.judged.vacuous << "\t" << (same ? known->second.outcome : outcome)
         << (reason.empty() ? "" : "\t" + reason) << "\n";
  }
  write_file_atomically(path, text.str());
}

std::vector<std::string> compare(const Results& results, const Table& table, bool whole) {
  std::vector<std::string> differences;
  for (const auto& [key, tally] : results) {
    const std::string outcome = outcome_of(tally);
    const auto row = table.find(key);
    const std::string place = key.op + " " + key.dtype + ": ";
    if (row == table.end() || !acceptable(outcome, row->second)) {
      differences.push_back(place + outcome + "; the table says " +
                            (row == table.end() ? "nothing" : row->second.outcome));
    } else if (!troubles(outcome).empty() && row->second.reason.empty()) {
      differences.push_back(place + outcome + ", and the table gives no reason");
    }
  }
  for (const auto& [key, row] : table) {
    if (whole && !results.contains(key)) differences.push_back(key.op + " " + key.dtype + ": is only in the table");
  }
  return differences;
}

}  // namespace finity::kernels

#include "support/recorded.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/atomic_file.h"
#include "support/check_case.h"
#include "support/support.h"
#include "tensor/float_formats.h"

namespace finity {

// ---- ranges in words -------------------------------------------------------------

std::string shown(const AbsTensor& x) {
  constexpr std::size_t kShownCells = 12;
  if (x.cells.size() > kShownCells) return to_string(x.hull());
  std::string text;
  for (const Range& cell : x.cells) text += (text.empty() ? "" : " | ") + to_string(cell);
  return text;
}

std::string end_outside_format(const Graph& graph, const Analysis& analysis) {
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const AbsTensor& x = analysis.ranges[i];
    if (!analysis.reached[i] || !is_float(x.dtype)) continue;
    for (const Range& cell : x.cells) {
      const bool fits = round_to(x.dtype, cell.lo) == cell.lo && round_to(x.dtype, cell.hi) == cell.hi;
      if (cell.has_finite() && !fits) return graph.values()[i].name + " " + to_string(cell);
    }
  }
  return "";
}

// ---- records ---------------------------------------------------------------------

Record record_of(const Graph& graph, const Analysis& analysis) {
  Record record;
  for (const NodeId id : graph.main().nodes) {
    for (const ValueId out : graph.node(id).outputs) {
      if (out.valid() && analysis.reached[out.at()])
        record[graph.value(out).name] = to_string(analysis.ranges[out.at()].hull());
    }
  }
  for (const Finding& finding : analysis.findings) {
    if (!finding.node.valid() || finding.verdict == Verdict::proved) continue;
    const ValueId result = graph.node(finding.node).outputs.front();
    const std::string site = std::string(finding.rule) + " at " + (result.valid() ? graph.value(result).name : "_");
    record[site] = name(finding.verdict);
  }
  return record;
}

namespace {

// "wider", "tighter" or "other". What is written in few digits counts as it is written.
std::string change(const std::string& before, const std::string& now) {
  try {
    const Range a = parse_range(before), b = parse_range(now);
    if (is_subset(a, b)) return "wider";
    if (is_subset(b, a)) return "tighter";
  } catch (const Error&) {  // a verdict, or a range with a gap
  }
  return "other";
}

std::string written(const Record& record) {
  std::string text;
  for (const auto& [what, said] : record) text += "  " + what + ": " + said + "\n";
  return text;
}

Records read_records(const std::string& path) {
  Records records;
  std::istringstream in(std::filesystem::exists(path) ? read_text_file(path) : "");
  std::string title;
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.rfind(": ");
    if (line.starts_with("  ")) records[title][line.substr(2, colon - 2)] = line.substr(colon + 2);
    else records[title = line] = {};
  }
  return records;
}

std::string differences(const Record& before, const Record& now) {
  std::string text;
  for (const auto& [what, said] : before) {
    const auto found = now.find(what);
    if (found == now.end()) text += "gone: " + what + ": " + said + "\n";
    else if (found->second != said)
      text += change(said, found->second) + ": " + what + ": " + said + " is now " + found->second + "\n";
  }
  for (const auto& [what, said] : now) {
    if (!before.contains(what)) text += "new: " + what + ": " + said + "\n";
  }
  return text;
}

}  // namespace

void expect_as_recorded(const std::string& file, const Records& now) {
  const std::string path = std::string(FINITY_TESTDATA) + "/ranges/" + file + ".txt";
  if (std::getenv("FINITY_UPDATE") != nullptr) {
    std::string text;
    for (const auto& [title, record] : now) text += title + "\n" + written(record);
    return write_file_atomically(path, text);
  }
  std::size_t compared = 0;
  for (const auto& [title, record] : read_records(path)) {
    if (!now.contains(title)) continue;
    ++compared;
    EXPECT_EQ(differences(record, now.at(title)), "") << file << ": " << title << "\nif this is meant: FINITY_UPDATE=1";
  }
  EXPECT_GE(compared, now.size() * 4 / 5) << "run with FINITY_UPDATE=1 to record what is new in " << path;
}

}  // namespace finity

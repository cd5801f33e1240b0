#include "support/recorded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "base/atomic_file.h"
#include "support/support.h"
#include "tensor/float_formats.h"

namespace finity {

// ---- ranges in words -------------------------------------------------------------

namespace {

constexpr std::size_t kShownCells = 12, kAllCells = 65536;

// Numbers of float32 and narrower formats in full; of others six digits: libraries differ in the last ones.
std::string shown(double x) {
  const bool narrow = std::isfinite(x) && static_cast<double>(static_cast<float>(x)) == x;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), narrow ? "%.9g" : "%.6g", x);
  return text.data();
}

}  // namespace

std::string shown(const Range& range) {
  std::string text;
  if (range.has_finite()) text = "[" + shown(range.lo) + ", " + shown(range.hi) + "]";
  if (range.nonzero) text += " nonzero";
  if (range.integer) text += " integer";
  if (range.pinf) text += " +Inf";
  if (range.ninf) text += " -Inf";
  if (range.nan) text += " NaN";
  return text.empty() ? "nothing" : text;
}

namespace {

std::string shown_cells(const AbsTensor& x, std::size_t most) {
  std::string text;
  for (std::size_t axis = 0; axis < x.cuts.size() && x.cut(); ++axis) {
    if (x.cuts[axis].empty()) continue;
    text += "axis " + std::to_string(axis) + " at";
    for (const std::int64_t cut : x.cuts[axis]) text += " " + std::to_string(cut);
    text += "; ";
  }
  if (x.cells.size() > most) return text + shown(x.hull());
  for (std::size_t cell = 0; cell < x.cells.size(); ++cell) text += (cell == 0 ? "" : " | ") + shown(x.cells[cell]);
  return text;
}

std::string shown(const Fact& fact, const std::string& source) {
  static constexpr std::array<const char*, 20> kKinds = {"max_of",
                                                         "at_least",
                                                         "at_most",
                                                         "at_least_abs",
                                                         "abs_of",
                                                         "at_most_inverse",
                                                         "square_sum_of",
                                                         "mean_of",
                                                         "square_of",
                                                         "mean_square_of",
                                                         "mean_square_at_least",
                                                         "row_max",
                                                         "row_sum",
                                                         "sum_of",
                                                         "max_operand",
                                                         "one_of_max",
                                                         "norm_at_least",
                                                         "inverse_norm",
                                                         "row_norm",
                                                         "row_min"};
  std::string text = kKinds.at(static_cast<std::size_t>(fact.kind));
  if (fact.source.valid()) text += " " + source;
  if (fact.axes != 0) text += " axes " + std::to_string(fact.axes);
  if (!fact.aligned) text += " reduced";
  if (fact.slack != 0) text += " slack " + shown(fact.slack);
  if (fact.lost != 0) text += " lost " + shown(fact.lost);
  if (!fact.range.is_empty()) text += " " + shown(fact.range);
  if (fact.total != 0) text += " total " + std::to_string(fact.total);
  return text;
}

// How many cells are sums of symbols, and of how many.
std::string shown_forms(const AbsTensor& x) {
  std::size_t forms = 0, terms = 0;
  double error = 0;
  for (const Form& form : x.forms) {
    forms += form.valid ? 1 : 0;
    terms += form.terms.size();
    error = std::max(error, form.error);
  }
  if (forms == 0) return "";
  return "; forms " + std::to_string(forms) + " terms " + std::to_string(terms) + " error " + shown(error);
}

}  // namespace

std::string shown(const AbsTensor& x) { return shown_cells(x, kShownCells); }

std::string shown_whole(const AbsTensor& x) {
  std::string text = x.ranked ? to_string(x.sizes) + " " : "";
  text += shown_cells(x, kAllCells) + shown_forms(x);
  for (const Fact& fact : x.facts) {
    text += "; " + shown(fact, fact.source.valid() ? std::to_string(fact.source.at()) : "");
  }
  return text;
}

std::string shown(const Graph& graph, const Analysis& analysis) {
  std::string text;
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    if (!analysis.reached[i] || !value.producer.valid()) continue;
    text += "  " + value.name + " " + shown(analysis.ranges[i]) + shown_forms(analysis.ranges[i]) + "\n";
    for (const Fact& fact : analysis.ranges[i].facts) {
      text += "    " + shown(fact, fact.source.valid() ? graph.value(fact.source).name : "") + "\n";
    }
  }
  for (const Finding& finding : analysis.findings) {
    if (!finding.node.valid()) continue;
    const ValueId result = graph.node(finding.node).outputs.front();
    text += "  " + std::string(name(finding.verdict)) + " " + std::string(finding.rule);
    text += " of " + (result.valid() ? graph.value(result).name : "_");
    if (finding.operand >= 0) text += " operand " + std::to_string(finding.operand);
    if (finding.certain) text += " certain";
    text += " seen " + shown(finding.seen) + "\n";
  }
  return text;
}

std::string end_outside_format(const Graph& graph, const Analysis& analysis) {
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const AbsTensor& x = analysis.ranges[i];
    if (!analysis.reached[i] || !is_float(x.dtype)) continue;
    for (const Range& cell : x.cells) {
      const bool fits = round_to(x.dtype, cell.lo) == cell.lo && round_to(x.dtype, cell.hi) == cell.hi;
      if (cell.has_finite() && !fits) return graph.values()[i].name + " " + shown(cell);
    }
  }
  return "";
}

// ---- the files -------------------------------------------------------------------

namespace {

Records read_records(const std::string& path) {
  Records records;
  std::istringstream in(std::filesystem::exists(path) ? read_text_file(path) : "");
  std::string title;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("  ")) records[title] += line + "\n";
    else records[title = line] = "";
  }
  return records;
}

}  // namespace

void expect_as_recorded(const std::string& file, const Records& now) {
  const std::string path = std::string(FINITY_TESTDATA) + "/ranges/" + file + ".txt";
  if (std::getenv("FINITY_UPDATE") != nullptr) {
    std::string text;
    for (const auto& [title, lines] : now) text += title + "\n" + lines;
    return write_file_atomically(path, text);
  }
  std::size_t compared = 0;
  for (const auto& [title, lines] : read_records(path)) {
    if (!now.contains(title)) continue;
    ++compared;
    EXPECT_EQ(now.at(title), lines) << file << ": " << title
                                    << "\nif this is meant: FINITY_UPDATE=1, then read the diff of testdata/ranges";
  }
  EXPECT_GE(compared, now.size() * 4 / 5) << "run with FINITY_UPDATE=1 to record what is new in " << path;
}

}  // namespace finity

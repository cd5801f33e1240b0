#include "report/tables.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "report/words.h"

namespace finity {

namespace {

using Row = std::vector<std::string>;

// Numbers to the right, the columns in `left` to the left; no blanks at the end of a line.
std::string aligned(const std::vector<Row>& rows, const std::vector<std::size_t>& left) {
  std::vector<std::size_t> widths(rows.front().size(), 0);
  for (const Row& row : rows) {
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const std::string blanks(widths[i] - row[i].size(), ' ');
      const bool to_left = std::ranges::find(left, i) != left.end();
      line += (i == 0 ? "" : "  ") + (to_left ? row[i] + blanks : blanks + row[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string seconds_text(double seconds) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f s", seconds);
  return text.data();
}

std::string number_or_dash(std::size_t number) { return number == 0 ? "-" : with_commas(number); }

Row model_row(const Report& report) {
  const bool read = report.error.empty();
  std::size_t findings = 0;
  std::size_t unknown = 0;
  for (const AlarmGroup& entry : group(report)) {
    ++(entry.head->verdict == Verdict::unknown ? unknown : findings);
  }
  return {std::string(name(outcome_of(report))), number_or_dash(findings), number_or_dash(unknown),
          read ? seconds_text(report.read_seconds + report.check_seconds) : "-", printable(report.model)};
}

std::string total_line(const std::vector<Report>& reports) {
  std::size_t clean = 0, findings = 0, doubtful = 0, failed = 0, accepted = 0;
  for (const Report& report : reports) {
    switch (outcome_of(report)) {
      case Outcome::not_read: ++failed; break;
      case Outcome::confirmed:
      case Outcome::possible: ++findings; break;
      case Outcome::not_checked:
      case Outcome::unknown: ++doubtful; break;
      case Outcome::accepted: ++accepted; break;
      case Outcome::clean: ++clean; break;
    }
  }
  std::string text = counted(reports.size(), "model") + ": " + with_commas(clean) + " clean";
  const auto add = [&](std::size_t number, std::string_view what) {
    if (number > 0) text += ", " + with_commas(number) + " " + std::string(what);
  };
  add(findings, "with findings");
  add(doubtful, "unknown or not checked");
  add(accepted, "with accepted findings only");
  add(failed, "failed");
  return text + "\n";
}

}  // namespace

std::string models_table(const std::vector<Report>& reports) {
  std::vector<const Report*> order;
  for (const Report& report : reports) order.push_back(&report);
  std::ranges::stable_sort(order, {}, [](const Report* report) { return outcome_of(*report); });
  std::vector<Row> rows = {{"result", "findings", "unknown", "time", "model"}};
  for (const Report* report : order) rows.push_back(model_row(*report));
  return "\n" + aligned(rows, {0, 4}) + total_line(reports);
}

std::string statistics_table(const std::vector<Report>& reports) {
  std::map<std::string_view, RuleCounts> sums;
  for (const Report& report : reports) {
    for (const auto& [code, counts] : report.rules) {
      RuleCounts& sum = sums[code];
      sum.proved += counts.proved;
      sum.confirmed += counts.confirmed;
      sum.possible += counts.possible;
      sum.unknown += counts.unknown;
    }
  }
  std::vector<std::pair<std::string_view, RuleCounts>> order(sums.begin(), sums.end());
  const auto open = [](const auto& entry) {
    return entry.second.confirmed + entry.second.possible + entry.second.unknown;
  };
  std::ranges::stable_sort(order, [&](const auto& a, const auto& b) { return open(a) > open(b); });
  std::vector<Row> rows = {{"confirmed", "possible", "unknown", "proved", "rule"}};
  for (const auto& [code, counts] : order) {
    const Rule* rule = find_rule(code);
    rows.push_back({number_or_dash(counts.confirmed), number_or_dash(counts.possible), number_or_dash(counts.unknown),
                    number_or_dash(counts.proved), rule == nullptr ? std::string(code) : rule_title(*rule)});
  }
  return aligned(rows, {4});
}

}  // namespace finity

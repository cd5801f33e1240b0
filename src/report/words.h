// How reports say things: numbers, ranges, unsafe sets, and which alarms belong together.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/report.h"

namespace finity {

// Fewest digits that read back as the same number of the dtype.
std::string number_text(double number, DType dtype);
// "[0, 1]", "any finite float32 or NaN", "anything", "nothing".
std::string range_text(const Range& range, DType dtype);
// "<= 0", "0", "< -1 or > 1".
std::string unsafe_text(const UnsafeSet& set, DType dtype);
std::string with_commas(std::size_t number);  // 11,689,512
// "1 site", "2,000 sites"
std::string counted(std::size_t number, std::string_view noun);
// Names come from files: line breaks and control characters are made visible.
std::string printable(std::string_view text);

// ["a", "b"], with quotes and backslashes escaped.
std::string quoted_list(const std::vector<std::string>& names);

// "FN102 log-of-nonpositive"
std::string rule_title(const Rule& rule);
// "operand 'p' (float32[4]) may be in [0, 1]; unsafe: <= 0"
std::string what_happens(const Alarm& alarm);
// The same, and what is wrong with that where the numbers alone do not tell.
std::string explained(const Alarm& alarm);
// "" where the operand is unknown: nothing says that it needs one.
std::string_view fix_of(const Alarm& alarm);
// All of it in one line, for formats with one message per finding.
std::string message(const Alarm& alarm);
// How a model came out, worst first.
enum class Outcome : std::uint8_t { not_read, confirmed, possible, not_checked, unknown, accepted, clean };
Outcome outcome_of(const Report& report);
std::string_view name(Outcome outcome);
// All that is claimed of a model, in one line: "all proved, assuming x in [-50, 50] (guessed); 5 of 5 nodes modelled;
// 5 sites: 5 proved; forward pass, weights as in the file". What was not checked comes first.
std::string summary_line(const Report& report);
// "seen when run: element [2] of 'y' is -Inf for x = [-1, 0]"; "" when it was not.
std::string failure_text(const SeenFailure& failure);
// "torch/model.py:12"
std::string source_text(const Place& place);

// Alarms that count, with those of the same cause: what is printed as one block. Confirmed and certain ones come first,
// unknown ones last.
struct AlarmGroup {
  const Alarm* head = nullptr;
  std::vector<const Alarm*> others = {};
};
std::vector<AlarmGroup> group(const Report& report);
// "and 12 more downstream"; "" when the head is alone.
std::string others_text(const AlarmGroup& entry);

}  // namespace finity

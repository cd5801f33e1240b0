#include "report/words.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <unordered_map>

#include "ops/table/rule_group.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

double rounded(double number, DType dtype) { return is_float(dtype) ? round_to(dtype, number) : number; }

std::string formatted(const char* format, int precision, double number) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), format, precision, number);
  return text.data();
}

}  // namespace

std::string number_text(double number, DType dtype) {
  if (number == 0) return "0";  // no minus sign
  if (std::isnan(number)) return "NaN";
  if (std::isinf(number)) return number > 0 ? "+Inf" : "-Inf";
  constexpr double kPlainBelow = 1e7;
  if (number == std::trunc(number) && std::fabs(number) < kPlainBelow) return formatted("%.*f", 0, number);
  for (int digits = 1; digits < 17; ++digits) {
    std::string text = formatted("%.*g", digits, number);
    if (rounded(std::strtod(text.c_str(), nullptr), dtype) == number) return text;
  }
  return formatted("%.*g", 17, number);
}

namespace {

// Where the format is not known either. With a format, "any finite float16 or +Inf ..." says what can happen.
bool is_everything(const Range& range, DType dtype) {
  return range.nan && range.pinf && range.ninf && dtype == DType::undefined;
}

}  // namespace

std::string range_text(const Range& range, DType dtype) {
  if (is_everything(range, dtype)) return "anything";
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : " or ") + part; };
  if (range.has_finite()) {
    if (range.lo == range.hi) add(number_text(range.lo, dtype));
    else if (is_float(dtype) && range.lo == lowest_finite(dtype) && range.hi == max_finite(dtype))
      add("any finite " + std::string(name(dtype)));
    else add("[" + number_text(range.lo, dtype) + ", " + number_text(range.hi, dtype) + "]");
    if (range.nonzero && range.gap > 0) {
      text += " without (" + number_text(-range.gap, dtype) + ", " + number_text(range.gap, dtype) + ")";
    } else if (range.nonzero) {
      text += " without 0";
    }
  }
  if (range.pinf) add("+Inf");
  if (range.ninf) add("-Inf");
  if (range.nan) add("NaN");
  return text.empty() ? "nothing" : text;
}

namespace {

// "<= 0", but "< 0" instead of "<= -1e-45": where the next number is the one that is meant.
std::string bound_text(const std::string& sign, double bound, double next, DType dtype) {
  const std::string at = number_text(bound, dtype);
  const std::string beyond = number_text(next, dtype);
  return beyond.size() < at.size() ? sign + " " + beyond : sign + "= " + at;
}

}  // namespace

std::string unsafe_text(const UnsafeSet& set, DType dtype) {
  std::string text;
  for (const auto& [lo, hi] : set) {
    text += text.empty() ? "" : " or ";
    if (lo == hi) text += number_text(lo, dtype);
    else if (lo == -kInf) text += bound_text("<", hi, next_up(dtype, hi), dtype);
    else if (hi == kInf) text += bound_text(">", lo, next_down(dtype, lo), dtype);
    else text += number_text(lo, dtype) + " to " + number_text(hi, dtype);
  }
  return text;
}

std::string with_commas(std::size_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string counted(std::size_t number, std::string_view noun) {
  return with_commas(number) + " " + std::string(noun) + (number == 1 ? "" : "s");
}

std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\n') result += "\\n";
    else result += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return result;
}

std::string quoted_list(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) {
    text += text.empty() ? "\"" : ", \"";
    for (const char c : printable(name)) {
      if (c == '"' || c == '\\') text += '\\';
      text += c;
    }
    text += '"';
  }
  return "[" + text + "]";
}

std::string rule_title(const Rule& rule) { return std::string(rule.code) + " " + std::string(rule.slug); }

namespace {

// What a constant of the file is after a conversion.
std::string converted_text(const Alarm& alarm) {
  const bool changes = alarm.rule->code == "FN403" || alarm.rule->code == "FN404" || alarm.rule->code == "FN405";
  if (!changes || !is_float(alarm.dtype) || !alarm.seen.has_finite()) return "";
  const Range lo = point(round_to(alarm.dtype, alarm.seen.lo));
  const Range now = join(lo, point(round_to(alarm.dtype, alarm.seen.hi)));
  if (now == alarm.seen.finite()) return "";
  return ", in " + std::string(name(alarm.dtype)) + " " + range_text(now, alarm.dtype);
}

std::string emptiness_text(const Alarm& alarm) {
  const std::string type = alarm.type.empty() || alarm.type == "?" ? "" : " (" + alarm.type + ")";
  return printable("operand '" + alarm.tensor + "'" + type + " may have no elements");
}

}  // namespace

std::string what_happens(const Alarm& alarm) {
  if (alarm.rule->code == "FN904") return "checked for any finite weights instead";
  if (alarm.tensor.empty() && alarm.seen.is_empty()) return "nothing is known of its results";
  if (alarm.seen.is_empty() && alarm.rule->code == "FN306") return emptiness_text(alarm);
  if (alarm.seen.is_empty()) return "nothing was found out about '" + printable(alarm.tensor) + "'";
  const bool constant = alarm.place.op.empty() || group_of(alarm.rule->code) == RuleGroup::constant;
  // A constant is told as it stands in the file.
  const bool narrower = !converted_text(alarm).empty();
  const std::string range = range_text(alarm.seen, narrower ? DType::float32 : alarm.dtype);
  const bool interval = range.starts_with('[');
  std::string text = constant ? "" : alarm.operand < 0 ? "result " : "operand ";
  text += "'" + alarm.tensor + "'";
  if (!alarm.type.empty() && alarm.type != "?") text += " (" + alarm.type + ")";
  text += constant ? " holds " : alarm.seen.is_point() ? " is " : interval ? " may be in " : " may be ";
  text += range + converted_text(alarm);
  if (!alarm.unsafe.empty()) text += "; unsafe: " + alarm.unsafe;
  if (alarm.certain && !constant) text += "; it fails whenever the node runs";
  return printable(text);
}

std::string explained(const Alarm& alarm) {
  const std::string_view code = alarm.rule->code;
  const bool shows = code == "FN306" || !alarm.unsafe.empty() || alarm.place.op.empty() ||
                     group_of(code) == RuleGroup::constant || group_of(code) == RuleGroup::coverage;
  const bool by_itself = alarm.operand < 0 && group_of(code) == RuleGroup::overflow;  // infinities say it all
  return what_happens(alarm) + (shows || by_itself ? "" : "; " + std::string(alarm.rule->summary));
}

std::string_view fix_of(const Alarm& alarm) {
  const bool for_lack_of_knowledge =
      alarm.verdict == Verdict::unknown && group_of(alarm.rule->code) != RuleGroup::coverage;
  if (for_lack_of_knowledge) return {};
  return alarm.fix.empty() ? alarm.rule->fix : std::string_view(alarm.fix);
}

std::string message(const Alarm& alarm) {
  std::string text = std::string(name(alarm.verdict)) + " at " + alarm.place.title + ": " +
                     std::string(alarm.rule->summary) + "; " + what_happens(alarm);
  if (!alarm.reason.empty()) text += "; unknown because " + alarm.reason;
  if (!alarm.failure.what.empty()) text += "; " + failure_text(alarm.failure);
  if (!alarm.searched.empty()) text += "; " + alarm.searched;
  if (!alarm.made_by.empty()) text += "; made by " + alarm.made_by;
  std::string fix(fix_of(alarm));
  for (const std::string& line : alarm.contract) fix += " " + line;
  return printable(text + "." + (fix.empty() ? "" : " Fix: " + fix + "."));
}

namespace {

std::string joined(const std::vector<std::string>& parts, std::string_view between, std::size_t most) {
  std::string text;
  for (std::size_t i = 0; i < std::min(parts.size(), most); ++i)
    text += (i == 0 ? "" : std::string(between)) + parts[i];
  return parts.size() > most ? text + std::string(between) + "..." : text;
}

// "60 of 60 nodes (BeamSearch)"; "" when everything was.
std::string not_checked_text(const Report& report) {
  const NotChecked& left = report.not_checked;
  if (left.nodes == 0 && report.complete) return "";
  const std::string why = joined(left.why, ", ", 3);
  if (left.nodes == 0) return why.empty() ? "stopped at a limit" : why;
  return with_commas(left.nodes) + " of " + counted(report.counts.nodes, "node") +
         (why.empty() ? "" : " (" + why + ")");
}

std::string assuming_text(const Report& report) {
  const std::size_t count = report.guesses.size();
  if (count == 0) return "";
  constexpr std::size_t kFew = 2;
  if (count > kFew) return ", assuming " + with_commas(count) + " guessed ranges";
  return ", assuming " + joined(report.guesses, " and ", kFew) + " (guessed)";
}

// What is proved takes for granted that nothing upstream fails, also at sites that the user does not want to see.
std::string proved_of_selected(const Counts& counts) {
  const std::string hidden = counted(counts.left_out, "site") + " left out";
  if (counts.sites == 0) return "no site of the selected rules, " + hidden;
  return "all proved of the selected rules, if nothing fails at the " + hidden;
}

std::string verdict_text(const Report& report, std::size_t findings) {
  const Counts& counts = report.counts;
  const std::string left = not_checked_text(report);
  std::string text = left.empty() ? "" : "NOT CHECKED: " + left;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (findings > 0) add(counted(findings, "finding"));
  else if (left.empty() && counts.proved == counts.sites) {
    add((counts.left_out > 0 ? proved_of_selected(counts) : "all proved") + assuming_text(report));
  } else {
    add((counts.accepted > 0 ? "nothing new" : "no other findings") + assuming_text(report));
  }
  return text;
}

std::string sites_text(const Counts& counts) {
  std::string text = counted(counts.sites, "site");
  if (counts.sites == 0) return text;
  text += ": " + with_commas(counts.proved) + " proved";
  const auto add = [&](std::size_t number, std::string_view what) {
    if (number > 0) text += ", " + with_commas(number) + " " + std::string(what);
  };
  add(counts.confirmed, "confirmed");
  add(counts.possible, "possible");
  add(counts.unknown, "unknown");
  if (counts.accepted > 0) text += " (" + with_commas(counts.accepted) + " accepted)";
  return text;
}

}  // namespace

Outcome outcome_of(const Report& report) {
  if (!report.error.empty()) return Outcome::not_read;
  Outcome worst = report.counts.accepted > 0 ? Outcome::accepted : Outcome::clean;
  if (!report.unverified.empty()) worst = Outcome::unknown;
  if (!not_checked_text(report).empty()) worst = Outcome::not_checked;
  for (const Alarm& alarm : report.alarms) {
    if (!alarm.counts()) continue;
    worst = std::min(worst, alarm.verdict == Verdict::confirmed  ? Outcome::confirmed
                            : alarm.verdict == Verdict::possible ? Outcome::possible
                                                                 : Outcome::unknown);
  }
  return worst;
}

std::string_view name(Outcome outcome) {
  switch (outcome) {
    case Outcome::not_read: return "FAILED";
    case Outcome::confirmed: return "confirmed";
    case Outcome::possible: return "possible";
    case Outcome::not_checked: return "NOT CHECKED";
    case Outcome::unknown: return "unknown";
    case Outcome::accepted: return "accepted";
    case Outcome::clean: return "clean";
  }
  return "?";
}

std::string summary_line(const Report& report) {
  std::string text = verdict_text(report, group(report).size());
  const Counts& counts = report.counts;
  if (report.not_checked.nodes == 0) {
    text += "; " + with_commas(counts.modelled) + " of " + counted(counts.nodes, "node") + " modelled";
  }
  text += "; " + sites_text(counts);
  if (!report.may_leave.empty()) text += "; " + report.may_leave;
  if (!report.covered.empty()) text += "; " + joined(report.covered, ", ", report.covered.size());
  return printable(text);
}

std::string failure_text(const SeenFailure& failure) {
  if (failure.what.empty()) return "";
  std::string inputs;
  for (const FailingInput& input : failure.inputs)
    inputs += (inputs.empty() ? "" : ", ") + input.name + " = " + input.text;
  return "seen when run: " + failure.what + (inputs.empty() ? "" : " for " + inputs);
}

std::string source_text(const Place& place) {
  return place.source_line > 0 ? printable(place.source_file) + ":" + std::to_string(place.source_line) : "";
}

namespace {

// The alarm that counts and explains this one, itself when there is none.
std::size_t head_of(const Report& report, std::size_t index) {
  std::size_t head = index;
  int root = report.alarms[index].root;
  // Chains are short; the limit is for those that somebody made go round in a circle.
  for (std::size_t hops = 0; root >= 0 && hops < report.alarms.size(); ++hops) {
    if (static_cast<std::size_t>(root) >= report.alarms.size()) break;
    const Alarm& alarm = report.alarms[static_cast<std::size_t>(root)];
    if (alarm.counts()) head = static_cast<std::size_t>(root);
    root = alarm.root;
  }
  return head;
}

int urgency(const Alarm& alarm) {
  if (alarm.verdict == Verdict::confirmed) return 0;
  if (alarm.verdict == Verdict::unknown) return 3;
  return alarm.certain ? 1 : 2;
}

}  // namespace

namespace {

// Unknowns with one reason, nodes of one operator that is not modelled, and constants with the same number that a
// conversion loses are one finding.
std::string same_reason(const Alarm& alarm) {
  if (group_of(alarm.rule->code) == RuleGroup::constant && alarm.seen.is_point()) {
    return std::string(alarm.rule->code) + converted_text(alarm) + " " + number_text(alarm.seen.lo, DType::float32);
  }
  if (alarm.verdict != Verdict::unknown) return "";
  return group_of(alarm.rule->code) == RuleGroup::coverage ? std::string(alarm.rule->code) + " " + alarm.place.op
                                                           : alarm.reason;
}

}  // namespace

std::vector<AlarmGroup> group(const Report& report) {
  std::map<std::size_t, AlarmGroup> groups;
  std::unordered_map<std::string, std::size_t> first_of_reason;
  for (std::size_t i = 0; i < report.alarms.size(); ++i) {
    if (!report.alarms[i].counts()) continue;
    std::size_t head = head_of(report, i);
    const std::string reason = same_reason(report.alarms[head]);
    if (!reason.empty()) head = first_of_reason.try_emplace(reason, head).first->second;
    groups[head].head = &report.alarms[head];
    if (head != i) groups[head].others.push_back(&report.alarms[i]);
  }
  std::vector<AlarmGroup> result;
  for (auto& [index, entry] : groups) result.push_back(std::move(entry));
  std::ranges::stable_sort(result, {}, [](const AlarmGroup& entry) { return urgency(*entry.head); });
  return result;
}

std::string others_text(const AlarmGroup& entry) {
  if (entry.others.empty()) return "";
  const auto is_constant = [](const Alarm* alarm) { return group_of(alarm->rule->code) == RuleGroup::constant; };
  const auto alike = static_cast<std::size_t>(std::ranges::count_if(entry.others, is_constant));
  const std::size_t rest = entry.others.size() - alike;
  const bool unknown = entry.head->verdict == Verdict::unknown;
  const std::string where = unknown ? "for the same reason" : "downstream";
  if (alike == 0) return "and " + with_commas(rest) + " more " + where;
  const std::string constants = "and " + counted(alike, "more constant") + " like it";
  return rest == 0 ? constants : constants + ", " + with_commas(rest) + " more " + where;
}

}  // namespace finity

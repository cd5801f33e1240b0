// What people read in a terminal: one block per cause, like a compiler.
#include <algorithm>

#include "report/words.h"

namespace finity {

namespace {

constexpr std::size_t kMaxLines = 20;    // of assumptions and notes
constexpr std::size_t kShownSteps = 10;  // of a path
constexpr std::size_t kShownOthers = 3;  // named ones

enum class Ink { red, yellow, blue, bold, dim };

class TextWriter {
 public:
  explicit TextWriter(const CheckResult& result) : result_(result) {}

  std::string write() {
    for (const Report& report : result_.reports) write(report);
    if (result_.reports.size() > 1) total();
    if (!result_.config.empty()) line("settings from " + result_.config);
    if (result_.interrupted) {
      line("interrupted: " + counted(result_.not_checked, "model") + " not checked");
    }
    return std::move(text_);
  }

 private:
  void write(const Report& report) {
    if (!report.error.empty()) {
      if (result_.errors_apart) return;
      line(painted("not checked: " + printable(report.error), Ink::red));
      return;
    }
    const std::vector<AlarmGroup> groups = group(report);
    const std::size_t most = result_.max_findings == 0 ? groups.size() : std::min(result_.max_findings, groups.size());
    for (std::size_t i = 0; i < most; ++i) block(report, groups[i]);
    if (groups.size() > most) {
      line(counted(groups.size() - most, "more finding") + " not shown (--max-findings 0 shows all)\n");
    }
    list("assumptions", report.assumptions);
    notes(report);
    block_list(report);
    if (!report.verified.empty()) line(printable(report.model) + ": " + printable(report.verified));
    line(painted(printable(report.model) + ": ", Ink::bold) + verdict_line(report, groups.size()));
  }

  void block(const Report& report, const AlarmGroup& entry) {
    const Alarm& alarm = *entry.head;
    line(painted(printable(report.model) + ": ", Ink::bold) + painted(name(alarm.verdict), ink(alarm)) + " " +
         rule_title(*alarm.rule) + " at " + printable(alarm.place.title));
    line("  " + explained(alarm));
    if (!alarm.reason.empty()) line("  unknown because " + printable(alarm.reason));
    if (!alarm.place.scope.empty()) line("  inside " + printable(alarm.place.scope));
    if (alarm.place.source_line > 0) line("  source " + source_text(alarm.place));
    path(alarm);
    for (const std::string& assumption : alarm.assumed) line("  assumption: " + printable(assumption));
    if (!fix_of(alarm).empty()) line("  fix: " + printable(fix_of(alarm)));
    for (const std::string& declaration : alarm.contract) line("    " + printable(declaration));
    others(entry);
    line("");
  }

  static Ink ink(const Alarm& alarm) {
    if (alarm.verdict == Verdict::unknown) return Ink::blue;
    return alarm.verdict == Verdict::confirmed || alarm.certain ? Ink::red : Ink::yellow;
  }

  void path(const Alarm& alarm) {
    if (alarm.path.empty() && !alarm.made_by.empty()) line("  made by " + printable(alarm.made_by));
    if (alarm.path.empty()) return;
    line("  path");
    const std::size_t count = alarm.path.size();
    const bool cut = count > kShownSteps;
    const std::size_t head = cut ? 3 : count;
    const std::size_t tail = cut ? kShownSteps - head : 0;
    for (std::size_t i = 0; i < head; ++i) step(alarm.path[i]);
    if (cut) {
      std::size_t hidden = 0;
      for (std::size_t i = head; i < count - tail; ++i) hidden += std::max<std::size_t>(alarm.path[i].skipped, 1);
      step({.skipped = hidden});
    }
    for (std::size_t i = count - tail; i < count; ++i) step(alarm.path[i]);
  }

  // Exporters name tensors after their nodes: then the op says enough.
  static std::string maker(const Step& step) {
    constexpr std::string_view kStart = "node '";
    const std::size_t end = step.maker.find("' (");
    if (!step.maker.starts_with(kStart) || end == std::string::npos) return step.maker;
    const std::string node = step.maker.substr(kStart.size(), end - kStart.size());
    return step.value.starts_with(node + "_output") ? step.maker.substr(end + 2) : step.maker;
  }

  void step(const Step& step) {
    if (step.skipped > 0) {
      line("    ... " + counted(step.skipped, "more step"));
      return;
    }
    line("    '" + printable(step.value) + "' " + range_text(step.range, step.dtype) + "  " +
         painted(printable(maker(step) + (step.holds.empty() ? "" : ", " + step.holds)), Ink::dim));
  }

  void others(const AlarmGroup& entry) {
    if (entry.others.empty()) return;
    std::string names;
    for (std::size_t i = 0; i < std::min(entry.others.size(), kShownOthers); ++i) {
      const Alarm& other = *entry.others[i];
      names += (i == 0 ? ": " : ", ") + std::string(other.rule->code) + " at '" + other.place.name() + "'";
    }
    if (entry.others.size() > kShownOthers) names += ", ...";
    line("  " + others_text(entry) + printable(names));
  }

  void list(std::string_view title, const std::vector<std::string>& entries) {
    if (entries.empty()) return;
    line(std::string(title));
    for (std::size_t i = 0; i < std::min(entries.size(), kMaxLines); ++i) line("  " + printable(entries[i]));
    if (entries.size() > kMaxLines) line("  and " + with_commas(entries.size() - kMaxLines) + " more");
  }

  void notes(const Report& report) {
    std::vector<std::string> texts;
    for (const Note& note : report.notes) texts.push_back(note.where + (note.where.empty() ? "" : ": ") + note.text);
    list("notes", texts);
  }

  // One line that can be pasted as a list of names.
  void block_list(const Report& report) {
    const BlockList& blocked = report.block_list;
    if (!blocked.present) return;
    if (!blocked.proved) {
      line("no set of nodes to keep in their own format was found that proves everything: " + printable(blocked.note));
      return;
    }
    const std::string rest = blocked.excused == 0
                                 ? "everything is proved"
                                 : "everything is proved but " + counted(blocked.excused, "site") +
                                       " that no format helps: the model as it is cannot be proved there either";
    if (blocked.nodes.empty()) {
      line("no node has to stay in its own format: with the rest converted " + rest);
      return;
    }
    const std::string whose = blocked.nodes.size() == 1 ? "its" : "their";
    line("keep " + counted(blocked.nodes.size(), "node") + " in " + whose + " own format and " + rest + " (" +
         printable(blocked.note) + ")");
    line("  " + quoted_list(blocked.nodes));
  }

  std::string verdict_line(const Report& report, std::size_t groups) {
    const Counts& counts = report.counts;
    if (groups > 0) return counted(groups, "finding") + "; " + coverage_line(report);
    const bool all_proved = counts.proved == counts.sites && report.complete;
    const std::string left_out = all_proved && counts.left_out > 0 ? " of the selected rules" : "";
    return (all_proved ? "all proved" : "nothing new") + left_out + "; " + coverage_line(report);
  }

  void total() {
    std::size_t findings = 0;
    std::size_t failed = 0;
    for (const Report& report : result_.reports) {
      findings += group(report).size();
      failed += report.error.empty() ? 0 : 1;
    }
    line(counted(result_.reports.size(), "model") + ", " + counted(findings, "finding") +
         (failed == 0 ? "" : ", " + with_commas(failed) + " not checked"));
  }

  std::string painted(std::string_view text, Ink ink) const {
    if (!result_.colour) return std::string(text);
    static constexpr std::string_view kCodes[] = {"31;1", "33;1", "34;1", "1", "2"};
    return "\x1b[" + std::string(kCodes[static_cast<std::size_t>(ink)]) + "m" + std::string(text) + "\x1b[0m";
  }

  void line(const std::string& text) { text_ += text + "\n"; }

  const CheckResult& result_;
  std::string text_;
};

}  // namespace

std::string text_report(const CheckResult& result) { return TextWriter(result).write(); }

}  // namespace finity

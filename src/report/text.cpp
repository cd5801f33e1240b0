// What people read in a terminal: one block per cause, like a compiler.
#include <algorithm>
#include <cstdio>

#include "report/tables.h"
#include "report/words.h"

namespace finity {

namespace {

constexpr std::size_t kMaxLines = 20;    // of assumptions and notes
constexpr std::size_t kShownSteps = 10;  // of a path
constexpr std::size_t kShownOthers = 3;  // named ones

// "31 %", "0.02 %": two digits that count.
std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2g %%", 100 * share);
  return text;
}

enum class Ink { red, yellow, blue, green, bold, dim };

class TextWriter {
 public:
  explicit TextWriter(const CheckResult& result) : result_(result) {}

  std::string write() {
    for (const Report& report : result_.reports) write(report);
    if (result_.statistics) text_ += statistics_table(result_.reports);
    if (!result_.quiet && result_.reports.size() > 1) text_ += models_table(result_.reports);
    if (!result_.quiet && !result_.config.empty()) line("settings from " + result_.config);
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
    if (!result_.statistics) blocks(report);
    if (result_.quiet) return;
    // Several clean models: the summaries say which ranges were guessed.
    if (result_.reports.size() == 1 || outcome_of(report) != Outcome::clean) {
      list("assumptions", report.assumptions);
      notes(report);
    }
    block_list(report);
    const std::string model = painted(printable(report.model) + ": ", Ink::bold);
    if (!report.verified.empty()) line(model + printable(report.verified));
    if (!report.unverified.empty()) line(model + painted("NOT VERIFIED: ", Ink::red) + printable(report.unverified));
    line(model + summary(report));
  }

  void blocks(const Report& report) {
    const std::vector<AlarmGroup> groups = group(report);
    const std::size_t most = result_.max_findings == 0 ? groups.size() : std::min(result_.max_findings, groups.size());
    for (std::size_t i = 0; i < most; ++i) block(report, groups[i]);
    if (groups.size() > most) {
      line(counted(groups.size() - most, "more finding") + " not shown (--max-findings 0 shows all)\n");
    }
  }

  std::string summary(const Report& report) const {
    const std::string text = summary_line(report);
    const Outcome outcome = outcome_of(report);
    if (outcome == Outcome::clean) return painted(text, Ink::green);
    constexpr std::string_view kNotChecked = "NOT CHECKED";
    if (!text.starts_with(kNotChecked)) return text;
    return painted(kNotChecked, Ink::red) + text.substr(kNotChecked.size());
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
    failure(alarm.failure);
    if (!alarm.observed.empty()) line("  observed: " + alarm.observed);
    if (!alarm.searched.empty()) line("  " + printable(alarm.searched));
    if (!fix_of(alarm).empty()) line("  fix: " + printable(fix_of(alarm)));
    for (const std::string& declaration : alarm.contract) line("    " + printable(declaration));
    others(entry);
    line("");
  }

  void failure(const SeenFailure& failure) {
    if (failure.what.empty()) return;
    const bool inputs = !failure.inputs.empty();
    line("  seen when run: " + printable(failure.what) + (inputs ? " for" : ""));
    for (const FailingInput& input : failure.inputs) {
      const bool vector = input.type.find(',') == std::string::npos;
      line("    " + printable(input.name) + " = " + input.text + (vector && failure.in_full ? "" : "  " + input.type));
    }
    if (!failure.folder.empty()) line("    written to " + printable(failure.folder));
    else if (!failure.in_full) line("    (--witness DIR writes it)");
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
    if (!blocked.searched) return;
    line(blocked.failing.empty() ? "  none of the converted nodes was seen to fail: they stay for the proof only"
                                 : "  seen to fail when converted: " + quoted_list(blocked.failing) +
                                       (blocked.reached.empty() ? "; the others stay for the proof only" : ""));
    reached(blocked);
  }

  // The other nodes of the list: those that met numbers beyond the limit, and those that only the proof needs, the ones
  // that came nearest to the limit first.
  void reached(const BlockList& blocked) {
    std::vector<std::pair<double, std::string>> nodes;
    std::vector<std::string> beyond;
    for (std::size_t i = 0; i < blocked.reached.size(); ++i) {
      const bool fails = std::ranges::find(blocked.failing, blocked.nodes[i]) != blocked.failing.end();
      if (fails) continue;
      if (blocked.reached[i] > 1) beyond.push_back(blocked.nodes[i]);
      else if (blocked.reached[i] >= 0) nodes.emplace_back(blocked.reached[i], blocked.nodes[i]);
    }
    const std::string limit = number_text(blocked.limit, DType::float32);
    if (!beyond.empty()) line("  numbers beyond " + limit + " seen in the model as it is: " + quoted_list(beyond));
    if (nodes.empty()) return;
    std::ranges::stable_sort(nodes, std::greater<>(), [](const auto& node) { return node.first; });
    std::vector<std::string> texts;
    for (const auto& [share, name] : nodes) texts.push_back("  '" + name + "' " + percent(share));
    list("  for the proof only; largest number seen in " + counted(blocked.runs, "run") +
             " of the model as it is, as a share of " + limit + " (observed, not proved):",
         texts);
  }

  std::string painted(std::string_view text, Ink ink) const {
    if (!result_.colour) return std::string(text);
    static constexpr std::string_view kCodes[] = {"31;1", "33;1", "34;1", "32", "1", "2"};
    return "\x1b[" + std::string(kCodes[static_cast<std::size_t>(ink)]) + "m" + std::string(text) + "\x1b[0m";
  }

  void line(const std::string& text) { text_ += text + "\n"; }

  const CheckResult& result_;
  std::string text_;
};

}  // namespace

std::string text_report(const CheckResult& result) { return TextWriter(result).write(); }

}  // namespace finity

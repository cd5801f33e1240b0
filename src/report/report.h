// What is told of the checked models. A Report is plain data taken from the
// analysis: once it is collected the graph may go, so many models can be checked in
// one run. Every format is a function from a CheckResult to text.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "check/analyze.h"
#include "ops/table/hazard.h"

namespace finity {

// A node or constant as reports name it, spelled as in the file.
struct Place {
  std::string title = {};        // "node 'Log_3' (Log)", "constant 'w'"
  std::string node = {};         // "" when it has no name, or for a constant
  std::string op = {};           // "" for a constant
  std::string output = {};       // first output, or the constant
  std::string scope = {};        // function calls and subgraphs around it: "block1 (Attention)/If_3.then_branch"
  std::string source_file = {};  // the line of Python that an exporter recorded, if any
  int source_line = 0;

  // "Log_3", else the tensor it produces; what users type for `finity explain`.
  const std::string& name() const { return node.empty() ? output : node; }
};

// One value on the way from an input or constant to the alarm.
struct Step {
  std::string value = {};
  std::string type = {};  // "float32[2, 3]"
  DType dtype = DType::undefined;
  Range range = {};
  std::string maker = {};   // "input", "constant", "node 'exp' (Exp)"
  std::string holds = {};   // "", or when the range does: "if it does not fail", "where node 'w' (Where) uses it"
  std::size_t skipped = 0;  // not 0: stands for so many steps that are not shown, and nothing else is set
};

// Who accepted an alarm that is known.
enum class Acceptance : std::uint8_t { none, baseline, config, model };
std::string_view name(Acceptance acceptance);

// An input on which a finding came true when the reference ran the model.
struct FailingInput {
  std::string name = {};
  std::string type = {};  // "float32[1,4]"
  std::string text = {};  // "[-1, 0, 3]", or of many elements "from -1 to 3"
};
struct SeenFailure {
  std::string what = {};  // "element [2] of 'y' is -Inf"; "" when nothing was run
  std::vector<FailingInput> inputs = {};
  bool in_full = true;      // every element is in the texts
  std::string folder = {};  // where it was written, if it was
};

struct Alarm {
  std::size_t finding = 0;  // index in Analysis::findings
  const Rule* rule = nullptr;
  Verdict verdict = Verdict::possible;
  bool certain = false;  // fails whenever the node runs
  Place place = {};
  int operand = -1;         // -1: the result
  std::string tensor = {};  // name of the operand or result
  std::string type = {};
  DType dtype = DType::undefined;
  Range seen = {};
  std::string unsafe = {};                 // "<= 0"; "" when the result shows the failure
  std::string made_by = {};                // who made the operand: "node 'exp' (Exp)", "input"
  std::string reason = {};                 // of unknown
  std::vector<Step> path = {};             // at most kMaxSteps
  std::vector<std::string> assumed = {};   // assumptions about the inputs of the path
  std::string fix = {};                    // for this place; "": the rule's own
  std::vector<std::string> contract = {};  // lines of a contract file that would prove it, to be pasted
  std::string fingerprint = {};            // survives renumbering of nodes
  int root = -1;                           // index of the alarm that explains this one, or -1
  SeenFailure failure = {};                // of confirmed
  std::string observed = {};               // what runs on real data gave there: "[-3, 8] in 2 runs"; no proof
  std::string searched = {};               // how a search for such an input ended that found none
  Acceptance accepted = Acceptance::none;
  std::string accepted_why = {};

  bool counts() const { return accepted == Acceptance::none; }
};
inline constexpr std::size_t kMaxSteps = 100;

struct Counts {
  std::size_t nodes = 0, modelled = 0;
  std::size_t sites = 0;  // of the selected rules
  std::size_t proved = 0, confirmed = 0, possible = 0, unknown = 0, accepted = 0;
  std::size_t left_out = 0;  // not proved, but of rules that are not selected
};

// Sites of one rule.
struct RuleCounts {
  std::size_t proved = 0, confirmed = 0, possible = 0, unknown = 0;
};

// Nodes of which nothing is known, whatever rules were selected.
struct NotChecked {
  std::size_t nodes = 0;
  std::vector<std::string> why = {};  // operators, or the limit that was reached
};

// Nodes that must stay in their own format for everything to be proved when the rest is converted.
struct BlockList {
  bool present = false;
  bool proved = false;      // with these kept, everything is, but for what `excused` counts
  std::size_t excused = 0;  // findings of the model as it is: no format helps against them
  std::vector<std::string> nodes = {};
  std::vector<std::string> failing = {};  // nodes that were seen to fail when converted, whatever the proof needs
  bool searched = false;                  // such nodes were looked for
  // The largest magnitude seen at a node of the list in runs of the model as it is, as a share of the format's limit;
  // negative: none was seen. Empty when nothing was run.
  std::vector<double> reached = {};
  double limit = 0;      // the format's largest number
  std::size_t runs = 0;  // that `reached` comes from
  std::string note = {};
};

struct Report {
  std::string model = {};  // path as given
  std::string error = {};  // why it could not be checked; nothing else is set then
  std::vector<std::pair<std::string, std::string>> options = {};
  std::vector<std::string> assumptions = {};
  std::vector<std::string> covered = {};  // "forward pass", "weights as in the file"
  std::vector<std::string> guesses = {};  // "x in [-50, 50]"
  std::string may_leave = {};             // "output 'y' may hold NaN, as 'x' may"; "" when no output can
  std::vector<Unmatched> unmatched = {};  // declarations that speak of another model
  Counts counts = {};
  std::map<std::string_view, RuleCounts> rules = {};  // by code
  NotChecked not_checked = {};
  bool complete = true;            // false: a time or memory limit was hit
  std::vector<Alarm> alarms = {};  // of the selected rules, in graph order
  std::vector<Note> notes = {};
  BlockList block_list = {};
  std::string verified = {};    // what evaluating random inputs showed; "" when it was not asked for
  std::string unverified = {};  // why it showed nothing although it was asked for
  double read_seconds = 0, check_seconds = 0;
};

// The whole run.
struct CheckResult {
  std::string version = {};  // of finity
  std::vector<Report> reports = {};
  std::vector<std::string> warnings = {};  // accepted findings that no longer occur, ...
  std::string config = {};                 // configuration file used, if any
  Verdict fail_on = Verdict::unknown;
  bool interrupted = false;
  std::size_t not_checked = 0;    // models left out by an interruption
  std::size_t max_findings = 10;  // printed by the formats people read; 0: all
  bool quiet = false;             // findings only
  bool statistics = false;        // counts per rule instead of findings
  bool colour = false;
  bool errors_apart = false;  // the text form leaves errors out: they are told elsewhere
};

// 0 nothing at or above `fail_on`, 1 findings, 2 a model could not be checked.
int exit_code(const CheckResult& result);
// Whether an alarm of this verdict makes the run fail.
bool fails(Verdict verdict, Verdict fail_on);

// ---- formats -----------------------------------------------------------------
std::string text_report(const CheckResult& result);
std::string json_report(const CheckResult& result);
std::string sarif_report(const CheckResult& result);
std::string github_report(const CheckResult& result);
std::string markdown_report(const CheckResult& result);

struct ReportFormat {
  std::string_view name = {};
  std::string_view extension = {};  // by which `-o FILE` chooses it; "" for none
  std::string (*write)(const CheckResult&) = nullptr;
};
std::span<const ReportFormat> report_formats();

}  // namespace finity

// From an analysis to a Report: the alarms of the selected rules with places,
// paths and fingerprints, and the numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/report.h"

namespace finity {

// Prefixes of rule codes, or slugs. The longest match decides, a draw goes to `ignore`. Rules about what was not
// checked (FN9...) are always selected, unless `ignore` names one in full.
struct Selection {
  std::vector<std::string> select = {};  // empty: all
  std::vector<std::string> ignore = {};
};
bool is_selected(const Selection& selection, const Rule& rule);
// Does the prefix, slug or "all" speak of the rule?
bool speaks_of(std::string_view prefix, const Rule& rule);
// The rule says that something was not checked: nobody may lose that by accident.
bool is_about_coverage(const Rule& rule);
// May the entry leave out or accept findings of the rule? As speaks_of, but what was not checked must be named in full.
bool may_silence(std::string_view prefix, const Rule& rule);
// Throws Error when an entry speaks of no rule at all.
void check_prefixes(const std::vector<std::string>& prefixes, std::string_view option);
// The same for entries that silence: one that could only mean rules about coverage must name one of them in full.
void check_silencers(const std::vector<std::string>& prefixes, std::string_view option);

struct Checked {
  const Graph& graph;
  const Types& types;
  const Analysis& analysis;
  const std::vector<std::string>& assumptions;
  bool converted = false;  // asked about as if it had been converted (--as)
};
// Fills assumptions, counts, alarms and notes of `report`. Alarms that the model itself ignores (node or model
// metadata finity.ignore = "FN104, FN2") are marked as accepted.
void collect(Report& report, const Checked& checked, const Selection& selection);

Place place_of(const Graph& graph, const Finding& finding);
// Subgraphs and inlined function calls around a node, outermost first.
std::string scope_of(const Graph& graph, const Node& node);
// The innermost line of user code in a Python stack trace, as exporters put it into metadata or doc strings:
// {"model.py", 12}; a line of a library when there is no other; {"", 0} when there is none.
std::pair<std::string, int> python_line(std::string_view stack_trace);
// 16 hexadecimal digits; the same for the same rule, place and operand, whatever the order of nodes.
std::string fingerprint(const Rule& rule, const Place& place, int operand, std::size_t occurrence);

}  // namespace finity

// Ranges in words, and testdata/ranges where they are kept: a range that grew makes somebody's proof an alarm, one
// that shrank may be wrong; both are to be seen in a diff. FINITY_UPDATE=1 rewrites the records.
#pragma once

#include <map>
#include <string>

#include "check/analyze.h"

namespace finity {

std::string shown(const Range& range);
std::string shown(const AbsTensor& x);
std::string shown_whole(const AbsTensor& x);  // with sizes, every cell, facts and forms
// Every computed value with its facts, then the findings.
std::string shown(const Graph& graph, const Analysis& analysis);

// Ends of ranges are values of their format. The first value of which that is not so, or "".
std::string end_outside_format(const Graph& graph, const Analysis& analysis);

using Records = std::map<std::string, std::string>;  // title to the lines below it, each indented and ended

// Titles that are not recorded yet are let pass as long as they are few.
void expect_as_recorded(const std::string& file, const Records& now);

}  // namespace finity

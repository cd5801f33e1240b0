// Ranges in words, and testdata/ranges, where the hull of every named value and every verdict of the cases in
// testdata/check are kept. A record is no truth: it shows in a diff whose range a change made wider or tighter.
// FINITY_UPDATE=1 rewrites the records.
#pragma once

#include <map>
#include <string>

#include "check/analyze.h"

namespace finity {

std::string shown(const AbsTensor& x);

// Ends of ranges are values of their format. The first value of which that is not so, or "".
std::string end_outside_format(const Graph& graph, const Analysis& analysis);

// What is said of a value ("y") or of a site ("FN102 at y"): a range, or a verdict.
using Record = std::map<std::string, std::string>;
using Records = std::map<std::string, Record>;  // by case

// The hull of every computed value of the main graph, and the verdict of every site that is not proved.
Record record_of(const Graph& graph, const Analysis& analysis);

// Says of every difference whether it is `wider`, `tighter` or `other`. Cases that are not recorded yet are let pass as
// long as they are few.
void expect_as_recorded(const std::string& file, const Records& now);

}  // namespace finity

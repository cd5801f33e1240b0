// What a report claims and for what: the part of the model's behaviour that was
// covered, guesses that proofs lean on, infinities that the contract lets through,
// and inputs on which findings came true.
#pragma once

#include <span>

#include "check/check_graph.h"
#include "check/verify.h"
#include "report/report.h"
#include "trigger/search.h"

namespace finity {

// Fills `covered`, `guesses`, `may_leave` and `unmatched`.
void add_claims(Report& report, const CheckedGraph& model, const Contract& contract, const GraphCheckOptions& options);

// Fills `searched` of the alarms for which a search found no input.
void add_searches(Report& report, const SearchResult& result);

// Fills `failure` of the alarms that these runs confirmed.
void add_failures(Report& report, const Graph& graph, std::span<const FailingRun> witnesses);

}  // namespace finity

// Searches for training runs of a program that end in NaN or Inf: `default` only trains, `grist` and `grist-ns` are the
// published method (ESEC/FSE 2021: gradient steps on the batch, with or without exchange of samples), `auto` is ours.
// What was found is a training run that anyone can repeat from its start, and it was repeated before it is handed over.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "exec/worker.h"
#include "program/program.h"
#include "program/training_run.h"

namespace finity {

enum class Strategy : std::uint8_t { plain, grist, grist_ns, automatic };
std::string_view name(Strategy strategy);            // "default", "grist", "grist-ns", "auto"
Strategy strategy_from_name(std::string_view text);  // throws Error naming the choices

// What ends a search, besides its time.
enum class Until : std::uint8_t {
  any_failure,  // wherever it is, as the paper counts
  at_site,      // a failure at the sites that were asked for; others do not count
  rather_site,  // the same, but the first failure elsewhere is handed over when there is none at the sites
  all_sites     // a failure at each of them, as far as they can be had
};

struct ProgramSearch {
  Strategy strategy = Strategy::automatic;
  std::uint64_t seed = 0;
  double seconds = 30;                // for the search; confirming comes on top
  ClockKind clock = ClockKind::wall;  // what `seconds` and all times count in
  double epsilon = 0.15;              // of sign steps
  double switch_rate = 0.05;
  // Vulnerable ops: a node's name or the name of a value it computes, or a rule ("FN102"), or "NODE:RULE". Empty: all
  // that the check left open, in turn.
  std::vector<std::string> sites = {};
  Until until = Until::any_failure;
  bool confirm = true;  // repeat the run from its start
  // Told now and then: seconds, iterations, closest distance so far. False ends the search.
  std::function<bool(double seconds, std::uint64_t iterations, double closest)> progress = {};
  // Told of a failure when it is seen, before it is repeated: what is known when the process does not survive.
  std::function<void(const struct ProgramOutcome&)> found = {};
};

// A site that did not fail, and how near it came, or why nothing walked towards it.
struct OpenSite {
  std::string title = {};
  std::string rule = {};
  double closest = 0;
  std::string closest_text = {};  // or why it was not searched
  bool searched = true;
};

struct ProgramOutcome {
  bool hit = false;
  bool confirmed = false;                 // the run was repeated from its start and failed again at the same step
  double seconds = 0;                     // until the failure was seen, or until the search gave up
  double wall_seconds = 0;                // the same by the wall's clock, whichever clock the search counts in
  double first_seconds = 0;               // until anything failed, be it elsewhere than where it was asked for
  std::uint64_t iterations = 0;           // passes over a batch, forward and backward
  std::uint64_t steps = 0;                // training steps of the run that failed
  std::string node = {};                  // that made the first NaN or Inf: "node 'log' (Log)"
  std::string node_name = {};             // by name, else what it computes
  std::string rule = {};                  // "FN102"; "" where no rule of the check speaks of it
  std::string what = {};                  // "element [3] of 'y' is -Inf"
  bool in_gradient = false;               // the forward pass was finite, derivatives were not
  bool at_site = false;                   // the node is one that was asked for, or belongs to the derivative of one
  bool disproves = false;                 // the check had proved that this node cannot fail: a bug of finity
  std::string site = {};                  // the site that was pursued when it happened
  double closest = 0;                     // distance of the suspect loss when nothing failed
  std::string closest_text = {};          // "0.25 away from <= 0"
  std::string engine = {};                // "libtorch" or "reference"
  std::string stopped = {};               // why it ended early: time, interrupted, the worker's last words
  std::string refused = {};               // why LibTorch could not be used, when it was there
  std::size_t proved = 0;                 // sites that the check proved
  std::size_t suspects = 0;               // sites that were searched
  std::size_t unsearched = 0;             // sites that could not be, and are not proved
  std::vector<double> trace = {};         // suspect loss over the iterations, thinned
  TrainingRun run = {};                   // what happened, from the start; only when hit
  std::vector<ProgramOutcome> more = {};  // failures at other sites, when all were asked for
  std::vector<OpenSite> open = {};        // sites without a failure, searched or not
};

// By LibTorch when `torch` is given and lowers all of the program, else by the reference. Throws Error when the program
// cannot be run at all, or the site is not there.
ProgramOutcome search_program(const Program& program, const ProgramSearch& options, Worker* torch);

}  // namespace finity

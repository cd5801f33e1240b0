// What all strategies share: the clock, what is watched, the end of a search and its confirmation. A strategy is a
// class that is driven to a failure or to its end.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "program/engine.h"
#include "program/search_program.h"
#include "program/suspects.h"
#include "program/trainer.h"

namespace finity {

class Driver {
 public:
  Driver(const Prepared& prepared, const ProgramSearch& options, TrainingEngine& engine);

  const Prepared& prepared() const { return prepared_; }
  const Program& program() const { return prepared_.program; }
  const ProgramSearch& options() const { return options_; }
  TrainingEngine& engine() { return engine_; }
  Trainer& trainer() { return trainer_; }

  // Values of the graph by name.
  ValueId find(const std::string& name) const;
  // A pass that reads what is watched first, then `read`.
  std::size_t add_pass(std::vector<ValueId> read, ValueId derived = {}, std::vector<ValueId> by = {});
  std::size_t watch_count() const { return program().watch_ids.size(); }

  // One iteration: counts, remembers the distance for the trace, looks whether what is watched is finite. True: it is
  // not, and that is a hit, or the run was lost to a failure that was not asked for and was started again. A failure
  // that was not asked for and that left the weights alone is passed over.
  bool saw(const PassResult& result, double distance);
  void count() { ++outcome_.iterations; }
  // Trains on what is fed. False: a loss or gradient was not finite, and that is a hit. One that was not asked for is
  // passed over: the weights stay what they were.
  bool train() { return trainer_.train() || !failed(true); }
  // What is fed failed, forward or (`backward`) in training. The result as for saw().
  bool failed(bool backward = false);
  // The time is up, somebody said stop, or all that was asked for was found.
  bool is_finished();
  // A pass was ended because the time is up.
  void run_out_of_time();
  // The same, or what is pursued was found.
  bool is_over() { return is_finished() || has_hit(); }
  bool has_hit() const { return pursued_ != nullptr ? !is_open(*pursued_) : outcome_.hit; }
  // Something failed that is not what is looked for; and whether the last look did.
  bool has_passed_over() const { return elsewhere_.has_value() || !found_.empty(); }
  bool passed_over() const { return passed_over_; }
  bool is_open(const Suspect& suspect) const { return !outcome_.hit && !closed_.contains(&suspect); }
  void pursue(const Suspect& suspect) {
    pursued_ = &suspect;
    outcome_.site = suspect.title;
  }
  // Without a hit: how near the most important site came that was measured.
  void conclude();
  double seconds() const { return watch_.seconds(options_.clock); }

  // What was found, repeated from the start and with the node named.
  ProgramOutcome finish();

 private:
  // Somebody may wait for a word. False: stop.
  bool tell();
  bool counts_all() const { return options_.until == Until::any_failure; }
  void record();
  bool close(const std::vector<NodeId>& nodes);
  bool weights_are_finite() const;
  bool weights_are_in_reach() const;
  const Suspect* suspect_of(NodeId id) const;
  NodeId forward_of(NodeId id) const;
  std::vector<NodeId> failing_nodes(bool backward);
  bool trained_to_failure(const TrainingRun& run, std::size_t last);
  // Whether what is fed fails at the site where it was found.
  bool fails_there(bool backward);
  void confirm();
  void name_node(const std::vector<NodeId>& bad);
  // Of several rules that speak of what makes this value: one whose unsafe values are there, else an overflow.
  std::string rule_met(const std::string& result);
  TrainingRun shortened(const TrainingRun& run);
  void simplify_batch();
  void note(double distance);

  const Prepared& prepared_;
  const ProgramSearch& options_;
  TrainingEngine& engine_;
  Trainer trainer_;
  Stopwatch watch_;
  double told_ = 0;
  bool stopped_ = false;
  std::size_t watch_pass_ = 0;
  const Suspect* pursued_ = nullptr;
  bool passed_over_ = false;
  std::set<const Suspect*> closed_;          // failed already, and others are looked for
  std::vector<ProgramOutcome> found_;        // one for each of them
  std::optional<ProgramOutcome> elsewhere_;  // the first failure that was not asked for
  double last_found_ = 0;
  double shorten_until_ = 0;                   // what was found last is handed over as it is, when there is much of it
  double failed_at_ = 0, failed_at_wall_ = 0;  // when the last failure was seen; where it is takes longer to find
  std::map<std::string, double> closest_;      // by site
  std::uint64_t stride_ = 1;                   // of the trace
  ProgramOutcome outcome_;
};

// Each returns when it is over or has a hit.
void train_plainly(Driver& driver);
void search_as_grist(Driver& driver, bool switching);
void search_automatically(Driver& driver);

// A search by one engine, whichever process it is in.
ProgramOutcome drive(const Prepared& prepared, const ProgramSearch& options, TrainingEngine& engine);

}  // namespace finity

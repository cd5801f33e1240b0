// What all strategies share: the clock, what is watched, the end of a search and its confirmation. A strategy is a
// class that is driven to a failure or to its end.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

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
  // not. That is a hit, or, when only failures at the site count and this was elsewhere, the run was started again.
  bool saw(const PassResult& result, double distance);
  void count() { ++outcome_.iterations; }
  // The time is up, somebody said stop, or there was a hit.
  bool is_over();
  bool has_hit() const { return outcome_.hit; }
  // The failure is in what is fed now. The same holds.
  void hit();
  void pursue(const Suspect& suspect) { outcome_.site = suspect.title; }
  // Without a hit: how near the most important site came that was measured.
  void conclude();
  double seconds() const;

  ProgramOutcome& outcome() { return outcome_; }
  // Repeats what was found and names the node.
  void confirm();

 private:
  bool is_at_site() const;
  bool trained_to_failure(const TrainingRun& run, std::size_t last);
  void name_node();
  TrainingRun shortened(const TrainingRun& run);
  void simplify_batch();
  void note(double distance);

  const Prepared& prepared_;
  const ProgramSearch& options_;
  TrainingEngine& engine_;
  Trainer trainer_;
  std::chrono::steady_clock::time_point start_;
  double told_ = 0;
  bool stopped_ = false;
  bool was_repeated_ = false;
  std::size_t watch_pass_ = 0;
  std::map<std::string, double> closest_;  // by site
  std::uint64_t stride_ = 1;               // of the trace
  ProgramOutcome outcome_;
};

// Each returns when it is over or has a hit.
void train_plainly(Driver& driver);
void search_as_grist(Driver& driver, bool switching);
void search_automatically(Driver& driver);

// A search by one engine, whichever process it is in.
ProgramOutcome drive(const Prepared& prepared, const ProgramSearch& options, TrainingEngine& engine);

}  // namespace finity

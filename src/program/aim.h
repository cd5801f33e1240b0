// Chooses what to train on by its effect: of several legal batches the one after whose step one vulnerable op is
// nearest to its unsafe values. Where steps on two of them end on both sides of a single unsafe value (a scale that
// becomes negative, and divides by nothing only where it is exactly 0), the batch between them is looked for after
// whose step it is met.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "program/attack.h"
#include "program/poison.h"

namespace finity {

class Aim {
 public:
  // Steps of plain training that one step is worth: it costs more, and leads somewhere.
  static constexpr int kCost = 4;

  Aim(Driver& driver, Poison& poison, const Suspect& suspect);

  // What was kept of another run is forgotten.
  void begin(std::uint64_t round);
  // Makes the batch for the next step. The op is looked at with what the attack last left in `probe`.
  void feed(const Trainer::Batch& probe);
  // To be called when that was trained on.
  void trained() { last_ = trainer_.batch(); }
  // A step on what was fed met an unsafe value, as far as one can tell.
  bool has_met() const { return met_; }

 private:
  struct Choice {
    Trainer::Batch batch = {};
    double distance = 0;  // of the op after a step on it
  };

  void add(std::vector<Choice>& choices);
  std::vector<Choice> choices();
  double after(Trainer::Batch& batch);
  bool is_between(const Choice& one, const Choice& other);
  std::optional<Trainer::Batch> between(const Choice& one, const Choice& other);
  Trainer::Batch mixed(const Trainer::Batch& one, const Trainer::Batch& other, double share, double spread);

  Driver& driver_;
  Trainer& trainer_;
  const Program& program_;
  Poison& poison_;
  Rng rng_;
  bool is_room_ = false;
  std::size_t pass_ = 0;
  std::uint64_t round_ = 0;
  bool met_ = false;
  int searches_ = 0;                    // between two batches, in this run
  std::optional<Trainer::Batch> last_;  // what was trained on last
  Trainer::Batch probe_ = {};
  std::shared_ptr<const TrainingEngine::State> before_ = {};  // the step that is chosen for
};

}  // namespace finity

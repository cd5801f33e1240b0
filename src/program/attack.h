// Moves what may be chosen (the batch, draws, weights at the start) towards the unsafe values of one vulnerable op,
// with the weights as they are. Every sample of the batch walks for itself: a move that helps one row is kept for that
// row.
#pragma once

#include <vector>

#include "program/driver.h"

namespace finity {

class Attack {
 public:
  // Throws Unsupported when the engine cannot derive the suspect's loss.
  Attack(Driver& driver, const Suspect& suspect);

  // Walks from what is fed now, for at most so many passes, and leaves the best in the trainer. With `starts` weights
  // and values of the start move too; the run must not have been trained then. True: something failed.
  bool run(int passes, bool starts);
  // Puts the best samples of the last walk into the first half of the batch.
  void recall();
  // How near it came: the smaller the nearer; and where a hit is expected, if only of a derivative: one divided by
  // what is below 2.9e-39 is no number of float32.
  double nearest() const { return nearest_; }
  bool is_there() const { return distance_ <= 0 || (!is_room_ && distance_ < 2.9e-39); }
  double target() const;  // where it should fail
  bool has_variables() const { return !inputs_.empty() || !weights_.empty(); }
  // The batch position that came nearest.
  std::size_t best_sample() const;

 private:
  struct Variable {
    bool is_weight = false;
    std::size_t at = 0;  // position in the program's inputs or weights
    LegalRange range = {};
    bool batched = false;
    std::vector<double> now = {}, slope = {};
    Dims dims = {};
    DType dtype = DType::undefined;
  };
  enum class Move : std::uint8_t { corner, signs, linear, zero, far, root };

  bool walk(int passes, bool starts);
  bool look();  // at what the variables hold
  void read(const PassResult& result, bool starts);
  void load(bool starts);
  void place(const std::vector<Variable>& variables);
  std::vector<Variable> moved(Move move, double share, std::size_t only) const;
  // The variables whose way to the corner promises most, best first.
  std::vector<std::size_t> by_promise() const;
  // How far along its slope each sample (or all together) goes.
  std::vector<double> lengths(Move move, double share) const;
  void move_element(const Variable& variable, std::size_t i, Move move, double share, double length, double& x) const;
  double row_of(std::size_t sample) const;
  bool keep_better(const std::vector<Variable>& before, const std::vector<double>& rows_before);
  static constexpr std::size_t kAll = static_cast<std::size_t>(-1);
  bool try_move(Move move, double share, std::size_t only = kAll);
  // Goes on along slopes that vanish with the distance, as long as that helps and where it mostly does.
  void finish_the_way();
  bool is_flat() const;  // nothing that may move matters here
  void settle_on_edge(const std::vector<Variable>& before);
  Driver& driver_;
  Trainer& trainer_;
  const Program& program_;
  bool is_room_ = false;
  bool backward_ = false;  // the op is one of the backward pass
  std::size_t batch_ = 1;
  std::vector<std::size_t> inputs_, weights_;
  std::size_t pass_ = 0, start_pass_ = 0;
  bool with_starts_ = false;
  bool per_sample_ = false;  // rows belong to samples
  std::vector<Variable> variables_;
  std::vector<double> rows_;
  std::vector<std::pair<std::size_t, Tensor>> best_;  // by input: the batch where the last walk ended
  double nearest_ = 0, distance_ = 0;
  int finishes_ = 0, gains_ = 0;  // how often that was tried, and was worth it
  double own_ = 0;                // the distance in the program's own formats
};

}  // namespace finity

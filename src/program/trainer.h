// One training run in the making: the batch that is fed now, fresh samples in the order of the data, draws by the seed,
// and a record of everything that went into a step, so that the run can be repeated.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/rng.h"
#include "program/engine.h"
#include "program/program.h"
#include "program/training_run.h"

namespace finity {

// Rows of samples that a run was made of: those of the data by their position, others by position behind them.
class SamplePool {
 public:
  explicit SamplePool(const Tensor& data) : data_(data) {}

  std::int32_t add(std::span<const std::byte> row);
  std::span<const std::byte> row(std::int32_t at) const;
  std::size_t bytes() const { return extra_.size(); }
  // Forgets rows that were added after so many bytes; those numbers are free again.
  void shrink(std::size_t bytes) { extra_.resize(std::min(bytes, extra_.size())); }
  std::int32_t end() const;
  // The distinct rows of `used`, and how the numbers change.
  Tensor compact(const std::vector<std::int32_t>& used, const Dims& row_dims, DType dtype,
                 std::map<std::int32_t, std::int32_t>& renamed) const;

 private:
  const Tensor& data_;  // without rows for draws
  std::size_t width_ = 0;
  std::vector<std::byte> extra_;
};

class Trainer {
 public:
  Trainer(const Program& program, TrainingEngine& engine, std::uint64_t seed);

  // Weights as the program starts them (or as set_start says), a first batch, an empty record.
  void restart();
  // Where a weight starts instead.
  void set_start(std::size_t weight, Tensor value) { starts_[weight] = std::move(value); }
  void forget_starts() { starts_.clear(); }

  const Program& program() const { return program_; }
  TrainingEngine& engine() { return engine_; }
  std::uint64_t seed() const { return seed_; }
  std::uint64_t steps() const { return steps_; }  // trained since the start

  // The batch: one tensor per input.
  const Tensor& value(std::size_t input) const { return values_[input]; }
  void set_value(std::size_t input, Tensor value);
  // Whole samples: every input that has them takes this row of its data.
  void set_sample(std::size_t position, std::int64_t sample);
  void set_row(std::size_t input, std::size_t position, std::span<const std::byte> row);
  // New samples for the whole batch, or for some of its positions.
  void fresh_batch();
  void fresh_samples(const std::vector<std::size_t>& positions);
  std::int64_t sample_count() const { return samples_; }
  // A draw that a search changed is drawn again from now on.
  void release_draws();
  // What is fed now, to come back to after looking at something else.
  struct Batch {
    std::vector<Tensor> values = {};
    std::vector<std::vector<std::int32_t>> rows = {};
  };
  Batch batch() const { return {values_, rows_}; }
  void set_batch(Batch batch);

  // Hands over what is fed and runs the pass, with the random numbers of this step.
  PassResult look(std::size_t pass);
  // Trains on what is fed. False when a loss or gradient was not finite: then it is no step, and nothing has changed.
  bool train();
  // The same without keeping it, for whoever goes back to the engine's state before.
  bool try_step();
  // Weights and record as they are now; back to them.
  struct Mark {
    std::shared_ptr<const TrainingEngine::State> state = {};
    std::vector<std::int32_t> record = {};
    std::uint64_t steps = 0;
    std::map<std::size_t, Tensor> starts = {};
    bool lost = false;
  };
  Mark mark();
  void go_back(const Mark& mark);

  // The run so far, with what is fed now as its last step. Without steps when it was too long to keep.
  TrainingRun run();
  // Feeds step `number` of a run, whose start was set before.
  void feed_step(const TrainingRun& run, std::size_t number);
  // Prepares the start of a run.
  void begin(const TrainingRun& run);

 private:
  using Rows = std::vector<std::int32_t>;
  static constexpr std::int32_t kDrawn = -1;
  static constexpr std::int32_t kChanged = -2;

  std::size_t row_bytes(std::size_t input) const;
  void draw_inputs();
  void feed();
  void settle_rows(std::size_t input);
  void feed_row(std::size_t input, std::size_t position, const Tensor& samples, std::int32_t number);
  void keep_step();
  std::vector<std::vector<Rows>> recorded_steps() const;
  void forget_unmarked();
  std::int64_t next_sample();

  const Program& program_;
  TrainingEngine& engine_;
  std::uint64_t seed_;
  Rng order_;
  std::int64_t samples_ = 0;
  std::vector<std::int64_t> permutation_;
  std::size_t next_ = 0;
  std::vector<Tensor> values_;           // by input
  std::vector<Rows> rows_;               // by input: where each row comes from
  std::vector<bool> fed_;                // the engine has it
  std::vector<std::uint64_t> drawn_at_;  // step for which a draw was made
  std::vector<SamplePool> pools_;
  std::vector<Rows> places_;         // by input: where the samples of a run that is fed again are in the pool
  std::vector<std::size_t> marked_;  // by input: bytes of the pool that marks refer to
  bool lost_ = false;                // more was trained on than is kept
  std::map<std::size_t, Tensor> starts_;
  std::uint64_t steps_ = 0;
  Rows record_;  // of every step the rows of all inputs
};

// Repeats a run from its start: it fails when what is watched is not finite at its end, or when a step makes weights
// that are not finite (`weights_failed`), be it the last one.
struct Repeated {
  bool failed = false;
  bool weights_failed = false;
  std::size_t step = 0;
};
Repeated repeat_run(const Program& program, TrainingEngine& engine, const TrainingRun& run, std::size_t watch_pass);

bool all_finite(const Tensor& tensor);

}  // namespace finity

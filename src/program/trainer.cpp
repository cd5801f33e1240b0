#include "program/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include "base/error.h"
#include "program/draws.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// Of samples that a run was trained on, and of its record; longer runs are not kept.
constexpr std::size_t kMostBytes = std::size_t{1} << 30;

}  // namespace

bool all_finite(const Tensor& tensor) {
  if (tensor.dtype() == DType::float32) {
    return std::ranges::all_of(tensor.data<float>(), [](float x) { return std::isfinite(x); });
  }
  if (!is_float(tensor.dtype())) return true;
  return std::ranges::all_of(elements<double>(tensor), [](double x) { return std::isfinite(x); });
}

std::int32_t SamplePool::add(std::span<const std::byte> row) {
  width_ = row.size();
  const std::size_t count = width_ == 0 ? 0 : extra_.size() / width_;
  extra_.insert(extra_.end(), row.begin(), row.end());
  const std::int64_t of_data = data_.rank() == 0 ? 1 : data_.dim(0);
  return static_cast<std::int32_t>(of_data + static_cast<std::int64_t>(count));
}

std::int32_t SamplePool::end() const {
  const std::int64_t of_data = data_.rank() == 0 ? 1 : data_.dim(0);
  return static_cast<std::int32_t>(of_data + static_cast<std::int64_t>(width_ == 0 ? 0 : extra_.size() / width_));
}

std::span<const std::byte> SamplePool::row(std::int32_t at) const {
  const auto of_data = static_cast<std::size_t>(data_.rank() == 0 ? 1 : data_.dim(0));
  const auto number = static_cast<std::size_t>(at);
  if (number >= of_data) return std::span(extra_).subspan((number - of_data) * width_, width_);
  const std::size_t width = data_.bytes().size() / of_data;
  return data_.bytes().subspan(number * width, width);
}

Tensor SamplePool::compact(const std::vector<std::int32_t>& used, const Dims& row_dims, DType dtype,
                           std::map<std::int32_t, std::int32_t>& renamed) const {
  for (const std::int32_t at : used) renamed.try_emplace(at, static_cast<std::int32_t>(renamed.size()));
  Dims dims = {static_cast<std::int64_t>(renamed.size())};
  dims.insert(dims.end(), row_dims.begin(), row_dims.end());
  Tensor result(dtype, std::move(dims));
  if (result.empty()) return result;
  const std::span<std::byte> target = result.mutable_bytes();
  const std::size_t width = target.size() / renamed.size();
  for (const auto& [from, to] : renamed) {
    std::memcpy(target.data() + static_cast<std::size_t>(to) * width, row(from).data(), width);
  }
  return result;
}

Trainer::Trainer(const Program& program, TrainingEngine& engine, std::uint64_t seed)
    : program_(program), engine_(engine), seed_(seed), order_(seed_for(seed, "order")) {
  for (const ProgramInput& input : program.inputs) {
    const Type& type = program.types[input.id];
    values_.emplace_back(input.draw || input.batched ? Tensor(type.dtype, *type.dims()) : input.data);
    rows_.emplace_back(input.batched && !input.draw ? static_cast<std::size_t>(program.batch) : 1,
                       input.draw ? kDrawn : 0);
    if (input.batched && !input.draw) samples_ = input.data.dim(0);
    pools_.emplace_back(input.data);
  }
  marked_.assign(values_.size(), 0);
  places_.assign(values_.size(), {});
  fed_.assign(values_.size(), false);
  drawn_at_.assign(values_.size(), std::numeric_limits<std::uint64_t>::max());
  permutation_.resize(static_cast<std::size_t>(samples_));
  std::iota(permutation_.begin(), permutation_.end(), 0);
  next_ = permutation_.size();
}

void Trainer::restart() {
  std::vector<Tensor> weights;
  for (std::size_t i = 0; i < program_.weights.size(); ++i) {
    const auto chosen = starts_.find(i);
    weights.push_back(chosen != starts_.end() ? chosen->second : initial_weight(program_, program_.weights[i], seed_));
  }
  engine_.start(weights);
  record_.clear();
  steps_ = 0;
  lost_ = false;
  forget_unmarked();
  drawn_at_.assign(values_.size(), std::numeric_limits<std::uint64_t>::max());
  draw_inputs();  // whoever reads values before the first pass gets legal ones
}

std::size_t Trainer::row_bytes(std::size_t input) const { return values_[input].bytes().size() / rows_[input].size(); }

void Trainer::set_value(std::size_t input, Tensor value) {
  Rows& rows = rows_[input];
  const std::size_t width = row_bytes(input);
  const std::span<const std::byte> before = std::as_const(values_[input]).bytes(), now = std::as_const(value).bytes();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (std::memcmp(before.data() + i * width, now.data() + i * width, width) != 0) rows[i] = kChanged;
  }
  values_[input] = std::move(value);
  fed_[input] = false;
}

void Trainer::set_row(std::size_t input, std::size_t position, std::span<const std::byte> row) {
  std::memcpy(values_[input].mutable_bytes().data() + position * row_bytes(input), row.data(), row.size());
  rows_[input][position] = kChanged;
  fed_[input] = false;
}

void Trainer::set_sample(std::size_t position, std::int64_t sample) {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!program_.inputs[i].batched || program_.inputs[i].draw) continue;
    set_row(i, position, pools_[i].row(static_cast<std::int32_t>(sample)));
    rows_[i][position] = static_cast<std::int32_t>(sample);
  }
}

std::int64_t Trainer::next_sample() {
  if (next_ == permutation_.size()) {
    next_ = 0;
    for (std::size_t i = permutation_.size(); program_.shuffle && i > 1; --i) {
      std::swap(permutation_[i - 1], permutation_[order_.below(i)]);
    }
  }
  return permutation_[next_++];
}

void Trainer::fresh_batch() {
  if (samples_ == 0) return;
  // A batch that is the whole data keeps its order.
  if (samples_ == program_.batch) {
    for (std::int64_t i = 0; i < samples_; ++i) set_sample(static_cast<std::size_t>(i), i);
    return;
  }
  for (std::int64_t i = 0; i < program_.batch; ++i) set_sample(static_cast<std::size_t>(i), next_sample());
}

void Trainer::fresh_samples(const std::vector<std::size_t>& positions) {
  if (samples_ == 0) return;
  for (const std::size_t position : positions) set_sample(position, next_sample());
}

void Trainer::release_draws() {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (!program_.inputs[i].draw || rows_[i][0] == kDrawn) continue;
    rows_[i][0] = kDrawn;
    drawn_at_[i] = std::numeric_limits<std::uint64_t>::max();
  }
}

void Trainer::set_batch(Batch batch) {
  values_ = std::move(batch.values);
  rows_ = std::move(batch.rows);
  fed_.assign(values_.size(), false);
  drawn_at_.assign(values_.size(), std::numeric_limits<std::uint64_t>::max());
}

void Trainer::draw_inputs() {
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const ProgramInput& input = program_.inputs[i];
    const std::uint64_t step = input.each_step ? steps() : 0;
    if (!input.draw || rows_[i][0] != kDrawn || drawn_at_[i] == step) continue;
    values_[i] =
        drawn(*input.draw, values_[i].dtype(), values_[i].dims(), seed_for(seed_, "input/" + input.name, step));
    drawn_at_[i] = step;
    fed_[i] = false;
  }
}

void Trainer::feed() {
  draw_inputs();
  for (std::size_t i = 0; i < values_.size(); ++i) {
    if (fed_[i]) continue;
    engine_.feed(program_.inputs[i].id, values_[i]);
    fed_[i] = true;
  }
}

PassResult Trainer::look(std::size_t pass) {
  feed();
  engine_.set_seed(seed_for(seed_, "look", steps()));
  return engine_.run(pass);
}

// Rows that a search made get a place in the pool.
void Trainer::settle_rows(std::size_t input) {
  Rows& rows = rows_[input];
  const std::size_t width = row_bytes(input);
  const std::span<const std::byte> bytes = std::as_const(values_[input]).bytes();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] != kChanged) continue;
    const auto row = bytes.subspan(i * width, width);
    if (pools_[input].bytes() > kMostBytes) lost_ = true;
    if (lost_) return;
    // Rows of a batch are often copies of one another.
    const bool same = i > 0 && rows[i - 1] >= 0 && std::memcmp(row.data(), bytes.data() + (i - 1) * width, width) == 0;
    rows[i] = same ? rows[i - 1] : pools_[input].add(row);
  }
}

// What a TrainingRun needs for a step counts, which is more than the numbers.
void Trainer::keep_step() {
  constexpr std::size_t kPerVector = 64;
  std::size_t bytes = (rows_.size() + 1) * kPerVector;
  for (const Rows& rows : rows_) bytes += rows.size() * sizeof rows[0];
  if (++steps_ > kMostBytes / bytes) lost_ = true;
  if (lost_) record_ = {};
  for (const Rows& rows : rows_) {
    if (!lost_) record_.insert(record_.end(), rows.begin(), rows.end());
  }
}

std::vector<std::vector<Trainer::Rows>> Trainer::recorded_steps() const {
  std::vector<std::vector<Rows>> steps(steps_);
  auto at = record_.begin();
  for (std::vector<Rows>& step : steps) {
    for (const Rows& rows : rows_) {
      step.emplace_back(at, at + static_cast<std::ptrdiff_t>(rows.size()));
      at += static_cast<std::ptrdiff_t>(rows.size());
    }
  }
  return steps;
}

bool Trainer::try_step() {
  feed();
  engine_.set_seed(seed_for(seed_, "train", steps()));
  return engine_.train();
}

bool Trainer::train() {
  if (!try_step()) return false;
  for (std::size_t i = 0; i < values_.size(); ++i) settle_rows(i);
  keep_step();
  return true;
}

Trainer::Mark Trainer::mark() {
  for (std::size_t i = 0; i < pools_.size(); ++i) marked_[i] = pools_[i].bytes();
  return {engine_.state(), record_, steps_, starts_, lost_};
}

// Samples that no mark refers to need not be kept when a run starts anew.
void Trainer::forget_unmarked() {
  places_.assign(values_.size(), {});
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    pools_[i].shrink(marked_[i]);
    for (std::int32_t& row : rows_[i]) {
      if (row >= pools_[i].end()) row = kChanged;
    }
  }
}

void Trainer::go_back(const Mark& mark) {
  engine_.go_back(*mark.state);
  record_ = mark.record;
  steps_ = mark.steps;
  starts_ = mark.starts;
  lost_ = mark.lost;
  forget_unmarked();
  drawn_at_.assign(values_.size(), std::numeric_limits<std::uint64_t>::max());
}

TrainingRun Trainer::run() {
  draw_inputs();
  TrainingRun run = {.seed = seed_};
  for (const auto& [weight, value] : starts_) run.weights[program_.weights[weight].name] = value;
  for (std::size_t i = 0; i < values_.size(); ++i) settle_rows(i);
  std::vector<std::vector<Rows>> steps = lost_ ? std::vector<std::vector<Rows>>{} : recorded_steps();
  if (!lost_) steps.push_back(rows_);
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const ProgramInput& input = program_.inputs[i];
    run.inputs.push_back(input.name);
    run.last_inputs[input.name] = values_[i];
    std::vector<std::int32_t> used;
    for (const std::vector<Rows>& step : steps) {
      std::ranges::copy_if(step[i], std::back_inserter(used), [](std::int32_t at) { return at >= 0; });
    }
    Dims dims = values_[i].dims();
    if (rows_[i].size() > 1 || (input.batched && !input.draw)) dims.erase(dims.begin());
    std::map<std::int32_t, std::int32_t> renamed;
    run.samples[input.name] = pools_[i].compact(used, dims, values_[i].dtype(), renamed);
    for (std::vector<Rows>& step : steps) {
      for (std::int32_t& at : step[i]) at = at >= 0 ? renamed.at(at) : at;
    }
  }
  run.steps = std::move(steps);
  for (std::size_t i = 0; i < program_.weights.size(); ++i) {
    run.last_weights[program_.weights[i].name] = engine_.weight(i);
  }
  return run;
}

void Trainer::begin(const TrainingRun& run) {
  seed_ = run.seed;
  starts_.clear();
  for (std::size_t i = 0; i < program_.weights.size(); ++i) {
    const auto chosen = run.weights.find(program_.weights[i].name);
    if (chosen != run.weights.end()) starts_[i] = chosen->second;
  }
  restart();
}

void Trainer::feed_step(const TrainingRun& run, std::size_t number) {
  if (number >= run.steps.size()) throw Error("the run has no step " + std::to_string(number));
  const auto& step = run.steps[number];
  for (std::size_t i = 0; i < values_.size(); ++i) {
    const auto at = std::ranges::find(run.inputs, program_.inputs[i].name);
    if (at == run.inputs.end()) throw Error("the run says nothing of input '" + program_.inputs[i].name + "'");
    const Rows& rows = step.at(static_cast<std::size_t>(at - run.inputs.begin()));
    if (rows.size() != rows_[i].size()) throw Error("the run has another batch size");
    if (program_.inputs[i].draw && rows[0] == kDrawn) {
      if (rows_[i][0] != kDrawn) drawn_at_[i] = std::numeric_limits<std::uint64_t>::max();
      rows_[i][0] = kDrawn;
      continue;
    }
    for (std::size_t k = 0; k < rows.size(); ++k) feed_row(i, k, run.samples.at(program_.inputs[i].name), rows[k]);
  }
}

// A sample of a run goes into the pool once, however many steps use it.
void Trainer::feed_row(std::size_t input, std::size_t position, const Tensor& samples, std::int32_t number) {
  const std::size_t width = row_bytes(input);
  if (width == 0) return;
  const std::size_t count = samples.bytes().size() / width;
  if (number < 0 || static_cast<std::size_t>(number) >= count) throw Error("the run names a sample that is not there");
  places_[input].resize(count, kChanged);
  const auto row = samples.bytes().subspan(static_cast<std::size_t>(number) * width, width);
  std::int32_t& place = places_[input][static_cast<std::size_t>(number)];
  if (place == kChanged) place = pools_[input].add(row);
  set_row(input, position, row);
  rows_[input][position] = place;
}

Repeated repeat_run(const Program& program, TrainingEngine& engine, const TrainingRun& run, std::size_t watch_pass) {
  Trainer trainer(program, engine, run.seed);
  trainer.begin(run);
  const auto weights_are_finite = [&] {
    for (std::size_t i = 0; i < program.weights.size(); ++i) {
      if (!all_finite(engine.weight(i))) return false;
    }
    return true;
  };
  if (run.steps.empty()) return {};
  const std::size_t last = run.steps.size() - 1;
  for (std::size_t step = 0; step < last; ++step) {
    trainer.feed_step(run, step);
    // A loss that is not finite is the failure, whatever it does to the weights.
    if (!trainer.train() || !weights_are_finite()) return {.failed = true, .weights_failed = true, .step = step};
  }
  trainer.feed_step(run, last);
  const PassResult result = trainer.look(watch_pass);
  if (!std::ranges::all_of(result.values, all_finite)) return {.failed = true, .weights_failed = false, .step = last};
  const bool lost = !trainer.train() || !weights_are_finite();
  return {.failed = lost, .weights_failed = lost, .step = last};
}

}  // namespace finity

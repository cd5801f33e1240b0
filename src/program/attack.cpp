#include "program/attack.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "tensor/convert.h"

namespace finity {

namespace {

// Ranges beyond this are "any number": a step is then measured by the element itself.
constexpr double kWide = 1e6;
// The logarithm of a distance below which float32 has nothing but zero.
constexpr double kGone = -106;

bool is_wide(const LegalRange& range) { return !(range.hi - range.lo <= kWide); }

}  // namespace

Attack::Attack(Driver& driver, const Suspect& suspect)
    : driver_(driver),
      trainer_(driver.trainer()),
      program_(driver.program()),
      is_room_(suspect.unsafe.empty()),
      backward_(suspect.in_gradient),
      batch_(static_cast<std::size_t>(program_.batch)) {
  std::vector<ValueId> by, by_starts;
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    const ProgramInput& input = program_.inputs[i];
    if (!*input.change || (input.draw && !input.each_step)) continue;
    inputs_.push_back(i);
    by.push_back(input.id);
  }
  by_starts = by;
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    const ProgramInput& input = program_.inputs[i];
    if (!*input.change || !input.draw || input.each_step) continue;
    weights_.push_back(program_.weights.size() + i);
    by_starts.push_back(input.id);
  }
  for (std::size_t i = 0; i < program_.weights.size(); ++i) {
    if (!program_.weights[i].range) continue;
    weights_.push_back(i);
    by_starts.push_back(program_.weights[i].id);
  }
  const std::vector<ValueId> read = {driver.find(suspect.nearest), driver.find(suspect.rows),
                                     driver.find(suspect.distance)};
  const ValueId total = driver.find(suspect.total);
  pass_ = driver.add_pass(read, by.empty() ? ValueId{} : total, by);
  start_pass_ = by_starts.size() == by.size() ? pass_ : driver.add_pass(read, total, by_starts);
  const auto rows = static_cast<std::size_t>(suspect.row_count);
  per_sample_ = rows % batch_ == 0 && batch_ > 1;
}

// What the trainer holds becomes the variables' values.
void Attack::load(bool starts) {
  with_starts_ = starts;
  variables_.clear();
  const auto add = [&](Variable variable, const Tensor& tensor) {
    variable.now = elements<double>(tensor);
    variable.dims = tensor.dims();
    variable.dtype = tensor.dtype();
    variables_.push_back(std::move(variable));
  };
  const auto add_input = [&](std::size_t i) {
    const ProgramInput& input = program_.inputs[i];
    add({.at = i, .range = *input.range, .batched = input.batched}, trainer_.value(i));
  };
  for (const std::size_t i : inputs_) add_input(i);
  if (!starts) return;
  for (const std::size_t i : weights_) {
    if (i >= program_.weights.size()) add_input(i - program_.weights.size());
    else add({.is_weight = true, .at = i, .range = *program_.weights[i].range}, driver_.engine().weight(i));
  }
}

void Attack::place(const std::vector<Variable>& variables) {
  for (const Variable& variable : variables) {
    Tensor tensor = from_elements<double>(variable.dtype, variable.dims, variable.now);
    if (!variable.is_weight) {
      trainer_.set_value(variable.at, std::move(tensor));
      continue;
    }
    driver_.engine().set_weight(variable.at, tensor);
    trainer_.set_start(variable.at, std::move(tensor));
  }
}

void Attack::read(const PassResult& result, bool starts) {
  const std::size_t watched = driver_.watch_count();
  distance_ = element_as_double(result.values[watched], 0);
  rows_ = elements<double>(result.values[watched + 1]);
  own_ = element_as_double(result.values[watched + 2], 0);
  nearest_ = std::numeric_limits<double>::infinity();
  for (const double row : rows_) nearest_ = row < nearest_ ? row : nearest_;
  with_starts_ = starts;
  for (std::size_t k = 0; k < variables_.size() && k < result.gradients.size(); ++k) {
    variables_[k].slope = elements<double>(result.gradients[k]);
    for (double& slope : variables_[k].slope) slope = std::isfinite(slope) ? slope : 0;
  }
}

// True: a hit.
bool Attack::look() {
  const PassResult result = trainer_.look(with_starts_ ? start_pass_ : pass_);
  const double distance = element_as_double(result.values[driver_.watch_count()], 0);
  if (driver_.saw(result, distance)) return true;
  read(result, with_starts_);
  return false;
}

std::size_t Attack::best_sample() const {
  if (!per_sample_ || rows_.empty()) return 0;
  const auto nearest = static_cast<std::size_t>(std::ranges::min_element(rows_) - rows_.begin());
  return nearest / (rows_.size() / batch_);
}

double Attack::row_of(std::size_t sample) const {
  const std::size_t group = rows_.size() / batch_;
  return *std::ranges::min_element(std::span(rows_).subspan(sample * group, group));
}

void Attack::move_element(const Variable& variable, std::size_t i, Move move, double share, double length,
                          double& x) const {
  const double slope = variable.slope[i];
  if (slope == 0) return;
  const LegalRange& range = variable.range;
  const double reach = is_wide(range) ? std::max(1.0, std::abs(x)) : range.hi - range.lo;
  switch (move) {
    case Move::corner:
      if (slope > 0) x = std::isinf(range.lo) ? x - 8 * reach : range.lo;
      else x = std::isinf(range.hi) ? x + 8 * reach : range.hi;
      break;
    case Move::far: x -= std::copysign(share, slope); break;
    case Move::signs: x -= std::copysign(share * reach, slope); break;
    case Move::linear:
    case Move::root: x -= length * slope; break;
    case Move::zero: x = 0; break;
  }
  x = std::clamp(x, range.lo, range.hi);
}

double Attack::target() const { return is_room_ ? 0 : kGone; }

std::vector<std::size_t> Attack::by_promise() const {
  std::vector<std::pair<double, std::size_t>> promises;
  for (std::size_t k = 0; k < variables_.size(); ++k) {
    double promise = 0;
    for (std::size_t i = 0; i < variables_[k].now.size(); ++i) {
      double x = variables_[k].now[i];
      move_element(variables_[k], i, Move::corner, 1, 0, x);
      promise += std::abs(variables_[k].slope[i] * (x - variables_[k].now[i]));
    }
    promises.emplace_back(-promise, k);
  }
  std::ranges::sort(promises);
  std::vector<std::size_t> order;
  for (const auto& [promise, k] : promises) {
    if (promise < 0) order.push_back(k);
  }
  return order;
}

// As far as would reach the end if the loss were linear. The loss is a logarithm: where the distance itself is a power
// of how far it is to go, as near its end it mostly is, `root` reaches the end with that power as the share.
std::vector<double> Attack::lengths(Move move, double share) const {
  const bool free = std::ranges::all_of(variables_, [](const Variable& variable) { return variable.batched; });
  std::vector<double> squares(move == Move::root && per_sample_ && free ? batch_ : 1, 0);
  for (const Variable& variable : variables_) {
    const std::size_t width = variable.slope.size() / squares.size();
    for (std::size_t i = 0; i < variable.slope.size(); ++i) {
      squares[i / std::max<std::size_t>(width, 1)] += variable.slope[i] * variable.slope[i];
    }
  }
  const double rows = static_cast<double>(rows_.size()) / static_cast<double>(squares.size());
  const double way = share * rows * (move == Move::root ? 1 : nearest_ - target());
  for (double& square : squares) square = square > 0 ? way / square : 0;
  return squares;
}

std::vector<Attack::Variable> Attack::moved(Move move, double share, std::size_t only) const {
  const std::vector<double> along = lengths(move, share);
  std::vector<Variable> next = variables_;
  for (std::size_t k = 0; k < next.size(); ++k) {
    Variable& variable = next[k];
    const std::size_t width = std::max<std::size_t>(variable.now.size() / along.size(), 1);
    for (std::size_t i = 0; i < variable.now.size() && (only == kAll || only == k); ++i) {
      move_element(variable, i, move, share, along[i / width], variable.now[i]);
    }
  }
  return next;
}

// Rows that came nearer keep their new values, the others go back; without samples all or nothing.
bool Attack::keep_better(const std::vector<Variable>& before, const std::vector<double>& rows_before) {
  const bool free = std::ranges::all_of(before, [](const Variable& variable) { return variable.batched; });
  if (!per_sample_ || !free) {
    const double then = *std::ranges::min_element(rows_before);
    if (nearest_ < then) return true;
    variables_ = before;
    rows_ = rows_before;
    nearest_ = then;
    return false;
  }
  bool any = false;
  const std::size_t group = rows_.size() / batch_;
  for (std::size_t sample = 0; sample < batch_; ++sample) {
    const auto first = static_cast<std::ptrdiff_t>(sample * group), last = first + static_cast<std::ptrdiff_t>(group);
    const double then = *std::min_element(rows_before.begin() + first, rows_before.begin() + last);
    if (row_of(sample) < then) {
      any = true;
      continue;
    }
    std::copy(rows_before.begin() + first, rows_before.begin() + last, rows_.begin() + first);
    for (std::size_t k = 0; k < variables_.size(); ++k) {
      const std::size_t width = variables_[k].now.size() / batch_;
      const auto from = static_cast<std::ptrdiff_t>(sample * width), to = from + static_cast<std::ptrdiff_t>(width);
      std::copy(before[k].now.begin() + from, before[k].now.begin() + to, variables_[k].now.begin() + from);
      std::copy(before[k].slope.begin() + from, before[k].slope.begin() + to, variables_[k].slope.begin() + from);
    }
  }
  nearest_ = *std::ranges::min_element(rows_);
  return any;
}

bool Attack::is_flat() const {
  return std::ranges::all_of(variables_, [](const Variable& variable) {
    return std::ranges::all_of(variable.slope, [](double slope) { return slope == 0; });
  });
}

// A derivative is cut off beyond a clamp, however invalid it is: the way back is halved until the op is at its unsafe
// values and still matters.
void Attack::settle_on_edge(const std::vector<Variable>& before) {
  constexpr int kHalvings = 12;
  std::vector<Variable> good = before, flat = variables_;
  for (int i = 0; i < kHalvings && !driver_.is_over(); ++i) {
    variables_ = good;
    for (std::size_t k = 0; k < good.size(); ++k) {
      for (std::size_t j = 0; j < good[k].now.size(); ++j) {
        variables_[k].now[j] = good[k].now[j] + (flat[k].now[j] - good[k].now[j]) / 2;
      }
    }
    place(variables_);
    if (look()) return;
    if (!is_flat() && own_ <= 0) return;
    (is_flat() ? flat : good) = variables_;
  }
}

// True when it helped, or hit.
bool Attack::try_move(Move move, double share, std::size_t only) {
  if (driver_.is_over()) return false;
  const std::vector<Variable> before = variables_;
  const std::vector<double> rows_before = rows_;
  const double distance_before = distance_;
  std::vector<Variable> next = moved(move, share, only);
  bool changed = false;
  for (std::size_t k = 0; k < next.size(); ++k) changed |= next[k].now != before[k].now;
  if (!changed) return false;
  place(next);
  variables_ = std::move(next);
  if (look()) return true;
  // A backward pass shows only behind a finite forward pass.
  if (backward_ && driver_.passed_over()) {
    nearest_ = std::numeric_limits<double>::infinity();
    std::ranges::fill(rows_, nearest_);
  }
  const bool better = keep_better(before, rows_before);
  if (!better) distance_ = distance_before;
  place(variables_);
  if (better && backward_ && is_flat()) settle_on_edge(before);
  return better;
}

void Attack::recall() {
  for (const auto& [input, batch] : best_) {
    Tensor value = trainer_.value(input);
    const std::size_t half = program_.inputs[input].batched ? batch_ / 2 * (value.bytes().size() / batch_) : 0;
    std::memcpy(value.mutable_bytes().data(), batch.bytes().data(), half);
    trainer_.set_value(input, std::move(value));
  }
}

bool Attack::run(int passes, bool starts) {
  const bool over = walk(passes, starts);
  best_.clear();
  for (const std::size_t i : inputs_) best_.emplace_back(i, trainer_.value(i));
  return over;
}

void Attack::finish_the_way() {
  constexpr int kSteps = 40, kTrials = 6;
  constexpr double kGain = 0.1;  // of the logarithm
  if (is_room_ || finishes_ > kTrials * (gains_ + 1)) return;
  ++finishes_;
  const double start = nearest_;
  for (int step = 0; step < kSteps && !driver_.is_over(); ++step) {
    const double before = nearest_;
    // Squares are more common than what is linear to the end.
    if (!try_move(Move::root, 2) && !try_move(Move::root, 1)) break;
    if (!(nearest_ < before - kGain)) break;
  }
  gains_ += nearest_ < start - 1 ? 1 : 0;
}

bool Attack::walk(int passes, bool starts) {
  load(starts);
  if (look()) return true;
  if (variables_.empty()) return false;
  int left = passes - 1;
  const auto go = [&](Move move, double share, std::size_t only = kAll) {
    if (left <= 0 || driver_.is_over()) return false;
    --left;
    return try_move(move, share, only);
  };
  while (go(Move::corner, 1) && !driver_.is_over()) {
  }
  // Where all together makes something else fail, one at a time may not.
  constexpr int kTries = 12;
  std::set<std::size_t> tried;
  for (int i = 0; i < kTries && passes > 2 * kTries - 1 && driver_.has_passed_over() && variables_.size() > 1; ++i) {
    std::vector<std::size_t> order = by_promise();
    std::erase_if(order, [&](std::size_t k) { return tried.contains(k); });
    if (order.empty()) break;
    tried.insert(order.front());
    if (go(Move::corner, 1, order.front())) tried = {order.front()};
  }
  const bool wide = std::ranges::any_of(variables_, [](const Variable& variable) { return is_wide(variable.range); });
  for (double step = 100; wide && step < 1e30 && !driver_.is_over() && left > 0; step *= 1e3) go(Move::far, step);
  double share = 0.25;
  go(Move::zero, 1);
  double before = nearest_;
  while (left > 0 && !driver_.is_over() && share > 1e-3) {
    const bool better = go(Move::signs, share) | go(Move::linear, 1);
    share = better ? std::min(1.0, share * 2) : share / 4;
    // Who would be there soon at this pace may go on.
    constexpr double kSoon = 16;
    if (left > 0 || !(nearest_ - target() < kSoon * (before - nearest_))) continue;
    left = passes;
    before = nearest_;
  }
  finish_the_way();
  return driver_.has_hit();
}

}  // namespace finity

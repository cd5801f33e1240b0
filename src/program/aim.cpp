#include "program/aim.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "program/draws.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

}  // namespace

Aim::Aim(Driver& driver, Poison& poison, const Suspect& suspect)
    : driver_(driver),
      trainer_(driver.trainer()),
      program_(driver.program()),
      poison_(poison),
      rng_(seed_for(driver.options().seed, "aim")),
      is_room_(suspect.unsafe.empty()),
      pass_(driver.add_pass({driver.find(suspect.nearest)})) {}

void Aim::begin(std::uint64_t round) {
  round_ = round;
  last_.reset();
  met_ = false;
  searches_ = 0;
}

// How far the op is from failing after a step on this batch, which is not taken; below 0 when something has failed.
double Aim::after(Trainer::Batch& batch) {
  driver_.count();
  trainer_.set_batch(batch);
  if (!trainer_.try_step()) return -kInfinite;
  batch = trainer_.batch();  // with what was drawn for it
  trainer_.set_batch(probe_);
  const PassResult seen = trainer_.look(pass_);
  driver_.engine().go_back(*before_);
  const bool finite = std::ranges::all_of(std::span(seen.values).first(driver_.watch_count()), all_finite);
  if (!finite) return -kInfinite;
  const double distance = element_as_double(seen.values[driver_.watch_count()], 0);
  return std::isnan(distance) ? kInfinite : distance;
}

void Aim::add(std::vector<Choice>& choices) {
  Trainer::Batch batch = trainer_.batch();
  const double distance = after(batch);
  choices.push_back({std::move(batch), distance});
}

std::vector<Aim::Choice> Aim::choices() {
  std::vector<Choice> choices;
  if (last_) {
    trainer_.set_batch(*last_);
    add(choices);
  }
  trainer_.set_batch(probe_);
  add(choices);
  // One sample for the whole batch: at the ends of its range, at random corners, of the data.
  constexpr std::uint64_t kExtremes[] = {0, 3, 6, 9};
  const auto feed = [&](Manner manner, std::uint64_t round) {
    if (!poison_.can(manner) || driver_.is_over()) return;
    trainer_.release_draws();
    poison_.begin(manner, round);
    poison_.feed_batch();
    if (!driver_.is_over()) add(choices);
  };
  for (const std::uint64_t round : kExtremes) feed(Manner::extreme, round);
  feed(Manner::parts, round_++ % 5);
  feed(Manner::ordinary, 0);
  return choices;
}

// Everything that may be chosen is moved from one batch towards another, each sample a little differently; what may
// only be exchanged stays.
Trainer::Batch Aim::mixed(const Trainer::Batch& one, const Trainer::Batch& other, double share, double spread) {
  trainer_.set_batch(one);
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    const ProgramInput& input = program_.inputs[i];
    const Tensor& from = one.values[i];
    if (!*input.change || !is_float(from.dtype())) continue;
    std::vector<double> numbers = elements<double>(from);
    const std::vector<double> to = elements<double>(other.values[i]);
    const std::size_t rows = input.batched ? static_cast<std::size_t>(program_.batch) : 1;
    const std::size_t width = numbers.size() / rows;
    for (std::size_t row = 0; row < rows; ++row) {
      const double own = std::clamp(share + spread * rng_.normal(), 0.0, 1.0);
      for (std::size_t k = row * width; k < (row + 1) * width; ++k) numbers[k] += own * (to[k] - numbers[k]);
    }
    trainer_.set_value(i, from_elements<double>(from.dtype(), from.dims(), numbers));
  }
  return trainer_.batch();
}

// Halfway between two sides of 0 one is nearer to it than halfway between two places on the same side.
bool Aim::is_between(const Choice& one, const Choice& other) {
  if (!std::isfinite(one.distance) || !std::isfinite(other.distance)) return false;
  Trainer::Batch half = mixed(one.batch, other.batch, 0.5, 0);
  const double middle = after(half);
  if (!(middle < std::max(one.distance, other.distance))) return middle < 0;
  const double crossed = std::abs(one.distance - other.distance) / 2, along = (one.distance + other.distance) / 2;
  return std::abs(middle - crossed) < std::abs(middle - along);
}

// The distance falls up to the place and rises behind it: the golden section, given up when it leads back to one of the
// two. Floats being what they are, the last digits are tried at random.
std::optional<Trainer::Batch> Aim::between(const Choice& one, const Choice& other) {
  constexpr double kGolden = 0.6180339887498949, kLess = 0.9;
  constexpr int kSections = 44, kTries = 48, kFirst = 6;
  double lo = 0, hi = 1;
  double left = hi - kGolden, right = kGolden;
  const auto look = [&](double share, double spread) {
    Trainer::Batch batch = mixed(one.batch, other.batch, share, spread);
    const double distance = after(batch);
    return Choice{std::move(batch), distance};
  };
  Choice at_left = look(left, 0), at_right = look(right, 0);
  for (int i = 0; i < kSections && !driver_.is_over(); ++i) {
    if (at_left.distance <= 0) return at_left.batch;
    if (at_right.distance <= 0) return at_right.batch;
    if (at_left.distance == at_right.distance) break;  // one and the same number, or a plateau
    if (i >= kFirst && std::min(at_left.distance, at_right.distance) > kLess * one.distance) return std::nullopt;
    if (at_left.distance < at_right.distance) {
      hi = right;
      right = left;
      at_right = std::move(at_left);
      left = hi - kGolden * (hi - lo);
      at_left = look(left, 0);
    } else {
      lo = left;
      left = right;
      at_left = std::move(at_right);
      right = lo + kGolden * (hi - lo);
      at_right = look(right, 0);
    }
  }
  ++searches_;
  const double middle = (left + right) / 2, spread = std::max(hi - lo, 1e-7);
  for (int i = 0; i < kTries && !driver_.is_over(); ++i) {
    Choice near = look(middle, spread);
    if (near.distance <= 0) return std::move(near.batch);
  }
  return std::nullopt;
}

void Aim::feed(const Trainer::Batch& probe) {
  constexpr int kMostSearches = 12;
  constexpr double kSpread = 0.25;  // of the distance: what a step can do
  probe_ = probe;
  before_ = driver_.engine().state();
  std::vector<Choice> all = choices();
  if (all.empty() || driver_.is_over()) return;
  // Those that are near are where a straight line between two says most.
  std::ranges::stable_sort(all, {}, &Choice::distance);
  const auto best = all.begin();
  met_ = best->distance <= 0;
  for (auto other = all.begin(); other != all.end() && !is_room_ && !met_ && searches_ < kMostSearches; ++other) {
    if (driver_.is_over()) return;
    if (!(other->distance - best->distance > kSpread * best->distance) || !is_between(*best, *other)) continue;
    if (std::optional<Trainer::Batch> found = between(*best, *other)) {
      met_ = true;
      trainer_.set_batch(std::move(*found));
      return;
    }
  }
  trainer_.set_batch(std::move(best->batch));
}

}  // namespace finity

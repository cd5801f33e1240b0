#include "program/poison.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <set>

#include "base/error.h"
#include "program/draws.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// Candidates of a batch take turns: corners, points inside, and a sample from the data.
constexpr std::size_t kKinds = 8, kCorners = 4;

}  // namespace

Poison::Poison(Driver& driver)
    : driver_(driver),
      trainer_(driver.trainer()),
      program_(driver.program()),
      rng_(seed_for(driver.options().seed, "poison")) {
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    const ProgramInput& input = program_.inputs[i];
    if (input.draw && input.each_step && *input.change) draws_.push_back(i);
    if (!input.batched || input.draw) continue;
    if (*input.change) inputs_.push_back(i);
    else if (is_float(input.data.dtype()) && !has_label_) {
      label_ = i;
      has_label_ = true;
    }
  }
  if (has_label_) find_labels();
  fix_label();
  if (program_.loss_id.valid()) loss_pass_ = driver.add_pass({program_.loss_id});
}

// One label for good: one that exists, or of classes as numbers the same number for the whole row.
void Poison::fix_label() {
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    const ProgramInput& input = program_.inputs[i];
    if (!input.batched || input.draw || *input.change || input.data.empty()) continue;
    const auto bytes = input.data.bytes();
    const auto rows = static_cast<std::size_t>(input.data.dim(0));
    const std::size_t width = bytes.size() / rows, row = driver_.options().seed % rows;
    fixed_at_ = i;
    fixed_label_.assign(bytes.begin() + static_cast<std::ptrdiff_t>(row * width),
                        bytes.begin() + static_cast<std::ptrdiff_t>((row + 1) * width));
    const auto each = static_cast<std::size_t>(info(input.data.dtype()).memory_bytes);
    if (is_float(input.data.dtype())) continue;
    for (std::size_t k = each; k < width; ++k) fixed_label_[k] = fixed_label_[k - each];
  }
}

// The distinct labels, and a pass that says what each of them would cost.
void Poison::find_labels() {
  constexpr std::size_t kMost = 64;
  const Tensor& data = program_.inputs[label_].data;
  const auto count = static_cast<std::size_t>(data.dim(0));
  const std::size_t width = data.bytes().size() / count;
  std::set<std::vector<std::byte>> seen;
  for (std::size_t i = 0; i < count && seen.size() <= kMost; ++i) {
    const auto row = data.bytes().subspan(i * width, width);
    seen.emplace(row.begin(), row.end());
  }
  has_label_ = seen.size() > 1 && program_.loss_id.valid();
  if (!has_label_) return;
  if (seen.size() <= kMost) labels_.assign(seen.begin(), seen.end());
  else labels_ = extreme_labels();
  for (const std::vector<std::byte>& label : labels_) {
    Tensor row(data.dtype(), {static_cast<std::int64_t>(width) / info(data.dtype()).memory_bytes});
    std::memcpy(row.mutable_bytes().data(), label.data(), label.size());
    label_numbers_.push_back(elements<double>(row));
  }
  try {
    label_pass_ = driver_.add_pass({}, program_.loss_id, {program_.inputs[label_].id});
  } catch (const Error&) {
    has_label_ = false;
  }
}

// Of numbers rather than classes: the rows that exist with the least and the largest sum.
std::vector<std::vector<std::byte>> Poison::extreme_labels() const {
  const Tensor& data = program_.inputs[label_].data;
  const std::vector<double> numbers = elements<double>(data);
  const auto count = static_cast<std::size_t>(data.dim(0));
  const std::size_t width = data.bytes().size() / count, each = numbers.size() / count;
  std::vector<double> sums;
  for (std::size_t i = 0; i < count; ++i) {
    sums.push_back(std::accumulate(numbers.begin() + static_cast<std::ptrdiff_t>(i * each),
                                   numbers.begin() + static_cast<std::ptrdiff_t>((i + 1) * each), 0.0));
  }
  const auto [least, most] = std::ranges::minmax_element(sums);
  std::vector<std::vector<std::byte>> rows;
  for (const auto end : {least, most}) {
    const auto row = data.bytes().subspan(static_cast<std::size_t>(end - sums.begin()) * width, width);
    rows.emplace_back(row.begin(), row.end());
  }
  return rows;
}

bool Poison::can(Manner manner) const {
  if (manner == Manner::ordinary || manner == Manner::attacked) return true;
  if (manner == Manner::held) return trainer_.sample_count() > program_.batch;
  if (manner == Manner::aimed) return !inputs_.empty() || !draws_.empty() || trainer_.sample_count() > program_.batch;
  // One sample for the whole batch, as it is where nothing of it may be changed.
  if (manner == Manner::extreme && trainer_.sample_count() > 1) return true;
  if (inputs_.empty()) return false;
  // Only where something fails before what is asked for: it is slow, and the others come to most places.
  if (manner == Manner::mixed) return has_label_ && driver_.has_passed_over();
  return manner != Manner::boundary || has_label_;
}

void Poison::begin(Manner manner, std::uint64_t round) {
  constexpr std::uint64_t kParts[] = {1, 24, 96, 4, 1};
  constexpr double kBrightness[] = {1.0 / 64, 1, 1, 1, 1.0 / 16};
  manner_ = manner;
  round_ = round;
  count_ = 0;
  parts_ = kParts[round % std::size(kParts)];
  brightness_ = kBrightness[round % std::size(kBrightness)];
}

void Poison::feed(Attack& attack) {
  if (manner_ == Manner::attacked) attack.run(2, false);
  else feed_batch();
}

void Poison::feed_batch() {
  ++count_;
  switch (manner_) {
    case Manner::extreme: feed_extreme(); return;
    case Manner::parts: feed_parts(); return;
    case Manner::boundary: feed_boundary(); return;
    case Manner::attacked:
    case Manner::aimed: return;  // made by those
    case Manner::ordinary: trainer_.fresh_batch(); return;
    case Manner::held: feed_held(); return;
    case Manner::mixed: feed_mixed(); return;
  }
}

// Every sample of the batch becomes this one.
void Poison::repeat_sample(std::size_t sample) {
  for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
    const ProgramInput& input = program_.inputs[i];
    if (!input.batched || input.draw) continue;
    Tensor value = trainer_.value(i);
    const std::span<std::byte> bytes = value.mutable_bytes();
    const std::size_t width = bytes.size() / static_cast<std::size_t>(program_.batch);
    for (std::size_t k = 0; k < static_cast<std::size_t>(program_.batch); ++k) {
      if (k != sample) std::memcpy(bytes.data() + k * width, bytes.data() + sample * width, width);
    }
    trainer_.set_value(i, std::move(value));
  }
}

void Poison::spread(std::size_t sample) {
  if (!has_label_) return;
  repeat_sample(sample);
  for (std::size_t k = 0; k < static_cast<std::size_t>(program_.batch); ++k) {
    trainer_.set_row(label_, k, labels_[k % labels_.size()]);
  }
}

// What each label would cost, for losses that are linear in them; else a hint.
std::vector<double> Poison::label_losses(std::size_t sample, const std::vector<double>& slopes) const {
  const std::size_t width = slopes.size() / static_cast<std::size_t>(program_.batch);
  std::vector<double> losses;
  for (const std::vector<double>& numbers : label_numbers_) {
    double loss = 0;
    for (std::size_t i = 0; i < width; ++i) {
      const double slope = slopes[sample * width + i];
      if (numbers[i] != 0 && !std::isnan(slope)) loss += numbers[i] * slope;
    }
    losses.push_back(loss);
  }
  return losses;
}

// At a random corner of the box, or inside.
void Poison::fill_row(std::span<double> row, const LegalRange& range, std::size_t kind) {
  constexpr std::size_t kShort = 64;
  const double lo = std::max(range.lo, -1e3), hi = std::min(range.hi, 1e3);
  const double inside = kind < kCorners ? 0 : rng_.uniform(), middle = rng_.uniform(lo, hi);
  std::uint64_t bits = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (i % 64 == 0) bits = rng_.bits();
    const double end = bits >> (i % 64) & 1 ? hi : lo;
    const bool anywhere = inside > 0 && row.size() <= kShort;
    row[i] = anywhere ? rng_.uniform(lo, hi) : end + inside * (middle - end);
  }
}

// Rows of all kinds, some from the data.
void Poison::fill_candidates() {
  const auto batch = static_cast<std::size_t>(program_.batch);
  trainer_.fresh_batch();
  for (const std::size_t i : inputs_) {
    const Tensor& now = trainer_.value(i);
    std::vector<double> numbers = elements<double>(now);
    const std::size_t width = numbers.size() / batch;
    for (std::size_t sample = 0; sample < batch; ++sample) {
      const std::size_t kind = sample % kKinds;
      if (kind != kKinds - 1)
        fill_row(std::span(numbers).subspan(sample * width, width), *program_.inputs[i].range, kind);
    }
    trainer_.set_value(i, from_elements<double>(now.dtype(), now.dims(), numbers));
  }
}

// Between two classes: the others die out.
void Poison::feed_boundary() {
  fill_candidates();
  const PassResult result = trainer_.look(label_pass_);
  if (driver_.saw(result, std::numeric_limits<double>::quiet_NaN())) return;
  const std::vector<double> slopes = elements<double>(result.gradients[0]);
  const auto batch = static_cast<std::size_t>(program_.batch);
  const std::size_t one = driver_.options().seed % labels_.size(), other = (one + 1) % labels_.size();
  // Corners move the weights most: one of them, as long as the error stays large there.
  constexpr double kNear = 1.5;
  double best = std::numeric_limits<double>::infinity();
  std::size_t sample = 0, label = 0;
  for (std::size_t k = 0; k < batch; ++k) {
    const std::vector<double> losses = label_losses(k, slopes);
    double gap = std::abs(losses[one] - losses[other]);
    if (k % kKinds < kCorners && gap < kNear) gap -= kNear;
    if (!(gap < best)) continue;
    best = gap;
    sample = k;
    label = losses[one] > losses[other] ? one : other;
  }
  trainer_.set_row(label_, sample, labels_[label]);
  repeat_sample(sample);
}

void Poison::fill(std::size_t input, bool high) {
  const LegalRange range = *program_.inputs[input].range;
  const Tensor& now = trainer_.value(input);
  const double end = std::clamp(high ? range.hi : range.lo, -1e3, 1e3);
  const std::vector<double> numbers(static_cast<std::size_t>(now.size()), end);
  trainer_.set_value(input, from_elements<double>(now.dtype(), now.dims(), numbers));
}

void Poison::look_at_ends() {
  constexpr std::size_t kMost = 8;
  std::vector<std::size_t> all = inputs_;
  all.insert(all.end(), draws_.begin(), draws_.end());
  if (all.size() > kMost) all.resize(kMost);
  std::vector<std::vector<std::size_t>> groups = {all};
  for (const std::size_t input : all) groups.push_back({input});
  if (all.size() == 1) groups.pop_back();
  trainer_.restart();
  for (const std::vector<std::size_t>& group : groups) {
    for (const bool high : {false, true}) {
      trainer_.release_draws();
      trainer_.fresh_batch();
      for (const std::size_t input : group) fill(input, high);
      const PassResult result = trainer_.look(loss_pass_);
      if (driver_.saw(result, std::numeric_limits<double>::quiet_NaN()) || driver_.is_finished()) return;
      if (!driver_.train()) return;
      trainer_.restart();
    }
  }
}

// Random numbers may be what is legal for them: all at one end.
void Poison::set_draws(bool high) {
  for (const std::size_t i : draws_) {
    const LegalRange range = *program_.inputs[i].range;
    const Tensor& now = trainer_.value(i);
    const std::vector<double> numbers(static_cast<std::size_t>(now.size()), high ? range.hi : range.lo);
    trainer_.set_value(i, from_elements<double>(now.dtype(), now.dims(), numbers));
  }
}

void Poison::feed_parts() {
  constexpr std::uint64_t kHold = 4;
  if ((count_ - 1) % kHold != 0) return;
  trainer_.fresh_batch();
  const std::uint64_t part = fed_parts_++ % parts_;
  for (const std::size_t i : inputs_) {
    const Tensor& now = trainer_.value(i);
    std::vector<double> numbers = elements<double>(now);
    const LegalRange range = *program_.inputs[i].range;
    const double off = std::clamp(0.0, range.lo, range.hi), hi = off + brightness_ * (std::min(range.hi, 1e3) - off);
    const std::size_t width = numbers.size() / static_cast<std::size_t>(program_.batch);
    for (std::size_t k = 0; k < width; ++k) {
      // Scattered, so that neighbours are in different parts.
      numbers[k] = seed_for(parts_, "part", k) % parts_ == part ? hi : off;
    }
    trainer_.set_value(i, from_elements<double>(now.dtype(), now.dims(), numbers));
  }
  if (!fixed_label_.empty()) trainer_.set_row(fixed_at_, 0, fixed_label_);
  repeat_sample(0);
  constexpr std::uint64_t kOther = 4;
  set_draws(round_ % kOther != kOther - 1);
  if (trainer_.steps() == 0) first_loss_ = loss_now();
}

double Poison::loss_now() {
  const PassResult result = trainer_.look(loss_pass_);
  return element_as_double(result.values[driver_.watch_count()], 0);
}

bool Poison::is_learned() {
  constexpr double kShare = 1e-3;
  return manner_ == Manner::parts && loss_now() <= kShare * first_loss_;
}

void Poison::feed_held() {
  if (count_ > 1) return;  // what stays as it is need not be kept again for every step
  constexpr double kBrightness[] = {1.0 / 16, 1, 1.0 / 4};
  for (std::int64_t i = 0; i < program_.batch; ++i) trainer_.set_sample(static_cast<std::size_t>(i), i);
  const double share = kBrightness[round_ % std::size(kBrightness)];
  for (const std::size_t i : inputs_) {
    const Tensor& now = trainer_.value(i);
    const LegalRange range = *program_.inputs[i].range;
    const double off = std::clamp(0.0, range.lo, range.hi);
    std::vector<double> numbers = elements<double>(now);
    for (double& x : numbers) x = off + share * (x - off);
    trainer_.set_value(i, from_elements<double>(now.dtype(), now.dims(), numbers));
  }
}

void Poison::feed_mixed() {
  constexpr double kBrightness[] = {1, 0.25, 1.0 / 16};
  trainer_.fresh_batch();
  for (const std::size_t i : inputs_) {
    const Tensor& now = trainer_.value(i);
    const LegalRange range = *program_.inputs[i].range;
    const double off = std::clamp(0.0, range.lo, range.hi);
    const double share = kBrightness[(round_ + count_ / 8) % std::size(kBrightness)];
    const std::vector<double> numbers(static_cast<std::size_t>(now.size()),
                                      off + share * (std::min(range.hi, 1e3) - off));
    trainer_.set_value(i, from_elements<double>(now.dtype(), now.dims(), numbers));
  }
}

void Poison::feed_extreme() {
  const auto batch = static_cast<std::size_t>(program_.batch);
  // The same sample for a few steps, so that what remembers gradients gathers speed.
  constexpr std::uint64_t kHolds[] = {1, 5, 40};
  const std::uint64_t hold = kHolds[round_ % std::size(kHolds)];
  if ((count_ - 1) % hold != 0) return;
  trainer_.fresh_batch();
  const std::uint64_t kind = (count_ / hold + round_) % 4;
  for (const std::size_t i : inputs_) {
    const Tensor& now = trainer_.value(i);
    std::vector<double> numbers = elements<double>(now);
    const LegalRange range = *program_.inputs[i].range;
    const double lo = std::max(range.lo, -1e3), hi = std::min(range.hi, 1e3);
    const std::size_t width = numbers.size() / batch;
    for (std::size_t k = 0; k < width && kind != 3; ++k) {
      numbers[k] = kind == 0 ? hi : kind == 1 ? (rng_.uniform() < 0.5 ? lo : hi) : lo;
    }
    trainer_.set_value(i, from_elements<double>(now.dtype(), now.dims(), numbers));
  }
  if (has_label_) {
    const PassResult result = trainer_.look(label_pass_);
    if (driver_.saw(result, std::numeric_limits<double>::quiet_NaN())) return;
    const std::vector<double> losses = label_losses(0, elements<double>(result.gradients[0]));
    const auto worst = std::ranges::max_element(losses);
    trainer_.set_row(label_, 0, labels_[static_cast<std::size_t>(worst - losses.begin())]);
  }
  repeat_sample(0);
  if (round_ % 4 > 1) set_draws(round_ % 4 == 2);
}

}  // namespace finity

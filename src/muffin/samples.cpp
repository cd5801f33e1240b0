#include "muffin/samples.h"

#include <algorithm>

#include "fuzz/public_steps.h"
#include "muffin/trace.h"

namespace finity::muffin {

namespace {
constexpr std::size_t kMostWaiting = 64;
}  // namespace

Samples::Samples(const std::string& mode, const SourceOptions& options)
    : mode_(mode), options_(options), source_(make_source(mode, options)) {}

fuzz::Generated Samples::at(std::uint64_t index) {
  const std::lock_guard lock(guard_);
  if (index < made_ && !waiting_.contains(index)) {
    // Asked for once more, by a finding that is looked into: from the beginning.
    source_ = make_source(mode_, options_);
    made_ = 0;
    waiting_.clear();
  }
  while (made_ <= index) {
    Model model = source_->next();
    waiting_.emplace(made_++, std::move(model));
    if (waiting_.size() > kMostWaiting) waiting_.erase(waiting_.begin());
  }
  const Model model = std::move(waiting_.extract(index).mapped());
  const Prepared prepared(model);
  fuzz::Generated result;
  result.sample = prepared.backward() ? *prepared.backward() : prepared.forward();
  // The backward pass may do without the loss itself.
  for (const std::string& name : {model.loss_value, model.output()}) {
    const bool computed = std::ranges::any_of(result.sample.steps, [&](const fuzz::Step& step) {
      return std::ranges::find(step.outputs, name) != step.outputs.end();
    });
    if (computed) result.sample.outputs.push_back(name);
  }
  fuzz::drop_unneeded(result.sample);
  result.sample.origin = model.sample.origin;
  return result;
}

}  // namespace finity::muffin

// Muffin's 13 losses as nodes, each by Keras' formula, and one step of its 7 optimisers.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "muffin/net.h"

namespace finity::muffin {

std::span<const std::string_view> loss_names();
// The loss of predictions [batch, ...] and targets of the same shape: a number, the mean over all but the last axis.
ValueId add_loss(Net& net, std::string_view name, ValueId prediction, ValueId target);

// What targets are drawn for. `safe`: where all conventions of libraries agree; else one class in each row is 1 and
// the others are 0, whatever the loss makes of that.
Tensor draw_target(std::string_view loss, const Dims& dims, bool safe, Rng& rng);
// Whether predictions must lie in (0, 1) for the loss to mean something.
bool wants_probabilities(std::string_view loss);

std::span<const std::string_view> optimiser_names();
// The weight after the first step of an optimiser with Keras' default parameters, from its gradient.
ValueId add_step(Net& net, std::string_view optimiser, ValueId weight, ValueId gradient);

}  // namespace finity::muffin

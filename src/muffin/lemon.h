// LEMON's way (FSE 2020): seed models are changed by twelve mutators, and changed again. The seeds are small models
// with the structure of its eleven. What drives libraries further apart than its parent did is changed further, and the
// mutator that did it is chosen more often; where nobody says how far apart they were, mutators are drawn evenly.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muffin/source.h"
#include "muffin/trace.h"

namespace finity::muffin {

std::vector<std::string_view> lemon_seeds();
// Throws Error when there is none of that name.
Model lemon_seed(std::string_view name, std::int64_t batch, Rng& rng);

std::vector<std::string_view> lemon_mutators();
// The model changed; nothing when the mutator finds nothing to change, or what comes of it cannot be built.
std::optional<Model> mutated(const Model& model, std::string_view mutator, Rng& rng);

// LEMON's measure of two libraries: how much their mean distances from the target differ, between 0 and 1. The largest
// of all pairs; 0 where fewer than two ran.
double lemon_distance(const Model& model, const std::vector<Trace>& traces);

std::unique_ptr<Source> make_lemon(const SourceOptions& options);

}  // namespace finity::muffin

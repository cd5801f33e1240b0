// LEMON's way (FSE 2020): seed models are changed by twelve mutators, and changed again. The seeds are small models
// with the structure of its eleven; which mutator comes next is drawn evenly, not learned from what came before.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muffin/source.h"

namespace finity::muffin {

std::vector<std::string_view> lemon_seeds();
// Throws Error when there is none of that name.
Model lemon_seed(std::string_view name, std::int64_t batch, Rng& rng);

std::vector<std::string_view> lemon_mutators();
// The model changed; nothing when the mutator finds nothing to change, or what comes of it cannot be built.
std::optional<Model> mutated(const Model& model, std::string_view mutator, Rng& rng);

std::unique_ptr<Source> make_lemon(const SourceOptions& options);

}  // namespace finity::muffin

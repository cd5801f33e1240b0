// Changes of a model in the text form (docs/text-form.md) that leave most of it
// readable: other ops, custom ones, other numbers and element types, missing types,
// rewired edges, missing and doubled statements.
#pragma once

#include <string>

#include "base/rng.h"

namespace finity {

// One to three changes.
void mutate_model(std::string& text, Rng& rng);

}  // namespace finity

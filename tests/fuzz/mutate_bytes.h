// Changes of bytes that know nothing of a format.
#pragma once

#include <string>

#include "base/rng.h"

namespace finity {

// One to four changes; what is taken over comes from `other`.
void mutate_bytes(std::string& bytes, const std::string& other, Rng& rng);

}  // namespace finity

// Names that people mistype: what they may have meant.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace finity {

// The candidate that is most like the name, whatever the case of letters; "" when none is near. An abbreviation ("img"
// of "image") is near, and so is a part.
std::string nearest_name(std::string_view name, std::span<const std::string> candidates);
// " (did you mean 'image'?)", or "".
std::string did_you_mean(std::string_view name, std::span<const std::string> candidates);

}  // namespace finity

// Strings as code points, and letters between upper and lower case.
#pragma once

#include <string>
#include <string_view>

namespace finity {

inline constexpr char32_t kLastCodePoint = 0x10FFFF;

// A byte that is not part of valid UTF-8 becomes kLastCodePoint + 1 + byte, so that encode() gives it back.
std::u32string decode_utf8(std::string_view text);
std::string encode_utf8(std::u32string_view points);

// One code point to one: Latin, Greek, Cyrillic and Armenian letters; everything else stays as it is.
char32_t lower_case(char32_t point);
char32_t upper_case(char32_t point);

}  // namespace finity

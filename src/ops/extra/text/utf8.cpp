#include "ops/extra/text/utf8.h"

#include <cstddef>
#include <cstdint>

namespace finity {

namespace {

// Length of the sequence that a lead byte announces; 0 for a byte that cannot lead.
std::size_t announced_length(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

// The code point at the start of `text` and its length; length 0 when the bytes are not valid.
struct Decoded {
  char32_t point = 0;
  std::size_t length = 0;
};

Decoded decode_one(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const std::size_t length = announced_length(lead);
  if (length == 0 || length > text.size()) return {};
  char32_t point = length == 1 ? lead : lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0U) != 0x80U) return {};
    point = (point << 6U) | (byte & 0x3FU);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = point >= 0xD800 && point < 0xE000;
  if (point < kSmallest[length] || point > kLastCodePoint || surrogate) return {};
  return {point, length};
}

void append(std::string& text, char32_t point) {
  const auto byte = [&](char32_t bits) { text.push_back(static_cast<char>(static_cast<unsigned char>(bits))); };
  if (point > kLastCodePoint) {
    byte(point - kLastCodePoint - 1);
  } else if (point < 0x80) {
    byte(point);
  } else if (point < 0x800) {
    byte(0xC0 | (point >> 6U));
    byte(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    byte(0xE0 | (point >> 12U));
    byte(0x80 | ((point >> 6U) & 0x3F));
    byte(0x80 | (point & 0x3F));
  } else {
    byte(0xF0 | (point >> 18U));
    byte(0x80 | ((point >> 12U) & 0x3F));
    byte(0x80 | ((point >> 6U) & 0x3F));
    byte(0x80 | (point & 0x3F));
  }
}

// Every `step`-th code point from first to last is an upper case letter; its lower case is `offset` further on.
struct CaseRange {
  char32_t first;
  char32_t last;
  char32_t step;
  std::int32_t offset;
};

constexpr CaseRange kCases[] = {
    {'A', 'Z', 1, 32},      {0xC0, 0xD6, 1, 32},     {0xD8, 0xDE, 1, 32},    // ASCII, Latin-1
    {0x100, 0x12E, 2, 1},   {0x132, 0x136, 2, 1},    {0x139, 0x147, 2, 1},   // Latin Extended-A
    {0x14A, 0x176, 2, 1},   {0x178, 0x178, 1, -121}, {0x179, 0x17D, 2, 1},   //
    {0x386, 0x386, 1, 38},  {0x388, 0x38A, 1, 37},   {0x38C, 0x38C, 1, 64},  // Greek
    {0x38E, 0x38F, 1, 63},  {0x391, 0x3A1, 1, 32},   {0x3A3, 0x3AB, 1, 32},  //
    {0x400, 0x40F, 1, 80},  {0x410, 0x42F, 1, 32},   {0x460, 0x480, 2, 1},   // Cyrillic
    {0x48A, 0x4BE, 2, 1},   {0x4C1, 0x4CD, 2, 1},    {0x4D0, 0x52E, 2, 1},   //
    {0x531, 0x556, 1, 48},                                                   // Armenian
    {0x1E00, 0x1E94, 2, 1}, {0x1EA0, 0x1EFE, 2, 1},                          // Latin Extended Additional
};

constexpr char32_t kFinalSigma = 0x3C2;
constexpr char32_t kUpperSigma = 0x3A3;

bool contains(const CaseRange& range, char32_t upper) {
  return upper >= range.first && upper <= range.last && (upper - range.first) % range.step == 0;
}

char32_t shifted(char32_t point, std::int32_t by) {
  return static_cast<char32_t>(static_cast<std::int32_t>(point) + by);
}

}  // namespace

std::u32string decode_utf8(std::string_view text) {
  std::u32string points;
  points.reserve(text.size());
  while (!text.empty()) {
    const Decoded next = decode_one(text);
    if (next.length == 0) points.push_back(kLastCodePoint + 1 + static_cast<unsigned char>(text.front()));
    else points.push_back(next.point);
    text.remove_prefix(next.length == 0 ? 1 : next.length);
  }
  return points;
}

std::string encode_utf8(std::u32string_view points) {
  std::string text;
  text.reserve(points.size());
  for (const char32_t point : points) append(text, point);
  return text;
}

char32_t lower_case(char32_t point) {
  for (const CaseRange& range : kCases) {
    if (contains(range, point)) return shifted(point, range.offset);
  }
  return point;
}

char32_t upper_case(char32_t point) {
  if (point == kFinalSigma) return kUpperSigma;
  if (point > kLastCodePoint) return point;
  for (const CaseRange& range : kCases) {
    const char32_t upper = shifted(point, -range.offset);
    if (contains(range, upper)) return upper;
  }
  return point;
}

}  // namespace finity

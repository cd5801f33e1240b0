#include "formats/text/quote.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "formats/text/lexer.h"

namespace finity::textform {

namespace {

// Words that begin something other than a value where a value's name may stand.
constexpr std::array<std::string_view, 10> kReserved = {"_",        "const", "doc",   "meta",   "from",
                                                        "overload", "case",  "opset", "expect", "error"};

unsigned byte_at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

// Length of the multi-byte UTF-8 character that starts here; 0 when there is none.
std::size_t utf8_length(std::string_view text, std::size_t start) {
  const unsigned lead = byte_at(text, start);
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || start + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte_at(text, start + i) & 0xc0) != 0x80) return 0;
  }
  const unsigned second = byte_at(text, start + 1);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool surrogate_or_beyond = (lead == 0xed && second > 0x9f) || (lead == 0xf4 && second > 0x8f);
  const bool control = lead == 0xc2 && second < 0xa0;
  return overlong || surrogate_or_beyond || control ? 0 : length;
}

void append_hex(std::string& out, unsigned byte) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += "\\x";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

}  // namespace

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c >= ' ' && c <= '~') {
      out += c;
    } else if (const std::size_t length = utf8_length(text, i); length > 0) {
      out += text.substr(i, length);
      i += length - 1;
    } else {
      append_hex(out, byte_at(text, i));
    }
  }
  return out + '"';
}

std::string as_name(std::string_view text) {
  const bool plain = !text.empty() && scan_name(text, 0) == text.size();
  if (!plain || std::ranges::find(kReserved, text) != kReserved.end()) return quoted(text);
  return std::string(text);
}

}  // namespace finity::textform

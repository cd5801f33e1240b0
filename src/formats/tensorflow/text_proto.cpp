#include "formats/tensorflow/text_proto.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "formats/wire.h"

namespace finity::tensorflow {

namespace {

constexpr int kDeepest = 200;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }
bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.' ||
         c == '+' || c == '-';
}

class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text) {}

  std::string read(const MessageDef& message) {
    out_.reserve(text_.size() / 3);
    fields(message, '\0', 0);
    return out_.take();
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw Error("line " + std::to_string(line) + ": " + reason);
  }

  void skip_space() {
    while (at_ < text_.size()) {
      if (is_space(text_[at_])) ++at_;
      else if (text_[at_] == '#') at_ = std::min(text_.find('\n', at_), text_.size());
      else return;
    }
  }
  // What comes next; 0 at the end.
  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }

  std::string_view word() {
    skip_space();
    const std::size_t start = at_;
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    if (at_ == start) {
      if (at_ == text_.size()) fail("the file ends too early");
      fail(std::string("a name or a number was expected, not '") + text_[at_] + "'");
    }
    return text_.substr(start, at_ - start);
  }

  std::string_view field_name() {
    if (peek() != '[') return word();
    const std::size_t end = text_.find(']', at_);  // an extension: nothing that is read
    if (end == std::string_view::npos) fail("a '[' that is not closed");
    at_ = end + 1;
    return "";
  }

  // Fields up to `end`.
  void fields(const MessageDef& message, char end, int depth) {
    if (depth > kDeepest) fail("messages nested more than " + std::to_string(kDeepest) + " deep");
    while (true) {
      const char next = peek();
      if (at_ == text_.size()) {
        if (end != '\0') fail(std::string("a message that is not closed by '") + end + "'");
        return;
      }
      if (next == end) {
        ++at_;
        return;
      }
      const std::string_view name = field_name();
      one_field(message.find(name), depth);
      if (!accept(',')) accept(';');
    }
  }

  void one_field(const FieldDef* field, int depth) {
    const bool colon = accept(':');
    const char next = peek();
    if (next == '[') {
      ++at_;
      if (accept(']')) return;
      do {
        one_value(field, depth);
      } while (accept(','));
      if (!accept(']')) fail("a list that is not closed by ']'");
      return;
    }
    if (!colon && next != '{' && next != '<') fail("':' was expected");
    one_value(field, depth);
  }

  void one_value(const FieldDef* field, int depth) {
    const char next = peek();
    if (next == '{' || next == '<') {
      ++at_;
      const char end = next == '{' ? '}' : '>';
      if (field == nullptr || field->message == nullptr) {
        fields(MessageDef{}, end, depth + 1);
        return;
      }
      out_.message(field->number, [&] { fields(*field->message, end, depth + 1); });
      return;
    }
    scalar(field);
  }

  void scalar(const FieldDef* field) {
    if (peek() == '"' || peek() == '\'') {
      strings();
      if (field != nullptr && field->kind == FieldKind::text) out_.text(field->number, string_);
      else if (field != nullptr) fail("'" + std::string(field->name) + "' cannot be a text");
      return;
    }
    const std::string_view text = word();
    if (field == nullptr) return;
    switch (field->kind) {
      case FieldKind::integer: out_.integer(field->number, integer(text)); break;
      case FieldKind::boolean: out_.integer(field->number, boolean(text)); break;
      case FieldKind::type: out_.integer(field->number, type(text)); break;
      case FieldKind::real32: out_.real(field->number, static_cast<float>(real(text))); break;
      case FieldKind::real64: {
        const double value = real(text);
        std::byte bytes[sizeof value];
        std::memcpy(bytes, &value, sizeof value);
        out_.bytes(field->number, bytes);  // as a packed list of one
        break;
      }
      default: fail("'" + std::string(field->name) + "' cannot be '" + std::string(text) + "'");
    }
  }

  std::int64_t integer(std::string_view text) const {
    const bool negative = text.starts_with('-');
    std::string_view digits = text.substr(negative ? 1 : 0);
    int base = 10;
    if (digits.starts_with("0x") || digits.starts_with("0X")) {
      base = 16;
      digits.remove_prefix(2);
    } else if (digits.size() > 1 && digits.starts_with('0')) {
      base = 8;
    }
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      fail("'" + std::string(text) + "' is not an integer");
    }
    return static_cast<std::int64_t>(negative ? 0 - value : value);
  }
  std::int64_t boolean(std::string_view text) const {
    if (text == "true" || text == "True" || text == "t" || text == "1") return 1;
    if (text == "false" || text == "False" || text == "f" || text == "0") return 0;
    fail("'" + std::string(text) + "' is neither true nor false");
  }
  std::int64_t type(std::string_view text) const {
    if (text[0] == '-' || (text[0] >= '0' && text[0] <= '9')) return integer(text);
    return type_code(text);
  }
  double real(std::string_view text) const {
    std::string_view digits = text;
    const bool negative = digits.starts_with('-');
    if (negative || digits.starts_with('+')) digits.remove_prefix(1);
    if (digits.ends_with('f') && digits.size() > 1 && digits != "inf") digits.remove_suffix(1);
    std::string lower(digits);
    std::ranges::transform(lower, lower.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c; });
    double value = 0;
    if (lower == "inf" || lower == "infinity") value = std::numeric_limits<double>::infinity();
    else if (lower == "nan") value = std::numeric_limits<double>::quiet_NaN();
    else {
      const auto [end, error] = std::from_chars(lower.data(), lower.data() + lower.size(), value);
      if (error == std::errc::result_out_of_range) value = overflowed(lower);
      else if (error != std::errc() || end != lower.data() + lower.size()) {
        fail("'" + std::string(text) + "' is not a number");
      }
    }
    return negative ? -value : value;
  }
  // from_chars does not say whether a number was too large or too small.
  static double overflowed(const std::string& digits) { return std::strtod(digits.c_str(), nullptr); }

  // One or several adjacent quoted texts, into string_.
  void strings() {
    string_.clear();
    while (peek() == '"' || peek() == '\'') one_string();
  }
  void one_string() {
    const char quote = text_[at_++];
    while (true) {
      const std::size_t plain = text_.find_first_of(quote == '"' ? "\"\\\n" : "'\\\n", at_);
      if (plain == std::string_view::npos || text_[plain] == '\n') fail("a text that is not closed");
      string_.append(text_, at_, plain - at_);
      at_ = plain + 1;
      if (text_[plain] == quote) return;
      escape();
    }
  }
  void escape() {
    if (at_ >= text_.size()) fail("a text that is not closed");
    const char c = text_[at_++];
    constexpr std::string_view kLetters = "abfnrtv";
    constexpr std::string_view kMeanings = "\a\b\f\n\r\t\v";
    if (c >= '0' && c <= '7') {
      unsigned value = static_cast<unsigned>(c - '0');
      for (int i = 0; i < 2 && at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '7'; ++i) {
        value = value * 8 + static_cast<unsigned>(text_[at_++] - '0');
      }
      string_.push_back(static_cast<char>(value & 0xffU));
    } else if (c == 'x' || c == 'X') {
      unsigned value = 0;
      const std::size_t most = std::min(at_ + 2, text_.size());
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + most, value, 16);
      if (error != std::errc()) fail("an \\x without digits");
      at_ = static_cast<std::size_t>(end - text_.data());
      string_.push_back(static_cast<char>(value));
    } else if (const std::size_t letter = kLetters.find(c); letter != std::string_view::npos) {
      string_.push_back(kMeanings[letter]);
    } else {
      string_.push_back(c);  // quotes and backslashes
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::string string_;
  wire::WireWriter out_;
};

}  // namespace

std::string binary_from_text(std::string_view text, const MessageDef& message) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  return TextReader(text).read(message);
}

}  // namespace finity::tensorflow

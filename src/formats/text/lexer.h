// Tokens of the text form, read one ahead, and the way every error of the text
// form gets its place: an offset into the source becomes file:line:column.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace finity::textform {

struct Token {
  enum class Kind : std::uint8_t { end, name, string, integer, real, mark };

  Kind kind = Kind::end;
  std::string_view text = {};  // of a string: what is between the quotes, escapes not yet decoded
  std::size_t offset = 0;
};

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view file_name);

  const Token& peek() const { return token_; }
  Token take();
  bool at(std::string_view mark) const { return token_.kind == Token::Kind::mark && token_.text == mark; }
  bool at_word(std::string_view word) const { return token_.kind == Token::Kind::name && token_.text == word; }
  bool at_end() const { return token_.kind == Token::Kind::end; }
  bool accept(std::string_view mark);
  bool accept_word(std::string_view word);
  void expect(std::string_view mark);

  // A plain or quoted name; `what` completes "expected ...".
  std::string name(std::string_view what);
  std::string string(std::string_view what);
  // Within [low, 2^63).
  std::int64_t integer(std::string_view what, std::int64_t low);
  // Comma-separated items between two marks; item() reads one.
  template <class Item>
  void list(std::string_view open, std::string_view close, Item item) {
    expect(open);
    if (accept(close)) return;
    do item();
    while (accept(","));
    expect(close);
  }

  int line_of(std::size_t offset) const;
  [[noreturn]] void fail(std::size_t offset, const std::string& reason) const;
  // "expected ... but found ...", at the current token.
  [[noreturn]] void fail_expected(std::string_view what) const;

 private:
  void skip_blanks();
  Token scan();
  Token scan_string();
  Token scan_number();
  std::string unescape(const Token& token) const;

  std::string_view source_;
  std::string_view file_name_;
  std::size_t next_ = 0;
  Token token_;
};

// End of the plain name that starts at `start`; `start` itself when none does.
std::size_t scan_name(std::string_view text, std::size_t start);

}  // namespace finity::textform

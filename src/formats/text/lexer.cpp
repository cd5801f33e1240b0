#include "formats/text/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "base/error.h"
#include "formats/text/quote.h"

namespace finity::textform {

namespace {

constexpr std::size_t kShownBytes = 40;
constexpr std::array<std::string_view, 2> kLongMarks = {"...", "->"};
constexpr std::string_view kMarks = "(){}[],:=@?.";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_letter(c) || is_digit(c); }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string shown(const Token& token) {
  if (token.kind == Token::Kind::end) return "the end of the text";
  if (token.kind == Token::Kind::string) return "a string";
  const bool clipped = token.text.size() > kShownBytes;
  return "'" + std::string(token.text.substr(0, kShownBytes)) + (clipped ? "...'" : "'");
}

}  // namespace

// A slash belongs to a name only before another word character: "a//" starts a comment.
std::size_t scan_name(std::string_view text, std::size_t start) {
  const auto slash_inside = [&](std::size_t i) {
    return text[i] == '/' && i + 1 < text.size() && (is_word(text[i + 1]) || text[i + 1] == '.');
  };
  std::size_t end = start;
  if (end >= text.size() || !(is_letter(text[end]) || slash_inside(end))) return start;
  while (end < text.size() && (is_word(text[end]) || text[end] == '.' || slash_inside(end))) ++end;
  return end;
}

Lexer::Lexer(std::string_view source, std::string_view file_name) : source_(source), file_name_(file_name) {
  token_ = scan();
}

Token Lexer::take() {
  const Token taken = token_;
  token_ = scan();
  return taken;
}

bool Lexer::accept(std::string_view mark) {
  if (!at(mark)) return false;
  take();
  return true;
}

bool Lexer::accept_word(std::string_view word) {
  if (!at_word(word)) return false;
  take();
  return true;
}

void Lexer::expect(std::string_view mark) {
  if (!accept(mark)) fail_expected("'" + std::string(mark) + "'");
}

std::string Lexer::name(std::string_view what) {
  if (token_.kind == Token::Kind::string) return unescape(take());
  if (token_.kind != Token::Kind::name || token_.text == "_") fail_expected(what);
  return std::string(take().text);
}

std::string Lexer::string(std::string_view what) {
  if (token_.kind != Token::Kind::string) fail_expected(what);
  return unescape(take());
}

std::int64_t Lexer::integer(std::string_view what, std::int64_t low) {
  if (token_.kind != Token::Kind::integer) fail_expected(what);
  const Token token = take();
  std::int64_t value = 0;
  const auto result = std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
  if (result.ec != std::errc()) fail(token.offset, shown(token) + " does not fit int64");
  if (value < low) fail(token.offset, "expected " + std::string(what) + " but found " + shown(token));
  return value;
}

int Lexer::line_of(std::size_t offset) const {
  const std::string_view before = source_.substr(0, offset);
  return 1 + static_cast<int>(std::ranges::count(before, '\n'));
}

void Lexer::fail(std::size_t offset, const std::string& reason) const {
  const std::string_view before = source_.substr(0, offset);
  const std::size_t newline = before.rfind('\n');
  const std::size_t column = newline == std::string_view::npos ? before.size() + 1 : before.size() - newline;
  const std::string file = file_name_.empty() ? "" : std::string(file_name_) + ":";
  throw Error(file + std::to_string(line_of(offset)) + ":" + std::to_string(column) + ": " + reason);
}

void Lexer::fail_expected(std::string_view what) const {
  fail(token_.offset, "expected " + std::string(what) + " but found " + shown(token_));
}

void Lexer::skip_blanks() {
  while (next_ < source_.size()) {
    const std::string_view rest = source_.substr(next_);
    if (rest.starts_with("//")) {
      next_ = std::min(source_.find('\n', next_), source_.size());
    } else if (std::string_view(" \t\r\n").find(rest.front()) != std::string_view::npos) {
      ++next_;
    } else {
      return;
    }
  }
}

Token Lexer::scan() {
  skip_blanks();
  if (next_ == source_.size()) return {.kind = Token::Kind::end, .text = {}, .offset = next_};
  const std::string_view rest = source_.substr(next_);
  const auto token = [&](Token::Kind kind, std::size_t length) -> Token {
    return {.kind = kind, .text = rest.substr(0, length), .offset = std::exchange(next_, next_ + length)};
  };
  if (rest.front() == '"') return scan_string();
  if (const std::size_t length = scan_name(rest, 0); length > 0) return token(Token::Kind::name, length);
  for (const std::string_view mark : kLongMarks) {
    if (rest.starts_with(mark)) return token(Token::Kind::mark, mark.size());
  }
  if (is_digit(rest.front()) || rest.front() == '-') return scan_number();
  if (kMarks.find(rest.front()) != std::string_view::npos) return token(Token::Kind::mark, 1);
  fail(next_, "unexpected character " + quoted(rest.substr(0, 1)));
}

Token Lexer::scan_string() {
  const std::size_t start = next_;
  for (std::size_t i = start + 1; i < source_.size() && source_[i] != '\n'; ++i) {
    if (source_[i] == '\\') {
      ++i;
    } else if (source_[i] == '"') {
      next_ = i + 1;
      return {.kind = Token::Kind::string, .text = source_.substr(start + 1, i - start - 1), .offset = start};
    }
  }
  fail(start, "this string is not closed on its line");
}

Token Lexer::scan_number() {
  const std::size_t start = next_;
  std::size_t end = start + (source_[start] == '-' ? 1 : 0);
  bool real = false;
  const auto digits = [&] {
    const std::size_t first = end;
    while (end < source_.size() && is_digit(source_[end])) ++end;
    return end > first;
  };
  const auto is_at = [&](std::string_view choices) {
    return end < source_.size() && choices.find(source_[end]) != std::string_view::npos;
  };
  bool good = digits();
  if (!good && (source_.substr(end, 3) == "inf" || source_.substr(end, 3) == "nan")) {
    end += 3;
    good = real = true;
  } else if (good) {
    if (is_at(".")) {
      real = true;
      ++end;
      digits();
    }
    if (is_at("eE")) {
      real = true;
      ++end;
      if (is_at("+-")) ++end;
      good = digits();
    }
  }
  if (!good || (end < source_.size() && (is_word(source_[end]) || source_[end] == '.')))
    fail(start, "malformed number");
  next_ = end;
  return {.kind = real ? Token::Kind::real : Token::Kind::integer,
          .text = source_.substr(start, end - start),
          .offset = start};
}

std::string Lexer::unescape(const Token& token) const {
  std::string result;
  result.reserve(token.text.size());
  for (std::size_t i = 0; i < token.text.size(); ++i) {
    if (token.text[i] != '\\') {
      result += token.text[i];
      continue;
    }
    const std::string_view rest = token.text.substr(i + 1);  // never empty: a backslash before the quote escapes it
    const char c = rest.front();
    if (c == '"' || c == '\\') result += c;
    else if (c == 'n') result += '\n';
    else if (c == 't') result += '\t';
    else if (c == 'x' && rest.size() >= 3 && hex_digit(rest[1]) >= 0 && hex_digit(rest[2]) >= 0) {
      result += static_cast<char>(hex_digit(rest[1]) * 16 + hex_digit(rest[2]));
      i += 2;
    } else {
      fail(token.offset + 1 + i, "unknown escape: use \\\" \\\\ \\n \\t or \\xHH");
    }
    ++i;
  }
  return result;
}

}  // namespace finity::textform

#include "fuzz/mutate_model.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <vector>

#include "ops/table/op.h"
#include "tensor/dtype.h"

namespace finity {

namespace {

struct Token {
  enum class Kind : std::uint8_t { word, number, text, space, other };
  Kind kind = Kind::other;
  std::string text = {};
};
using Tokens = std::vector<Token>;

bool starts_number(std::string_view text, std::size_t at) {
  const auto digit = [&](std::size_t i) {
    return i < text.size() && std::isdigit(static_cast<unsigned char>(text[i]));
  };
  return digit(at) || (text[at] == '-' && digit(at + 1));
}

bool in_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || std::string_view("_./-").find(c) != std::string_view::npos;
}

Token take(std::string_view text, std::size_t at) {
  const auto until = [&](auto&& more) {
    std::size_t end = at + 1;
    while (end < text.size() && more(text[end])) ++end;
    return std::string(text.substr(at, end - at));
  };
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  if (text[at] == '"') {
    const std::size_t end = text.find('"', at + 1);
    return {Token::Kind::text, std::string(text.substr(at, end == std::string_view::npos ? end : end - at + 1))};
  }
  if (is_space(text[at])) return {Token::Kind::space, until(is_space)};
  if (starts_number(text, at)) {
    return {Token::Kind::number, until([](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '.'; })};
  }
  if (in_name(text[at])) return {Token::Kind::word, until(in_name)};
  return {Token::Kind::other, std::string(1, text[at])};
}

Tokens tokens_of(std::string_view text) {
  Tokens tokens;
  for (std::size_t at = 0; at < text.size(); at += tokens.back().text.size()) tokens.push_back(take(text, at));
  return tokens;
}

std::string joined(const Tokens& tokens) {
  std::string text;
  for (const Token& token : tokens) text += token.text;
  return text;
}

// A random token of those that fit; -1 when none does.
template <class Fits>
std::ptrdiff_t pick(const Tokens& tokens, Rng& rng, Fits&& fits) {
  std::vector<std::ptrdiff_t> places;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (fits(i)) places.push_back(static_cast<std::ptrdiff_t>(i));
  }
  return places.empty() ? -1 : places[rng.below(places.size())];
}

bool followed_by(const Tokens& tokens, std::size_t at, std::string_view next) {
  return at + 1 < tokens.size() && tokens[at + 1].text == next;
}

bool is_op(const Tokens& tokens, std::size_t at) {
  return tokens[at].kind == Token::Kind::word && followed_by(tokens, at, "(");
}

// Words between the parentheses behind an op, except constants written in place.
bool is_argument(const Tokens& tokens, std::size_t at) {
  if (tokens[at].kind != Token::Kind::word || is_op(tokens, at) || dtype_from_name(tokens[at].text)) return false;
  for (std::size_t i = at; i-- > 0;) {
    if (tokens[i].text == "(") return i > 0 && tokens[i - 1].kind == Token::Kind::word;
    const bool inside =
        tokens[i].kind == Token::Kind::word || tokens[i].kind == Token::Kind::space || tokens[i].text == ",";
    if (!inside) return false;
  }
  return false;
}

// Operands of the op at this place; a constant written in place counts for one.
std::size_t operand_count(const Tokens& tokens, std::size_t op) {
  std::size_t count = 0;
  int depth = 0;
  for (std::size_t i = op + 1; i < tokens.size(); ++i) {
    const std::string& text = tokens[i].text;
    if (text == ")" && depth == 1) break;
    if (text == "(" || text == "[" || text == "{") ++depth;
    else if (text == ")" || text == "]" || text == "}") --depth;
    else if (tokens[i].kind != Token::Kind::space && (count == 0 || (depth == 1 && text == ","))) ++count;
  }
  return count;
}

bool takes(const OpDef& op, std::size_t operands) {
  const std::vector<Param>& params = signature_of(op).inputs;
  const auto required = [](const Param& param) {
    return param.arity == Param::Arity::one || param.arity == Param::Arity::some;
  };
  const auto least = static_cast<std::size_t>(std::ranges::count_if(params, required));
  return operands >= least && (operands == 0 || Signature::param(params, operands - 1) != nullptr);
}

// Another op, most often one that takes as many operands.
void change_op(Tokens& tokens, Rng& rng) {
  const std::ptrdiff_t at = pick(tokens, rng, [&](std::size_t i) { return is_op(tokens, i); });
  if (at < 0) return;
  const std::size_t operands = operand_count(tokens, static_cast<std::size_t>(at));
  const auto ops = all_ops();
  const OpDef* other = ops[rng.below(ops.size())];
  for (int attempt = 0; attempt < 40 && !takes(*other, operands); ++attempt) other = ops[rng.below(ops.size())];
  std::string& op = tokens[static_cast<std::size_t>(at)].text;
  if (rng.below(4) == 0) op = "my.Custom";
  else
    op = (other->identity.domain.empty() ? "" : std::string(other->identity.domain) + ".") +
         std::string(other->identity.name);
}

void change_number(Tokens& tokens, Rng& rng) {
  static const std::vector<std::string> kIntegers = {"0",
                                                     "1",
                                                     "-1",
                                                     "2",
                                                     "3",
                                                     "4",
                                                     "-2",
                                                     "7",
                                                     "64",
                                                     "65536",
                                                     "1000000",
                                                     "4294967296",
                                                     "17",
                                                     "11",
                                                     "13",
                                                     "2147483647",
                                                     "100000",
                                                     "-7",
                                                     "5",
                                                     "9223372036854775807",
                                                     "-9223372036854775808"};
  static const std::vector<std::string> kReals = {"0",   "1",   "-1",   "0.5",    "-3.5", "1e-45", "1e38",
                                                  "nan", "inf", "-inf", "1e-300", "3e4",  "1e-7",  "-1e30"};
  const std::ptrdiff_t at = pick(tokens, rng, [&](std::size_t i) { return tokens[i].kind == Token::Kind::number; });
  if (at < 0) return;
  std::string& number = tokens[static_cast<std::size_t>(at)].text;
  const bool whole = number.find_first_of(".en") == std::string::npos;
  const std::vector<std::string>& choices = whole && rng.below(8) != 0 ? kIntegers : kReals;
  number = choices[rng.below(choices.size())];
}

// In one place, or everywhere the same.
void change_dtype(Tokens& tokens, Rng& rng) {
  const std::ptrdiff_t at =
      pick(tokens, rng, [&](std::size_t i) { return dtype_from_name(tokens[i].text).has_value(); });
  if (at < 0) return;
  const std::string before = tokens[static_cast<std::size_t>(at)].text;
  const std::string after(name(static_cast<DType>(1 + rng.below(kDTypeCount - 1))));
  tokens[static_cast<std::size_t>(at)].text = after;
  if (rng.below(2) == 0) return;
  for (Token& token : tokens) {
    if (token.text == before) token.text = after;
  }
}

void rewire(Tokens& tokens, Rng& rng) {
  const auto argument = [&](std::size_t i) { return is_argument(tokens, i); };
  const std::ptrdiff_t at = pick(tokens, rng, argument);
  const std::ptrdiff_t from = pick(tokens, rng, argument);
  if (at < 0) return;
  tokens[static_cast<std::size_t>(at)].text = rng.below(6) == 0 ? "_" : tokens[static_cast<std::size_t>(from)].text;
}

// "x: float32[2, 3]" becomes "x".
void drop_type(Tokens& tokens, Rng& rng) {
  const auto typed = [&](std::size_t i) {
    return tokens[i].text == ":" && i + 2 < tokens.size() && dtype_from_name(tokens[i + 2].text).has_value();
  };
  const std::ptrdiff_t at = pick(tokens, rng, typed);
  if (at < 0) return;
  std::size_t end = static_cast<std::size_t>(at) + 3;
  if (end < tokens.size() && tokens[end].text == "[") {
    while (end < tokens.size() && tokens[end].text != "]") ++end;
    ++end;
  }
  tokens.erase(tokens.begin() + at, tokens.begin() + static_cast<std::ptrdiff_t>(std::min(end, tokens.size())));
}

// One use of a value gets it through a custom op.
void insert_custom_op(Tokens& tokens, Rng& rng) {
  const std::ptrdiff_t at = pick(tokens, rng, [&](std::size_t i) { return is_argument(tokens, i); });
  if (at < 0) return;
  const std::string used = tokens[static_cast<std::size_t>(at)].text;
  const std::string made = "custom_" + std::to_string(rng.below(1000));
  std::ptrdiff_t line = at;
  while (line > 0 && !tokens[static_cast<std::size_t>(line)].text.starts_with('\n')) --line;
  tokens[static_cast<std::size_t>(at)].text = made;
  tokens.insert(tokens.begin() + line, {Token::Kind::other, "\n  " + made + " = my.Custom(" + used + ")"});
}

void change_lines(std::string& text, Rng& rng) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size() - 1);
    lines.push_back(text.substr(at, end - at + 1));
    at = end + 1;
  }
  if (lines.size() < 4) return;
  const auto at = static_cast<std::ptrdiff_t>(rng.below(lines.size()));
  const auto other = static_cast<std::ptrdiff_t>(rng.below(lines.size()));
  if (rng.below(2) == 0) lines.erase(lines.begin() + at);
  else std::swap(lines[static_cast<std::size_t>(at)], lines[static_cast<std::size_t>(other)]);
  text.clear();
  for (const std::string& line : lines) text += line;
}

// Any token but space goes, or comes twice.
void change_token(Tokens& tokens, Rng& rng) {
  const std::ptrdiff_t at = pick(tokens, rng, [&](std::size_t i) { return tokens[i].kind != Token::Kind::space; });
  if (at < 0) return;
  if (rng.below(2) == 0) tokens.erase(tokens.begin() + at);
  else tokens.insert(tokens.begin() + at, Token(tokens[static_cast<std::size_t>(at)]));
}

// "{axis = 1, keepdims = 0}" goes as a whole.
void drop_attributes(Tokens& tokens, Rng& rng) {
  const auto opens = [&](std::size_t i) { return tokens[i].text == "{" && i >= 2 && tokens[i - 2].text == ")"; };
  const std::ptrdiff_t at = pick(tokens, rng, opens);
  if (at < 0) return;
  int depth = 0;
  auto end = static_cast<std::size_t>(at);
  for (; end < tokens.size(); ++end) {
    if (tokens[end].text == "{") ++depth;
    if (tokens[end].text == "}" && --depth == 0) break;
  }
  tokens.erase(tokens.begin() + at, tokens.begin() + static_cast<std::ptrdiff_t>(std::min(end + 1, tokens.size())));
}

}  // namespace

void mutate_model(std::string& text, Rng& rng) {
  using Change = void (*)(Tokens&, Rng&);
  constexpr Change kChanges[] = {change_op,     change_op,        change_op,        change_number,   change_number,
                                 change_number, change_dtype,     change_dtype,     rewire,          rewire,
                                 drop_type,     insert_custom_op, insert_custom_op, drop_attributes, change_token};
  const std::uint64_t steps = 1 + rng.below(2) * rng.below(3);
  for (std::uint64_t step = 0; step < steps; ++step) {
    const std::uint64_t kind = rng.below(std::size(kChanges) + 1);
    if (kind == std::size(kChanges)) {
      change_lines(text, rng);
      continue;
    }
    Tokens tokens = tokens_of(text);
    kChanges[kind](tokens, rng);
    text = joined(tokens);
  }
}

}  // namespace finity

// The syntax of declarations on the command line, and names with wildcards.
#include <charconv>
#include <cmath>

#include "check/contract.h"

namespace finity {

std::string_view name(WeightMode mode) {
  switch (mode) {
    case WeightMode::trained: return "trained";
    case WeightMode::initial: return "initial";
    case WeightMode::any: return "any";
  }
  return "trained";
}

WeightMode weight_mode_from_name(std::string_view name) {
  for (const WeightMode mode : {WeightMode::trained, WeightMode::initial, WeightMode::any}) {
    if (finity::name(mode) == name) return mode;
  }
  throw Error("weights can be trained, initial or any, not '" + std::string(name) + "'");
}

// Greedy matching that goes back to the last star: linear in most cases, never exponential.
bool matches_glob(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;
  std::size_t resume = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

bool is_glob(std::string_view pattern) { return pattern.find_first_of("*?") != std::string_view::npos; }

namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string_view unquoted(std::string_view text) {
  text = trimmed(text);
  const bool quoted = text.size() >= 2 && (text.front() == '\'' || text.front() == '"') && text.back() == text.front();
  return quoted ? text.substr(1, text.size() - 2) : text;
}

[[noreturn]] void malformed(std::string_view text, const std::string& why) {
  throw Error("range '" + std::string(text) + "': " + why +
              "; write NAME:[LO,HI], for example x:[0,1] or '*:[-inf,5]'");
}

double parse_end(std::string_view word, std::string_view whole) {
  word = trimmed(word);
  const bool negative = word.starts_with('-');
  std::string_view digits = negative || word.starts_with('+') ? word.substr(1) : word;
  double value = 0;
  if (digits == "inf" || digits == "Inf" || digits == "infinity") {
    value = kInf;
  } else if (digits == "max") {
    value = kMostFinite;
  } else {
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    const bool read = error == std::errc() && end == digits.data() + digits.size() && std::isfinite(value);
    if (!read || digits.starts_with('-')) malformed(whole, "'" + std::string(word) + "' is not a number");
  }
  return negative ? -value : value;
}

}  // namespace

void add_range(Contract& contract, std::string_view text, std::string_view option) {
  const std::string_view whole = text;
  text = unquoted(text);
  const std::size_t open = text.rfind('[');
  if (open == std::string_view::npos || !text.ends_with(']')) malformed(whole, "there is no [LO,HI]");
  const std::string_view ends = text.substr(open + 1, text.size() - open - 2);
  std::string_view name = trimmed(text.substr(0, open));
  if (!name.ends_with(':')) malformed(whole, "there is no colon before [");
  name.remove_suffix(1);
  name = unquoted(name);
  if (name.empty()) malformed(whole, "there is no name");
  const std::size_t comma = ends.find(',');
  if (comma == std::string_view::npos || ends.find(',', comma + 1) != std::string_view::npos) {
    malformed(whole, "there must be two ends");
  }
  const double lo = parse_end(ends.substr(0, comma), whole);
  const double hi = parse_end(ends.substr(comma + 1), whole);
  if (!(lo <= hi)) malformed(whole, "the lower end is greater than the upper one");
  InputContract input;
  input.pattern = name;
  input.lo = lo;
  input.hi = hi;
  input.origin = std::string(option) + " " + std::string(whole);
  contract.inputs.push_back(std::move(input));
}

void add_order(Contract& contract, std::string_view text, std::string origin) {
  const std::size_t greater = text.find(">=");
  const std::size_t smaller = text.find("<=");
  const bool swapped = greater == std::string_view::npos;
  const std::size_t at = swapped ? smaller : greater;
  const bool once = at != std::string_view::npos &&
                    (greater == std::string_view::npos || smaller == std::string_view::npos) &&
                    text.find('=', at + 2) == std::string_view::npos;
  std::string left(once ? unquoted(text.substr(0, at)) : std::string_view());
  std::string right(once ? unquoted(text.substr(at + 2)) : std::string_view());
  if (left.empty() || right.empty()) {
    throw Error(origin + ": relation '" + std::string(text) + "' is not of the form 'b >= a' or 'x[2] >= x[0]'");
  }
  if (swapped) left.swap(right);
  contract.orders.push_back({.greater = std::move(left), .smaller = std::move(right), .origin = std::move(origin)});
}

}  // namespace finity

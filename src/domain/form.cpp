#include "domain/form.h"

#include <algorithm>
#include <cmath>

#include "domain/symbol_moves.h"

namespace finity {

Sym Symbols::fresh(const Range& range) {
  infos_.push_back({.range = range});
  return static_cast<Sym>(infos_.size() - 1);
}

Sym Symbols::root(Sym symbol) const {
  const Sym from = infos_[static_cast<std::size_t>(symbol)].root;
  return from >= 0 ? from : symbol;
}

Sym Symbols::moved(Sym symbol, const std::string& movement) {
  if (movement.empty()) return symbol;
  // The positive part moves along: relu(x) moved is the positive part of x moved.
  if (relu_of(symbol) >= 0) return relu(moved(relu_of(symbol), movement));
  const Sym from = root(symbol);
  const std::string steps = composed(chain(symbol), movement);
  if (steps.empty()) return from;
  const auto [found, added] = derived_.try_emplace(std::to_string(from) + '|' + steps, -1);
  if (added) {
    const Range same = range(symbol);
    found->second = fresh(same);
    infos_.back().root = from;
    infos_.back().chain = steps;
  }
  return found->second;
}

Sym Symbols::relu(Sym symbol) {
  const auto [found, added] = derived_.try_emplace(std::to_string(symbol) + "|relu", -1);
  if (added) {
    const Range positive = maximum(range(symbol), point(0));
    found->second = fresh(positive);
    infos_.back().relu_of = symbol;
  }
  return found->second;
}

Form symbol_form(Sym symbol) { return {.terms = {{symbol, 1.0}}, .valid = symbol >= 0}; }

Form constant_form(double value) { return {.constant = value, .valid = std::isfinite(value)}; }

namespace {

// Factors stay exact: a rounded one would hide an error that cancellation brings out later.
bool exact_sum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return (a - (sum - b_part)) == 0 && (b - b_part) == 0;
}

// a + factor * b for factor 1 or -1; the rounding of the constant goes into the error.
Form combine(const Form& a, const Form& b, double factor) {
  Form result;
  if (!a.valid || !b.valid) return result;
  result.valid = true;
  result.constant = a.constant + factor * b.constant;
  result.error = (a.error + std::abs(factor) * b.error) * (1 + 1e-15) +
                 4e-16 * (std::abs(a.constant) + std::abs(factor * b.constant)) * (result.constant != 0 ? 1 : 0);
  auto left = a.terms.begin();
  auto right = b.terms.begin();
  while (left != a.terms.end() || right != b.terms.end()) {
    Term term;
    if (right == b.terms.end() || (left != a.terms.end() && left->symbol < right->symbol)) term = *left++;
    else if (left == a.terms.end() || right->symbol < left->symbol) term = {right->symbol, factor * (right++)->factor};
    else {
      if (!exact_sum(left->factor, factor * right->factor)) return {};
      term = {left->symbol, (left++)->factor + factor * (right++)->factor};
    }
    if (term.factor != 0) result.terms.push_back(term);
  }
  if (result.terms.size() > kMaxTerms || !std::isfinite(result.constant)) result.valid = false;
  return result;
}

struct Sum {
  double lo = 0;
  double hi = 0;
  double magnitude = 0;  // of everything added, for the rounding of this evaluation

  void add(double a, double b) {
    const double low = std::min(a, b);
    const double high = std::max(a, b);
    lo += low;
    hi += high;
    magnitude += std::max(std::abs(low), std::abs(high));
  }
};

// factor * s + positive * max(0, s) over s in the range: linear on either side of zero.
void add_pair(Sum& sum, const Range& s, double factor, double positive) {
  const double both = factor + positive;
  if (s.lo >= 0) return sum.add(both * s.lo, both * s.hi);
  if (s.hi <= 0) return sum.add(factor * s.lo, factor * s.hi);
  const double below = factor * s.lo;
  const double above = both * s.hi;
  sum.add(std::min({below, above, 0.0}), std::max({below, above, 0.0}));
}

}  // namespace

Form add(const Form& a, const Form& b) { return combine(a, b, 1); }
Form subtract(const Form& a, const Form& b) { return combine(a, b, -1); }

Form scale(const Form& a, double factor) {
  if (!a.valid || !std::isfinite(factor)) return {};
  Form result = a;
  if (factor == 0) result.terms.clear();
  for (Term& term : result.terms) term.factor *= factor;
  result.constant *= factor;
  result.error = a.error * std::abs(factor) * (1 + 1e-15);
  // Powers of two scale exactly; other factors may round the product of factors.
  int exponent = 0;
  if (std::abs(std::frexp(factor, &exponent)) != 0.5 && factor != 0) {
    result.error += 2.3e-16 * std::abs(result.constant);
    for (const Term& term : result.terms) {
      if (term.factor / factor != 1 && term.factor / factor != -1) return {};  // keep factors exact
    }
  }
  const auto overflowed = [](const Term& term) { return !std::isfinite(term.factor) || term.factor == 0; };
  if (std::ranges::any_of(result.terms, overflowed) || !std::isfinite(result.constant)) return {};
  return result;
}

Bounds evaluate(const Form& form, const Symbols& symbols) {
  if (!form.valid) return {};
  Sum sum;
  sum.add(form.constant, form.constant);
  std::vector<bool> done(form.terms.size(), false);
  for (std::size_t i = 0; i < form.terms.size(); ++i) {
    const Sym whole = symbols.relu_of(form.terms[i].symbol);
    if (whole < 0) continue;
    const auto pair = std::ranges::find(form.terms, whole, &Term::symbol);
    if (pair == form.terms.end()) continue;
    const Range& s = symbols.range(whole);
    if (!s.has_finite()) return {};
    add_pair(sum, s, pair->factor, form.terms[i].factor);
    done[i] = true;
    done[static_cast<std::size_t>(pair - form.terms.begin())] = true;
  }
  for (std::size_t i = 0; i < form.terms.size(); ++i) {
    if (done[i]) continue;
    const Range& s = symbols.range(form.terms[i].symbol);
    if (!s.has_finite()) return {};
    sum.add(form.terms[i].factor * s.lo, form.terms[i].factor * s.hi);
  }
  // One plain term is added to nothing: no rounding happens here.
  const bool plain = form.terms.size() == 1 && std::abs(form.terms.front().factor) == 1 && form.constant == 0;
  const double slack = form.error + (form.terms.empty() || plain ? 0 : 1e-15 * (sum.magnitude + form.error)) +
                       (form.error > 0 ? 1e-15 * form.error : 0);
  Bounds bounds{.lo = sum.lo - slack, .hi = sum.hi + slack};
  if (std::isnan(bounds.lo) || std::isnan(bounds.hi)) return {};
  return bounds;
}

Form rounded(const Form& form, DType dtype, const Symbols& symbols, const Range& result) {
  if (!form.valid || !is_float(dtype)) return form;
  const Bounds bounds = evaluate(form, symbols);
  double magnitude = std::max(std::abs(bounds.lo), std::abs(bounds.hi));
  if (result.has_finite()) magnitude = std::min(magnitude, result.magnitude() * (1 + 4 * unit_roundoff(dtype)));
  Form out = form;
  if (magnitude > 0) out.error += rounding_error(dtype, magnitude) * (1 + 1e-15);
  if (!std::isfinite(out.error)) out.valid = false;
  return out;
}

Form positive_part(const Form& form, Symbols& symbols) {
  if (!form.valid || form.terms.size() != 1 || form.constant != 0 || form.error != 0) return {};
  const Term term = form.terms.front();
  if (symbols.relu_of(term.symbol) >= 0) {
    // The positive part of c * relu(s) is itself for c >= 0 and 0 otherwise.
    return term.factor >= 0 ? form : constant_form(0);
  }
  const Form positive = scale(symbol_form(symbols.relu(term.symbol)), std::abs(term.factor));
  // relu(c s) = c relu(s) for c >= 0; for c < 0 it is |c| relu(s) + c s.
  return term.factor >= 0 ? positive : add(positive, form);
}

Form moved(const Form& form, Symbols& symbols, const std::string& movement) {
  if (!form.valid) return {};
  Form result = form;
  result.terms.clear();
  std::vector<Term> terms = form.terms;
  for (Term& term : terms) term.symbol = symbols.moved(term.symbol, movement);
  std::ranges::sort(terms, {}, &Term::symbol);
  // Different symbols may become one: x and its first row, once both are cut to the first row.
  for (const Term& term : terms) {
    if (result.terms.empty() || result.terms.back().symbol != term.symbol) {
      result.terms.push_back(term);
      continue;
    }
    Term& last = result.terms.back();
    if (!exact_sum(last.factor, term.factor)) return {};
    last.factor += term.factor;
  }
  std::erase_if(result.terms, [](const Term& term) { return term.factor == 0; });
  return result;
}

}  // namespace finity

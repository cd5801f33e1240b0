// Affine forms: an element written as constant + sum of coefficient * symbol, up
// to a bounded error. A symbol stands for a tensor of unknown elements; a term in a
// cell of a tensor speaks of the symbol's element at the same index (aligned at the
// last axis and repeated like numpy broadcasting does). Data movement makes a derived
// symbol, the same one for the same movement, so x - x cancels and x - transpose(x)
// does not. A form speaks of finite values only: NaN and infinities are flags of Range.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "domain/range.h"

namespace finity {

using Sym = std::int32_t;  // index into Symbols; -1: none

struct Term {
  Sym symbol = -1;
  double factor = 0;
  bool operator==(const Term&) const = default;
};

struct Form {
  std::vector<Term> terms = {};  // sorted by symbol, no zero factors
  double constant = 0;
  double error = 0;    // the element differs from the sum by at most this
  bool valid = false;  // false: nothing known, use the range alone
};

class Symbols {
 public:
  // A fresh symbol for each range; the first one's number.
  Sym fresh(const Range& range);
  const Range& range(Sym symbol) const { return infos_[static_cast<std::size_t>(symbol)].range; }
  // The symbol for `movement` (a step of symbol_moves.h) applied to `symbol`. Movements are composed: moving there and
  // back gives `symbol` again.
  Sym moved(Sym symbol, const std::string& movement);
  // max(0, symbol). The pair is recombined when a form is evaluated.
  Sym relu(Sym symbol);
  // The symbol that `symbol` is the positive part of, or -1.
  Sym relu_of(Sym symbol) const { return infos_[static_cast<std::size_t>(symbol)].relu_of; }
  // The symbol that `symbol` was moved from, and the chain of steps; itself and "" when it was not moved.
  Sym root(Sym symbol) const;
  const std::string& chain(Sym symbol) const { return infos_[static_cast<std::size_t>(symbol)].chain; }
  std::size_t size() const { return infos_.size(); }

 private:
  struct Info {
    Range range;
    Sym relu_of = -1;
    Sym root = -1;           // derived by movement: from this symbol,
    std::string chain = {};  // along this chain of steps
  };
  std::vector<Info> infos_;
  std::unordered_map<std::string, Sym> derived_;
};

inline constexpr std::size_t kMaxTerms = 8;

Form symbol_form(Sym symbol);
Form constant_form(double value);
// Real arithmetic on forms; invalid operands or too many terms give an invalid form.
Form add(const Form& a, const Form& b);
Form subtract(const Form& a, const Form& b);
Form scale(const Form& a, double factor);
// The operation's result was rounded into `dtype`: the error grows by what that can be.
Form rounded(const Form& form, DType dtype, const Symbols& symbols, const Range& result);
// Real bounds of the form, errors included, rounded outwards. [-Inf, Inf] when invalid.
struct Bounds {
  double lo = -kInf;
  double hi = kInf;
};
Bounds evaluate(const Form& form, const Symbols& symbols);
// max(0, form) where it can be expressed: a single term without constant and error.
Form positive_part(const Form& form, Symbols& symbols);
Form moved(const Form& form, Symbols& symbols, const std::string& movement);

}  // namespace finity

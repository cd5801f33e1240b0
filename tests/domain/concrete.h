// Concrete counterparts for the property tests of the domain: small tensors of
// doubles, moved naively, and symbols as the tensors they stand for.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/rng.h"
#include "domain/abs_tensor.h"
#include "domain/form.h"

namespace finity {

struct Concrete {
  Dims sizes = {};
  std::vector<double> values = {};

  double at(const Dims& index) const { return values[static_cast<std::size_t>(flat(index))]; }
  std::int64_t flat(const Dims& index) const {
    std::int64_t position = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) position = position * sizes[i] + index[i];
    return position;
  }
};

// Calls f(index) for every index, in row-major order.
template <class F>
void for_each_index(const Dims& sizes, F f) {
  if (std::ranges::find(sizes, 0) != sizes.end()) return;
  Dims index(sizes.size(), 0);
  for (;;) {
    f(index);
    std::size_t axis = sizes.size();
    while (axis > 0 && ++index[axis - 1] == sizes[axis - 1]) index[--axis] = 0;
    if (axis == 0) return;
  }
}

// A tensor of `sizes` whose element at an index is `x` at source(index).
template <class F>
Concrete moved_by(const Concrete& x, const Dims& sizes, F source) {
  Concrete result{sizes, {}};
  for_each_index(sizes, [&](const Dims& index) { result.values.push_back(x.at(source(index))); });
  return result;
}

inline std::size_t cell_of(const AbsTensor& x, const Dims& index, Dims* within = nullptr) {
  std::vector<std::size_t> place(x.rank(), 0);
  if (within != nullptr) *within = index;
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    while (place[axis] + 1 < x.blocks(axis) && x.block_start(axis, place[axis] + 1) <= index[axis]) ++place[axis];
    if (within != nullptr) (*within)[axis] -= x.block_start(axis, place[axis]);
  }
  return cell_at(x, place);
}

// What the symbols stand for. A moved symbol is found by walking its chain backwards.
class World {
 public:
  Symbols& symbols() { return symbols_; }

  // Random elements inside x's cells; every cell becomes a symbol, as in a stored value.
  Concrete populate(AbsTensor& x, Rng& rng) {
    x.forms = {};
    x.first_symbol = static_cast<Sym>(symbols_.size());
    for (std::size_t cell = 0; cell < x.cells.size(); ++cell) {
      const Sym symbol = symbols_.fresh(x.cells[cell]);
      tensors_[symbol] = {cell_sizes(x, cell), {}};
    }
    Concrete result{x.sizes, {}};
    for_each_index(x.sizes, [&](const Dims& index) {
      const Range& range = x.cells[cell_of(x, index)];
      double value = range.lo + std::round((range.hi - range.lo) * rng.uniform() * 8) / 8;
      if (!range.contains(value)) value = range.lo;
      result.values.push_back(value);
    });
    for (std::size_t cell = 0; cell < x.cells.size(); ++cell) fill_symbol(x, cell, result);
    return result;
  }

  // The form's value at an index of its cell; nothing when a movement is only named, not spelled out.
  std::optional<double> value(const Form& form, const Dims& index) const {
    double sum = form.constant;
    for (const Term& term : form.terms) {
      const std::optional<double> symbol = value(term.symbol, index);
      if (!symbol) return std::nullopt;
      sum += term.factor * *symbol;
    }
    return sum;
  }

 private:
  using FromEnd = std::vector<std::int64_t>;  // axis 1 is the last

  void fill_symbol(const AbsTensor& x, std::size_t cell, const Concrete& values) {
    Concrete& tensor = tensors_[x.first_symbol + static_cast<Sym>(cell)];
    for_each_index(x.sizes, [&](const Dims& index) {
      if (cell_of(x, index) == cell) tensor.values.push_back(values.at(index));
    });
  }

  static std::vector<std::string> split(const std::string& text, char separator) {
    std::vector<std::string> parts(1);
    for (const char c : text) {
      if (c == separator) parts.emplace_back();
      else parts.back() += c;
    }
    return parts;
  }
  static Dims numbers(const std::string& text) {
    Dims result;
    if (text.empty()) return result;
    for (const std::string& part : split(text, ',')) result.push_back(std::stoll(part));
    return result;
  }

  // The index before the step that is read for `index` after it. Index entries beyond the list are 0.
  static FromEnd before(const std::string& step, const FromEnd& index) {
    const auto at = [&](std::int64_t axis) {
      return axis >= 1 && axis <= static_cast<std::int64_t>(index.size()) ? index[static_cast<std::size_t>(axis - 1)]
                                                                          : 0;
    };
    FromEnd result = index;
    result.resize(12, 0);
    const std::vector<std::string> fields = split(step.substr(1), ':');
    if (step[0] == 'S') {
      const std::size_t axis = std::stoul(fields[0]) - 1;
      result[axis] = std::stoll(fields[1]) + (fields[2] == "1" ? 0 : result[axis]);
    } else if (step[0] == 'G') {
      const std::size_t axis = std::stoul(fields[0]) - 1;
      const Dims list = numbers(fields[1]);
      result[axis] = list[list.size() == 1 ? 0 : static_cast<std::size_t>(result[axis])];
    } else if (step[0] == 'M') {
      const std::int64_t shift = std::stoll(fields[0]);
      const Dims entries = numbers(fields[1]);
      for (std::int64_t j = 1; j <= 12; ++j) {
        const bool listed = j <= static_cast<std::int64_t>(entries.size());
        result[static_cast<std::size_t>(j - 1)] = at(listed ? entries[static_cast<std::size_t>(j - 1)] : j + shift);
      }
    } else {
      const std::vector<std::string> shapes = split(step.substr(1), '>');
      const Dims from = numbers(shapes[0]);
      const Dims to = numbers(shapes[1]);
      std::int64_t flat = 0;
      for (std::size_t i = 0; i < to.size(); ++i) {
        flat = flat * to[i] + (to[i] == 1 ? 0 : at(static_cast<std::int64_t>(to.size() - i)));
      }
      result.assign(12, 0);
      for (std::size_t j = 0; j < from.size(); ++j) {
        result[j] = flat % from[from.size() - 1 - j];
        flat /= from[from.size() - 1 - j];
      }
    }
    return result;
  }

  // Whether `before` can follow the step: lists of indices are spelled out, operands and rules are only named.
  static bool spelled_out(const std::string& step) {
    return step[0] == 'S' || step[0] == 'M' || step[0] == 'R' ||
           (step[0] == 'G' && step.substr(1).find_first_not_of("0123456789,", 0) == step.find(':') - 1 &&
            step.find_first_not_of("0123456789,", step.find(':') + 1) == std::string::npos);
  }

  std::optional<double> value(Sym symbol, const Dims& index) const {
    FromEnd place(index.rbegin(), index.rend());
    const std::string& chain = symbols_.chain(symbol);
    std::vector<std::string> steps = chain.empty() ? std::vector<std::string>{} : split(chain, '|');
    for (std::size_t i = steps.size(); i-- > 0;) {
      if (!spelled_out(steps[i])) return std::nullopt;
      place = before(steps[i], place);
    }
    const Concrete& tensor = tensors_.at(symbols_.root(symbol));
    Dims own(tensor.sizes.size(), 0);
    for (std::size_t i = 0; i < own.size(); ++i) {
      const std::size_t j = own.size() - 1 - i;
      if (tensor.sizes[i] != 1 && j < place.size()) own[i] = place[j];
    }
    return tensor.at(own);
  }

  Symbols symbols_;
  std::map<Sym, Concrete> tensors_;
};

// A random range of small numbers, sometimes a point.
inline Range random_range(Rng& rng) {
  const double lo = std::floor(rng.uniform(-9, 9));
  const double width = rng.below(4) == 0 ? 0 : std::floor(rng.uniform(0, 5));
  return from_bounds(DType::float32, lo, lo + width);
}

inline AbsTensor random_abstract(Rng& rng, const Dims& sizes) {
  std::vector<Cuts> cuts(sizes.size());
  std::size_t count = 1;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    for (std::int64_t at = 1; at < sizes[axis]; ++at) {
      if (rng.below(3) == 0) cuts[axis].push_back(at);
    }
    count *= cuts[axis].size() + 1;
  }
  AbsTensor result = uniform(DType::float32, sizes, {});
  if (count > 1) result.cuts = cuts;
  result.cells.clear();
  for (std::size_t i = 0; i < count; ++i) result.cells.push_back(random_range(rng));
  return result;
}

inline Dims random_sizes(Rng& rng, std::size_t most_axes) {
  Dims sizes(rng.below(most_axes + 1));
  for (std::int64_t& size : sizes) size = 1 + static_cast<std::int64_t>(rng.below(4));
  return sizes;
}

}  // namespace finity

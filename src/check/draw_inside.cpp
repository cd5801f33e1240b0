// Random inputs inside the premises of an analysis.
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "base/error.h"
#include "base/time_limit.h"
#include "check/verify.h"
#include "exec/draw.h"
#include "ops/shared/shapes.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

enum class Style : std::uint8_t { plain, low, high, mixed };

double between(const Range& range, Rng& rng) {
  const double u = rng.uniform();
  return range.lo * (1 - u) + range.hi * u;
}

// Numbers that programs treat differently from their neighbours.
double special(const Range& range, DType dtype, Rng& rng) {
  const double tiny = is_float(dtype) ? min_subnormal(dtype) : 1;
  const std::array<double, 10> numbers = {0.0, 1.0, -1.0, tiny, -tiny, 0.5, -0.5, 2.0, range.lo + 1, range.hi - 1};
  return numbers[rng.below(numbers.size())];
}

double of_any_size(const Range& range, DType dtype, Rng& rng) {
  const double smallest = is_float(dtype) ? std::max(min_subnormal(dtype), 1e-300) : 1;
  const double largest = range.magnitude();
  if (!(largest > smallest)) return range.lo;
  const double size = std::exp(rng.uniform(std::log(smallest), std::log(largest)));
  return rng.below(2) == 0 ? size : -size;
}

double mixed(const Range& range, DType dtype, Rng& rng) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  const std::uint64_t kind = rng.below(16);
  if (kind == 0 && range.nan) return kNaN;
  if (kind == 1 && range.pinf) return kInf;
  if (kind == 2 && range.ninf) return -kInf;
  if (kind < 4) return range.lo;
  if (kind < 6) return range.hi;
  if (kind < 9) return special(range, dtype, rng);
  if (kind < 12) return of_any_size(range, dtype, rng);
  return between(range, rng);
}

double fitted(double x, const Range& range, DType dtype) {
  if (!std::isfinite(x)) return x;
  if (dtype == DType::float8e8m0) x = std::max(x, min_subnormal(dtype));  // powers of two, all positive
  x = std::clamp(x, range.lo, range.hi);
  if (range.integer) x = std::clamp(std::round(x), range.lo, range.hi);
  else if (is_float(dtype)) x = std::clamp(round_to(dtype, x), range.lo, range.hi);
  if (range.nonzero && (x == 0 || std::abs(x) < range.gap)) x = range.hi != 0 ? range.hi : range.lo;
  return x;
}

double draw(const Range& range, DType dtype, Style style, Rng& rng) {
  if (!range.has_finite()) {
    if (range.pinf && (!range.ninf || rng.below(2) == 0)) return kInf;
    return range.ninf ? -kInf : std::numeric_limits<double>::quiet_NaN();
  }
  switch (style) {
    case Style::plain: return fitted(between(range, rng), range, dtype);
    case Style::low: return fitted(range.lo, range, dtype);
    case Style::high: return fitted(range.hi, range, dtype);
    case Style::mixed: break;
  }
  return fitted(mixed(range, dtype, rng), range, dtype);
}

Tensor stored(DType dtype, const Dims& dims, const std::vector<double>& values) {
  if (is_float(dtype)) return from_elements<double>(dtype, dims, values);
  std::vector<std::int64_t> integers;
  for (const double x : values) integers.push_back(static_cast<std::int64_t>(std::clamp(x, -9.2e18, 9.2e18)));
  return from_elements<std::int64_t>(dtype, dims, integers);
}

// Rows along one axis.
std::optional<AxisView> rows_of(const RowBound& bound, const Dims& dims) {
  for (std::size_t axis = 0; axis < dims.size(); ++axis) {
    if (bound.axes == std::uint32_t{1} << axis) return AxisView(dims, axis);
  }
  return std::nullopt;
}

// Puts one element of every row into the range that the largest element must have.
void raise_rows(std::vector<double>& values, const AxisView& rows, const Range& in, DType dtype, Style style,
                Rng& rng) {
  for (std::int64_t o = 0; o < rows.outer; ++o) {
    for (std::int64_t i = 0; i < rows.inner; ++i) {
      bool good = rows.length == 0;
      for (std::int64_t k = 0; k < rows.length; ++k) good |= in.contains(values[rows.at(o, k, i)]);
      if (good) continue;
      const auto k = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(rows.length)));
      values[rows.at(o, k, i)] = draw(in, dtype, style, rng);
    }
  }
}

// Rows that sum to one: scaled where rounding allows it, else a single one.
void normalise_rows(std::vector<double>& values, const AxisView& rows, const Range& in, DType dtype, Rng& rng) {
  for (std::int64_t o = 0; o < rows.outer; ++o) {
    for (std::int64_t i = 0; i < rows.inner && rows.length > 0; ++i) {
      double sum = 0;
      for (std::int64_t k = 0; k < rows.length; ++k) sum += values[rows.at(o, k, i)];
      double now = 0;
      for (std::int64_t k = 0; k < rows.length; ++k) {
        double& x = values[rows.at(o, k, i)];
        x = sum > 0 ? round_to(dtype, x / sum) : 0;
        now += x;
      }
      if (in.contains(now)) continue;
      const std::int64_t one = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(rows.length)));
      for (std::int64_t k = 0; k < rows.length; ++k) values[rows.at(o, k, i)] = k == one ? 1 : 0;
    }
  }
}

class Drawer {
 public:
  Drawer(const Graph& graph, const Types& types, const Premises& premises, Rng& rng, int number)
      : graph_(graph),
        types_(types),
        premises_(premises),
        rng_(rng),
        style_(number == 0   ? Style::plain
               : number == 1 ? Style::low
               : number == 2 ? Style::high
                             : Style::mixed) {}

  Drawn run();
  Drawn fit(const Drawn& like, const Numbers& wished);

 private:
  Drawn finished();
  Dims dims_of(ValueId id);
  bool is_wide_guess(ValueId id) const;
  std::vector<double> numbers(const AbsTensor& range, const Dims& dims);
  void require_few() const;
  void apply_relations(const AbsTensor& range, const Dims& dims, std::vector<double>& values);
  void order_columns();
  void order_inputs();
  void order(double& greater, double& smaller, const Range& above, const Range& below) const;

  const Graph& graph_;
  const Types& types_;
  const Premises& premises_;
  Rng& rng_;
  Style style_;
  std::map<SymbolId, std::int64_t> symbols_;
  std::map<ValueId, Dims> dims_;
  std::map<ValueId, std::vector<double>> values_;
};

// Nobody said what the integers are. They may be sizes or numbers of iterations, where huge ones only take memory.
constexpr double kOrdinary = 1000;

AbsTensor ordinary(const AbsTensor& range) {
  AbsTensor result = range;
  for (Range& cell : result.cells) {
    cell.lo = std::max(cell.lo, std::min(-kOrdinary, cell.hi));
    cell.hi = std::min(cell.hi, std::max(kOrdinary, cell.lo));
  }
  return result;
}

bool Drawer::is_wide_guess(ValueId id) const {
  const auto guessed = std::ranges::find(premises_.guesses, id, &GuessedInput::value);
  return guessed != premises_.guesses.end() && is_int(premises_.of[id.at()]->dtype) &&
         guessed->range.hi - guessed->range.lo > kOrdinary * kOrdinary;
}

Dims Drawer::dims_of(ValueId id) {
  const Type& type = types_[id];
  if (!type.is_tensor() || !type.ranked || type.dtype == DType::undefined) {
    throw Error("input '" + graph_.value(id).name + "' is " + to_string(graph_, type) + ": give its shape");
  }
  Dims dims;
  for (const Dim& dim : type.shape) {
    if (dim.known()) {
      dims.push_back(dim.size);
      continue;
    }
    const auto size = static_cast<std::int64_t>(1 + rng_.below(4));
    dims.push_back(dim.symbol.valid() ? symbols_.try_emplace(dim.symbol, size).first->second : size);
  }
  check_drawn_size(graph_.value(id).name, dims);
  return dims;
}

// Which block of an axis each position belongs to.
std::vector<std::size_t> block_of(const AbsTensor& range, std::size_t axis, std::int64_t size) {
  std::vector<std::size_t> blocks(static_cast<std::size_t>(size), 0);
  for (std::size_t block = 1; block < range.blocks(axis); ++block) {
    const std::int64_t start = range.block_start(axis, block);
    std::fill(blocks.begin() + std::min(start, size), blocks.end(), block);
  }
  return blocks;
}

// Calls f with the cell of every element, in row-major order.
template <class F>
void for_each_cell(const AbsTensor& range, const Dims& dims, const F& f) {
  std::vector<std::vector<std::size_t>> blocks;
  for (std::size_t axis = 0; axis < dims.size() && range.cut(); ++axis)
    blocks.push_back(block_of(range, axis, dims[axis]));
  for (IndexCounter at(dims); at.valid(); at.next()) {
    std::size_t cell = 0;
    for (std::size_t axis = 0; axis < blocks.size(); ++axis) {
      cell = cell * range.blocks(axis) + blocks[axis][static_cast<std::size_t>(at.index()[axis])];
    }
    f(range.cells[cell]);
  }
}

std::vector<double> Drawer::numbers(const AbsTensor& range, const Dims& dims) {
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(element_count(dims)));
  for_each_cell(range, dims, [&](const Range& cell) {
    check_time_after(1);
    values.push_back(draw(cell, range.dtype, style_, rng_));
  });
  return values;
}

// All of them are kept in double, and once more in their own format.
void Drawer::require_few() const {
  constexpr std::int64_t kMost = std::int64_t{1} << 28;
  std::int64_t all = 0;
  for (std::size_t i = 0; i < premises_.of.size() && all <= kMost; ++i) {
    const std::optional<Dims> dims = types_[{static_cast<std::int32_t>(i)}].dims();
    if (premises_.of[i] && dims) all += std::min(element_count(*dims), kMost + 1);
  }
  if (all > kMost) throw Error("inputs and weights that may vary have too many elements to be drawn");
}

void Drawer::apply_relations(const AbsTensor& range, const Dims& dims, std::vector<double>& values) {
  for (const RowBound& bound : each<RowBound>(range.relations)) {
    const std::optional<AxisView> rows = rows_of(bound, dims);
    if (!rows) continue;
    if (bound.of == Of::largest) raise_rows(values, *rows, bound.in, range.dtype, style_, rng_);
    if (bound.of == Of::sum) normalise_rows(values, *rows, bound.in, range.dtype, rng_);
  }
}

void Drawer::order(double& greater, double& smaller, const Range& above, const Range& below) const {
  if (greater >= smaller) return;
  if (above.contains(smaller)) greater = smaller;
  else if (below.contains(greater)) smaller = greater;
  else {
    greater = above.greatest();
    smaller = below.least();
  }
}

void Drawer::order_columns() {
  // As often as there are orders: a chain then holds as a whole.
  for (std::size_t round = 0; round < premises_.column_orders.size(); ++round) {
    for (const ColumnOrder& order : premises_.column_orders) {
      const AbsTensor& range = *premises_.of[order.value.at()];
      const Dims& dims = dims_.at(order.value);
      std::vector<double>& values = values_.at(order.value);
      const std::size_t axis = dims.size() - 1;
      const std::vector<std::size_t> blocks = block_of(range, axis, dims[axis]);
      const auto columns = static_cast<std::size_t>(dims[axis]);
      const auto above = static_cast<std::size_t>(order.greater);
      const auto below = static_cast<std::size_t>(order.smaller);
      for (std::size_t row = 0; row + columns <= values.size(); row += columns) {
        this->order(values[row + above], values[row + below], range.cells[blocks[above]], range.cells[blocks[below]]);
      }
    }
  }
}

void Drawer::order_inputs() {
  std::vector<std::pair<ValueId, ValueId>> pairs;  // greater, smaller
  for (const auto& [id, values] : values_) {
    for (const AggregateBound& bound : each<AggregateBound>(premises_.of[id.at()]->relations)) {
      const ValueId source = bound.source.value;
      const bool known = values_.contains(source) && values_.at(source).size() == values.size();
      if (bound.of == Of::largest && bound.order == Order::at_least && known) pairs.emplace_back(id, source);
    }
  }
  for (std::size_t round = 0; round < pairs.size(); ++round) {
    for (const auto& [greater, smaller] : pairs) {
      const Range above = premises_.of[greater.at()]->hull();
      const Range below = premises_.of[smaller.at()]->hull();
      std::vector<double>& high = values_.at(greater);
      std::vector<double>& low = values_.at(smaller);
      for (std::size_t i = 0; i < high.size(); ++i) order(high[i], low[i], above, below);
    }
  }
}

Drawn Drawer::run() {
  require_few();
  for (std::size_t i = 0; i < premises_.of.size(); ++i) {
    const ValueId id{static_cast<std::int32_t>(i)};
    const std::shared_ptr<AbsTensor>& range = premises_.of[i];
    if (!range) continue;
    if (types_[id].kind == Type::Kind::optional) continue;  // absent is one of its values
    dims_[id] = dims_of(id);
    if (range->dtype == DType::string) continue;
    values_[id] = numbers(is_wide_guess(id) ? ordinary(*range) : *range, dims_[id]);
    apply_relations(*range, dims_[id], values_[id]);
  }
  return finished();
}

// What was not wished for stays as it was.
Drawn Drawer::fit(const Drawn& like, const Numbers& wished) {
  for (std::size_t i = 0; i < premises_.of.size(); ++i) {
    const ValueId id{static_cast<std::int32_t>(i)};
    const std::shared_ptr<AbsTensor>& range = premises_.of[i];
    if (!range) continue;
    const auto weight = like.weights.find(id);
    const auto input = like.inputs.find(graph_.value(id).name);
    const bool is_weight = weight != like.weights.end();
    if (!is_weight && input == like.inputs.end()) continue;
    const Tensor* old = is_weight ? weight->second.tensor() : input->second.tensor();
    if (old == nullptr) continue;
    dims_[id] = old->dims();
    if (range->dtype == DType::string) continue;
    const auto wish = wished.find(id);
    std::vector<double> values = wish != wished.end() ? wish->second : elements<double>(*old);
    std::size_t at = 0;
    for_each_cell(*range, dims_[id], [&](const Range& cell) {
      double& x = values[at++];
      if (!cell.has_finite()) x = draw(cell, range->dtype, Style::plain, rng_);
      else if (std::isfinite(x)) x = fitted(x, cell, range->dtype);
      else if (!cell.contains(x)) x = fitted(std::isnan(x) ? cell.lo : x > 0 ? cell.hi : cell.lo, cell, range->dtype);
    });
    apply_relations(*range, dims_[id], values);
    values_[id] = std::move(values);
  }
  Drawn drawn = finished();
  drawn.flush_subnormals = like.flush_subnormals;
  return drawn;
}

Drawn Drawer::finished() {
  Drawn drawn;
  order_columns();
  order_inputs();
  for (const auto& [id, dims] : dims_) {
    const DType dtype = premises_.of[id.at()]->dtype;
    Datum datum = dtype == DType::string ? Tensor(dtype, dims) : stored(dtype, dims, values_.at(id));
    const auto& inputs = graph_.main().inputs;
    if (std::ranges::find(inputs, id) != inputs.end()) drawn.inputs.emplace(graph_.value(id).name, std::move(datum));
    else drawn.weights.emplace(id, std::move(datum));
  }
  return drawn;
}

}  // namespace

Drawn draw_inside(const Graph& graph, const Types& types, const Premises& premises, Rng& rng, int number) {
  return Drawer(graph, types, premises, rng, number).run();
}

Drawn fit_inside(const Graph& graph, const Types& types, const Premises& premises, const Drawn& like,
                 const Numbers& wished, Rng& rng) {
  return Drawer(graph, types, premises, rng, 0).fit(like, wished);
}

Box box_of(const AbsTensor& range, const Dims& dims) {
  Box box;
  for_each_cell(range, dims, [&](const Range& cell) {
    box.lo.push_back(cell.has_finite() ? cell.lo : 0);
    box.hi.push_back(cell.has_finite() ? cell.hi : 0);
  });
  return box;
}

}  // namespace finity

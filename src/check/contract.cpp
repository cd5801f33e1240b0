#include "check/contract.h"

#include <algorithm>
#include <cmath>

#include "base/suggest.h"
#include "check/constant_scan.h"
#include "check/contract_orders.h"
#include "check/weights.h"
#include "graph/initial_weight.h"

namespace finity {

namespace {

DType leaf_dtype(const Type& type) { return type.element ? leaf_dtype(*type.element) : type.dtype; }

// "*" means the inputs; every other pattern speaks of inputs and weights.
bool only_stars(std::string_view pattern) { return pattern.find_first_not_of('*') == std::string_view::npos; }

// Later declarations win field by field, and a name in full wins over a pattern.
void overlay(InputContract& onto, const InputContract& with) {
  if (with.lo) {
    onto.lo = with.lo;
    onto.hi = with.hi;
    onto.values.clear();
  }
  if (!with.values.empty()) {
    onto.values = with.values;
    onto.lo.reset();
    onto.hi.reset();
  }
  onto.integer |= with.integer;
  onto.allow_nan |= with.allow_nan;
  onto.allow_inf |= with.allow_inf;
  if (with.one_true_axis) onto.one_true_axis = with.one_true_axis;
  if (with.one_zero_axis) onto.one_zero_axis = with.one_zero_axis;
  if (with.sums_to_one_axis) onto.sums_to_one_axis = with.sums_to_one_axis;
  for (const auto& column : with.columns) onto.columns.insert_or_assign(column.first, column.second);
  onto.origin = with.origin;
}

std::vector<std::string> declarable_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const ValueId id : graph.main().inputs) names.push_back(graph.value(id).name);
  for (const Value& value : graph.values()) {
    if (value.constant && !value.name.empty()) names.push_back(value.name);
  }
  return names;
}

class Resolver {
 public:
  Resolver(const Graph& graph, const Types& types, const Contract& contract, std::size_t max_cells)
      : graph_(graph), types_(types), contract_(contract), max_cells_(max_cells), used_(contract.inputs.size(), false) {
    result_.of.resize(graph.values().size());
  }

  Premises run();

 private:
  std::optional<InputContract> declared(const std::string& name, bool weight);
  void add_input(ValueId id, const std::vector<std::int64_t>& indexed);
  void add_weights();
  static bool is_initial(const Value& value);
  std::optional<Range> initial_range(const Value& value);
  void say_initial();
  void add_declared(ValueId id, const InputContract& wish, const Guess* guess);
  Range declared_range(ValueId id, DType dtype, const InputContract& wish, const Guess* guess);
  Range between(ValueId id, DType dtype, double lo, double hi, const InputContract& wish);
  Range integers_between(ValueId id, DType dtype, double lo, double hi, const InputContract& wish);
  void add_columns(AbsTensor& x, ValueId id, DType dtype, const InputContract& wish);
  void add_rows(AbsTensor& x, ValueId id, const InputContract& wish);
  void add_sizes();
  void note_unused();
  [[noreturn]] void fail(ValueId id, const InputContract& wish, const std::string& why) const {
    throw Error(wish.origin + ": " + graph_.value(id).name + " (" + to_string(graph_, types_[id]) + ") " + why);
  }

  const Graph& graph_;
  const Types& types_;
  const Contract& contract_;
  std::size_t max_cells_;
  std::vector<bool> used_;                                      // by declaration: it spoke of something
  std::map<std::string, std::pair<std::string, int>> initial_;  // what weights start from: the first, how many
  Premises result_;
};

std::optional<InputContract> Resolver::declared(const std::string& name, bool weight) {
  std::optional<InputContract> result;
  for (const bool in_full : {false, true}) {
    for (std::size_t i = 0; i < contract_.inputs.size(); ++i) {
      const InputContract& input = contract_.inputs[i];
      // A name that happens to contain a star or question mark can still be given in full.
      const bool exact = input.pattern == name;
      if (exact != in_full || (weight && !exact && only_stars(input.pattern))) continue;
      if (!exact && !matches_glob(input.pattern, name)) continue;
      if (!result) result.emplace();
      overlay(*result, input);
      used_[i] = true;
    }
  }
  return result;
}

Range Resolver::integers_between(ValueId id, DType dtype, double lo, double hi, const InputContract& wish) {
  const double from = std::max(std::ceil(lo), lowest_finite(dtype));
  const double to = std::min(std::floor(hi), max_finite(dtype));
  if (!(from <= to)) fail(id, wish, "has no value in that range");
  const bool cut = (from > lo && from == lowest_finite(dtype)) || (to < hi && to == max_finite(dtype));
  if (cut && std::isfinite(lo) && std::isfinite(hi) && std::abs(lo) != kMostFinite && std::abs(hi) != kMostFinite) {
    result_.notes.push_back(
        {wish.origin, graph_.value(id).name + ": the range was cut to what " + std::string(name(dtype)) + " can hold"});
  }
  return from_bounds(dtype, from, to);
}

// Ends beyond the format's largest value leave the finite part here and are remembered: they are a finding.
Range Resolver::between(ValueId id, DType dtype, double lo, double hi, const InputContract& wish) {
  if (!is_float(dtype)) return integers_between(id, dtype, lo, hi, wish);
  const double max = max_finite(dtype);
  Range range = from_bounds(dtype, std::isinf(lo) || lo == -kMostFinite ? -max : lo,
                            std::isinf(hi) || hi == kMostFinite ? max : hi);
  if (range.pinf || range.ninf || range.nan) {
    result_.too_wide.push_back({id, {.lo = lo, .hi = hi}});
    range = range.finite();
    if (!range.has_finite()) fail(id, wish, "has no finite value in that range");
  }
  const bool infinite = float_format(dtype).infinite;
  range.ninf = infinite && lo == -kInf;
  range.pinf = infinite && hi == kInf;
  if (wish.integer) {
    range.lo = std::ceil(range.lo);
    range.hi = std::floor(range.hi);
    range.integer = true;
    if (!range.has_finite()) fail(id, wish, "has no integer in that range");
  }
  return range;
}

Range Resolver::declared_range(ValueId id, DType dtype, const InputContract& wish, const Guess* guess) {
  Range range;
  if (!wish.values.empty()) {
    const bool infinite = is_float(dtype) && float_format(dtype).infinite;
    for (const double value : wish.values) {
      range = join(range, std::isinf(value) && infinite ? point(value) : between(id, dtype, value, value, wish));
    }
    const auto whole = [](double value) { return std::isinf(value) || value == std::floor(value); };
    if (range.has_finite()) range.integer = std::ranges::all_of(wish.values, whole);
  } else if (wish.lo) {
    range = between(id, dtype, *wish.lo, *wish.hi, wish);
  } else if (wish.one_true_axis) {
    range = between(id, dtype, 0, 1, wish);
    range.integer = true;
  } else if (wish.one_zero_axis) {
    range = between(id, dtype, -kInf, 0, wish);
  } else if (wish.sums_to_one_axis) {
    range = between(id, dtype, 0, 1, wish);
  } else {
    range = guess != nullptr ? guess->range : any_finite(dtype);
    if (wish.integer) range = meet(range, {.lo = range.lo, .hi = range.hi, .integer = true});
  }
  if (is_float(dtype)) {
    range.nan |= wish.allow_nan && float_format(dtype).nan;
    range.pinf |= wish.allow_inf && float_format(dtype).infinite;
    range.ninf |= wish.allow_inf && float_format(dtype).infinite;
  }
  return range;
}

void Resolver::add_columns(AbsTensor& x, ValueId id, DType dtype, const InputContract& wish) {
  if (wish.columns.empty()) return;
  if (x.rank() == 0 || x.sizes.back() < 0) fail(id, wish, "has no columns of a known number; give its shape");
  const std::int64_t size = x.sizes.back();
  std::vector<std::int64_t> at;
  for (const auto& [column, ends] : wish.columns) {
    if (column < -size || column >= size) fail(id, wish, "has no column " + std::to_string(column));
    at.push_back(column < 0 ? column + size : column);
  }
  cut_columns(x, at);
  std::size_t next = 0;
  for (const auto& [column, ends] : wish.columns) {
    x.cells[*column_cell(x, at[next++])] = between(id, dtype, ends.first, ends.second, wish);
  }
}

// Real sums of `count` floats that were normalised in their own format.
double normalisation_error(DType dtype, double count) {
  const double terms = count < 1e6 ? count : 4096;
  return std::min(0.5, 2 * (terms + 2) * unit_roundoff(dtype));
}

void Resolver::add_rows(AbsTensor& x, ValueId id, const InputContract& wish) {
  const auto axis_bit = [&](int axis) -> std::uint32_t {
    if (!x.ranked) fail(id, wish, "has an unknown number of axes; give its shape");
    const int rank = static_cast<int>(x.rank());
    if (axis < -rank || axis >= rank) fail(id, wish, "has no axis " + std::to_string(axis));
    return std::uint32_t{1} << (axis < 0 ? axis + rank : axis);
  };
  const Range hull = x.hull();
  if (wish.one_true_axis) {
    double least = hull.integer ? 1.0 : min_subnormal(x.dtype);
    if (!wish.values.empty()) least = kInf;
    for (const double value : wish.values) {
      if (value > 0) least = std::min(least, value);
    }
    if (!(hull.hi >= least)) fail(id, wish, "cannot have a true element in that range");
    Range range = {.lo = least, .hi = hull.hi, .pinf = hull.pinf, .integer = hull.integer};
    x.relations.push_back(RowBound{.axes = axis_bit(*wish.one_true_axis), .of = Of::largest, .in = range});
  }
  if (wish.one_zero_axis) {
    if (!hull.contains(0) || hull.hi > 0 || hull.pinf) fail(id, wish, "must be 0 or negative, and 0 somewhere");
    x.relations.push_back(RowBound{.axes = axis_bit(*wish.one_zero_axis), .of = Of::largest, .in = point(0)});
  }
  if (wish.sums_to_one_axis) {
    if (!is_float(x.dtype)) fail(id, wish, "cannot be normalised: it is not a float");
    if (!(hull.lo >= 0) || hull.pinf || hull.ninf || hull.nan) fail(id, wish, "must be finite and not negative");
    const std::uint32_t axes = axis_bit(*wish.sums_to_one_axis);
    const double error = normalisation_error(x.dtype, x.most_count(axes));
    x.relations.push_back(RowBound{.axes = axes, .of = Of::sum, .in = {.lo = 1 - error, .hi = 1 + error}});
  }
}

void Resolver::add_declared(ValueId id, const InputContract& wish, const Guess* guess) {
  const DType dtype = leaf_dtype(types_[id]);
  if (!is_float(dtype) && !is_int(dtype) && dtype != DType::boolean) {
    fail(id, wish, "cannot have a range: it holds no real numbers");
  }
  AbsTensor x = uniform(types_[id], declared_range(id, dtype, wish, guess));
  add_columns(x, id, dtype, wish);
  add_rows(x, id, wish);
  x.identity = id;
  result_.of[id.at()] = std::make_shared<AbsTensor>(std::move(x));
}

void Resolver::add_input(ValueId id, const std::vector<std::int64_t>& indexed) {
  const Value& value = graph_.value(id);
  const std::optional<InputContract> wish = declared(value.name, value.constant != nullptr);
  if (!wish && value.constant) return;  // a default that nobody speaks of is a weight
  const Guess guess = guess_range(value.name, types_[id], indexed[id.at()]);
  const bool has_range = wish && (wish->lo || !wish->values.empty() || wish->one_true_axis || wish->one_zero_axis ||
                                  wish->sums_to_one_axis);
  if (wish) add_declared(id, *wish, &guess);
  else result_.of[id.at()] = std::make_shared<AbsTensor>(uniform(types_[id], guess.range));
  result_.of[id.at()]->identity = id;
  const DType dtype = leaf_dtype(types_[id]);
  if (has_range || dtype == DType::string) return;
  result_.guesses.push_back({id, result_.of[id.at()]->hull(), guess.complete});
  if (guess.complete) return;
  result_.assumptions.push_back(value.name + ": assumed " + to_string(result_.of[id.at()]->hull()) + " (" + guess.why +
                                "; nothing declared, use --range " + value.name + ":[lo,hi])");
}

bool Resolver::is_initial(const Value& value) {
  return dynamic_cast<const InitialWeight*>(value.constant.get()) != nullptr;
}

// What training starts from, for a weight without trained numbers.
std::optional<Range> Resolver::initial_range(const Value& value) {
  const auto* weight = dynamic_cast<const InitialWeight*>(value.constant.get());
  if (weight == nullptr) return std::nullopt;
  const DType dtype = weight->dtype();
  Range range = any_finite(dtype);
  std::string words = "any finite value";
  if (contract_.weights != WeightMode::any) {
    const double lo = std::max(weight->support().lo, lowest_finite(dtype));
    const double hi = std::min(weight->support().hi, max_finite(dtype));
    range = from_bounds(dtype, std::min(lo, hi), std::max(lo, hi));
    words = weight->support().words;
  }
  std::pair<std::string, int>& said = initial_[words];
  if (said.second++ == 0) said.first = value.name + " " + to_string(range);
  return range;
}

void Resolver::say_initial() {
  for (const auto& [words, said] : initial_) {
    const std::string more = said.second > 1 ? " and " + std::to_string(said.second - 1) + " more variables" : "";
    result_.assumptions.push_back(said.first + more + ": " + words + " (no trained numbers in the file)");
  }
}

void Resolver::add_weights() {
  const bool trained = contract_.weights == WeightMode::trained;
  const bool speaks = std::ranges::any_of(contract_.inputs, [](const auto& i) { return !only_stars(i.pattern); });
  const auto lacks_data = [](const Value& value) { return value.constant && !value.constant->missing().empty(); };
  const bool asks_uses = !trained || std::ranges::any_of(graph_.values(), lacks_data);
  const WeightUses uses = asks_uses ? weight_uses(graph_) : WeightUses{};
  // A graph that says what its variables start from has no other weights: its constants are what they are.
  const bool varies =
      !trained && !(contract_.weights == WeightMode::initial && std::ranges::any_of(graph_.values(), is_initial));
  std::size_t varied = 0;
  for (std::size_t i = 0; i < graph_.values().size(); ++i) {
    const Value& value = graph_.values()[i];
    const ValueId id{static_cast<std::int32_t>(i)};
    if (!value.constant || result_.of[i]) continue;
    if (speaks) {
      if (const auto wish = declared(value.name, true)) {
        add_declared(id, *wish, nullptr);
        continue;
      }
    }
    std::optional<Range> range = initial_range(value);
    if (!range && varies) range = weight_range(*value.constant, contract_.weights, uses[i]);
    if (range && !is_initial(value)) ++varied;
    if (!range && lacks_data(value)) {
      range = any_finite(value.constant->dtype());
      if (uses[i].variance) range->lo = 0;
      result_.missing.push_back(id);
    }
    if (!range) continue;
    result_.of[i] = std::make_shared<AbsTensor>(uniform(types_[id], *range));
    result_.of[i]->identity = id;
  }
  say_initial();
  if (trained || varied == 0) return;
  const std::string how = contract_.weights == WeightMode::initial ? "widened by the width of their own values"
                                                                   : "taken to be any finite value";
  result_.assumptions.push_back(std::to_string(varied) + " weight" + (varied == 1 ? "" : "s") + ": " + how +
                                " (--weights " + std::string(name(contract_.weights)) + ")");
}

// Ranges of sums and means rest on this: see kManyElements.
void Resolver::add_sizes() {
  for (const ValueId id : graph_.main().inputs) {
    const Type& type = types_[id];
    if (!type.is_tensor() || type.dims()) continue;
    result_.assumptions.push_back("sizes: sums and means over one that is not known are assumed to have 1 to " +
                                  std::to_string(static_cast<std::int64_t>(kManyElements)) + " elements (" +
                                  graph_.value(id).name + " is " + to_string(graph_, type) + "; use --shape)");
    return;
  }
}

void Resolver::note_unused() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < used_.size(); ++i) {
    const InputContract& input = contract_.inputs[i];
    if (used_[i] || input.may_match_nothing || only_stars(input.pattern)) continue;
    if (names.empty()) names = declarable_names(graph_);
    const bool glob = is_glob(input.pattern);
    result_.unmatched.push_back({input.origin, input.pattern,
                                 "the model has no input or weight " + std::string(glob ? "matching '" : "named '") +
                                     input.pattern + "'" + did_you_mean(input.pattern, names)});
  }
}

Premises Resolver::run() {
  const std::vector<std::int64_t> indexed = indexed_sizes(graph_, types_);
  for (const ValueId id : graph_.main().inputs) add_input(id, indexed);
  add_sizes();
  add_weights();
  note_unused();
  add_orders(graph_, types_, contract_.orders, result_);
  for (const std::shared_ptr<AbsTensor>& x : result_.of) {
    if (x && x->cells.size() > max_cells_) simplify(*x, max_cells_);
  }
  return std::move(result_);
}

}  // namespace

Premises premises(const Graph& graph, const Types& types, const Contract& contract, std::size_t max_cells) {
  return Resolver(graph, types, contract, max_cells).run();
}

}  // namespace finity

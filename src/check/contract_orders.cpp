#include "check/contract_orders.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/suggest.h"

namespace finity {

namespace {

// "boxes[2]" when there is an input boxes; a name in full goes first.
struct Side {
  ValueId value = {};
  std::optional<std::int64_t> column = {};
};

ValueId find_input(const Graph& graph, std::string_view name) {
  for (const ValueId id : graph.main().inputs) {
    if (graph.value(id).name == name) return id;
  }
  return {};
}

Side parse_side(const Graph& graph, const std::string& text, const std::string& origin) {
  Side side{.value = find_input(graph, text)};
  if (side.value.valid()) return side;
  const std::size_t open = text.rfind('[');
  if (open != std::string::npos && text.ends_with(']')) {
    side.value = find_input(graph, std::string_view(text).substr(0, open));
    std::int64_t column = 0;
    const char* const last = text.data() + text.size() - 1;
    const auto [end, error] = std::from_chars(text.data() + open + 1, last, column);
    if (error != std::errc() || end != last) throw Error(origin + ": '" + text + "' has no column number in [ ]");
    side.column = column;
  }
  return side;
}

// Does the model have the input of that side?
bool is_there(const Graph& graph, const Side& side, const std::string& text, const std::string& origin,
              Premises& premises) {
  if (side.value.valid()) return true;
  std::vector<std::string> names;
  for (const ValueId id : graph.main().inputs) names.push_back(graph.value(id).name);
  const std::string name = text.substr(0, text.rfind('['));
  premises.unmatched.push_back(
      {origin, name, "the model has no input named '" + name + "'" + did_you_mean(name, names)});
  return false;
}

std::int64_t column_of(const Graph& graph, const AbsTensor& x, const Side& side, const std::string& origin) {
  const std::int64_t size = x.rank() == 0 ? -1 : x.sizes.back();
  const std::string& name = graph.value(side.value).name;
  if (size < 0) throw Error(origin + ": " + name + " has no columns of a known number; give its shape");
  if (*side.column < -size || *side.column >= size) {
    throw Error(origin + ": " + name + " has no column " + std::to_string(*side.column));
  }
  return *side.column < 0 ? *side.column + size : *side.column;
}

// Ranges of two elements of which one is at least the other.
void tighten(Range& greater, Range& smaller, const std::string& origin) {
  if (greater.nan || smaller.nan) throw Error(origin + ": NaN cannot be ordered");
  Range above{.lo = smaller.lo, .hi = kInf, .pinf = true};
  if (smaller.ninf) above = {.lo = -kInf, .hi = kInf, .pinf = true, .ninf = true};
  Range below{.lo = -kInf, .hi = greater.hi, .ninf = true};
  if (greater.pinf) below = {.lo = -kInf, .hi = kInf, .pinf = true, .ninf = true};
  greater = meet(greater, above);
  smaller = meet(smaller, below);
  if (greater.is_empty() || smaller.is_empty()) throw Error(origin + ": the ranges leave no values with that order");
}

void order_columns(const Graph& graph, const Side& greater, const Side& smaller, const std::string& origin,
                   Premises& premises) {
  AbsTensor& x = *premises.of[greater.value.at()];
  const std::int64_t above = column_of(graph, x, greater, origin);
  const std::int64_t below = column_of(graph, x, smaller, origin);
  if (above == below) throw Error(origin + ": a column is compared with itself");
  cut_columns(x, {above, below});
  tighten(x.cells[*column_cell(x, above)], x.cells[*column_cell(x, below)], origin);
  premises.column_orders.push_back({greater.value, above, below});
}

bool may_be_equal(const Type& a, const Type& b) {
  if (!a.ranked || !b.ranked) return true;
  if (a.shape.size() != b.shape.size()) return false;
  for (std::size_t i = 0; i < a.shape.size(); ++i) {
    if (a.shape[i].known() && b.shape[i].known() && a.shape[i].size != b.shape[i].size) return false;
  }
  return true;
}

void order_inputs(const Types& types, ValueId greater, ValueId smaller, const std::string& origin, Premises& premises) {
  if (greater == smaller) throw Error(origin + ": an input is compared with itself");
  if (!may_be_equal(types[greater], types[smaller]) || types[greater].dtype != types[smaller].dtype) {
    throw Error(origin + ": only inputs of the same dtype and shape can be compared");
  }
  AbsTensor& above = *premises.of[greater.at()];
  AbsTensor& below = *premises.of[smaller.at()];
  above.relations.push_back(AggregateBound{.source = {smaller}, .of = Of::largest, .order = Order::at_least});
  below.relations.push_back(AggregateBound{.source = {greater}, .of = Of::smallest, .order = Order::at_most});
  if (!above.cut() && !below.cut()) tighten(above.cells[0], below.cells[0], origin);
}

}  // namespace

void cut_columns(AbsTensor& x, const std::vector<std::int64_t>& columns) {
  const std::int64_t size = x.sizes.back();
  if (x.cuts.empty()) x.cuts.resize(x.rank());
  const AbsTensor before = x;
  Cuts& cuts = x.cuts.back();
  for (const std::int64_t column : columns) {
    if (column > 0) cuts.push_back(column);
    if (column + 1 < size) cuts.push_back(column + 1);
  }
  std::ranges::sort(cuts);
  cuts.erase(std::unique(cuts.begin(), cuts.end()), cuts.end());
  const std::size_t axis = x.rank() - 1;
  x.cells.clear();
  for (std::size_t block = 0; block < x.blocks(axis); ++block) {
    const Cuts& old = before.cuts.back();
    const auto within = std::ranges::upper_bound(old, x.block_start(axis, block)) - old.begin();
    x.cells.push_back(before.cells[static_cast<std::size_t>(within)]);
  }
}

std::optional<std::size_t> column_cell(const AbsTensor& x, std::int64_t column) {
  if (x.rank() == 0) return std::nullopt;
  const std::size_t axis = x.rank() - 1;
  if (x.cells.size() != x.blocks(axis)) return std::nullopt;
  for (std::size_t block = 0; block < x.blocks(axis); ++block) {
    if (x.block_start(axis, block) == column && x.block_length(axis, block) == 1) return block;
  }
  return std::nullopt;
}

void add_orders(const Graph& graph, const Types& types, std::span<const OrderContract> orders, Premises& premises) {
  for (const OrderContract& order : orders) {
    const Side greater = parse_side(graph, order.greater, order.origin);
    const Side smaller = parse_side(graph, order.smaller, order.origin);
    const bool first = is_there(graph, greater, order.greater, order.origin, premises);
    const bool second = is_there(graph, smaller, order.smaller, order.origin, premises);
    if (!first || !second) continue;
    for (const Side& side : {greater, smaller}) {
      if (!premises.of[side.value.at()] || !types[side.value].is_tensor()) {
        throw Error(order.origin + ": " + graph.value(side.value).name + " is not an input that varies");
      }
    }
    if (greater.column && smaller.column && greater.value == smaller.value) {
      order_columns(graph, greater, smaller, order.origin, premises);
    } else if (!greater.column && !smaller.column) {
      order_inputs(types, greater.value, smaller.value, order.origin, premises);
    } else {
      throw Error(order.origin + ": a relation is between two inputs, or between two columns of one input");
    }
  }
}

void apply_orders(const Premises& premises, ValueId id, AbsTensor& x, Symbols& symbols) {
  std::vector<ColumnOrder> open;
  for (const ColumnOrder& order : premises.column_orders) {
    if (order.value == id) open.push_back(order);
  }
  if (open.empty() || x.first_symbol < 0 || !x.forms.empty()) return;
  std::vector<Form> forms;
  for (std::size_t i = 0; i < x.cells.size(); ++i) {
    forms.push_back(symbol_form(x.first_symbol + static_cast<Sym>(i)));
  }
  // A column is expressed once, by one that is not waiting to be expressed itself. Circles stay as they are.
  const auto waits = [&](const ColumnOrder& order) {
    return std::ranges::any_of(open, [&](const ColumnOrder& other) { return other.greater == order.smaller; });
  };
  for (;;) {
    const auto next = std::ranges::find_if_not(open, waits);
    if (next == open.end()) break;
    const ColumnOrder order = *next;
    std::erase_if(open, [&](const ColumnOrder& other) { return other.greater == order.greater; });
    const auto above = column_cell(x, order.greater);
    const auto below = column_cell(x, order.smaller);
    if (!above || !below) continue;
    const Range& high = x.cells[*above];
    const Range& low = x.cells[*below];
    // A form speaks of finite values; beside an infinite smaller column nothing is known of the difference.
    if (!high.has_finite() || !low.has_finite() || low.ninf || low.nan || high.nan) continue;
    const bool integer = high.integer && low.integer;
    const double width = high.hi - low.lo;
    const Range difference{.lo = 0, .hi = integer ? width : std::nextafter(width, kInf), .integer = integer};
    forms[*above] = add(forms[*below], symbol_form(symbols.fresh(difference)));
  }
  x.forms = std::move(forms);
}

}  // namespace finity

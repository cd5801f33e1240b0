// Row-major reshape. Source and result axes fall into groups of equal products; a
// group's elements are one flat run, and the cells of the source are intervals of it.
#include <algorithm>
#include <optional>

#include "domain/grid.h"
#include "domain/movement.h"
#include "domain/symbol_moves.h"

namespace finity {

namespace {

// Axes [first, last) of the source against [to_first, to_last) of the result.
struct Group {
  std::size_t first = 0, last = 0;
  std::size_t to_first = 0, to_last = 0;
  bool known = true;  // all sizes are known and the products are equal
};

constexpr std::int64_t kTooMany = std::int64_t{1} << 62;

// Sizes as keys: a size, -1 for an unknown one, or a smaller number for a symbol. Equal keys but -1 are equal sizes.
std::int64_t key_of(std::int64_t size, const Dim& dim) {
  if (size >= 0) return size;
  if (dim.known()) return dim.size;
  return dim.symbol.valid() ? -2 - std::int64_t{dim.symbol.index} : -1;
}
std::int64_t size_of(std::int64_t key) { return std::max<std::int64_t>(key, -1); }

// Takes axes from both sides until the products agree; false when a size is unknown or there are no more.
template <class NextA, class NextB>
bool grow(NextA next_a, NextB next_b) {
  std::int64_t a = next_a();
  std::int64_t b = next_b();
  if (a < -1 && a == b) return true;
  while (a > 0 && b > 0 && a != b) {
    std::int64_t& product = a < b ? a : b;
    const std::int64_t size = a < b ? next_a() : next_b();
    if (size <= 0 || product > kTooMany / size) return false;
    product *= size;
  }
  return a > 0 && a == b;
}

// Groups found from the front while sizes are known.
void group_front(const Dims& from, const Dims& to, Group& rest, std::vector<Group>& groups) {
  while (rest.first < rest.last && rest.to_first < rest.to_last) {
    Group group{rest.first, rest.first, rest.to_first, rest.to_first};
    const bool found = grow([&] { return group.last < rest.last ? from[group.last++] : std::int64_t{-1}; },
                            [&] { return group.to_last < rest.to_last ? to[group.to_last++] : std::int64_t{-1}; });
    if (!found) return;
    rest.first = group.last;
    rest.to_first = group.to_last;
    groups.push_back(group);
  }
}

void group_back(const Dims& from, const Dims& to, Group& rest, std::vector<Group>& groups) {
  while (rest.first < rest.last && rest.to_first < rest.to_last) {
    Group group{rest.last, rest.last, rest.to_last, rest.to_last};
    const bool found = grow([&] { return group.first > rest.first ? from[--group.first] : std::int64_t{-1}; },
                            [&] { return group.to_first > rest.to_first ? to[--group.to_first] : std::int64_t{-1}; });
    if (!found) return;
    rest.last = group.first;
    rest.to_last = group.to_first;
    groups.push_back(group);
  }
}

// Positions of the axes whose size is not 1, and their sizes.
struct LongAxes {
  std::vector<std::size_t> axes;
  Dims sizes;
};

LongAxes long_axes(const Dims& sizes) {
  LongAxes result;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 1) continue;
    result.axes.push_back(i);
    result.sizes.push_back(sizes[i]);
  }
  return result;
}

std::vector<Group> groups_of(const Dims& from, const Dims& to) {
  std::vector<Group> groups;
  Group rest{0, from.size(), 0, to.size()};
  group_front(from, to, rest, groups);
  group_back(from, to, rest, groups);
  if (rest.first < rest.last || rest.to_first < rest.to_last) {
    rest.known = rest.last - rest.first == 1 && rest.to_last - rest.to_first == 1;
    groups.push_back(rest);
  }
  std::ranges::sort(groups, {}, [](const Group& group) { return std::pair(group.first, group.to_first); });
  return groups;
}

bool cut_between(const AbsTensor& x, std::size_t first, std::size_t last) {
  for (std::size_t axis = first; axis < last; ++axis) {
    if (x.blocks(axis) > 1) return true;
  }
  return false;
}

bool one_to_one(const Group& group) {
  return group.known && group.last - group.first == 1 && group.to_last - group.to_first == 1;
}

// A stretch of a group's flat positions that lies in one cell of the source.
struct Run {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::vector<std::size_t> place;  // blocks of the group's source axes
};

// Without the cuts that would make too many runs: those of the inner axes.
AbsTensor few_runs(const AbsTensor& x, const Group& group) {
  constexpr double kMostRuns = 1024;
  AbsTensor result = x;
  for (;;) {
    double runs = 1;
    std::size_t innermost = group.last;
    for (std::size_t axis = group.first; axis < group.last; ++axis) {
      if (result.blocks(axis) > 1) innermost = axis;
    }
    if (innermost == group.last) return result;
    for (std::size_t axis = group.first; axis < innermost; ++axis) runs *= static_cast<double>(result.sizes[axis]);
    runs *= static_cast<double>(result.blocks(innermost));
    if (runs <= kMostRuns) return result;
    result = uncut(result, innermost);
  }
}

// The parts of a run along one axis: every position on its own when inner axes are cut, else whole blocks.
void split_run(const AbsTensor& x, std::size_t axis, std::int64_t inner, bool cut_below, const Run& run,
               std::vector<Run>& parts) {
  std::int64_t begin = run.begin;
  for (std::size_t block = 0; block < x.blocks(axis); ++block) {
    const std::int64_t length = x.block_length(axis, block);
    const std::int64_t pieces = cut_below ? length : 1;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      Run part{begin, begin + length / pieces * inner, run.place};
      part.place.push_back(block);
      begin = part.end;
      parts.push_back(std::move(part));
    }
  }
}

std::vector<Run> runs_of(const AbsTensor& x, const Group& group) {
  std::int64_t inner = 1;
  for (std::size_t axis = group.first; axis < group.last; ++axis) inner *= x.sizes[axis];
  std::vector<Run> runs = {{0, inner, {}}};
  for (std::size_t axis = group.first; axis < group.last; ++axis) {
    inner /= x.sizes[axis];
    if (!cut_between(x, axis, group.last)) {
      for (Run& run : runs) run.place.push_back(0);
      continue;
    }
    std::vector<Run> parts;
    for (const Run& run : runs) split_run(x, axis, inner, cut_between(x, axis + 1, group.last), run, parts);
    runs = std::move(parts);
  }
  return runs;
}

// Cuts of the group's result axes that follow the ends of runs.
void cut_result(const std::vector<Run>& runs, const Group& group, const Dims& sizes, std::vector<Cuts>& cuts) {
  std::int64_t inner = 1;
  for (std::size_t axis = group.to_last; axis-- > group.to_first;) {
    const std::int64_t period = inner * sizes[axis];
    Cuts found;
    for (const Run& run : runs) {
      const std::int64_t at = run.begin % period;
      if (at % inner == 0 && at > 0) found.push_back(at / inner);
    }
    std::ranges::sort(found);
    found.erase(std::unique(found.begin(), found.end()), found.end());
    cuts[axis] = std::move(found);
    inner = period;
  }
}

// Does a box (per axis [begin, end)) hold one of the flat positions [begin, end)?
bool box_meets(const std::vector<std::pair<std::int64_t, std::int64_t>>& box, const Dims& sizes, std::size_t axis,
               std::int64_t begin, std::int64_t end) {
  if (begin >= end) return false;
  if (axis == box.size()) return true;
  std::int64_t inner = 1;
  for (std::size_t i = axis + 1; i < sizes.size(); ++i) inner *= sizes[i];
  const auto [low, high] = box[axis];
  const std::int64_t first = std::max(begin / inner, low);
  const std::int64_t last = std::min((end - 1) / inner, high - 1);
  for (std::int64_t at = first; at <= last; ++at) {
    const std::int64_t from = std::max<std::int64_t>(begin - at * inner, 0);
    const std::int64_t to = std::min(end - at * inner, inner);
    if (from == 0 && to == inner) return true;
    if (box_meets(box, sizes, axis + 1, from, to)) return true;
    // All positions between the first and the last one are whole: at most three steps matter.
  }
  return false;
}

// What the blocks of a group's result axes hold: the source blocks, as places within the group.
struct GroupCells {
  Group group;
  std::vector<std::size_t> counts;                                  // blocks per result axis of the group
  std::vector<std::vector<std::vector<std::size_t>>> sources = {};  // per place of the group's result axes
};

GroupCells trace(const std::vector<Run>& runs, const Group& group, const Dims& sizes, const std::vector<Cuts>& cuts) {
  GroupCells result{group, {}};
  const Dims own(sizes.begin() + static_cast<std::ptrdiff_t>(group.to_first),
                 sizes.begin() + static_cast<std::ptrdiff_t>(group.to_last));
  for (std::size_t axis = group.to_first; axis < group.to_last; ++axis) result.counts.push_back(cuts[axis].size() + 1);
  for_each_place(result.counts, [&](const std::vector<std::size_t>& place) {
    std::vector<std::pair<std::int64_t, std::int64_t>> box;
    for (std::size_t i = 0; i < place.size(); ++i) {
      const Cuts& inner = cuts[group.to_first + i];
      box.emplace_back(place[i] == 0 ? 0 : inner[place[i] - 1], place[i] < inner.size() ? inner[place[i]] : own[i]);
    }
    std::vector<std::vector<std::size_t>> sources;
    for (const Run& run : runs) {
      if (box_meets(box, own, 0, run.begin, run.end)) sources.push_back(run.place);
    }
    std::ranges::sort(sources);
    sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
    result.sources.push_back(std::move(sources));
  });
  return result;
}

// The group as it is: block i of the source axis is block i of the result axis.
GroupCells straight(const AbsTensor& x, const Group& group) {
  GroupCells result{group, std::vector<std::size_t>(group.to_last - group.to_first, 1)};
  if (!one_to_one(group)) {
    result.sources = {{std::vector<std::size_t>(group.last - group.first, 0)}};
    return result;
  }
  result.counts[0] = x.blocks(group.first);
  for (std::size_t block = 0; block < result.counts[0]; ++block) result.sources.push_back({{block}});
  return result;
}

struct Plan {
  AbsTensor source;  // with fewer cuts where they cannot be followed
  std::vector<GroupCells> groups;
  std::vector<Cuts> cuts;  // of the result's long axes
};

Plan plan_of(const AbsTensor& x, const std::vector<Group>& groups, const Dims& to) {
  Plan plan{x, {}, std::vector<Cuts>(to.size())};
  for (const Group& group : groups) {
    if (one_to_one(group)) continue;
    for (std::size_t axis = group.first; axis < group.last && !group.known; ++axis) {
      plan.source = uncut(plan.source, axis);
    }
    if (group.known) plan.source = few_runs(plan.source, group);
  }
  const std::size_t most = std::max<std::size_t>(64, 4 * x.cells.size());
  for (const Group& group : groups) {
    const bool cut_inside = cut_between(plan.source, group.first, group.last);
    if (one_to_one(group) && cut_inside) plan.cuts[group.to_first] = plan.source.cuts[group.first];
    if (one_to_one(group) || !cut_inside) {
      plan.groups.push_back(straight(plan.source, group));
      continue;
    }
    const std::vector<Run> runs = runs_of(plan.source, group);
    cut_result(runs, group, to, plan.cuts);
    // Cuts of several result axes may multiply: then only the outermost that has any is followed.
    bool kept = cell_count(plan.cuts) <= most;
    for (std::size_t axis = group.to_first; axis < group.to_last && !kept; ++axis) {
      for (std::size_t inner = axis + 1; inner < group.to_last; ++inner) plan.cuts[inner].clear();
      kept = cell_count(plan.cuts) <= most;
      if (!kept) plan.cuts[axis].clear();
    }
    plan.groups.push_back(trace(runs, group, to, plan.cuts));
  }
  return plan;
}

// All source cells of one result cell: every combination of the groups' places.
void gather(const Plan& plan, const std::vector<std::size_t>& place, std::vector<std::size_t>& cells) {
  cells = {0};
  for (const GroupCells& one : plan.groups) {
    std::size_t index = 0;
    for (std::size_t i = 0; i < one.counts.size(); ++i) index = index * one.counts[i] + place[one.group.to_first + i];
    std::vector<std::size_t> next;
    for (const std::size_t cell : cells) {
      for (const std::vector<std::size_t>& source : one.sources[index]) {
        std::size_t combined = cell;
        for (std::size_t i = 0; i < source.size(); ++i) {
          combined = combined * plan.source.blocks(one.group.first + i) + source[i];
        }
        next.push_back(combined);
      }
    }
    cells = std::move(next);
  }
}

bool all_known(const Dims& sizes) { return std::ranges::find(sizes, -1) == sizes.end(); }

bool some_zero(const Dims& sizes) { return std::ranges::find(sizes, 0) != sizes.end(); }

// Only axes of size 1 come or go: where each of the source's axes lies in the result.
std::string unit_axes_step(const LongAxes& from, const LongAxes& to, std::size_t from_rank, std::size_t to_rank) {
  std::vector<std::int64_t> target(from_rank, -1);
  for (std::size_t i = 0; i < from.axes.size(); ++i) target[from.axes[i]] = static_cast<std::int64_t>(to.axes[i]);
  return axes_step(target, to_rank);
}

// x without its axes of size 1. The cells are the same; forms still speak of all axes.
AbsTensor narrowed(const AbsTensor& x, const LongAxes& axes) {
  AbsTensor result = x;
  result.sizes.clear();
  for (const std::int64_t key : axes.sizes) result.sizes.push_back(size_of(key));
  result.relations = {};
  if (x.cuts.empty()) return result;
  result.cuts.clear();
  for (const std::size_t axis : axes.axes) result.cuts.push_back(x.cuts[axis]);
  return result;
}

// How forms of cells move: along axes when only axes of size 1 differ, else as a reshape of the whole block.
struct FormMove {
  bool units = false;
  std::string units_step;
  const LongAxes& from;
  std::size_t from_rank = 0;

  Form operator()(const Form& form, const Dims& narrow_before, const Dims& after, Symbols& symbols) const {
    if (!form.valid || form.terms.empty()) return form;
    if (units) return moved(form, symbols, units_step);
    if (!all_known(narrow_before) || !all_known(after)) return {};
    if (element_count(narrow_before) != element_count(after)) return {};
    Dims before(from_rank, 1);
    for (std::size_t i = 0; i < from.axes.size(); ++i) before[from.axes[i]] = narrow_before[i];
    return moved(form, symbols, reshape_step(before, after));
  }
};

AbsTensor reshaped_by_groups(const AbsTensor& x, const Dims& from_keys, const Dims& to_keys, Symbols& symbols) {
  const LongAxes from = long_axes(from_keys);
  const LongAxes to = long_axes(to_keys);
  Dims sizes;
  for (const std::int64_t key : to_keys) sizes.push_back(size_of(key));
  const std::vector<Group> groups = groups_of(from.sizes, to.sizes);
  const Plan plan = plan_of(narrowed(x, from), groups, to.sizes);
  std::vector<Cuts> cuts(sizes.size());
  for (std::size_t i = 0; i < to.axes.size(); ++i) cuts[to.axes[i]] = plan.cuts[i];
  for (const Group& group : groups) {
    if (!one_to_one(group)) continue;
    std::int64_t& size = sizes[to.axes[group.to_first]];
    size = std::max(size, size_of(from.sizes[group.first]));
  }
  AbsTensor result = empty_grid(x.dtype, sizes, std::move(cuts));
  const bool units = std::ranges::all_of(groups, one_to_one);
  const FormMove move{units, units ? unit_axes_step(from, to, x.rank(), sizes.size()) : "", from, x.rank()};
  std::vector<Form> forms(result.cells.size());
  std::vector<std::size_t> sources;
  std::vector<std::size_t> narrow_place(to.axes.size());
  std::size_t cell = 0;
  for_each_place(block_counts(result), [&](const std::vector<std::size_t>& place) {
    for (std::size_t i = 0; i < to.axes.size(); ++i) narrow_place[i] = place[to.axes[i]];
    gather(plan, narrow_place, sources);
    for (const std::size_t source : sources) result.cells[cell] = join(result.cells[cell], plan.source.cells[source]);
    if (sources.size() == 1) {
      forms[cell] = move(cell_form(plan.source, sources[0]), cell_sizes(plan.source, sources[0]),
                         cell_sizes(result, cell), symbols);
    }
    ++cell;
  });
  set_forms(result, std::move(forms));
  return result;
}

// Axes of `longer` that are inserted into `shorter`, if that is all the difference. `wanted` are tried first.
std::optional<std::vector<std::size_t>> inserted_axes(const Dims& shorter, const Dims& longer, std::uint32_t wanted) {
  if (shorter.size() >= longer.size() || std::ranges::count(shorter, -1) > 1) return std::nullopt;
  const auto match = [&](std::uint32_t prefer) -> std::optional<std::vector<std::size_t>> {
    std::vector<std::size_t> axes;
    std::size_t next = 0;
    for (std::size_t axis = 0; axis < longer.size(); ++axis) {
      const bool preferred = axis < 32 && (prefer >> axis & 1U) != 0 && longer[axis] == 1;
      if (!preferred && next < shorter.size() && shorter[next] == longer[axis]) ++next;
      else if (longer[axis] == 1) axes.push_back(axis);
      else return std::nullopt;
    }
    if (next < shorter.size()) return std::nullopt;
    return axes;
  };
  const auto axes = match(wanted);
  return axes ? axes : match(0);
}

// Reduced axes that a reshape may put back or take away.
AxisBits reduced_axes(const Relations& relations) {
  AxisBits axes = 0;
  for (const Relation& relation : relations) {
    const auto* bound = std::get_if<AggregateBound>(&relation);
    const auto* product = std::get_if<ProductBound>(&relation);
    if (bound != nullptr) axes |= bound->source.axes;
    if (product != nullptr && !product->source.aligned) axes |= product->source.axes;
  }
  return axes;
}

}  // namespace

namespace {

AbsTensor reshaped_by_keys(const AbsTensor& x, const Dims& from, const Dims& to, Symbols& symbols) {
  if (from == to && std::ranges::count(from, -1) <= 1) return x;
  if (const auto axes = inserted_axes(from, to, reduced_axes(x.relations))) return unsqueezed(x, *axes, symbols);
  if (const auto axes = inserted_axes(to, from, reduced_axes(x.relations))) return squeezed(x, *axes, symbols);
  return reshaped_by_groups(x, from, to, symbols);
}

}  // namespace

AbsTensor reshaped(const AbsTensor& x, const Dims& sizes, Symbols& symbols) {
  if (!x.ranked || some_zero(x.sizes) || some_zero(sizes)) return uniform(x.dtype, sizes, x.hull());
  return reshaped_by_keys(x, x.sizes, sizes, symbols);
}

AbsTensor reshaped(const AbsTensor& x, const Shape& from, const Shape& to, Symbols& symbols) {
  Dims to_keys;
  Dims sizes;
  for (const Dim& dim : to) {
    to_keys.push_back(key_of(-1, dim));
    sizes.push_back(size_of(to_keys.back()));
  }
  if (!x.ranked || some_zero(x.sizes) || some_zero(sizes)) return uniform(x.dtype, sizes, x.hull());
  Dims from_keys = x.sizes;
  for (std::size_t i = 0; i < from.size() && from.size() == x.rank(); ++i) from_keys[i] = key_of(x.sizes[i], from[i]);
  return reshaped_by_keys(x, from_keys, to_keys, symbols);
}

AbsTensor split_axis(const AbsTensor& x, std::size_t axis, const Dims& sizes, Symbols& symbols) {
  // Every other axis corresponds to itself: symbols that no one else uses say so.
  Shape from;
  for (std::size_t i = 0; i < x.rank(); ++i) {
    from.push_back(x.sizes[i] >= 0 ? Dim::of(x.sizes[i]) : Dim{.size = -1, .symbol = {static_cast<std::int32_t>(i)}});
  }
  Shape to = from;
  to.erase(to.begin() + static_cast<std::ptrdiff_t>(axis));
  Shape inner;
  for (const std::int64_t size : sizes) inner.push_back(size >= 0 ? Dim::of(size) : Dim{});
  to.insert(to.begin() + static_cast<std::ptrdiff_t>(axis), inner.begin(), inner.end());
  return reshaped(x, from, to, symbols);
}

}  // namespace finity

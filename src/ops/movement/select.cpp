// Ops whose output size depends on the elements: which of them are kept.
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <map>
#include <numeric>
#include <optional>

#include "base/error.h"
#include "ops/movement/move_gradient.h"
#include "ops/movement/movement_rules.h"
#include "ops/shared/move_elements.h"
#include "ops/shared/shape_values.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"

namespace finity {

namespace {

// ---- Compress --------------------------------------------------------------

std::vector<std::int64_t> true_indices(const Tensor& condition) {
  const std::vector<std::int64_t> flags = elements<std::int64_t>(condition);
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] != 0) result.push_back(static_cast<std::int64_t>(i));
  }
  return result;
}

void infer_compress(InferCall& call) {
  const Tensor* condition = call.value(1);
  const auto kept = [&](const Dim& of) {
    return condition != nullptr ? Dim::of(static_cast<std::int64_t>(true_indices(*condition).size())) : some_of(of);
  };
  if (!call.has_attr("axis")) {
    call.set_shape(0, {kept(call.in(0).elements())});
  } else if (call.ranked(0)) {
    Shape result = call.shape(0);
    Dim& dim = result[normalize_axis(call.integer("axis"), result.size())];
    dim = kept(dim);
    call.set_shape(0, std::move(result));
  }
}

// The slices `indices` of an axis.
Tensor take(const Tensor& in, std::size_t axis, std::span<const std::int64_t> indices) {
  AxisOffsets offsets = plain_offsets(in.dims());
  const std::int64_t stride = strides_of(in.dims())[axis];
  offsets[axis].clear();
  for (const std::int64_t index : indices) offsets[axis].push_back(checked_index(index, in.dim(axis)) * stride);
  return pick(in, offsets);
}

void eval_compress(EvalCall& call) {
  const Tensor& in = call.in(0);
  require_rank(call.in(1), "condition", 1);
  const std::vector<std::int64_t> kept = true_indices(call.in(1));
  if (call.has_attr("axis")) call.out(0, take(in, normalize_axis(call.integer("axis"), in.rank()), kept));
  else call.out(0, take(in.reshaped({in.size()}), 0, kept));
}

void range_compress(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  if (!call.has_attr("axis") || !x.ranked) return call.out(0, x.hull());
  const std::size_t axis = normalize_axis(call.integer("axis"), x.rank());
  const auto flags = call.ints(1);
  if (!flags || x.sizes[axis] < 0) return settle(call, 0, selected(x, axis, -1, "", call.symbols()));
  std::vector<std::int64_t> kept;
  std::string text;
  for (std::size_t i = 0; i < flags->size(); ++i) {
    if ((*flags)[i] == 0) continue;
    kept.push_back(checked_index(static_cast<std::int64_t>(i), x.sizes[axis]));
    text += std::to_string(i) + ",";
  }
  settle(call, 0, gathered(x, axis, kept, text, call.max_cells(), call.symbols()));
}

// ---- NonZero ---------------------------------------------------------------

void infer_non_zero(InferCall& call) {
  const Dim rank = call.ranked(0) ? Dim::of(static_cast<std::int64_t>(call.rank(0))) : Dim{};
  call.set_shape(0, {rank, some_of(call.in(0).elements())});
}

std::vector<bool> non_zero(const Tensor& in) {
  std::vector<bool> result;
  if (in.dtype() == DType::string) {
    for (const std::string& text : in.strings()) result.push_back(!text.empty());
  } else {
    for (const auto& x : elements<std::complex<double>>(in)) result.push_back(x != std::complex<double>());
  }
  return result;
}

void eval_non_zero(EvalCall& call) {
  const Tensor& in = call.in(0);
  const std::vector<bool> found = non_zero(in);
  const auto count = static_cast<std::size_t>(std::ranges::count(found, true));
  Tensor result(DType::int64, {static_cast<std::int64_t>(in.rank()), static_cast<std::int64_t>(count)});
  const std::span<std::int64_t> to = result.mutable_data<std::int64_t>();
  std::size_t column = 0;
  std::size_t at = 0;
  for (IndexCounter counter(in.dims()); counter.valid(); counter.next()) {
    if (!found[at++]) continue;
    for (std::size_t axis = 0; axis < in.rank(); ++axis) to[axis * count + column] = counter.index()[axis];
    ++column;
  }
  call.out(0, std::move(result));
}

// Row i holds indices of axis i.
void range_non_zero(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  if (!x.ranked || x.rank() == 0) return call.out(0, positions_below(x.most_count(~std::uint32_t{0})));
  AbsTensor result = uniform(DType::int64, {static_cast<std::int64_t>(x.rank()), -1}, {});
  if (x.rank() > 1) result.cuts.resize(2);
  result.cells.clear();
  for (std::size_t axis = 0; axis < x.rank(); ++axis) {
    if (axis > 0) result.cuts[0].push_back(static_cast<std::int64_t>(axis));
    result.cells.push_back(positions_along(x, axis));
  }
  settle(call, 0, std::move(result));
}

// ---- Unique ----------------------------------------------------------------

// NaN after everything else, so that sorting is well defined.
struct Less {
  bool operator()(double a, double b) const { return std::isnan(b) ? !std::isnan(a) : a < b; }
  bool operator()(const std::complex<double>& a, const std::complex<double>& b) const {
    if ((*this)(a.real(), b.real())) return true;
    return !(*this)(b.real(), a.real()) && (*this)(a.imag(), b.imag());
  }
  template <class T>
  bool operator()(const T& a, const T& b) const {
    return a < b;
  }
};

template <class T>
std::vector<std::int64_t> ranks_of(std::span<const T> values) {
  std::map<T, std::int64_t, Less> ranks;
  for (const T& value : values) ranks.emplace(value, 0);
  std::int64_t next = 0;
  for (auto& [value, rank] : ranks) rank = next++;
  std::vector<std::int64_t> result;
  for (const T& value : values) result.push_back(ranks.find(value)->second);
  return result;
}

// For each element its place among the distinct values in order: all that Unique needs to know of a dtype.
std::vector<std::int64_t> ranks_of(const Tensor& tensor) {
  const DType dtype = tensor.dtype();
  if (dtype == DType::string) return ranks_of(tensor.strings());
  if (is_complex(dtype)) return ranks_of<std::complex<double>>(elements<std::complex<double>>(tensor));
  if (is_float(dtype)) return ranks_of<double>(elements<double>(tensor));
  if (dtype == DType::uint64) return ranks_of<std::uint64_t>(elements<std::uint64_t>(tensor));
  return ranks_of<std::int64_t>(elements<std::int64_t>(tensor));
}

struct Group {
  std::int64_t first = 0;  // slice where it occurs first
  std::int64_t count = 0;
  std::size_t place = 0;  // in the output
};

struct Groups {
  std::vector<Group> groups = {};          // in the order of the output
  std::vector<std::int64_t> inverse = {};  // slice -> group
};

// Slices of an axis with the same elements.
Groups group_slices(const Tensor& in, std::size_t axis, bool sorted) {
  const AxisView view(in.dims(), axis);
  const std::vector<std::int64_t> ranks = ranks_of(in);
  std::map<std::vector<std::int64_t>, Group> found;
  std::vector<std::map<std::vector<std::int64_t>, Group>::iterator> of_slice;
  for (std::int64_t k = 0; k < view.length; ++k) {
    std::vector<std::int64_t> key;
    for (std::int64_t o = 0; o < view.outer; ++o) {
      for (std::int64_t i = 0; i < view.inner; ++i) key.push_back(ranks[view.at(o, k, i)]);
    }
    const auto [entry, is_new] = found.try_emplace(std::move(key), Group{.first = k});
    ++entry->second.count;
    of_slice.push_back(entry);
  }
  std::vector<Group*> order;
  for (auto& [key, group] : found) order.push_back(&group);
  if (!sorted) std::ranges::sort(order, {}, [](const Group* group) { return group->first; });
  Groups result;
  for (Group* group : order) {
    group->place = result.groups.size();
    result.groups.push_back(*group);
  }
  for (const auto& entry : of_slice) result.inverse.push_back(static_cast<std::int64_t>(entry->second.place));
  return result;
}

void infer_unique(InferCall& call) {
  Dim inputs = call.ranked(0) ? product(call.shape(0)) : call.in(0).elements();
  // Of something there is at least one kind.
  const auto kinds = [](const Dim& of) {
    return Dim::between(std::min<std::int64_t>(of.least_size(), 1), of.most_size());
  };
  if (!call.has_attr("axis")) {
    call.set_shape(0, {kinds(inputs)});
  } else if (call.ranked(0)) {
    Shape result = call.shape(0);
    Dim& dim = result[normalize_axis(call.integer("axis"), result.size())];
    inputs = std::exchange(dim, kinds(dim));
    call.set_shape(0, std::move(result));
  }
  call.set_shape(1, {kinds(inputs)});
  call.set_shape(2, {inputs});
  call.set_shape(3, {kinds(inputs)});
}

void eval_unique(EvalCall& call) {
  const bool flat = !call.has_attr("axis");
  const Tensor in = flat ? call.in(0).reshaped({call.in(0).size()}) : call.in(0);
  const std::size_t axis = flat ? 0 : normalize_axis(call.integer("axis"), in.rank());
  const Groups found = group_slices(in, axis, call.integer("sorted") != 0);
  std::vector<std::int64_t> first, counts;
  for (const Group& group : found.groups) {
    first.push_back(group.first);
    counts.push_back(group.count);
  }
  call.out(0, take(in, axis, first));
  call.out(1, Tensor::vector_of(first));
  call.out(2, Tensor::vector_of(found.inverse));
  call.out(3, Tensor::vector_of(counts));
}

void range_unique(RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const bool flat = !call.has_attr("axis");
  double slices = x.most_count(~std::uint32_t{0});
  if (flat || !x.ranked) {
    call.out(0, x.hull());
  } else {
    const std::size_t axis = normalize_axis(call.integer("axis"), x.rank());
    slices = x.size_limits(axis).most;
    settle(call, 0, selected(x, axis, -1, "", call.symbols()));
  }
  const std::array<Range, 3> rest = {positions_below(slices), positions_below(slices),
                                     whole_numbers(1, std::max(1.0, slices))};
  for (std::size_t i = 1; i < call.output_count() && i <= rest.size(); ++i) {
    if (call.has_output(i)) call.out(i, rest[i - 1]);
  }
}

// ---- gradients -------------------------------------------------------------

// Each distinct value comes from where it occurs first.
void unique_gradient(BuildCall& call) {
  if (!call.wanted(0) || !call.has_grad(0)) return;
  OpCall all = call.description();
  all.outputs = Places(4);
  const ValueId first = call.writer().repeat(all, call.inputs(), call.attrs())[1];
  if (call.has_attr("axis")) {
    return call.give(0, gather_gradient(call, call.grad(0), call.in(0), first, call.integer("axis")));
  }
  const ValueId row = reshape_to(call, call.in(0), {-1});
  call.give(0, reshape_like(call, gather_gradient(call, call.grad(0), row, first, 0), call.in(0)));
}

const OpDef kOps[] = {
    {.identity = {.name = "Compress",
                  .since = 9,
                  .summary = "the slices of an axis, or the elements, where condition is true",
                  .signature = "(input: T, condition: bool) -> (output: T) where T: any",
                  .attrs = "axis: int"},
     .meaning = {.infer = infer_compress, .eval = eval_compress},
     .analysis = {.range = range_compress, .vjp = movement_gradient},
     .traits = {.exact = true, .elements = ElementSource::moved}},
    {.identity = {.name = "NonZero",
                  .since = 9,
                  .summary = "indices of the elements that are not zero, one column each",
                  .signature = "(X: any) -> (Y: int64)"},
     .meaning = {.infer = infer_non_zero, .eval = eval_non_zero},
     .analysis = {.range = range_non_zero, .vjp = flat},
     .traits = {.exact = true}},
    {.identity = {.name = "Unique",
                  .since = 11,
                  .summary = "distinct elements or slices, where they occur first and how often",
                  .signature =
                      "(X: T) -> (Y: T, indices?: int64, inverse_indices?: int64, counts?: int64) where T: any",
                  .attrs = "sorted: int = 1; axis: int"},
     .meaning = {.infer = infer_unique,
                 .eval = eval_unique,
                 .freedom = "NaNs are one value, after all others; zeros of either sign are one value"},
     .analysis = {.range = range_unique, .vjp = unique_gradient},
     .traits = {.exact = true},
     .drawing = {.ends = Ends::given}},
};

}  // namespace

std::span<const OpDef> select_ops() { return kOps; }

}  // namespace finity

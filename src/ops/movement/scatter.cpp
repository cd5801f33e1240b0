// Ops that write elements into a copy of a tensor, by index.
#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/movement/move_gradient.h"
#include "ops/movement/movement_rules.h"
#include "ops/shared/move_elements.h"
#include "ops/shared/shape_values.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

constexpr std::string_view kOrder =
    "updates are applied in row-major order, each reduction rounded to the dtype; max and min keep NaN";

template <class C>
C add(C a, C b) {
  if constexpr (std::is_same_v<C, std::int64_t>) {
    return static_cast<C>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

template <class C>
C multiply(C a, C b) {
  if constexpr (std::is_same_v<C, std::int64_t>) {
    return static_cast<C>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  } else {
    return a * b;
  }
}

template <class C>
C extreme(C a, C b, bool largest) {
  if constexpr (std::is_floating_point_v<C>) {
    if (std::isnan(a) || std::isnan(b)) return a + b;
  }
  return largest ? std::max(a, b) : std::min(a, b);
}

template <class C>
C reduce(C a, C b, std::string_view reduction) {
  if (reduction == "add") return add(a, b);
  if (reduction == "mul") return multiply(a, b);
  return extreme(a, b, reduction == "max");
}

template <class C>
C in_dtype(DType dtype, C x) {
  if constexpr (std::is_same_v<C, double>) return round_to(dtype, x);
  else if constexpr (std::is_same_v<C, std::complex<double>>) {
    return dtype == DType::complex64 ? C(static_cast<float>(x.real()), static_cast<float>(x.imag())) : x;
  } else {
    return x;  // wrapped once at the end: the same, as + and * wrap and max and min stay inside
  }
}

template <class C>
Tensor reduced(const Tensor& data, std::span<const std::int64_t> positions, const Tensor& updates,
               std::string_view reduction) {
  std::vector<C> result = elements<C>(data);
  const std::vector<C> values = elements<C>(updates);
  for (std::size_t i = 0; i < positions.size(); ++i) {
    C& target = result[static_cast<std::size_t>(positions[i])];
    if constexpr (std::is_same_v<C, std::complex<double>>) {
      if (reduction == "max" || reduction == "min") throw Error("complex numbers have no order");
      target = in_dtype(data.dtype(), reduction == "add" ? target + values[i] : target * values[i]);
    } else {
      target = in_dtype(data.dtype(), reduce(target, values[i], reduction));
    }
  }
  return from_elements<C>(data.dtype(), data.dims(), result);
}

Tensor replaced(const Tensor& data, std::span<const std::int64_t> positions, const Tensor& updates) {
  Tensor result = data;
  with_storage(data.dtype(), [&]<class S>() {
    const std::span<const S> from = stored<S>(updates);
    const std::span<S> to = mutable_stored<S>(result);
    for (std::size_t i = 0; i < positions.size(); ++i) to[static_cast<std::size_t>(positions[i])] = from[i];
  });
  return result;
}

// positions[i] says where updates[i] goes.
Tensor scattered(const Tensor& data, std::span<const std::int64_t> positions, const Tensor& updates,
                 std::string_view reduction) {
  if (data.dtype() != updates.dtype()) throw Error("data and updates have different dtypes");
  if (static_cast<std::int64_t>(positions.size()) != updates.size()) {
    throw Error("updates " + to_string(updates.dims()) + " do not match the indices");
  }
  if (reduction == "none") return replaced(data, positions, updates);
  if (data.dtype() == DType::string) throw Error("strings cannot be reduced");
  if (is_complex(data.dtype())) return reduced<std::complex<double>>(data, positions, updates, reduction);
  return with_compute_type(data.dtype(), [&]<class C>() { return reduced<C>(data, positions, updates, reduction); });
}

// data plus up to `most` updates, in any order, rounded into `accumulator` after each.
Range sum_with(DType dtype, DType accumulator, const Range& data, const Range& update, double most) {
  if (data.is_empty() || update.is_empty()) return data;
  Range result;
  if (data.has_finite() && update.has_finite()) {
    const double lo = data.lo + most * std::min(update.lo, 0.0);
    const double hi = data.hi + most * std::max(update.hi, 0.0);
    const double size = data.magnitude() + most * update.magnitude();
    const double slack = is_float(dtype) ? summation_error(accumulator, most + 1) * size : 0;
    // Adding what is not negative never makes a sum smaller.
    result = from_bounds(dtype, update.lo >= 0 ? std::max(lo - slack, std::min(data.lo, 0.0)) : lo - slack,
                         update.hi <= 0 ? std::min(hi + slack, std::max(data.hi, 0.0)) : hi + slack);
    const bool carried = !is_float(dtype) || (size + slack) <= max_finite(accumulator);
    // Sums of what is not negative overflow to one side only.
    if (!carried && is_float(dtype) && data.lo >= 0 && update.lo >= 0) {
      Range above = any_finite(dtype);
      above.lo = 0;
      above.pinf = true;
      result = join(result, above);
    } else if (!carried) {
      result = join(result, top(dtype));
    }
  }
  result = join(result, data);
  result.nan |= update.nan || (data.pinf && update.ninf) || (data.ninf && update.pinf) || (update.pinf && update.ninf);
  result.pinf |= update.pinf;
  result.ninf |= update.ninf;
  return result;
}

// data times up to `most` updates. Factors of size at most 1 never make it larger.
Range product_with(DType dtype, const Range& data, const Range& update, double most) {
  constexpr double kFew = 16;
  Range result = data;
  if (data.is_empty() || update.is_empty()) return result;
  const bool shrinks = update.is_finite() && update.magnitude() <= 1 && data.has_finite();
  if (shrinks && !data.pinf && !data.ninf) {
    const double size = data.magnitude();
    const bool keeps_sign = update.lo >= 0;
    const Range all =
        from_bounds(dtype, keeps_sign ? std::min(data.lo, 0.0) : -size, keeps_sign ? std::max(data.hi, 0.0) : size);
    result = join(result, all);
    return result;
  }
  if (!(most <= kFew)) return top(dtype);
  Range product = data;
  for (int i = 0; i < static_cast<int>(most); ++i) {
    product = multiply(dtype, product, update);
    result = join(result, product);
  }
  return result;
}

Range scattered_range(const RangeCall& call, const Range& data, const Range& update, double most,
                      std::string_view reduction) {
  const DType dtype = call.out_dtype(0);
  if (reduction == "none" || update.is_empty()) return join(data, update);
  if (!is_float(dtype) && !is_int(dtype)) return top(dtype);
  const bool extreme = reduction == "max" || reduction == "min";
  if (extreme && (data.nan || update.nan) && call.may(Way::passes_over_nan)) {
    // The NaN is dropped, or what was compared with it.
    Range result = join(data, update);
    result.ninf |= reduction == "max";
    result.pinf |= reduction == "min";
    return result;
  }
  if (reduction == "max") return join(data, maximum(data, update));
  if (reduction == "min") return join(data, minimum(data, update));
  if (reduction == "mul") return product_with(dtype, data, update, most);
  // Between two updates the sum stands in the data, whatever partial sums are kept in elsewhere.
  Range result = sum_with(dtype, dtype, data, update, most);
  for (const DType accumulator : call.accumulators(dtype)) {
    result = join(result, sum_with(dtype, accumulator, data, update, most));
  }
  return result;
}

// Any element may be written to, any number of times. Rules of ScatterElements and ScatterND.
void range_scatter(RangeCall& call) {
  const AbsTensor& data = call.in(0);
  const AbsTensor& updates = call.in(2);
  const std::string reduction = call.text("reduction", "none");
  const Range update = updates.hull();
  const double most = updates.most_count(~std::uint32_t{0});
  if (most < 1) return call.same(0, 0);
  settle(call, 0, map_cells(data, data.dtype, [&](const Range& cell) {
           return scattered_range(call, cell, update, most, reduction);
         }));
}

void range_tensor_scatter(RangeCall& call) {
  const Range update = call.hull(1);
  settle(call, 0, map_cells(call.in(0), call.in(0).dtype, [&](const Range& cell) { return join(cell, update); }));
}

// ---- Scatter, ScatterElements ----------------------------------------------

void infer_scatter_elements(InferCall& call) {
  infer_same_shape(call);
  if (!call.ranked(0)) return;
  normalize_axis(call.integer("axis"), call.rank(0));
  require_rank(call, 1, call.rank(0));
  require_rank(call, 2, call.rank(0));
}

void eval_scatter_elements(EvalCall& call) {
  const Tensor& data = call.in(0);
  if (call.in(2).dims() != call.in(1).dims()) {
    throw Error("updates " + to_string(call.in(2).dims()) + " and indices " + to_string(call.in(1).dims()) +
                " have different shapes");
  }
  const auto positions = element_positions(data.dims(), call.in(1), call.integer("axis"));
  call.out(0, scattered(data, positions, call.in(2), call.text("reduction", "none")));
}

// ---- ScatterND -------------------------------------------------------------

void infer_scatter_nd(InferCall& call) {
  require_min_rank(call, 0, 1);
  require_min_rank(call, 1, 1);
  infer_same_shape(call);
}

void eval_scatter_nd(EvalCall& call) {
  const Tensor& data = call.in(0);
  const Tensor& indices = call.in(1);
  check_tuples(shape_of(indices), data.rank());
  Dims wanted(indices.dims().begin(), indices.dims().end() - 1);
  wanted.insert(wanted.end(), data.dims().begin() + indices.dims().back(), data.dims().end());
  if (call.in(2).dims() != wanted) {
    throw Error("updates have shape " + to_string(call.in(2).dims()) + ", expected " + to_string(wanted));
  }
  std::int64_t inner = 1;
  for (std::size_t i = static_cast<std::size_t>(indices.dims().back()); i < data.rank(); ++i) inner *= data.dim(i);
  std::vector<std::int64_t> positions;
  for (const std::int64_t start : tuple_positions(data.dims(), indices, 0)) {
    for (std::int64_t i = 0; i < inner; ++i) positions.push_back(start + i);
  }
  call.out(0, scattered(data, positions, call.in(2), call.text("reduction", "none")));
}

// ---- TensorScatter ---------------------------------------------------------

std::size_t sequence_axis(const Call& call, std::size_t rank) {
  const std::size_t axis = normalize_axis(call.integer("axis"), rank);
  if (axis == 0) throw Error("axis 0 is the batch, not the sequence");
  return axis;
}

void check_cache_shapes(const Shape& cache, const Shape& update, std::size_t axis) {
  if (cache.size() != update.size()) throw Error("past_cache and update have different ranks");
  for (std::size_t i = 0; i < cache.size(); ++i) {
    if (i != axis) same(cache[i], update[i], "size of axis " + std::to_string(i));
  }
  if (cache[axis].known() && cache[axis].size < update[axis].size) throw Error("update is longer than past_cache");
}

void infer_tensor_scatter(InferCall& call) {
  infer_same_shape(call);
  if (!call.ranked(0)) return;
  const std::size_t axis = sequence_axis(call, call.rank(0));
  if (call.ranked(1)) check_cache_shapes(call.shape(0), call.shape(1), axis);
}

// Where the step-th update of a sequence that starts at `start` goes.
std::int64_t cache_slot(std::int64_t start, std::int64_t step, std::int64_t size, bool circular) {
  if (circular) return ((start % size + size) % size + step) % size;
  if (start >= 0 && start < size - step) return start + step;
  throw Error("write index " + std::to_string(start) + " + " + std::to_string(step) + " is outside a cache of " +
              std::to_string(size));
}

void eval_tensor_scatter(EvalCall& call) {
  const Tensor& cache = call.in(0);
  const Tensor& update = call.in(1);
  const std::size_t axis = sequence_axis(call, cache.rank());
  check_cache_shapes(shape_of(cache), shape_of(update), axis);
  std::vector<std::int64_t> starts(static_cast<std::size_t>(cache.dim(0)), 0);
  if (call.has_input(2)) {
    const std::vector<std::int64_t> given = elements<std::int64_t>(call.in(2));
    if (given.size() != starts.size()) throw Error("write_indices must have one element per batch");
    starts = given;
  }
  const bool circular = call.text("mode") == "circular";
  const std::vector<std::int64_t> strides = strides_of(cache.dims());
  std::vector<std::int64_t> positions;
  for (IndexCounter at(update.dims()); at.valid(); at.next()) {
    const std::int64_t start = starts[static_cast<std::size_t>(at.index()[0])];
    std::int64_t position = cache_slot(start, at.index()[axis], cache.dim(axis), circular) * strides[axis];
    for (std::size_t i = 0; i < cache.rank(); ++i) position += i == axis ? 0 : at.index()[i] * strides[i];
    positions.push_back(position);
  }
  call.out(0, scattered(cache, positions, update, "none"));
}

// ---- gradients -------------------------------------------------------------

// `gather` reads at the places that the op writes to.
struct ScatterGradient {
  BuildCall& call;
  std::string_view gather;
  Attrs gather_attrs;

  ValueId gathered(ValueId from) const { return call.add(gather, {from, call.in(1)}, gather_attrs); }
  ValueId scattered(ValueId data, ValueId updates) const {
    return call.writer().repeat(call.description(), {data, call.in(1), updates}, call.attrs()).front();
  }

  void replaced() const {
    if (call.wanted(0)) call.give(0, scattered(call.grad(0), call.zeros_like(call.in(2))));
    if (call.wanted(2)) call.give(2, gathered(call.grad(0)));
  }
  void added() const {
    call.give(0, call.grad(0));
    if (call.wanted(2)) call.give(2, gathered(call.grad(0)));
  }
  void multiplied() const {
    if (call.wanted(2)) throw Unsupported("the gradient of factors that share a place is not modelled");
    if (call.wanted(0)) call.give(0, call.product(call.grad(0), scattered(call.ones_like(call.in(0)), call.in(2))));
  }
  // It flows to what is the result; to the data alone when that is.
  void chosen() const {
    const ValueId zero = call.scalar(0);
    const ValueId own = call.add("Equal", {call.in(0), call.out(0)});
    call.give(0, call.add("Where", {own, call.grad(0), zero}));
    if (!call.wanted(2)) return;
    const ValueId rest = call.add("Where", {own, zero, call.grad(0)});
    const ValueId taken = call.add("Equal", {call.in(2), gathered(call.out(0))});
    call.give(2, call.add("Where", {taken, gathered(rest), zero}));
  }

  void give() const {
    const std::string reduction = call.text("reduction", "none");
    if (reduction == "none") replaced();
    else if (reduction == "add") added();
    else if (reduction == "mul") multiplied();
    else chosen();
  }
};

void scatter_elements_gradient(BuildCall& call) {
  ScatterGradient{call, "GatherElements", with_attr("axis", call.integer("axis"))}.give();
}

void scatter_nd_gradient(BuildCall& call) { ScatterGradient{call, "GatherND", {}}.give(); }

void tensor_scatter_gradient(BuildCall& call) {
  if (call.wanted(0)) {
    std::vector<ValueId> inputs = call.inputs();
    inputs[0] = call.grad(0);
    inputs[1] = call.zeros_like(call.in(1));
    call.give(0, call.writer().repeat(call.description(), std::move(inputs), call.attrs()).front());
  }
  scatter_back(call, 1, {0});
}

// ---- drawing ---------------------------------------------------------------

// No place twice: which of two updates wins is not said. Along the axis the places count up from a drawn one, round and
// round.
bool draw_scatter_elements(DrawCall& call) {
  Dims dims = call.dims();
  for (std::int64_t& size : dims) size = call.between(std::min<std::int64_t>(size, 1), size);
  const auto axis = static_cast<std::size_t>(call.axis("axis", 0));
  const auto at_least_one = [](std::int64_t size) { return std::max<std::int64_t>(size, 1); };
  const std::int64_t length = dims.empty() ? 1 : at_least_one(call.dims()[axis]),
                     along = dims.empty() ? 1 : at_least_one(dims[axis]), shift = call.between(0, length - 1);
  std::int64_t behind = 1;
  for (std::size_t i = axis + 1; i < dims.size(); ++i) behind *= at_least_one(dims[i]);
  std::vector<std::int64_t> places(static_cast<std::size_t>(element_count(dims)));
  for (std::size_t i = 0; i < places.size(); ++i)
    places[i] = (static_cast<std::int64_t>(i) / behind % along + shift) % length;
  call.add(from_elements<std::int64_t>(DType::int64, dims, places), 60);
  call.add(call.draw(call.dtype(), dims), 50);
  return true;
}

// Tuples of places along the first axes, none twice: which of two updates wins is not said.
bool draw_scatter_nd(DrawCall& call) {
  const std::int64_t along = call.rank() == 0 ? 0 : call.between(1, call.rank());
  const Dims front(call.dims().begin(), call.dims().begin() + along);
  const std::int64_t places = element_count(front);
  if (along == 0 || places == 0) return false;
  const std::int64_t count = call.between(1, std::min<std::int64_t>(places, 4)), first = call.between(0, places - 1);
  std::vector<std::int64_t> tuples(static_cast<std::size_t>(count * along));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t place = (first + i) % places;
    for (std::int64_t axis = along; axis-- > 0;) {
      const std::int64_t length = call.length(axis);
      tuples[static_cast<std::size_t>(i * along + axis)] = place % length - (call.chance(20) ? length : 0);
      place /= length;
    }
  }
  Dims slices = {count};
  slices.insert(slices.end(), call.dims().begin() + along, call.dims().end());
  call.add(from_elements<std::int64_t>(DType::int64, {count, along}, tuples), 60);
  call.add(call.draw(call.dtype(), slices), 50);
  return true;
}

const OpDef kOps[] = {
    {.identity = {.name = "Scatter",
                  .since = 9,
                  .until = 10,
                  .summary = "the old name of ScatterElements",
                  .signature = "(data: T, indices: int32 | int64, updates: T) -> (output: T) where T: any",
                  .attrs = "axis: int = 0"},
     .meaning = {.infer = infer_scatter_elements, .eval = eval_scatter_elements, .freedom = kOrder},
     .analysis = {.range = range_scatter, .vjp = scatter_elements_gradient}},
    {.identity = {.name = "ScatterElements",
                  .since = 11,
                  .summary = "data with each update written at its own place, `axis` replaced by the index",
                  .signature = "(data: T, indices: int32 | int64, updates: T) -> (output: T) where T: any",
                  .attrs =
                      "axis: int = 0; reduction: string = none {none, add, mul, max since 18, min since 18} since 16"},
     .meaning = {.infer = infer_scatter_elements, .eval = eval_scatter_elements, .freedom = kOrder},
     .analysis = {.range = range_scatter,
                  .vjp = scatter_elements_gradient,
                  .grants = {.ways = {Way::passes_over_nan}, .measured_on = kOnnxRuntime}},
     .drawing = {.operands = draw_scatter_elements}},
    {.identity = {.name = "ScatterND",
                  .since = 11,
                  .summary = "data with slices written at index tuples",
                  .signature = "(data: T, indices: int64, updates: T) -> (output: T) where T: any",
                  .attrs = "reduction: string = none {none, add, mul, max since 18, min since 18} since 16",
                  .tf = "TensorScatterUpdate"},
     .meaning = {.infer = infer_scatter_nd, .eval = eval_scatter_nd, .freedom = kOrder},
     .analysis = {.range = range_scatter,
                  .vjp = scatter_nd_gradient,
                  .grants = {.ways = {Way::passes_over_nan}, .measured_on = kOnnxRuntime}},
     .drawing = {.operands = draw_scatter_nd}},
    {.identity = {.name = "TensorScatter",
                  .since = 24,
                  .summary = "a cache with new steps written at each sequence's own position",
                  .signature = "(past_cache: T, update: T, write_indices?: int64) -> (present_cache: T) where T: any",
                  .attrs = "axis: int = -2; mode: string = linear {linear, circular}"},
     .meaning = {.infer = infer_tensor_scatter, .eval = eval_tensor_scatter},
     .analysis = {.range = range_tensor_scatter, .vjp = tensor_scatter_gradient}},
};

}  // namespace

std::span<const OpDef> scatter_ops() { return kOps; }

}  // namespace finity

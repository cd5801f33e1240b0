// Elements chosen, written and put together by their indices.
#include <algorithm>
#include <limits>

#include "formats/tensorflow/emit.h"

namespace finity::tensorflow {

namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

// ---- reading ---------------------------------------------------------------

ValueId gathered(TfCall& call, std::int64_t axis, std::int64_t batch) {
  Emit emit(call);
  const ValueId x = call.in(0), indices = call.in(1);
  if (batch == 0) return emit.gather(x, indices, axis);
  if (batch < 0) batch += call.rank(indices);
  if (axis < 0) axis += call.rank(x);
  if (axis != batch) throw Unsupported("batch_dims with another axis is not modelled");
  return emit.add("GatherND", {x, emit.unsqueeze(emit.int64(indices), {-1})}, {{"batch_dims", batch}});
}

void lower_gather(TfCall& call) {
  call.give(gathered(call, call.integer("batch_dims", 0), call.integer("batch_dims", 0)));
}

void lower_gather_v2(TfCall& call) {
  const std::int64_t axis = Emit(call).need_ints(call.in(2), "the axis").at(0);
  call.give(gathered(call, axis, call.integer("batch_dims", 0)));
}

void lower_gather_nd(TfCall& call) {
  call.give(call.add("GatherND", {call.in(0), Emit(call).int64(call.in(1))},
                     {{"batch_dims", call.integer("batch_dims", 0)}}));
}

// ---- writing ---------------------------------------------------------------

ValueId scattered(Emit& emit, ValueId into, ValueId indices, ValueId updates, std::string_view reduction) {
  return emit.add("ScatterND", {into, emit.int64(indices), updates}, {{"reduction", std::string(reduction)}});
}

void lower_scatter_nd(TfCall& call) {
  Emit emit(call);
  const ValueId zeros = emit.filled(call.in(2), 0, call.dtype_of(call.in(1)));
  call.give(scattered(emit, zeros, call.in(0), call.in(1), "add"));
}

// (tensor, indices, updates) by tuples.
template <OpName Reduction, bool kNegated = false>
void lower_tensor_scatter(TfCall& call) {
  Emit emit(call);
  const ValueId updates = kNegated ? emit.add("Neg", {call.in(2)}) : call.in(2);
  call.give(scattered(emit, call.in(0), call.in(1), updates, Reduction.letters));
}

// (ref, indices, updates) by rows.
template <OpName Reduction, bool kNegated = false>
void lower_row_scatter(TfCall& call) {
  Emit emit(call);
  const ValueId ref = call.in(0), indices = call.in(1);
  ValueId updates = kNegated ? emit.add("Neg", {call.in(2)}) : call.in(2);
  if (emit.ranked(updates) && emit.rank(updates) == 0)
    updates = emit.expand(updates, emit.concat({emit.shape(indices), emit.shape_part(ref, 1, kEnd)}, 0));
  call.give(scattered(emit, ref, emit.unsqueeze(indices, {-1}), updates, Reduction.letters));
}

// An index outside the depth, a negative one too, gives a row without the value.
void lower_one_hot(TfCall& call) {
  Emit emit(call);
  const ValueId depth = emit.scalar(emit.int64(call.in(1)));
  ValueId indices = emit.int64(call.in(0));
  if (!is_unsigned_int(call.in_type(0).dtype))
    indices = emit.where(emit.add("Less", {indices, emit.whole(0)}), depth, indices);
  const ValueId values = emit.concat({emit.vector(call.in(3)), emit.vector(call.in(2))}, 0);
  call.give(emit.add("OneHot", {indices, emit.vector(depth), values}, {{"axis", call.integer("axis", -1)}}));
}

// ---- finding ---------------------------------------------------------------

void lower_where(TfCall& call) { call.give(Emit(call).transpose(call.add("NonZero", {call.in(0)}), {1, 0})); }

// Values in order of their first appearance, where each element's value is, how often each appears.
void lower_unique(TfCall& call) {
  Emit emit(call);
  if (!emit.ranked(call.in(0)) || emit.rank(call.in(0)) != 1) throw Unsupported("a vector is expected");
  const DType wanted = call.dtype("out_idx");
  const DType index = wanted == DType::undefined ? DType::int32 : wanted;
  const bool counts = call.op().find("Counts") != std::string_view::npos;
  const std::vector<ValueId> all = call.add_all("Unique", {call.in(0)}, 4, {{"sorted", 0}});
  call.give(0, all[0]);
  call.give(1, emit.cast(all[2], index));
  if (counts) call.give(2, emit.cast(all[3], index));
}

// The elements of x that are not in y, and where they were.
void lower_list_diff(TfCall& call) {
  Emit emit(call);
  const ValueId x = call.in(0), y = call.in(1);
  const DType wanted = call.dtype("out_idx");
  const ValueId equal = emit.add("Equal", {emit.unsqueeze(x, {1}), emit.unsqueeze(y, {0})});
  const ValueId found = emit.reduce("ReduceSum", emit.cast(equal, DType::int32), {1}, false);
  const ValueId kept = emit.add("Equal", {found, emit.number(0, DType::int32)});
  call.give(0, emit.add("Compress", {x, kept}, {{"axis", 0}}));
  const ValueId at = emit.add("Compress", {emit.positions(emit.dim(x, 0)), kept}, {{"axis", 0}});
  call.give(1, emit.cast(at, wanted == DType::undefined ? DType::int32 : wanted));
}

// ---- partition and stitch --------------------------------------------------

// The axes of `index` in front of x, as one.
ValueId as_rows(Emit& emit, ValueId x, std::size_t index_rank) {
  if (index_rank == 1) return x;
  return emit.reshape(
      x, emit.concat({emit.ints({-1}), emit.shape_part(x, static_cast<std::int64_t>(index_rank), kEnd)}, 0));
}

void lower_dynamic_stitch(TfCall& call) {
  Emit emit(call);
  const std::size_t count = call.input_count() / 2;
  std::vector<ValueId> indices, data;
  for (std::size_t i = 0; i < count; ++i) {
    const ValueId index = call.in(static_cast<int>(i));
    indices.push_back(emit.vector(index));
    data.push_back(as_rows(emit, call.in(static_cast<int>(i + count)), emit.rank(index)));
  }
  call.give(emit.add("finity:Stitch", {emit.concat(indices, 0), emit.concat(data, 0)}));
}

void lower_dynamic_partition(TfCall& call) {
  Emit emit(call);
  const ValueId rows = as_rows(emit, call.in(0), emit.rank(call.in(1))), parts = emit.vector(call.in(1));
  if (call.integer("num_partitions") < static_cast<std::int64_t>(call.output_count()))
    throw Unsupported("more partitions are used than there are");
  for (std::size_t i = 0; i < call.output_count(); ++i) {
    const ValueId here = emit.add("Equal", {parts, emit.number_like(static_cast<double>(i), parts)});
    call.give(i, emit.add("Compress", {rows, here}, {{"axis", 0}}));
  }
}

// ---- segments --------------------------------------------------------------

// Rows with the same id brought together into `count` rows; what has a negative id is left out.
ValueId segments(Emit& emit, ValueId data, ValueId ids, ValueId count, std::string_view reduction, double start) {
  const ValueId rows = as_rows(emit, data, emit.rank(ids));
  const ValueId numbers = emit.int64(emit.vector(ids)), many = emit.scalar(emit.int64(count));
  const ValueId safe = emit.where(emit.add("Less", {numbers, emit.whole(0)}), many, numbers);
  const ValueId tail = emit.shape_part(data, static_cast<std::int64_t>(emit.rank(ids)), kEnd);
  const ValueId sizes = emit.concat({emit.vector(emit.sum(many, emit.whole(1))), tail}, 0);
  const ValueId into = emit.filled(sizes, start, emit.dtype(data));
  const ValueId all = scattered(emit, into, emit.unsqueeze(safe, {-1}), rows, reduction);
  return emit.add("Slice", {all, emit.ints({0}), emit.vector(many), emit.ints({0})});
}

// Sorted ids: the last one is the largest.
ValueId segment_count(Emit& emit, ValueId ids) {
  return emit.sum(emit.gather(emit.int64(ids), emit.whole(-1), 0), emit.whole(1));
}

// How many rows each segment has, shaped to divide them.
ValueId segment_sizes(Emit& emit, ValueId data, ValueId ids, ValueId count) {
  const ValueId ones = emit.filled(emit.shape(ids), 1, emit.dtype(data));
  std::vector<std::int64_t> axes;
  for (std::size_t i = 1; i + emit.rank(ids) <= emit.rank(data); ++i) axes.push_back(static_cast<std::int64_t>(i));
  return emit.unsqueeze(segments(emit, ones, ids, count, "add", 0), axes);
}

enum class Average : std::uint8_t { none, mean, root };

void give_segments(TfCall& call, ValueId data, ValueId ids, ValueId count, Average average) {
  Emit emit(call);
  ValueId sums = segments(emit, data, ids, count, "add", 0);
  if (average == Average::none) return call.give(sums);
  ValueId sizes = segment_sizes(emit, data, ids, count);
  if (average == Average::root) sizes = emit.add("Sqrt", {sizes});
  call.give(emit.add("finity:DivNoNan", {sums, sizes}));
}

template <Average kAverage>
void lower_segments(TfCall& call) {
  Emit emit(call);
  give_segments(call, call.in(0), call.in(1), segment_count(emit, call.in(1)), kAverage);
}

void lower_unsorted_sum(TfCall& call) { give_segments(call, call.in(0), call.in(1), call.in(2), Average::none); }

// What a reduction begins with: what no row reaches keeps the least, or largest, finite number.
double start_of(std::string_view reduction, DType dtype) {
  if (reduction == "mul") return 1;
  if (is_float(dtype)) return float_format(dtype).max_finite * (reduction == "max" ? -1 : 1);
  return static_cast<double>(reduction == "max" ? int_min(dtype) : int_max(dtype));
}

template <OpName Reduction>
void lower_unsorted_extreme(TfCall& call) {
  Emit emit(call);
  const double start = start_of(Reduction.letters, call.dtype_of(call.in(0)));
  call.give(segments(emit, call.in(0), call.in(1), call.in(2), Reduction.letters, start));
}

// Segments in order; those that no row belongs to are 0, or 1 as the product of nothing.
template <OpName Reduction>
void lower_segment_extreme(TfCall& call) {
  Emit emit(call);
  const ValueId data = call.in(0), ids = call.in(1), count = segment_count(emit, ids);
  const ValueId found =
      segments(emit, data, ids, count, Reduction.letters, start_of(Reduction.letters, emit.dtype(data)));
  if (std::string_view(Reduction.letters) == "mul") return call.give(found);
  const ValueId sizes = segment_sizes(emit, data, ids, count);
  const ValueId zero = emit.number_like(0, data);
  call.give(emit.where(emit.add("Greater", {sizes, zero}), found, zero));
}

// (data, indices, segment_ids): rows of data, then segments of them. With a fourth operand that is their number.
template <Average kAverage>
void lower_sparse_segments(TfCall& call) {
  Emit emit(call);
  const ValueId rows = emit.gather(call.in(0), call.in(1), 0), ids = call.in(2);
  const ValueId count = call.input_count() > 3 ? emit.int64(call.in(3)) : segment_count(emit, ids);
  give_segments(call, rows, ids, count, kAverage);
}

// (grad, indices, segment_ids, output_dim0): each row of a segment gets its share of the segment's gradient.
template <Average kAverage>
void lower_sparse_segment_grad(TfCall& call) {
  Emit emit(call);
  ValueId gradient = call.in(0);
  const ValueId ids = call.in(2);
  if (kAverage != Average::none) {
    ValueId sizes = segment_sizes(emit, gradient, ids, emit.dim(gradient, 0));
    if (kAverage == Average::root) sizes = emit.add("Sqrt", {sizes});
    gradient = emit.add("finity:DivNoNan", {gradient, sizes});
  }
  const ValueId shares = emit.gather(gradient, ids, 0);
  const ValueId shape = emit.concat({emit.vector(emit.int64(call.in(3))), emit.shape_part(gradient, 1, kEnd)}, 0);
  const ValueId zeros = emit.filled(shape, 0, call.dtype_of(gradient));
  call.give(scattered(emit, zeros, emit.unsqueeze(call.in(1), {-1}), shares, "add"));
}

constexpr Lowering kIndex[] = {
    {.op = "DynamicPartition", .lower = lower_dynamic_partition},
    {.op = "DynamicStitch", .lower = lower_dynamic_stitch},
    {.op = "Gather", .lower = lower_gather},
    {.op = "GatherNd", .lower = lower_gather_nd},
    {.op = "GatherV2", .lower = lower_gather_v2},
    {.op = "ListDiff", .lower = lower_list_diff},
    {.op = "OneHot", .lower = lower_one_hot},
    {.op = "ParallelDynamicStitch", .lower = lower_dynamic_stitch},
    {.op = "ResourceGather", .lower = lower_gather},
    {.op = "ResourceGatherNd", .lower = lower_gather_nd},
    {.op = "ResourceScatterAdd", .lower = lower_row_scatter<"add">},
    {.op = "ResourceScatterNdAdd", .lower = lower_tensor_scatter<"add">},
    {.op = "ResourceScatterNdUpdate", .lower = lower_tensor_scatter<"none">},
    {.op = "ResourceScatterSub", .lower = lower_row_scatter<"add", true>},
    {.op = "ResourceScatterUpdate", .lower = lower_row_scatter<"none">},
    {.op = "ScatterAdd", .lower = lower_row_scatter<"add">},
    {.op = "ScatterMul", .lower = lower_row_scatter<"mul">},
    {.op = "ScatterNd", .lower = lower_scatter_nd},
    {.op = "ScatterNdAdd", .lower = lower_tensor_scatter<"add">},
    {.op = "ScatterNdUpdate", .lower = lower_tensor_scatter<"none">},
    {.op = "ScatterSub", .lower = lower_row_scatter<"add", true>},
    {.op = "ScatterUpdate", .lower = lower_row_scatter<"none">},
    {.op = "SegmentMax", .lower = lower_segment_extreme<"max">},
    {.op = "SegmentMean", .lower = lower_segments<Average::mean>},
    {.op = "SegmentMin", .lower = lower_segment_extreme<"min">},
    {.op = "SegmentProd", .lower = lower_segment_extreme<"mul">},
    {.op = "SegmentSum", .lower = lower_segments<Average::none>},
    {.op = "SparseSegmentMean", .lower = lower_sparse_segments<Average::mean>},
    {.op = "SparseSegmentMeanGrad", .lower = lower_sparse_segment_grad<Average::mean>},
    {.op = "SparseSegmentMeanWithNumSegments", .lower = lower_sparse_segments<Average::mean>},
    {.op = "SparseSegmentSqrtN", .lower = lower_sparse_segments<Average::root>},
    {.op = "SparseSegmentSqrtNGrad", .lower = lower_sparse_segment_grad<Average::root>},
    {.op = "SparseSegmentSum", .lower = lower_sparse_segments<Average::none>},
    {.op = "SparseSegmentSumGrad", .lower = lower_sparse_segment_grad<Average::none>},
    {.op = "SparseSegmentSumWithNumSegments", .lower = lower_sparse_segments<Average::none>},
    {.op = "TensorScatterAdd", .lower = lower_tensor_scatter<"add">},
    {.op = "TensorScatterMax", .lower = lower_tensor_scatter<"max">},
    {.op = "TensorScatterMin", .lower = lower_tensor_scatter<"min">},
    {.op = "TensorScatterSub", .lower = lower_tensor_scatter<"add", true>},
    {.op = "TensorScatterUpdate", .lower = lower_tensor_scatter<"none">},
    {.op = "Unique", .lower = lower_unique},
    {.op = "UniqueWithCounts", .lower = lower_unique},
    {.op = "UnsortedSegmentMax", .lower = lower_unsorted_extreme<"max">},
    {.op = "UnsortedSegmentMin", .lower = lower_unsorted_extreme<"min">},
    {.op = "UnsortedSegmentProd", .lower = lower_unsorted_extreme<"mul">},
    {.op = "UnsortedSegmentSum", .lower = lower_unsorted_sum},
    {.op = "Where", .lower = lower_where},
};

}  // namespace

std::span<const Lowering> index_lowerings() { return kIndex; }

}  // namespace finity::tensorflow

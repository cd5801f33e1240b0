// Sparse tensors: TensorFlow passes them as indices [count, axes], values and a shape.
#include "formats/tensorflow/emit.h"

namespace finity::tensorflow {

namespace {

// (sparse_indices, output_shape, sparse_values, default_value): indices may also be a number or a vector of them.
void lower_sparse_to_dense(TfCall& call) {
  Emit emit(call);
  ValueId indices = emit.int64(call.in(0));
  const std::size_t rank = emit.rank(indices);
  if (rank == 0) indices = emit.unsqueeze(indices, {0, 1});
  else if (rank == 1) indices = emit.unsqueeze(indices, {1});
  const ValueId values = emit.expand(call.in(2), emit.shape_part(indices, 0, 1));
  const ValueId dense = emit.expand(call.in(3), call.in(1));
  call.give(emit.add("ScatterND", {dense, indices, values}, {{"reduction", "none"}}));
}

ValueId dense_of(Emit& emit, ValueId indices, ValueId values, ValueId shape) {
  const ValueId zeros = emit.filled(shape, 0, emit.dtype(values));
  return emit.add("ScatterND", {zeros, emit.int64(indices), values}, {{"reduction", "add"}});
}

// (a_indices, a_values, a_shape, b)
void lower_sparse_matmul(TfCall& call) {
  Emit emit(call);
  const ValueId a = dense_of(emit, call.in(0), call.in(1), call.in(2));
  const std::int64_t flip_a = call.flag("adjoint_a", false), flip_b = call.flag("adjoint_b", false);
  if (flip_a == 0 && flip_b == 0) return call.give(emit.add("MatMul", {a, call.in(3)}));
  call.give(emit.add("Gemm", {a, call.in(3)}, {{"transA", flip_a}, {"transB", flip_b}}));
}

// (a_indices, a_values, a_shape, b)
void lower_sparse_dense_add(TfCall& call) {
  call.give(call.add("ScatterND", {call.in(3), Emit(call).int64(call.in(0)), call.in(1)}, {{"reduction", "add"}}));
}

// How far apart neighbours along each axis are, row by row.
ValueId strides_of(Emit& emit, ValueId shape) {
  return emit.add("CumProd", {shape, emit.whole(0)}, {{"exclusive", 1}, {"reverse", 1}});
}

// The position of each index tuple.
ValueId flat_positions(Emit& emit, ValueId indices, ValueId shape) {
  return emit.reduce("ReduceSum", emit.product(indices, strides_of(emit, shape)), {1}, false);
}

// (input_indices, input_shape, new_shape): one new size may be -1.
void lower_sparse_reshape(TfCall& call) {
  Emit emit(call);
  const ValueId shape = emit.int64(call.in(1)), wanted = emit.int64(call.in(2));
  const ValueId total = emit.reduce_all("ReduceProd", shape);
  const ValueId open = emit.add("Less", {wanted, emit.whole(0)});
  const ValueId others = emit.reduce_all("ReduceProd", emit.where(open, emit.whole(1), wanted));
  const ValueId rest = emit.quotient(total, emit.add("Max", {others, emit.whole(1)}));
  const ValueId sizes = emit.where(open, rest, wanted);
  const ValueId at = emit.unsqueeze(flat_positions(emit, emit.int64(call.in(0)), shape), {1});
  const ValueId one = emit.whole(1);
  const ValueId steps = emit.add("Max", {strides_of(emit, sizes), one});
  call.give(0, emit.add("Mod", {emit.quotient(at, steps), emit.add("Max", {sizes, one})}));
  call.give(1, sizes);
}

// Positions that bring `keys` into rising order.
ValueId rising_order(Emit& emit, TfCall& call, ValueId keys) {
  const std::vector<ValueId> sorted = call.add_all("TopK", {keys, emit.shape(keys)}, 2, {{"axis", 0}, {"largest", 0}});
  return sorted[1];
}

// (indices, values, shape)
void lower_sparse_reorder(TfCall& call) {
  Emit emit(call);
  const ValueId order = rising_order(emit, call, flat_positions(emit, call.in(0), call.in(2)));
  call.give(0, emit.gather(call.in(0), order, 0));
  call.give(1, emit.gather(call.in(1), order, 0));
}

// (indices, values, shape, default_value): rows without an element get one with the default value, in their place.
// Results: indices, values, which rows were empty, where each element went.
void lower_fill_empty_rows(TfCall& call) {
  Emit emit(call);
  const ValueId indices = emit.int64(call.in(0)), values = call.in(1), shape = emit.int64(call.in(2));
  const ValueId rows = emit.gather(shape, emit.ints({0}), 0);
  const ValueId row_of = emit.vector(emit.slice(indices, 1, 0, 1));
  const ValueId present = emit.add(
      "ScatterElements", {emit.filled(rows, 0, DType::int64), row_of, emit.filled(emit.shape(row_of), 1, DType::int64)},
      {{"axis", 0}});
  const ValueId empty = emit.add("Equal", {present, emit.whole(0)});
  const ValueId missing = emit.transpose(emit.add("NonZero", {empty}), {1, 0});
  const ValueId others = emit.difference(emit.shape(shape), emit.ints({1}));
  const ValueId zeros = emit.filled(emit.concat({emit.shape_part(missing, 0, 1), others}, 0), 0, DType::int64);
  const ValueId all = emit.concat({indices, emit.concat({missing, zeros}, 1)}, 0);
  const ValueId fill = emit.expand(call.in(3), emit.shape_part(missing, 0, 1));
  // Rows in order, and within a row the elements as they came.
  const ValueId count = emit.dim(all, 0);
  const ValueId keys = emit.sum(emit.product(emit.vector(emit.slice(all, 1, 0, 1)), count), emit.positions(count));
  const ValueId order = rising_order(emit, call, keys);
  const ValueId places = emit.add("ScatterElements", {order, order, emit.positions(count)}, {{"axis", 0}});
  call.give(0, emit.gather(all, order, 0));
  call.give(1, emit.gather(emit.concat({values, fill}, 0), order, 0));
  call.give(2, empty);
  call.give(3, emit.add("Slice", {places, emit.ints({0}), emit.shape_part(values, 0, 1), emit.ints({0})}));
}

constexpr Lowering kSparse[] = {
    {.op = "SparseFillEmptyRows", .lower = lower_fill_empty_rows},
    {.op = "SparseReorder", .lower = lower_sparse_reorder},
    {.op = "SparseReshape", .lower = lower_sparse_reshape},
    {.op = "SparseTensorDenseAdd", .lower = lower_sparse_dense_add},
    {.op = "SparseTensorDenseMatMul", .lower = lower_sparse_matmul},
    {.op = "SparseToDense", .lower = lower_sparse_to_dense},
};

}  // namespace

std::span<const Lowering> sparse_lowerings() { return kSparse; }

}  // namespace finity::tensorflow

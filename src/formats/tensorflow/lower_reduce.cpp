// Reductions, positions of extremes, running sums, softmax and the losses made of it.
#include <string>

#include "formats/tensorflow/emit.h"

namespace finity::tensorflow {

namespace {

// ---- reductions ------------------------------------------------------------

bool keeps(const TfCall& call) { return call.flag("keep_dims", call.flag("keepdims", false)); }

// An empty list of axes reduces nothing.
ValueId reduced(TfCall& call, std::string_view op, ValueId x) {
  Emit emit(call);
  return emit.add(op, {x, emit.vector(emit.int64(call.in(1)))},
                  {{"keepdims", std::int64_t{keeps(call)}}, {"noop_with_empty_axes", 1}});
}

template <OpName Op>
void lower_reduction(TfCall& call) {
  call.give(reduced(call, Op.letters, call.in(0)));
}

// Truth as numbers: all is the smallest, any the largest.
template <OpName Op>
void lower_truth(TfCall& call) {
  const ValueId number = call.cast(call.in(0), DType::uint8);
  call.give(call.cast(reduced(call, Op.letters, number), DType::boolean));
}

void lower_euclidean_norm(TfCall& call) { call.give(reduced(call, "ReduceL2", call.in(0))); }

void lower_l2_loss(TfCall& call) {
  Emit emit(call);
  const ValueId squares = emit.reduce_all("ReduceSumSquare", call.in(0));
  call.give(emit.product(squares, emit.number_like(0.5, call.in(0))));
}

// ---- positions and order ---------------------------------------------------

template <OpName Op>
void lower_position(TfCall& call) {
  Emit emit(call);
  const std::int64_t axis = call.input_count() > 1 ? emit.need_ints(call.in(1), "the axis").at(0) : 0;
  const ValueId x = call.in(0);
  const ValueId numbers = call.dtype_of(x) == DType::boolean ? emit.cast(x, DType::uint8) : x;
  const DType wanted = call.dtype("output_type");
  const ValueId at = emit.add(Op.letters, {numbers}, {{"axis", axis}, {"keepdims", 0}});
  call.give(emit.cast(at, wanted == DType::undefined ? DType::int64 : wanted));
}

void lower_top_k(TfCall& call) {
  Emit emit(call);
  const ValueId k = call.input_count() > 1 ? emit.vector(emit.int64(call.in(1))) : emit.ints({call.integer("k")});
  const std::vector<ValueId> both = call.add_all("TopK", {call.in(0), k}, 2, {{"axis", -1}});
  call.give(0, both[0]);
  const DType wanted = call.dtype("index_type");
  call.give(1, emit.cast(both[1], wanted == DType::undefined ? DType::int32 : wanted));
}

// True when fewer than k scores of the row are above that of the target, and it is finite.
void lower_in_top_k(TfCall& call) {
  Emit emit(call);
  const ValueId scores = call.in(0), targets = emit.unsqueeze(emit.int64(call.in(1)), {1});
  const ValueId k = call.input_count() > 2 ? emit.int64(call.in(2)) : emit.whole(call.integer("k"));
  const ValueId own = emit.add("GatherElements", {scores, targets}, {{"axis", 1}});
  const ValueId above = emit.cast(emit.add("Greater", {scores, own}), DType::int64);
  const ValueId odd = emit.add("Or", {emit.add("IsNaN", {own}), emit.add("IsInf", {own})});
  const ValueId in = emit.add("Less", {emit.reduce("ReduceSum", above, {1}, false), k});
  call.give(emit.add("And", {in, emit.add("Not", {emit.squeeze(odd, {1})})}));
}

template <OpName Op>
void lower_running(TfCall& call) {
  const std::int64_t exclusive = call.flag("exclusive", false), reverse = call.flag("reverse", false);
  call.give(call.add(Op.letters, {call.in(0), Emit(call).scalar(Emit(call).int64(call.in(1)))},
                     {{"exclusive", exclusive}, {"reverse", reverse}}));
}

// How many boundaries are at or below each element.
void lower_bucketize(TfCall& call) {
  Emit emit(call);
  const std::vector<double> boundaries = call.reals("boundaries");
  const ValueId x = emit.cast(call.in(0), DType::float64);
  ValueId count = emit.filled(emit.shape(x), 0, DType::int32);
  for (const double boundary : boundaries) {
    const ValueId reached = emit.add("GreaterOrEqual", {x, emit.number(static_cast<float>(boundary), DType::float64)});
    count = emit.sum(count, emit.cast(reached, DType::int32));
  }
  call.give(count);
}

// ---- softmax and losses ----------------------------------------------------

template <OpName Op>
void lower_rows(TfCall& call) {
  call.give(call.add(Op.letters, {call.in(0)}, {{"axis", -1}}));
}

// Logits and labels may be rows that are repeated.
void lower_cross_entropy(TfCall& call) {
  Emit emit(call);
  const ValueId logits = call.in(0), labels = call.in(1);
  const ValueId logs = emit.add("LogSoftmax", {logits}, {{"axis", -1}});
  const ValueId terms = emit.product(labels, emit.add("Neg", {logs}));
  call.give(0, emit.reduce("ReduceSum", terms, {-1}, false));
  if (call.output_count() < 2) return;
  call.give(1, emit.difference(emit.add("Softmax", {logits}, {{"axis", -1}}), labels));
}

// Labels are classes.
void lower_sparse_cross_entropy(TfCall& call) {
  Emit emit(call);
  const ValueId logits = call.in(0), classes = emit.int64(call.in(1));
  const ValueId logs = emit.add("LogSoftmax", {logits}, {{"axis", -1}});
  const ValueId own = emit.add("GatherElements", {logs, emit.unsqueeze(classes, {-1})}, {{"axis", -1}});
  call.give(0, emit.add("Neg", {emit.squeeze(own, {-1})}));
  if (call.output_count() < 2) return;
  const DType dtype = call.dtype_of(logits);
  const ValueId values =
      emit.concat({emit.unsqueeze(emit.number(0, dtype), {0}), emit.unsqueeze(emit.number(1, dtype), {0})}, 0);
  const ValueId count = emit.vector(emit.dim(logits, 1));
  const ValueId hot = emit.add("OneHot", {classes, count, values}, {{"axis", -1}});
  call.give(1, emit.difference(emit.add("Softmax", {logits}, {{"axis", -1}}), hot));
}

void lower_ctc_loss(TfCall& call) {
  if (call.flag("preprocess_collapse_repeated", false) || !call.flag("ctc_merge_repeated", true))
    throw Unsupported("other treatment of repeated labels is not modelled");
  call.give_all(call.add_all("finity:CTCLoss", call.tensors(0, 4), call.output_count() > 1 ? 2 : 1));
}

constexpr Lowering kReduce[] = {
    {.op = "All", .lower = lower_truth<"ReduceMin">},
    {.op = "Any", .lower = lower_truth<"ReduceMax">},
    {.op = "ArgMax", .lower = lower_position<"ArgMax">},
    {.op = "ArgMin", .lower = lower_position<"ArgMin">},
    {.op = "Bucketize", .lower = lower_bucketize},
    {.op = "CTCLoss", .lower = lower_ctc_loss},
    {.op = "Cumprod", .lower = lower_running<"CumProd">},
    {.op = "Cumsum", .lower = lower_running<"CumSum">},
    {.op = "EuclideanNorm", .lower = lower_euclidean_norm},
    {.op = "InTopK", .lower = lower_in_top_k},
    {.op = "InTopKV2", .lower = lower_in_top_k},
    {.op = "L2Loss", .lower = lower_l2_loss},
    {.op = "LogSoftmax", .lower = lower_rows<"LogSoftmax">},
    {.op = "Max", .lower = lower_reduction<"ReduceMax">},
    {.op = "Mean", .lower = lower_reduction<"ReduceMean">},
    {.op = "Min", .lower = lower_reduction<"ReduceMin">},
    {.op = "Prod", .lower = lower_reduction<"ReduceProd">},
    {.op = "Softmax", .lower = lower_rows<"Softmax">},
    {.op = "SoftmaxCrossEntropyWithLogits", .lower = lower_cross_entropy},
    {.op = "SparseSoftmaxCrossEntropyWithLogits", .lower = lower_sparse_cross_entropy},
    {.op = "Sum", .lower = lower_reduction<"ReduceSum">},
    {.op = "TopK", .lower = lower_top_k},
    {.op = "TopKV2", .lower = lower_top_k},
};

}  // namespace

std::span<const Lowering> reduce_lowerings() { return kReduce; }

}  // namespace finity::tensorflow

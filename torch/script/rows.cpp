// Reductions, softmax, moments and norms along axes, orders.
#include <cmath>
#include <limits>

#include "base/error.h"
#include "torch/script/call.h"
#include "torch/script/common.h"

namespace finity {

namespace {

constexpr std::int64_t kZero = 0;

// What the argument `dtype` asks for; PyTorch converts first.
ValueId converted(ScriptCall& call, ValueId x) {
  if (!call.has("dtype")) return x;
  return call.cast(x, call.element_type("dtype"));
}

template <OpName Op>
void softmax(ScriptCall& call) {
  if (call.flag("half_to_float")) throw Unsupported("changes the element type");
  call.give(
      call.add(Op.letters, {as_float(call, converted(call, call.tensor("self")))}, {{"axis", call.integer("dim")}}));
}

ValueId over_axes(ScriptCall& call, std::string_view op, ValueId x, const Ints& axes, bool keep) {
  return call.add(op, {x, axes.empty() ? ValueId{} : call.vector_of(axes)},
                  {{"keepdims", static_cast<std::int64_t>(keep)}});
}

// Without axes over all.
template <OpName Op>
void reduce(ScriptCall& call) {
  call.give(
      over_axes(call, Op.letters, converted(call, call.tensor("self")), call.ints("dim", {}), call.flag("keepdim")));
}

// Sums of integers are int64.
template <OpName Op>
void reduce_sum(ScriptCall& call) {
  ValueId x = converted(call, call.tensor("self"));
  if (!call.has("dtype") && (is_int(call.dtype(x)) || call.dtype(x) == DType::boolean)) x = call.cast(x, DType::int64);
  call.give(over_axes(call, Op.letters, x, call.ints("dim", {}), call.flag("keepdim")));
}

template <bool All>
void truth_of_all(ScriptCall& call) {
  ValueId x = call.cast(call.operand(), DType::boolean);
  if (All) x = call.add("Not", {x});
  const ValueId count =
      over_axes(call, "ReduceSum", call.cast(x, DType::int64), call.ints("dim", {}), call.flag("keepdim"));
  const ValueId some = call.add("Greater", {count, call.number_like(0, count)});
  call.give(All ? call.add("Not", {some}) : some);
}

// The largest, over all or along an axis; where it stands is a second result.
template <OpName Value, OpName Place, OpName OfTwo>
void extreme(ScriptCall& call) {
  if (call.has("other")) {
    const auto [a, b] = call.alike("self", "other");
    return call.give(call.add(OfTwo.letters, {a, b}));
  }
  reduce<Value>(call);
  if (call.results < 2) return;
  const std::int64_t keep = call.flag("keepdim") ? 1 : 0;
  call.give(call.add(Place.letters, {call.tensor("self")}, {{"axis", call.integer("dim")}, {"keepdims", keep}}));
}

template <OpName Op>
void place_of(ScriptCall& call) {
  const std::int64_t keep = call.flag("keepdim") ? 1 : 0;
  if (call.has("dim"))
    return call.give(call.add(Op.letters, {call.tensor("self")}, {{"axis", call.integer("dim")}, {"keepdims", keep}}));
  if (keep != 0) throw Unsupported("keeps axes of all elements");
  const ValueId flat = call.add("Reshape", {call.tensor("self"), call.vector_of({-1})});
  call.give(call.add(Op.letters, {flat}, {{"axis", kZero}, {"keepdims", kZero}}));
}

// The largest, and where they stand.
void top(ScriptCall& call) {
  const std::vector<ValueId> both =
      call.add_many("TopK", {call.tensor("self"), call.vector_of({call.integer("k")})},
                    {{"axis", call.integer("dim", -1)}, {"largest", std::int64_t{call.flag("largest", true)}}}, 2);
  call.give(both[0]);
  call.give(both[1]);
}

std::vector<ValueId> sorted(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const std::int64_t axis = call.integer("dim", -1);
  const ValueId size = call.add("Gather", {call.add("Shape", {x}), call.vector_of({axis})}, {{"axis", kZero}});
  return call.add_many("TopK", {x, size}, {{"axis", axis}, {"largest", std::int64_t{call.flag("descending")}}}, 2);
}

void sort(ScriptCall& call) {
  for (const ValueId result : sorted(call)) call.give(result);
}

void order(ScriptCall& call) { call.give(sorted(call)[1]); }

// ---- moments ------------------------------------------------------------------------------------------------

struct Moments {
  ValueId mean, variance;
};

// The mean of squares about the mean, over n - correction. What is divided by is never negative.
Moments moments(ScriptCall& call) {
  const ValueId x = as_float(call, call.tensor("self"));
  const Ints axes = call.ints("dim", {});
  const bool keep = call.flag("keepdim");
  const double correction = call.has("unbiased") ? (call.flag("unbiased") ? 1 : 0) : call.real("correction", 1);
  const ValueId centre = over_axes(call, "ReduceMean", x, axes, true);
  const ValueId apart = call.add("Sub", {x, centre});
  const ValueId mean = keep ? centre : over_axes(call, "ReduceMean", x, axes, false);
  const ValueId squares = call.add("Mul", {apart, apart});
  if (correction == 0) return {mean, over_axes(call, "ReduceMean", squares, axes, keep)};
  const ValueId sum = over_axes(call, "ReduceSum", squares, axes, keep);
  const ValueId count = count_along(call, x, axes, call.dtype(x));
  const ValueId left = call.add("Sub", {count, call.number_like(correction, x)});
  return {mean, call.add("Div", {sum, call.add("Max", {left, call.number_like(0, x)})})};
}

void variance(ScriptCall& call) { call.give(moments(call).variance); }
void deviation(ScriptCall& call) { call.give(call.add("Sqrt", {moments(call).variance})); }

template <bool Root>
void variance_and_mean(ScriptCall& call) {
  const Moments both = moments(call);
  call.give(Root ? call.add("Sqrt", {both.variance}) : both.variance);
  call.give(both.mean);
}

// ---- norms --------------------------------------------------------------------------------------------------

ValueId norm_of(ScriptCall& call, ValueId x, double p, const Ints& axes, bool keep) {
  if (p == 1) return over_axes(call, "ReduceL1", x, axes, keep);
  if (p == 2) return over_axes(call, "ReduceL2", x, axes, keep);
  const ValueId size = call.add("Abs", {x});
  if (std::isinf(p)) return over_axes(call, p > 0 ? "ReduceMax" : "ReduceMin", size, axes, keep);
  if (p == 0) {
    const ValueId counted = call.add("Not", {call.add("Equal", {x, call.number_like(0, x)})});
    return over_axes(call, "ReduceSum", call.cast(counted, call.dtype(x)), axes, keep);
  }
  const ValueId sum = over_axes(call, "ReduceSum", call.add("Pow", {size, call.number_like(p, x)}), axes, keep);
  return call.add("Pow", {sum, call.number_like(1 / p, x)});
}

void norm(ScriptCall& call) {
  const ValueId x = as_float(call, converted(call, call.tensor("self")));
  double p = 2;
  for (const char* name : {"ord", "p"}) {
    if (!call.has(name)) continue;
    if (call.argument(name).constant.isString()) throw Unsupported("is a norm of matrices");
    p = call.real(name, 2);
  }
  // Of a matrix as a whole; other norms of matrices are not sums over elements.
  const bool linear = call.op == "aten::linalg_norm";
  if (linear && call.has("ord") && call.ints("dim", {}).size() != 1) throw Unsupported("is a norm of matrices");
  call.give(norm_of(call, x, p, call.ints("dim", {}), call.flag("keepdim")));
}

void frobenius_norm(ScriptCall& call) {
  call.give(norm_of(call, call.tensor("self"), 2, call.ints("dim", {}), call.flag("keepdim")));
}

// ---- running sums -------------------------------------------------------------------------------------------

void cumulative_sum(ScriptCall& call) {
  ValueId x = converted(call, call.tensor("self"));
  if (!call.has("dtype") && (is_int(call.dtype(x)) || call.dtype(x) == DType::boolean)) x = call.cast(x, DType::int64);
  call.give(call.add("CumSum", {x, call.vector_of({call.integer("dim")})}));
}

constexpr ScriptLowering kEntries[] = {
    {"softmax", softmax<"Softmax">},
    {"_softmax", softmax<"Softmax">},
    {"log_softmax", softmax<"LogSoftmax">},
    {"_log_softmax", softmax<"LogSoftmax">},
    {"mean", reduce<"ReduceMean">},
    {"sum", reduce_sum<"ReduceSum">},
    {"prod", reduce_sum<"ReduceProd">},
    {"amax", reduce<"ReduceMax">},
    {"amin", reduce<"ReduceMin">},
    {"logsumexp", reduce<"ReduceLogSumExp">},
    {"special_logsumexp", reduce<"ReduceLogSumExp">},
    {"all", truth_of_all<true>},
    {"any", truth_of_all<false>},
    {"max", extreme<"ReduceMax", "ArgMax", "Max">},
    {"min", extreme<"ReduceMin", "ArgMin", "Min">},
    {"argmax", place_of<"ArgMax">},
    {"argmin", place_of<"ArgMin">},
    {"topk", top},
    {"sort", sort},
    {"argsort", order},
    {"var", variance},
    {"std", deviation},
    {"var_mean", variance_and_mean<false>},
    {"std_mean", variance_and_mean<true>},
    {"norm", norm},
    {"linalg_norm", norm},
    {"linalg_vector_norm", norm},
    {"frobenius_norm", frobenius_norm},
    {"cumsum", cumulative_sum},
};

}  // namespace

std::span<const ScriptLowering> script_rows() { return kEntries; }

}  // namespace finity

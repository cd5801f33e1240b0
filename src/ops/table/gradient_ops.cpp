// Ops that only gradients need, in finity's own domain.
#include <algorithm>

#include "base/error.h"
#include "ops/shared/delegate.h"
#include "ops/shared/shapes.h"
#include "ops/table/build_call.h"
#include "ops/table/families.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kDomain = "finity";

// ---- SumTo -----------------------------------------------------------------

void infer_sum_to(InferCall& call) {
  if (call.ranked(1)) call.set_shape(0, call.shape(1));
}

// The axes of `from` along which something of sizes `to` was repeated.
std::vector<std::int64_t> repeated_axes(const Dims& from, const Dims& to) {
  if (to.size() > from.size()) throw Error("the result has more axes than the operand");
  const std::size_t extra = from.size() - to.size();
  std::vector<std::int64_t> axes;
  for (std::size_t i = 0; i < from.size(); ++i) {
    if (i >= extra && from[i] == to[i - extra]) continue;
    if (i >= extra && to[i - extra] != 1)
      throw Error("sizes " + to_string(from) + " do not come from " + to_string(to));
    axes.push_back(static_cast<std::int64_t>(i));
  }
  return axes;
}

void eval_sum_to(EvalCall& call) {
  const Tensor& x = call.in(0);
  const Dims& like = call.in(1).dims();
  const std::vector<std::int64_t> axes = repeated_axes(x.dims(), like);
  if (axes.empty()) return call.out(0, x);
  const Dims count = {static_cast<std::int64_t>(axes.size())};
  const std::vector<Datum> sums = eval_other(call, {"ReduceSum", 18}, {},
                                             {Datum(x), Datum(from_elements<std::int64_t>(DType::int64, count, axes))});
  call.out(0, sums.front().tensor()->reshaped(like));
}

// A sum over axes of which nothing is known, perhaps none.
void range_sum_to(RangeCall& call) {
  const AbsTensor axes = uniform(Type::tensor(DType::int64), top(DType::int64));
  AbsTensor result = range_other(call, {"ReduceSum", 18}, {}, {call.in(0), axes}, call.out_type(0));
  for (Range& cell : result.cells) cell = join(cell, call.hull(0));
  result.forms.clear();
  call.out(0, std::move(result));
}

void expand_again(BuildCall& call) {
  call.give(0, call.add("Expand", {call.grad(0), call.add("Shape", {call.in(0)})}));
}

const OpDef kOps[] = {
    {.identity = {.name = "SumTo",
                  .domain = kDomain,
                  .summary = "the sum over the axes along which a tensor of the shape of `like` was repeated",
                  .signature = "(X: T, like: L) -> (Y: T) where T: float, L: any"},
     .meaning = {.infer = infer_sum_to, .eval = eval_sum_to},
     .analysis = {.range = range_sum_to, .vjp = expand_again}},
};

}  // namespace

std::span<const OpDef> gradient_ops() { return kOps; }

}  // namespace finity

#include "ops/reduce/softmax.h"

#include <cmath>

#include "ops/reduce/reduce_gradient.h"
#include "ops/reduce/softmax_attrs.h"
#include "ops/reduce/softmax_range.h"
#include "ops/shared/accumulate.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// One row of a tensor along its axis.
template <class A>
class Row {
 public:
  Row(std::vector<A>& values, const AxisView& view, std::int64_t outer, std::int64_t inner)
      : first_(values.data() + view.at(outer, 0, inner)), length_(view.length), step_(view.inner) {}

  std::int64_t length() const { return length_; }
  A& operator[](std::int64_t k) const { return first_[k * step_]; }

 private:
  A* first_;
  std::int64_t length_;
  std::int64_t step_;
};

// Calls f on every row of x's elements, held as A, and stores what it leaves there.
template <class F>
Tensor map_rows(const Tensor& x, const AxisView& view, F f) {
  if (x.empty()) return x;
  return with_float_sum_type(x.dtype(), [&]<class A>() {
    std::vector<A> values = elements<A>(x);
    for (std::int64_t o = 0; o < view.outer; ++o) {
      for (std::int64_t i = 0; i < view.inner; ++i) f(Row<A>(values, view, o, i));
    }
    return from_elements(x.dtype(), x.dims(), values);
  });
}

// The first largest element; the first NaN if there is one.
template <class A>
std::int64_t peak(const Row<A>& row) {
  std::int64_t best = 0;
  for (std::int64_t k = 0; k < row.length(); ++k) {
    if (std::isnan(row[k])) return k;
    if (row[k] > row[best]) best = k;
  }
  return best;
}

template <class A>
A rounded_exp(A x) {
  return static_cast<A>(std::exp(static_cast<double>(x)));
}

}  // namespace

Tensor softmax(const Tensor& x, const AxisView& view) {
  return map_rows(x, view, []<class A>(const Row<A>& row) {
    const A top = row[peak(row)];
    for (std::int64_t k = 0; k < row.length(); ++k) row[k] = rounded_exp<A>(row[k] - top);
    const A sum = pairwise_sum<A>(row.length(), [&](std::int64_t k) { return row[k]; });
    for (std::int64_t k = 0; k < row.length(); ++k) row[k] /= sum;
  });
}

Tensor log_softmax(const Tensor& x, const AxisView& view) {
  return map_rows(x, view, []<class A>(const Row<A>& row) {
    const A top = row[peak(row)];
    for (std::int64_t k = 0; k < row.length(); ++k) row[k] -= top;
    const A sum = pairwise_sum<A>(row.length(), [&](std::int64_t k) { return rounded_exp<A>(row[k]); });
    const A log_sum = static_cast<A>(std::log(static_cast<double>(sum)));
    for (std::int64_t k = 0; k < row.length(); ++k) row[k] -= log_sum;
  });
}

namespace {

Tensor hardmax(const Tensor& x, const AxisView& view) {
  return map_rows(x, view, []<class A>(const Row<A>& row) {
    const std::int64_t best = peak(row);
    for (std::int64_t k = 0; k < row.length(); ++k) row[k] = k == best ? A{1} : A{0};
  });
}

template <Tensor (*F)(const Tensor&, const AxisView&)>
void eval_rows(EvalCall& call) {
  const Tensor& x = call.in(0);
  const SoftmaxAttrs attrs = read_softmax(call);
  AxisView view(x.dims(), attrs.first(x.rank()));
  if (attrs.flat) {
    view.length *= view.inner;
    view.inner = 1;
  }
  call.out(0, F(x, view));
}

void infer_rows(InferCall& call) {
  if (call.ranked(0)) read_softmax(call).first(call.rank(0));  // throws when it is outside
  infer_same_shape(call);
}

constexpr std::string_view kRows = "(input: T) -> (output: T) where T: float";
constexpr std::string_view kRowsAttrs = "axis: int";

const OpDef kOps[] = {
    {.identity = {.name = "Softmax",
                  .summary = "exp(x) / sum(exp(x)) along an axis; before opset 13 over all axes from `axis` on",
                  .signature = kRows,
                  .attrs = kRowsAttrs,
                  .tf = "Softmax"},
     .meaning =
         {.infer = infer_rows,
          .eval = eval_rows<softmax>,
          .freedom =
              "shifts by the maximum; exponentials and their pairwise sum are held in float32 (float64 for float64)",
          .not_finite = NotFinite::said},
     .analysis = {.range = range_softmax, .vjp = softmax_gradient, .hazards = softmax_hazards()},
     .traits = {.approximated = true, .light = true},
     .drawing = {.often = 1}},
    {.identity = {.name = "LogSoftmax",
                  .summary = "log(softmax(x)) along an axis; before opset 13 over all axes from `axis` on",
                  .signature = kRows,
                  .attrs = kRowsAttrs,
                  .tf = "LogSoftmax"},
     .meaning = {.infer = infer_rows,
                 .eval = eval_rows<log_softmax>,
                 .freedom =
                     "computes x - max - log(sum(exp(x - max))) in float32 (float64 for float64), summing pairwise",
                 .not_finite = NotFinite::said},
     .analysis = {.range = range_log_softmax,
                  .vjp = log_softmax_gradient,
                  .hazards = softmax_hazards(),
                  .grants = {.ways = {Way::passes_over_nan}, .measured_on = kOnnxRuntime}},
     .traits = {.approximated = true, .light = true}},
    {.identity = {.name = "Hardmax",
                  .summary =
                      "1 at the first maximum along an axis, else 0; before opset 13 over all axes from `axis` on",
                  .signature = kRows,
                  .attrs = kRowsAttrs},
     .meaning = {.infer = infer_rows,
                 .eval = eval_rows<hardmax>,
                 .freedom = "a NaN counts as the maximum",
                 .not_finite = NotFinite::nan_open},
     .analysis = {.range = range_hardmax,
                  .vjp = flat,
                  .grants = {.ways = {Way::passes_over_nan}, .measured_on = kOnnxRuntime}},
     .traits = {.exact = true}},
};

}  // namespace

std::span<const OpDef> softmax_ops() { return kOps; }

}  // namespace finity

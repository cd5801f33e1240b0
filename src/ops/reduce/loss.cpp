// Losses over class labels. Scores are [N, C, d1, ..., dk], labels [N, d1, ..., dk].
#include <algorithm>
#include <optional>

#include "ops/reduce/ctc.h"
#include "ops/reduce/loss_attrs.h"
#include "ops/reduce/loss_gradient.h"
#include "ops/reduce/reduce_range.h"
#include "ops/reduce/softmax.h"
#include "ops/reduce/softmax_range.h"
#include "ops/shared/accumulate.h"
#include "ops/shared/range_groups.h"
#include "ops/shared/shapes.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// The scores' shape without the class axis.
template <class D>
std::vector<D> label_sizes(std::vector<D> scores) {
  scores.erase(scores.begin() + 1);
  return scores;
}

void check_operands(const Tensor& scores, const Tensor& labels, const Tensor* weights) {
  if (scores.rank() < 2) throw Error("scores have shape " + to_string(scores.dims()) + ", expected rank 2 or more");
  if (labels.dims() != label_sizes(scores.dims())) {
    throw Error("labels have shape " + to_string(labels.dims()) + ", expected " +
                to_string(label_sizes(scores.dims())));
  }
  if (weights != nullptr && weights->dims() != Dims{scores.dim(1)}) {
    throw Error("weights have shape " + to_string(weights->dims()) + ", expected " + to_string(Dims{scores.dim(1)}));
  }
}

// Per label: its weighted loss and its weight; both 0 where the label is ignored.
template <class A>
struct Picked {
  std::vector<A> losses;
  std::vector<A> weights;
};

template <class A>
Picked<A> pick(const Tensor& log_probs, const Tensor& labels, const Tensor* weights,
               std::optional<std::int64_t> ignored) {
  const AxisView view(log_probs.dims(), 1);
  const std::vector<A> from = elements<A>(log_probs);
  const std::vector<std::int64_t> classes = elements<std::int64_t>(labels);
  const std::vector<A> class_weights = weights == nullptr ? std::vector<A>() : elements<A>(*weights);
  Picked<A> picked{std::vector<A>(classes.size()), std::vector<A>(classes.size())};
  for (std::size_t at = 0; at < classes.size(); ++at) {
    const std::int64_t label = classes[at];
    if (label == ignored) continue;
    if (label < 0 || label >= view.length) {
      throw Error("label " + std::to_string(label) + " is outside the " + std::to_string(view.length) + " classes");
    }
    const auto outer = static_cast<std::int64_t>(at) / view.inner;
    const auto inner = static_cast<std::int64_t>(at) % view.inner;
    picked.weights[at] = weights == nullptr ? A{1} : class_weights[static_cast<std::size_t>(label)];
    picked.losses[at] = -from[view.at(outer, label, inner)] * picked.weights[at];
  }
  return picked;
}

Tensor negative_log_likelihood(const EvalCall& call, const Tensor& log_probs) {
  const Tensor& labels = call.in(1);
  const Tensor* weights = call.has_input(2) ? &call.in(2) : nullptr;
  check_operands(log_probs, labels, weights);
  const std::optional<std::int64_t> ignored = ignored_label(call);
  const LossReduction reduction = loss_reduction(call);
  return with_float_sum_type(log_probs.dtype(), [&]<class A>() {
    const Picked<A> picked = pick<A>(log_probs, labels, weights, ignored);
    if (reduction == LossReduction::none) return from_elements(log_probs.dtype(), labels.dims(), picked.losses);
    const auto total = [](const std::vector<A>& terms) {
      return pairwise_sum<A>(static_cast<std::int64_t>(terms.size()),
                             [&](std::int64_t i) { return terms[static_cast<std::size_t>(i)]; });
    };
    A loss = total(picked.losses);
    if (reduction == LossReduction::mean) loss /= total(picked.weights);
    return from_elements(log_probs.dtype(), {}, std::vector<A>{loss});
  });
}

void eval_likelihood_loss(EvalCall& call) { call.out(0, negative_log_likelihood(call, call.in(0))); }

void eval_cross_entropy_loss(EvalCall& call) {
  const Tensor& scores = call.in(0);
  if (scores.rank() < 2) throw Error("scores have shape " + to_string(scores.dims()) + ", expected rank 2 or more");
  const Tensor log_probs = log_softmax(scores, AxisView(scores.dims(), 1));
  call.out(0, negative_log_likelihood(call, log_probs));
  call.out(1, log_probs);
}

// Of two sizes that must be equal, the one that is known; throws Error when both are and differ.
Dim agreed(const Dim& a, const Dim& b, std::string_view what) {
  if (a.known() && b.known() && a.size != b.size) {
    throw Error(std::string(what) + " has sizes " + std::to_string(a.size) + " and " + std::to_string(b.size));
  }
  return a.known() || (a.symbol.valid() && !b.known()) ? a : b;
}

void infer_loss(InferCall& call) {
  require_min_rank(call, 0, 2);
  if (call.ranked(0) && call.ranked(1)) require_rank(call, 1, call.rank(0) - 1);
  require_rank(call, 2, 1);
  if (call.ranked(0)) {
    if (call.ranked(2)) agreed(call.shape(0)[1], call.shape(2)[0], "the class axis");
    call.set_shape(1, call.shape(0));
  }
  if (loss_reduction(call) != LossReduction::none) {
    call.set_shape(0, {});
    return;
  }
  if (!call.ranked(0) && !call.ranked(1)) return;
  Shape sizes = call.ranked(0) ? label_sizes(call.shape(0)) : call.shape(1);
  for (std::size_t i = 0; call.ranked(1) && i < sizes.size(); ++i) {
    sizes[i] = agreed(sizes[i], call.shape(1)[i], "an axis of the labels");
  }
  call.set_shape(0, std::move(sizes));
}

// ---- ranges ----------------------------------------------------------------

struct LossTerms {
  Range scores = {};                       // log-probabilities
  Range weights = {};                      // of labels that count
  bool may_ignore = false;                 // labels may count for nothing
  double least_weight = 1;                 // of those that are not zero
  double least = 0, most = kManyElements;  // labels
};

// Smallest weight above zero, where weights are not negative.
double least_weight(RangeCall& call, const Range& weights) {
  const double smallest = min_subnormal(call.in_dtype(2));
  if (weights.lo > 0) return weights.lo;
  const Tensor* value = call.value(2, std::int64_t{1} << 20);
  if (value == nullptr) return smallest;
  double least = weights.hi;
  for (const double weight : elements<double>(*value)) least = weight > 0 ? std::min(least, weight) : least;
  return std::max(least, smallest);
}

LossTerms loss_terms(RangeCall& call, const AbsTensor& log_probs) {
  LossTerms terms;
  terms.scores = log_probs.hull();
  terms.weights = call.has_range(2) ? call.hull(2) : point(1);
  if (call.has_range(2)) terms.least_weight = least_weight(call, terms.weights);
  if (const auto ignored = ignored_label(call)) {
    terms.may_ignore = call.hull(1).contains(static_cast<double>(*ignored));
  }
  const AbsTensor& labels = call.in(1);
  constexpr std::uint32_t kAll = ~std::uint32_t{0};
  terms.least = labels.least_count(kAll);
  terms.most = labels.most_count(kAll);
  return terms;
}

Range label_loss(const LossTerms& terms, DType carrier) {
  const Range loss = multiply(carrier, negate(carrier, terms.scores), terms.weights);
  return terms.may_ignore ? join(loss, point(0)) : loss;
}

// A mean with weights that are not negative lies among the losses, whatever the weights are.
Range weighted_mean(const LossTerms& terms, DType carrier) {
  const Range losses = negate(carrier, terms.scores);
  const double u = unit_roundoff(carrier);
  Range result;
  if (losses.has_finite()) {
    const double lost = terms.most * u < 0.25 ? 2 * (terms.most + 4) * u : terms.most * sum_growth(carrier, terms.most);
    // Products with tiny weights underflow.
    const double underflow = min_subnormal(carrier) / terms.least_weight;
    const double slack = lost * losses.magnitude() + underflow;
    // Losses of one sign have a mean of that sign.
    result = from_bounds(carrier, losses.lo >= 0 ? std::max(losses.lo - slack, 0.0) : losses.lo - slack,
                         losses.hi <= 0 ? std::min(losses.hi + slack, 0.0) : losses.hi + slack);
  }
  const bool infinite = losses.pinf || losses.ninf;
  result.pinf |= losses.pinf;
  result.ninf |= losses.ninf;
  result.nan |= losses.nan || terms.weights.nan || (losses.pinf && losses.ninf) ||
                (infinite && terms.weights.may_be_zero()) || terms.weights.pinf;
  return result;
}

Range mean_loss(const LossTerms& terms, DType dtype, DType carrier, Range& divisors) {
  Range weight = terms.weights;
  if (terms.may_ignore) weight = join(weight, point(0));
  Range divisor = group_sum(carrier, carrier, group_of(weight, terms.least, terms.most));
  divisors = join(divisors, divisor);
  divisor.nonzero = divisor.lo <= 0 && divisor.hi >= 0;
  Range result;
  if (weight.nonnegative()) {
    result = weighted_mean(terms, carrier);
    // The sums must not overflow on the way.
    const Range total = group_sum(carrier, carrier, group_of(label_loss(terms, carrier), terms.least, terms.most));
    result.pinf |= total.pinf;
    result.ninf |= total.ninf;
    result.nan |= total.nan || (divisor.pinf && (total.pinf || total.ninf));
    if (divisor.pinf) result = join(result, point(0));
  } else {
    const Range total = group_sum(carrier, carrier, group_of(label_loss(terms, carrier), terms.least, terms.most));
    result = divide(carrier, total, divisor);
  }
  if (!result.has_finite()) return result;
  Range rounded = from_bounds(dtype, result.lo, result.hi, 1);
  if (result.lo >= 0) rounded.lo = std::max(rounded.lo, 0.0);
  if (result.hi <= 0) rounded.hi = std::min(rounded.hi, 0.0);
  rounded.nan |= result.nan;
  rounded.pinf |= result.pinf;
  rounded.ninf |= result.ninf;
  return rounded;
}

void range_loss(RangeCall& call, const AbsTensor& log_probs) {
  const DType dtype = call.out_dtype(0);
  const LossTerms terms = loss_terms(call, log_probs);
  const LossReduction reduction = loss_reduction(call);
  if (terms.most == 0) {
    if (reduction == LossReduction::mean) call.site("FN306", 1, point(0), true, true);
    return call.out(0, reduction == LossReduction::sum ? point(0) : Range{});
  }
  Range divisors;
  const Range result = in_all_carriers(call, dtype, [&](DType carrier) {
    if (reduction == LossReduction::mean) return mean_loss(terms, dtype, carrier, divisors);
    const Range loss = label_loss(terms, carrier);
    if (reduction == LossReduction::sum) return group_sum(dtype, carrier, group_of(loss, terms.least, terms.most));
    return group_sum(dtype, carrier, group_of(loss, 1, 1));
  });
  // The sum of the weights must not be zero: it is where all labels are ignored.
  if (reduction == LossReduction::mean) {
    call.site("FN306", 1, divisors, divisors.may_be_zero(), divisors.is_point() && divisors.lo == 0);
  }
  call.out(0, result);
}

void range_likelihood_loss(RangeCall& call) { range_loss(call, call.in(0)); }

void range_cross_entropy_loss(RangeCall& call) {
  const AbsTensor& scores = call.in(0);
  AxisSet axes(scores.rank(), false);
  if (axes.size() > 1) axes[1] = true;
  const AbsTensor log_probs = log_softmax_range(call, scores, axes, 0);
  range_loss(call, log_probs);
  if (call.has_output(1)) call.out(1, log_probs);
}

constexpr std::string_view kLossAttrs = "ignore_index: int; reduction: string = mean {none, sum, mean}";

// The op computes it itself, if it is asked to.
void ctc_gradient(BuildCall& call) {
  if (call.has_grad(1)) throw Unsupported("the derivative of its own gradient is not known");
  const ValueId gradient =
      call.has_output(1) ? call.out(1) : call.add_all("finity:CTCLoss", call.inputs(), 2, call.attrs())[1];
  call.give(0, call.product(gradient, call.add("Unsqueeze", {call.grad(0), call.ints({0, 2})})));
}

// Labels that are classes, and weights of classes.
bool draw_loss(DrawCall& call) {
  if (call.rank() < 2 || call.channels() == 0) return false;
  Dims each = call.dims();
  each.erase(each.begin() + 1);
  std::vector<std::int64_t> labels(static_cast<std::size_t>(element_count(each)));
  for (std::int64_t& label : labels) label = call.between(0, call.channels() - 1);
  call.add(from_elements<std::int64_t>(call.chance(70) ? DType::int64 : DType::int32, each, labels), 40);
  if (call.chance(50)) call.add_floats({call.channels()}, ValueClass::positive);
  return true;
}

const OpDef kOps[] = {
    {.identity = {.name = "NegativeLogLikelihoodLoss",
                  .since = 12,
                  .summary = "minus the log-probability of the labelled class, weighted, then averaged or summed",
                  .signature = "(input: T, target: I, weight?: T) -> (loss: T) where T: float, I: int32 | int64",
                  .attrs = kLossAttrs},
     .meaning = {.infer = infer_loss,
                 .eval = eval_likelihood_loss,
                 .freedom =
                     "sums pairwise in float32 (float64 for float64) and rounds once; NaN when every label is ignored"},
     .analysis = {.range = range_likelihood_loss,
                  .vjp = likelihood_loss_gradient,
                  .hazards = likelihood_loss_hazards(),
                  .overflow = "FN205"},
     .drawing = {.operands = draw_loss}},
    {.identity =
         {.name = "SoftmaxCrossEntropyLoss",
          .since = 12,
          .summary = "minus the log-softmax of the labelled class, weighted, then averaged or summed",
          .signature =
              "(scores: T, labels: I, weights?: T) -> (output: T, log_prob?: T) where T: float, I: int32 | int64",
          .attrs = kLossAttrs,
          .tf = "SparseSoftmaxCrossEntropyWithLogits"},
     .meaning = {.infer = infer_loss,
                 .eval = eval_cross_entropy_loss,
                 .freedom = "log-probabilities are those of LogSoftmax, rounded to the dtype before the loss is taken"},
     .analysis = {.range = range_cross_entropy_loss,
                  .vjp = cross_entropy_loss_gradient,
                  .hazards = cross_entropy_loss_hazards(),
                  .overflow = "FN205"},
     .drawing = {.operands = draw_loss}},
    {.identity =
         {.name = "CTCLoss",
          .domain = "finity",
          .summary = "how unlikely labels are, whatever time each of them takes; the last class is blank",
          .signature =
              "(inputs: T, labels_indices: int64, labels_values: int32 | int64, sequence_length: int32 | int64) -> "
              "(loss: T, gradient?: T) where T: float",
          .tf = "CTCLoss"},
     .meaning = {.infer = infer_ctc_loss,
                 .eval = eval_ctc_loss,
                 .freedom = "adds logarithms in float64, in order of time"},
     .analysis = {.range = range_ctc_loss, .vjp = ctc_gradient}},
};

}  // namespace

std::span<const OpDef> loss_ops() { return kOps; }

}  // namespace finity

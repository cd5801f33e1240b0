// ai.onnx.ml: linear models.
#include <numeric>
#include <string>

#include "base/error.h"
#include "ops/extra/ml/ml_range.h"
#include "ops/extra/ml/ml_scores.h"
#include "ops/table/families.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kClassifierSignature =
    "(X: float32|float64|int32|int64) -> (Y: L, Z: float32) where L: string|int64";
constexpr std::string_view kRegressorSignature = "(X: float32|float64|int32|int64) -> (Y: float32)";
constexpr std::string_view kFreedom = "sums in order in double, rounds scores once to float32";

// ---- linear models -----------------------------------------------------------

struct LinearModel {
  std::vector<double> weights;  // [targets, columns]
  std::vector<double> intercepts;
  std::size_t targets = 0;

  LinearModel(const Call& call, std::size_t target_count)
      : weights(call.reals("coefficients")), intercepts(call.reals("intercepts")), targets(target_count) {
    if (!intercepts.empty() && intercepts.size() != targets) {
      throw Error("attribute 'intercepts' has " + std::to_string(intercepts.size()) + " values for " +
                  std::to_string(targets) + " targets");
    }
  }
  std::vector<double> scores(std::span<const double> row) const {
    if (weights.size() != targets * row.size()) {
      throw Error("attribute 'coefficients' has " + std::to_string(weights.size()) + " values for " +
                  std::to_string(targets) + " targets and " + std::to_string(row.size()) + " columns");
    }
    std::vector<double> result;
    for (std::size_t t = 0; t < targets; ++t) {
      const auto first = weights.begin() + static_cast<std::ptrdiff_t>(t * row.size());
      result.push_back(std::inner_product(row.begin(), row.end(), first, 0.0) +
                       (intercepts.empty() ? 0.0 : intercepts[t]));
    }
    return result;
  }
};

// One score for two classes is the second one's.
bool is_single_score(const Call& call, const ClassLabels& labels) {
  return labels.size() == 2 && call.reals("intercepts").size() == 1;
}

ClassLabels linear_labels(const Call& call) { return {call, "classlabels_ints", "classlabels_strings"}; }

void infer_linear_classifier(InferCall& call) {
  const ClassLabels labels = linear_labels(call);
  infer_classifier(call, labels, static_cast<std::int64_t>(labels.size()));
}

void eval_linear_classifier(EvalCall& call) {
  const ClassLabels labels = linear_labels(call);
  const bool single = is_single_score(call, labels);
  const LinearModel model(call, single ? 1 : labels.size());
  const PostTransform transform = post_transform(call);
  const FeatureRows input(call.in(0));
  std::vector<double> all;
  std::vector<std::size_t> chosen;
  for (std::int64_t r = 0; r < input.rows; ++r) {
    std::vector<double> scores = model.scores(input.row(r));
    if (model.targets == 1) {
      chosen.push_back(scores[0] > 0 ? 1 : 0);
      if (single) scores = both_scores(transform, scores[0], true);
      else apply_transform(transform, scores);
    } else {
      chosen.push_back(index_of_largest(scores));
      apply_transform(transform, scores);
    }
    all.insert(all.end(), scores.begin(), scores.end());
  }
  call.out(0, labels.select(chosen));
  call.out(1, score_tensor(input.rows, static_cast<std::int64_t>(labels.size()), all));
}

std::int64_t target_count(const Call& call) {
  const std::int64_t targets = call.integer("targets");
  if (targets < 1 || targets > static_cast<std::int64_t>(call.reals("coefficients").size())) {
    throw Error("attribute 'targets' is " + std::to_string(targets));
  }
  return targets;
}

void infer_linear_regressor(InferCall& call) { call.set_shape(0, {row_count(call), Dim::of(target_count(call))}); }

void eval_linear_regressor(EvalCall& call) {
  const std::int64_t targets = target_count(call);
  const LinearModel model(call, static_cast<std::size_t>(targets));
  const PostTransform transform = post_transform(call);
  const FeatureRows input(call.in(0));
  std::vector<double> all;
  for (std::int64_t r = 0; r < input.rows; ++r) {
    std::vector<double> scores = model.scores(input.row(r));
    apply_transform(transform, scores);
    all.insert(all.end(), scores.begin(), scores.end());
  }
  call.out(0, score_tensor(input.rows, targets, all));
}

const OpDef kOps[] = {
    {.identity =
         {.name = "LinearClassifier",
          .domain = kMlDomain,
          .summary = "the class with the largest linear score",
          .signature = kClassifierSignature,
          .attrs =
              "classlabels_ints: ints; classlabels_strings: strings; coefficients: floats; intercepts: floats; "
              "multi_class: int = 0; post_transform: string = NONE {NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT}"},
     .meaning = {.infer = infer_linear_classifier, .eval = eval_linear_classifier, .freedom = kFreedom},
     .analysis = {.range = range_linear_classifier, .overflow = "FN204"}},
    {.identity = {.name = "LinearRegressor",
                  .domain = kMlDomain,
                  .summary = "linear scores, one per target",
                  .signature = kRegressorSignature,
                  .attrs = "coefficients: floats; intercepts: floats; targets: int = 1; "
                           "post_transform: string = NONE {NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT}"},
     .meaning = {.infer = infer_linear_regressor, .eval = eval_linear_regressor, .freedom = kFreedom},
     .analysis = {.range = range_linear_regressor, .overflow = "FN204"}},
};

}  // namespace

std::span<const OpDef> ml_linear_ops() { return kOps; }

}  // namespace finity

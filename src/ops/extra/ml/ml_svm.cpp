// ai.onnx.ml: support vector machines.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "base/error.h"
#include "ops/extra/ml/ml_range.h"
#include "ops/extra/ml/ml_scores.h"
#include "ops/table/families.h"

namespace finity {

namespace {

class Kernel {
 public:
  explicit Kernel(const Call& call) : kind_(call.text("kernel_type")), params_(call.reals("kernel_params")) {
    params_.resize(3, 0.0);
  }
  double operator()(std::span<const double> a, std::span<const double> b) const {
    if (kind_ == "RBF") {
      double squares = 0.0;
      for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
      return std::exp(-params_[0] * squares);
    }
    const double dot = std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
    if (kind_ == "POLY") return std::pow(params_[0] * dot + params_[1], params_[2]);
    return kind_ == "SIGMOID" ? std::tanh(params_[0] * dot + params_[1]) : dot;
  }

 private:
  std::string kind_;
  std::vector<double> params_;  // gamma, coef0, degree
};

// The k-th of vectors of equal length that lie behind each other.
std::span<const double> nth(const std::vector<double>& values, std::size_t k, std::size_t length) {
  if ((k + 1) * length > values.size()) throw Error("support vectors and X differ in their number of columns");
  return std::span(values).subspan(k * length, length);
}

void infer_svm_regressor(InferCall& call) { call.set_shape(0, {row_count(call), Dim::of(1)}); }

double svm_value(const Call& call, const Kernel& kernel, std::span<const double> row) {
  const std::vector<double> weights = call.reals("coefficients");
  const std::vector<double> rho = call.reals("rho");
  const auto supports = static_cast<std::size_t>(std::max<std::int64_t>(0, call.integer("n_supports")));
  double sum = 0.0;
  if (supports == 0) {
    sum = std::inner_product(row.begin(), row.end(), nth(weights, 0, row.size()).begin(), 0.0);
  } else {
    const std::vector<double> vectors = call.reals("support_vectors");
    if (weights.size() < supports || vectors.size() < supports) throw Error("n_supports does not fit the coefficients");
    for (std::size_t i = 0; i < supports; ++i) sum += weights[i] * kernel(row, nth(vectors, i, row.size()));
  }
  return sum + (rho.empty() ? 0.0 : rho[0]);
}

void eval_svm_regressor(EvalCall& call) {
  const FeatureRows input(call.in(0));
  const Kernel kernel(call);
  std::vector<double> all;
  for (std::int64_t r = 0; r < input.rows; ++r) {
    double value = svm_value(call, kernel, input.row(r));
    if (call.integer("one_class") != 0) value = value > 0 ? 1.0 : -1.0;
    apply_transform(post_transform(call), std::span(&value, 1));
    all.push_back(value);
  }
  call.out(0, score_tensor(input.rows, 1, all));
}

// ---- SVMClassifier -----------------------------------------------------------

// With support vectors there is a score for each pair of classes, without there is one for each class.
struct SvmClassifier {
  ClassLabels labels;
  Kernel kernel;
  std::vector<std::int64_t> class_sizes;  // support vectors of each class, which lie behind each other
  std::vector<double> weights;            // [classes - 1, support vectors], or [classes, columns]
  std::vector<double> vectors;
  std::vector<double> rho;
  std::vector<double> prob_a;
  std::vector<double> prob_b;
  std::size_t supports = 0;

  explicit SvmClassifier(const Call& call)
      : labels(call, "classlabels_ints", "classlabels_strings"),
        kernel(call),
        class_sizes(call.integers("vectors_per_class")),
        weights(call.reals("coefficients")),
        vectors(call.reals("support_vectors")),
        rho(call.reals("rho")),
        prob_a(call.reals("prob_a")),
        prob_b(call.reals("prob_b")) {
    for (const std::int64_t size : class_sizes) {
      if (size < 0 || size > static_cast<std::int64_t>(weights.size())) throw Error("vectors_per_class does not fit");
      supports += static_cast<std::size_t>(size);
    }
    if (supports > 0) check_pairs();
    else if (rho.empty()) throw Error("attribute 'rho' is missing");
  }
  std::size_t classes() const { return labels.size(); }
  std::size_t pairs() const { return classes() * (classes() - 1) / 2; }
  bool gives_probabilities() const { return supports > 0 && !prob_a.empty(); }
  std::size_t score_count() const {
    if (supports == 0 || gives_probabilities()) return classes();
    return classes() > 2 ? pairs() : 2;
  }

 private:
  void check_pairs() const {
    if (class_sizes.size() != classes()) throw Error("vectors_per_class does not fit the class labels");
    if (rho.size() < pairs()) throw Error("rho has too few values");
    if (!prob_a.empty() && (prob_a.size() < pairs() || prob_b.size() < pairs()))
      throw Error("prob_a and prob_b have too few values");
    if (weights.size() / supports < classes() - 1) throw Error("coefficients has too few values");
  }
};

struct PairScores {
  std::vector<double> scores;
  std::vector<double> votes;  // of the classes
};

PairScores score_pairs(const SvmClassifier& model, std::span<const double> row) {
  std::vector<double> kernels;
  for (std::size_t i = 0; i < model.supports; ++i)
    kernels.push_back(model.kernel(row, nth(model.vectors, i, row.size())));
  std::vector<std::size_t> starts{0};
  for (const std::int64_t size : model.class_sizes) starts.push_back(starts.back() + static_cast<std::size_t>(size));
  // The weights of one class's support vectors against another class are in that other class's row.
  const auto part = [&](std::size_t own, std::size_t weight_row) {
    double sum = 0.0;
    for (std::size_t v = starts[own]; v < starts[own + 1]; ++v)
      sum += model.weights[weight_row * model.supports + v] * kernels[v];
    return sum;
  };
  PairScores result{{}, std::vector<double>(model.classes(), 0.0)};
  for (std::size_t i = 0; i < model.classes(); ++i) {
    for (std::size_t j = i + 1; j < model.classes(); ++j) {
      const double score = part(i, j - 1) + part(j, i) + model.rho[result.scores.size()];
      result.scores.push_back(score);
      result.votes[score > 0 ? i : j] += 1.0;
    }
  }
  return result;
}

// Class probabilities from probabilities of pairs, r[i * count + j] that of i against j: Wu, Lin and Weng's
// iteration ("Probability estimates for multi-class classification by pairwise coupling", 2004).
std::vector<double> coupled(const std::vector<double>& r, std::size_t count) {
  std::vector<double> q(count * count, 0.0);
  for (std::size_t t = 0; t < count; ++t) {
    for (std::size_t j = 0; j < count; ++j) {
      if (j == t) continue;
      q[t * count + t] += r[j * count + t] * r[j * count + t];
      q[t * count + j] = -r[j * count + t] * r[t * count + j];
    }
  }
  std::vector<double> p(count, 1.0 / static_cast<double>(count));
  std::vector<double> qp(count);
  for (std::size_t pass = 0; pass < std::max<std::size_t>(100, count); ++pass) {
    for (std::size_t t = 0; t < count; ++t) {
      qp[t] = std::inner_product(p.begin(), p.end(), q.begin() + static_cast<std::ptrdiff_t>(t * count), 0.0);
    }
    double pqp = std::inner_product(p.begin(), p.end(), qp.begin(), 0.0);
    const double error = std::ranges::max(qp, {}, [&](double x) { return std::fabs(x - pqp); });
    if (std::fabs(error - pqp) < 0.005 / static_cast<double>(count)) break;
    for (std::size_t t = 0; t < count; ++t) {
      const double diagonal = q[t * count + t];
      const double step = (pqp - qp[t]) / diagonal;
      p[t] += step;
      pqp = (pqp + step * (step * diagonal + 2.0 * qp[t])) / (1.0 + step) / (1.0 + step);
      for (std::size_t j = 0; j < count; ++j) {
        qp[j] = (qp[j] + step * q[t * count + j]) / (1.0 + step);
        p[j] /= 1.0 + step;
      }
    }
  }
  return p;
}

std::vector<double> probabilities(const SvmClassifier& model, const std::vector<double>& scores) {
  constexpr double kLeast = 1e-7;
  const std::size_t count = model.classes();
  std::vector<double> r(count * count, 0.0);
  std::size_t pair = 0;
  for (std::size_t i = 0; i < count; ++i) {
    for (std::size_t j = i + 1; j < count; ++j, ++pair) {
      const double first_wins = 1.0 / (1.0 + std::exp(scores[pair] * model.prob_a[pair] + model.prob_b[pair]));
      r[i * count + j] = std::clamp(first_wins, kLeast, 1.0 - kLeast);
      r[j * count + i] = 1.0 - r[i * count + j];
    }
  }
  return coupled(r, count);
}

struct Classified {
  std::size_t label = 0;
  std::vector<double> scores;
};

Classified classify_by_pairs(const SvmClassifier& model, std::span<const double> row, PostTransform transform) {
  PairScores pairs = score_pairs(model, row);
  Classified result{index_of_largest(pairs.votes), {}};
  if (!model.gives_probabilities() && model.classes() <= 2) {
    result.scores =
        both_scores(transform, pairs.scores.empty() ? 0.0 : pairs.scores[0], transform != PostTransform::none);
    return result;
  }
  result.scores = model.gives_probabilities() ? probabilities(model, pairs.scores) : std::move(pairs.scores);
  apply_transform(transform, result.scores);
  return result;
}

Classified classify_linearly(const SvmClassifier& model, std::span<const double> row, PostTransform transform) {
  Classified result;
  for (std::size_t c = 0; c < model.classes(); ++c) {
    const std::span<const double> weights = nth(model.weights, c, row.size());
    result.scores.push_back(std::inner_product(row.begin(), row.end(), weights.begin(), model.rho[0]));
  }
  result.label = index_of_largest(result.scores);
  apply_transform(transform, result.scores);
  return result;
}

void infer_svm_classifier(InferCall& call) {
  const SvmClassifier model(call);
  infer_classifier(call, model.labels, static_cast<std::int64_t>(model.score_count()));
}

void eval_svm_classifier(EvalCall& call) {
  const SvmClassifier model(call);
  const PostTransform transform = post_transform(call);
  const FeatureRows input(call.in(0));
  std::vector<double> all;
  std::vector<std::size_t> chosen;
  for (std::int64_t r = 0; r < input.rows; ++r) {
    const Classified result = model.supports > 0 ? classify_by_pairs(model, input.row(r), transform)
                                                 : classify_linearly(model, input.row(r), transform);
    chosen.push_back(result.label);
    all.insert(all.end(), result.scores.begin(), result.scores.end());
  }
  call.out(0, model.labels.select(chosen));
  call.out(1, score_tensor(input.rows, static_cast<std::int64_t>(model.score_count()), all));
}

constexpr std::string_view kFreedom = "sums in order in double, rounds scores once to float32";

const OpDef kOps[] = {
    {.identity =
         {.name = "SVMClassifier",
          .domain = kMlDomain,
          .summary = "the class chosen by a support vector machine, with scores or probabilities",
          .signature = "(X: float32|float64|int32|int64) -> (Y: L, Z: float32) where L: string|int64",
          .attrs = "classlabels_ints: ints; classlabels_strings: strings; coefficients: floats; kernel_params: floats; "
                   "kernel_type: string = LINEAR {LINEAR, POLY, RBF, SIGMOID}; "
                   "post_transform: string = NONE {NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT}; prob_a: floats; "
                   "prob_b: floats; rho: floats; support_vectors: floats; vectors_per_class: ints"},
     .meaning = {.infer = infer_svm_classifier, .eval = eval_svm_classifier, .freedom = kFreedom},
     .analysis = {.range = range_svm_classifier, .overflow = "FN204"}},
    {.identity =
         {.name = "SVMRegressor",
          .domain = kMlDomain,
          .summary = "the value of a support vector machine, or its sign for one class",
          .signature = "(X: float32|float64|int32|int64) -> (Y: float32)",
          .attrs =
              "coefficients: floats; kernel_params: floats; kernel_type: string = LINEAR {LINEAR, POLY, RBF, SIGMOID}; "
              "n_supports: int = 0; one_class: int = 0; "
              "post_transform: string = NONE {NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT}; rho: floats; "
              "support_vectors: floats"},
     .meaning = {.infer = infer_svm_regressor, .eval = eval_svm_regressor, .freedom = kFreedom},
     .analysis = {.range = range_svm_regressor, .overflow = "FN204"}},
};

}  // namespace

std::span<const OpDef> ml_svm_ops() { return kOps; }

}  // namespace finity

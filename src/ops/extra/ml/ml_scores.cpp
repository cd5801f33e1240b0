#include "ops/extra/ml/ml_scores.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/error.h"
#include "tensor/convert.h"

namespace finity {

namespace {

void check_rank(std::size_t rank) {
  if (rank != 1 && rank != 2) throw Error("X has rank " + std::to_string(rank) + ", expected 1 or 2");
}

double logistic(double x) {
  const double of_size = 1.0 / (1.0 + std::exp(-std::fabs(x)));
  return x < 0 ? 1.0 - of_size : of_size;
}

// Winitzki's approximation of the inverse of erf, which the runtimes use.
double inverse_erf(double x) {
  constexpr double kA = 0.147;
  const double log = std::log((1.0 - x) * (1.0 + x));
  const double half = 2.0 / (std::numbers::pi * kA) + 0.5 * log;
  return std::copysign(std::sqrt(std::sqrt(half * half - log / kA) - half), x);
}

double probit(double x) { return std::numbers::sqrt2 * inverse_erf(2.0 * x - 1.0); }

void softmax(std::span<double> scores) {
  const double most = *std::ranges::max_element(scores);
  double sum = 0.0;
  for (double& score : scores) sum += score = std::exp(score - most);
  for (double& score : scores) score /= sum;
}

// Scores that are 0 stay 0 and do not count.
void softmax_zero(std::span<double> scores) {
  constexpr double kZero = 0.0000001;
  const double most = *std::ranges::max_element(scores);
  double sum = 0.0;
  for (double& score : scores) {
    if (std::fabs(score) > kZero) sum += score = std::exp(score - most);
    else score *= std::exp(-most);
  }
  for (double& score : scores) score = sum == 0.0 ? 0.5 : score / sum;
}

constexpr std::string_view kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};

}  // namespace

FeatureRows::FeatureRows(const Tensor& tensor) {
  check_rank(tensor.rank());
  rows = tensor.rank() == 1 ? 1 : tensor.dim(0);
  columns = tensor.dims().back();
  // Rows without columns cost no memory here but would in the result.
  if (columns == 0 && rows > (1 << 20)) throw Error("X of shape " + to_string(tensor.dims()) + " is too large");
  values = elements<double>(tensor);
}

Dim row_count(const InferCall& call) {
  if (!call.ranked(0)) return {};
  check_rank(call.rank(0));
  return call.rank(0) == 1 ? Dim::of(1) : call.shape(0)[0];
}

PostTransform post_transform(const Call& call) {
  const Attr* attr = call.attrs().find("post_transform");
  if (attr == nullptr) return PostTransform::none;
  if (const auto* number = std::get_if<std::int64_t>(attr)) {
    if (*number < 0 || *number > 4) throw Error("post_transform is " + std::to_string(*number));
    return static_cast<PostTransform>(*number);
  }
  const auto* found = std::ranges::find(kNames, call.text("post_transform"));
  if (found == std::end(kNames)) throw Error("post_transform is '" + call.text("post_transform") + "'");
  return static_cast<PostTransform>(found - std::begin(kNames));
}

std::vector<double> real_list(const Call& call, const std::string& attr) {
  if (const ConstantPtr tensor = call.constant(attr + "_as_tensor")) return elements<double>(tensor->load());
  return call.reals(attr);
}

void apply_transform(PostTransform transform, std::span<double> scores) {
  if (scores.empty()) return;
  switch (transform) {
    case PostTransform::none: break;
    case PostTransform::softmax: softmax(scores); break;
    case PostTransform::softmax_zero: softmax_zero(scores); break;
    case PostTransform::logistic: std::ranges::transform(scores, scores.begin(), logistic); break;
    case PostTransform::probit: std::ranges::transform(scores, scores.begin(), probit); break;
  }
}

std::vector<double> both_scores(PostTransform transform, double score, bool is_probability) {
  if (transform == PostTransform::logistic) return {logistic(-score), logistic(score)};
  if (transform == PostTransform::probit) return {1.0 - probit(score), probit(score)};
  return {is_probability ? 1.0 - score : -score, score};
}

std::size_t index_of_largest(std::span<const double> scores) {
  return static_cast<std::size_t>(std::ranges::max_element(scores) - scores.begin());
}

ClassLabels::ClassLabels(const Call& call, std::string_view ints_attr, std::string_view strings_attr)
    : ints_(call.integers(ints_attr)), strings_(call.texts(strings_attr)) {
  if (size() == 0) throw Error("has no class labels");
}

Tensor ClassLabels::select(std::span<const std::size_t> indices) const {
  const Dims dims{static_cast<std::int64_t>(indices.size())};
  if (!strings_.empty()) {
    std::vector<std::string> labels;
    for (const std::size_t i : indices) labels.push_back(i < strings_.size() ? strings_[i] : std::to_string(i));
    return Tensor::of_strings(dims, std::move(labels));
  }
  std::vector<std::int64_t> labels;
  for (const std::size_t i : indices) labels.push_back(i < ints_.size() ? ints_[i] : static_cast<std::int64_t>(i));
  return Tensor::of<std::int64_t>(DType::int64, dims, labels);
}

void infer_classifier(InferCall& call, const ClassLabels& labels, std::int64_t columns) {
  const Dim rows = row_count(call);
  call.set_type(0, Type::tensor(labels.dtype(), {rows}));
  call.set_shape(1, {rows, Dim::of(columns)});
}

Tensor score_tensor(std::int64_t rows, std::int64_t columns, const std::vector<double>& scores) {
  return from_elements<double>(DType::float32, {rows, columns}, scores);
}

}  // namespace finity

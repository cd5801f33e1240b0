// What the classifiers and regressors of ai.onnx.ml share: rows of features in,
// rows of scores and labels out, and the transforms applied to scores.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/table/call.h"

namespace finity {

inline constexpr std::string_view kMlDomain = "ai.onnx.ml";

// [N, C], or [C] as one row.
struct FeatureRows {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<double> values = {};

  explicit FeatureRows(const Tensor& tensor);
  std::span<const double> row(std::int64_t index) const {
    return std::span(values).subspan(static_cast<std::size_t>(index * columns), static_cast<std::size_t>(columns));
  }
};
// The same for types: N, perhaps unknown. Throws Error on other ranks.
Dim row_count(const InferCall& call);

enum class PostTransform : std::uint8_t { none, softmax, logistic, softmax_zero, probit };
// The post_transform attribute, given by name, or from ai.onnx.ml 5 on by number.
PostTransform post_transform(const Call& call);
void apply_transform(PostTransform transform, std::span<double> scores);

// An attribute of floats, or the tensor that newer versions have instead.
std::vector<double> real_list(const Call& call, const std::string& attr);

// Two scores from the one of a two-class model: the second class gets `score`, the first its opposite.
// Where the score is a probability, that is 1 - score.
std::vector<double> both_scores(PostTransform transform, double score, bool is_probability);

std::size_t index_of_largest(std::span<const double> scores);

// The class labels of a classifier: strings when it has any, else integers.
class ClassLabels {
 public:
  ClassLabels(const Call& call, std::string_view ints_attr, std::string_view strings_attr);

  std::size_t size() const { return strings_.empty() ? ints_.size() : strings_.size(); }
  DType dtype() const { return strings_.empty() ? DType::int64 : DType::string; }
  // One label per row, by index; 0 and 1 stand for themselves when the model has no label of that index.
  Tensor select(std::span<const std::size_t> indices) const;

 private:
  std::vector<std::int64_t> ints_;
  std::vector<std::string> strings_;
};

// Labels [N] of that dtype and scores [N, columns].
void infer_classifier(InferCall& call, const ClassLabels& labels, std::int64_t columns);
// Rounds to float32; every row has the same number of scores.
Tensor score_tensor(std::int64_t rows, std::int64_t columns, const std::vector<double>& scores);

}  // namespace finity

// Range rules of ai.onnx.ml: feature preparation, labels, and models, whose
// parameters are attributes and so always known.
#pragma once

#include <vector>

#include "ops/table/range_call.h"

namespace finity {

// Per column of X [N, C] or [C]: what its elements can be; one range for all when the number is not known.
std::vector<Range> column_ranges(const AbsTensor& x);

// ---- features
void range_scaler(RangeCall& call);
void range_imputer(RangeCall& call);
void range_normalizer(RangeCall& call);
void range_feature_vectorizer(RangeCall& call);

// ---- labels
// Elements of a tensor of numbers, or anything for strings.
Range range_of_labels(const Tensor& labels);
void range_one_hot_encoder(RangeCall& call);
// Class labels of a classifier, from the attribute `ints`, or strings.
void give_labels(RangeCall& call, std::string_view ints);

// ---- models
// Scores after the post_transform attribute.
Range transformed_scores(const Call& call, const Range& scores, int ulps);
// The same for classifiers, where two classes may share one score s: 1 - s or -s belongs to the other one.
Range class_scores(const Call& call, const Range& scores, bool two_classes, int ulps);
void range_linear_classifier(RangeCall& call);
void range_linear_regressor(RangeCall& call);
void range_svm_classifier(RangeCall& call);
void range_svm_regressor(RangeCall& call);
void range_tree_classifier(RangeCall& call);
void range_tree_regressor(RangeCall& call);
void range_tree_ensemble(RangeCall& call);

}  // namespace finity

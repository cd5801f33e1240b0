// Ranges of ai.onnx.ml and of text ops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "support/range_probe.h"
#include "tensor/convert.h"

namespace finity {
namespace {

std::vector<float> floats(Rng& rng, std::size_t count, double lo, double hi) {
  std::vector<float> result(count);
  for (float& value : result) value = static_cast<float>(rng.uniform(lo, hi));
  return result;
}

DType any_feature_type(Rng& rng) {
  constexpr DType kTypes[] = {DType::float32, DType::float64, DType::int32, DType::int64};
  return kTypes[rng.below(4)];
}

RangeProbe ml(Rng& rng, const std::string& op, std::size_t outputs = 1) {
  RangeProbe probe{.domain = "ai.onnx.ml", .op = op, .version = 3, .outputs = outputs, .settings = any_settings(rng)};
  return probe;
}

void set_transform(Rng& rng, RangeProbe& probe) {
  constexpr const char* kTransforms[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  probe.attrs.set("post_transform", std::string(kTransforms[rng.below(5)]));
}

void expect_sound(Rng& rng, RangeProbe& probe, int round) {
  ASSERT_EQ(unsound(rng, probe, 8), "") << probe.op << " round " << round;
}

TEST(RangeMl, FeaturesSound) {
  Rng rng = seeded(1);
  for (int round = 0; round < 400; ++round) {
    const std::int64_t columns = small(rng, 4);
    const ProbeOperand x = any_operand(rng, any_feature_type(rng), {3, columns}, -20, 20, false);
    RangeProbe scaler = ml(rng, "Scaler");
    scaler.operands = {x};
    const auto count = static_cast<std::size_t>(rng.below(2) == 0 ? 1 : columns);
    scaler.attrs.set("offset", floats(rng, count, -5, 5));
    scaler.attrs.set("scale", floats(rng, count, -2, 2));
    expect_sound(rng, scaler, round);
    RangeProbe normalizer = ml(rng, "Normalizer");
    normalizer.operands = {x};
    constexpr const char* kNorms[] = {"MAX", "L1", "L2"};
    normalizer.attrs.set("norm", std::string(kNorms[rng.below(3)]));
    expect_sound(rng, normalizer, round);
    RangeProbe binarizer = ml(rng, "Binarizer");
    binarizer.operands = {x};
    expect_sound(rng, binarizer, round);
    RangeProbe vectorizer = ml(rng, "FeatureVectorizer");
    vectorizer.operands = {x, x};
    expect_sound(rng, vectorizer, round);
    RangeProbe extractor = ml(rng, "ArrayFeatureExtractor");
    extractor.operands = {x, constant(Tensor::vector_of(std::vector<std::int64_t>{0, columns - 1}))};
    expect_sound(rng, extractor, round);
    RangeProbe imputer = ml(rng, "Imputer");
    imputer.operands = {any_operand(rng, DType::float32, {3, columns}, -20, 20, false)};
    for (Range& cell : imputer.operands[0].range->cells) cell.nan = rng.below(2) == 0;
    imputer.attrs.set("replaced_value_float", rng.below(2) == 0 ? NAN : 0.0F);
    imputer.attrs.set("imputed_value_floats", floats(rng, count, -50, 50));
    expect_sound(rng, imputer, round);
    if (HasFatalFailure()) return;
  }
}

TEST(RangeMl, LabelsSound) {
  Rng rng = seeded(2);
  for (int round = 0; round < 100; ++round) {
    RangeProbe encoder = ml(rng, "LabelEncoder");
    encoder.operands = {any_operand(rng, DType::int64, {4}, 0, 5, false)};
    encoder.attrs.set("keys_int64s", std::vector<std::int64_t>{1, 2, 3});
    encoder.attrs.set("values_floats", floats(rng, 3, -5, 5));
    expect_sound(rng, encoder, round);
    RangeProbe one_hot = ml(rng, "OneHotEncoder");
    one_hot.operands = {any_operand(rng, DType::int64, {4}, 0, 5, false)};
    one_hot.attrs.set("cats_int64s", std::vector<std::int64_t>{1, 2, 3});
    expect_sound(rng, one_hot, round);
    if (HasFatalFailure()) return;
  }
}

TEST(RangeMl, LinearModelsSound) {
  Rng rng = seeded(3);
  for (int round = 0; round < 500; ++round) {
    const std::int64_t columns = small(rng, 4), targets = small(rng, 3);
    const ProbeOperand x = any_operand(rng, any_feature_type(rng), {3, columns}, -9, 9, false);
    RangeProbe regressor = ml(rng, "LinearRegressor");
    regressor.operands = {x};
    regressor.attrs.set("coefficients", floats(rng, static_cast<std::size_t>(columns * targets), -2, 2));
    if (rng.below(2) == 0) regressor.attrs.set("intercepts", floats(rng, static_cast<std::size_t>(targets), -2, 2));
    regressor.attrs.set("targets", targets);
    set_transform(rng, regressor);
    expect_sound(rng, regressor, round);
    const bool single = rng.below(2) == 0;
    const std::int64_t classes = single ? 2 : targets, rows = single ? 1 : targets;
    RangeProbe classifier = ml(rng, "LinearClassifier", 2);
    classifier.operands = {x};
    classifier.attrs.set("coefficients", floats(rng, static_cast<std::size_t>(columns * rows), -2, 2));
    classifier.attrs.set("intercepts", floats(rng, static_cast<std::size_t>(rows), -2, 2));
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < classes; ++i) labels.push_back(3 * i + 4);
    classifier.attrs.set("classlabels_ints", labels);
    set_transform(rng, classifier);
    expect_sound(rng, classifier, round);
    if (HasFatalFailure()) return;
  }
}

TEST(RangeMl, LinearEndsAreReached) {
  RangeProbe probe{.domain = "ai.onnx.ml", .op = "LinearRegressor", .version = 1};
  AbsTensor x = uniform(DType::float32, {1, 2}, Range{});
  x.cuts = {{}, {1}};
  x.cells = {Range{.lo = 0, .hi = 1}, Range{.lo = -2, .hi = 3}};
  probe.operands = {abstract(x)};
  probe.attrs.set("coefficients", std::vector<float>{2, -1});
  probe.attrs.set("intercepts", std::vector<float>{10});
  probe.run();
  EXPECT_NEAR(probe.ranges[0].hull().lo, 7, 1e-4);
  EXPECT_NEAR(probe.ranges[0].hull().hi, 14, 1e-4);
}

TEST(RangeMl, SupportVectorsSound) {
  Rng rng = seeded(4);
  constexpr const char* kKernels[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  for (int round = 0; round < 500; ++round) {
    const std::int64_t columns = small(rng, 3), supports = small(rng, 4);
    const ProbeOperand x = any_operand(rng, any_feature_type(rng), {3, columns}, -3, 3, false);
    const std::string kernel = kKernels[rng.below(4)];
    const std::vector<float> params{static_cast<float>(rng.uniform(-0.2, 1)), 0.5F, static_cast<float>(small(rng, 3))};
    RangeProbe regressor = ml(rng, "SVMRegressor");
    regressor.operands = {x};
    regressor.attrs.set("coefficients", floats(rng, static_cast<std::size_t>(supports), -2, 2));
    regressor.attrs.set("support_vectors", floats(rng, static_cast<std::size_t>(supports * columns), -2, 2));
    regressor.attrs.set("n_supports", supports);
    regressor.attrs.set("rho", std::vector<float>{0.3F});
    regressor.attrs.set("kernel_type", kernel);
    regressor.attrs.set("kernel_params", params);
    if (rng.below(4) == 0) regressor.attrs.set("one_class", std::int64_t{1});
    set_transform(rng, regressor);
    expect_sound(rng, regressor, round);
    RangeProbe classifier = ml(rng, "SVMClassifier", 2);
    const std::int64_t classes = 1 + small(rng, 2), pairs = classes * (classes - 1) / 2;
    classifier.operands = {x};
    classifier.attrs.set("classlabels_ints", std::vector<std::int64_t>(static_cast<std::size_t>(classes), 7));
    classifier.attrs.set("vectors_per_class", std::vector<std::int64_t>(static_cast<std::size_t>(classes), 2));
    classifier.attrs.set("coefficients", floats(rng, static_cast<std::size_t>((classes - 1) * 2 * classes), -2, 2));
    classifier.attrs.set("support_vectors", floats(rng, static_cast<std::size_t>(2 * classes * columns), -2, 2));
    classifier.attrs.set("rho", floats(rng, static_cast<std::size_t>(pairs), -1, 1));
    if (rng.below(2) == 0) {
      classifier.attrs.set("prob_a", floats(rng, static_cast<std::size_t>(pairs), -1, 1));
      classifier.attrs.set("prob_b", floats(rng, static_cast<std::size_t>(pairs), -1, 1));
    }
    classifier.attrs.set("kernel_type", kernel);
    classifier.attrs.set("kernel_params", params);
    set_transform(rng, classifier);
    expect_sound(rng, classifier, round);
    if (HasFatalFailure()) return;
  }
}

// Trees of one split each; some leaves do not vote for some targets.
void set_trees(Rng& rng, RangeProbe& probe, const std::string& prefix, std::int64_t targets) {
  const std::int64_t trees = small(rng, 4);
  std::vector<std::int64_t> tree_ids, node_ids, features, on_true, on_false, vote_trees, vote_nodes, vote_ids;
  std::vector<std::string> modes;
  std::vector<float> thresholds, weights;
  for (std::int64_t tree = 0; tree < trees; ++tree) {
    for (std::int64_t node = 0; node < 3; ++node) {
      tree_ids.push_back(tree);
      node_ids.push_back(node);
      features.push_back(0);
      modes.emplace_back(node == 0 ? "BRANCH_LEQ" : "LEAF");
      thresholds.push_back(static_cast<float>(rng.uniform(-3, 3)));
      on_true.push_back(1);
      on_false.push_back(2);
      for (std::int64_t target = 0; node > 0 && target < targets; ++target) {
        if (rng.below(4) == 0) continue;
        vote_trees.push_back(tree);
        vote_nodes.push_back(node);
        vote_ids.push_back(target);
        weights.push_back(static_cast<float>(rng.uniform(-2, 2)));
      }
    }
  }
  probe.attrs.set("nodes_treeids", tree_ids);
  probe.attrs.set("nodes_nodeids", node_ids);
  probe.attrs.set("nodes_featureids", features);
  probe.attrs.set("nodes_modes", modes);
  probe.attrs.set("nodes_values", thresholds);
  probe.attrs.set("nodes_truenodeids", on_true);
  probe.attrs.set("nodes_falsenodeids", on_false);
  probe.attrs.set(prefix + "treeids", vote_trees);
  probe.attrs.set(prefix + "nodeids", vote_nodes);
  probe.attrs.set(prefix + "ids", vote_ids);
  probe.attrs.set(prefix + "weights", weights);
}

TEST(RangeMl, TreesSound) {
  Rng rng = seeded(5);
  for (int round = 0; round < 600; ++round) {
    const ProbeOperand x = any_operand(rng, any_feature_type(rng), {4, 2}, -3, 3, false);
    const std::int64_t targets = small(rng, 3);
    RangeProbe regressor = ml(rng, "TreeEnsembleRegressor");
    regressor.operands = {x};
    set_trees(rng, regressor, "target_", targets);
    constexpr const char* kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
    regressor.attrs.set("aggregate_function", std::string(kAggregates[rng.below(4)]));
    regressor.attrs.set("n_targets", targets);
    if (rng.below(2) == 0) regressor.attrs.set("base_values", floats(rng, static_cast<std::size_t>(targets), -2, 2));
    set_transform(rng, regressor);
    expect_sound(rng, regressor, round);
    RangeProbe classifier = ml(rng, "TreeEnsembleClassifier", 2);
    classifier.operands = {x};
    const std::int64_t classes = 1 + small(rng, 2);
    set_trees(rng, classifier, "class_", rng.below(3) == 0 ? 1 : classes);
    std::vector<std::int64_t> labels;
    for (std::int64_t i = 0; i < classes; ++i) labels.push_back(5 - 2 * i);
    classifier.attrs.set("classlabels_int64s", labels);
    if (rng.below(2) == 0) classifier.attrs.set("base_values", floats(rng, static_cast<std::size_t>(classes), -2, 2));
    set_transform(rng, classifier);
    expect_sound(rng, classifier, round);
    if (HasFatalFailure()) return;
  }
}

TEST(RangeMl, TreeEnsembleSound) {
  Rng rng = seeded(6);
  for (int round = 0; round < 200; ++round) {
    RangeProbe probe = ml(rng, "TreeEnsemble");
    probe.version = 5;
    constexpr DType kTypes[] = {DType::float32, DType::float64, DType::float16};
    const DType dtype = kTypes[rng.below(3)];
    const auto list = [&](const std::vector<double>& values) {
      return make_constant(from_elements<double>(dtype, {static_cast<std::int64_t>(values.size())}, values));
    };
    probe.operands = {any_operand(rng, dtype, {4, 2}, -3, 3, false)};
    const std::int64_t targets = small(rng, 2);
    std::vector<double> weights;
    std::vector<std::int64_t> ids;
    for (int i = 0; i < 4; ++i)
      weights.push_back(rng.uniform(-2, 2)), ids.push_back(static_cast<std::int64_t>(rng.below(targets)));
    probe.attrs.set("nodes_splits", list({0.5, -0.5}));
    probe.attrs.set("nodes_modes",
                    make_constant(from_elements<std::int64_t>(DType::uint8, {2}, std::vector<std::int64_t>{0, 1})));
    probe.attrs.set("nodes_featureids", std::vector<std::int64_t>{0, 1});
    probe.attrs.set("nodes_truenodeids", std::vector<std::int64_t>{0, 2});
    probe.attrs.set("nodes_falsenodeids", std::vector<std::int64_t>{1, 3});
    probe.attrs.set("nodes_trueleafs", std::vector<std::int64_t>{1, 1});
    probe.attrs.set("nodes_falseleafs", std::vector<std::int64_t>{1, 1});
    probe.attrs.set("leaf_targetids", ids);
    probe.attrs.set("leaf_weights", list(weights));
    probe.attrs.set("tree_roots", std::vector<std::int64_t>{0, 1});
    probe.attrs.set("n_targets", targets);
    probe.attrs.set("aggregate_function", static_cast<std::int64_t>(rng.below(4)));
    probe.attrs.set("post_transform", static_cast<std::int64_t>(rng.below(3)));
    expect_sound(rng, probe, round);
    if (HasFatalFailure()) return;
  }
}

TEST(RangeText, VectorizerSound) {
  Rng rng = seeded(7);
  for (int round = 0; round < 200; ++round) {
    RangeProbe probe{.op = "TfIdfVectorizer", .version = 9, .settings = any_settings(rng)};
    probe.operands = {any_operand(rng, DType::int64, {2, small(rng, 6)}, 0, 3, false)};
    constexpr const char* kModes[] = {"TF", "IDF", "TFIDF"};
    probe.attrs.set("mode", std::string(kModes[rng.below(3)]));
    probe.attrs.set("min_gram_length", std::int64_t{1});
    probe.attrs.set("max_gram_length", std::int64_t{2});
    probe.attrs.set("max_skip_count", static_cast<std::int64_t>(rng.below(3)));
    probe.attrs.set("ngram_counts", std::vector<std::int64_t>{0, 2});
    probe.attrs.set("ngram_indexes", std::vector<std::int64_t>{0, 1, 1, 2});
    probe.attrs.set("pool_int64s", std::vector<std::int64_t>{1, 2, 1, 1, 2, 3});
    probe.attrs.set("weights", floats(rng, 4, -2, 2));
    ASSERT_EQ(unsound(rng, probe, 8), "") << round;
  }
}

}  // namespace
}  // namespace finity

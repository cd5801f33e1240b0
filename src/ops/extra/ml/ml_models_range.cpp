// Ranges of linear models, support vector machines and trees.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "ops/extra/ml/ml_range.h"
#include "ops/extra/ml/ml_scores.h"
#include "ops/linear/dot_range.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr DType kFloat = DType::float32;

// sum of weights[first + i] * column i; nothing is known when the numbers do not fit.
DotSum weighted_columns(const std::vector<Range>& columns, std::span<const double> weights) {
  DotSum sum;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    add_products(sum, columns[columns.size() == 1 ? 0 : std::min(i, columns.size() - 1)], point(weights[i]), 1, 1);
  }
  return sum;
}

// One sum per target, all taken together; the intercept belongs to its target.
Range linear_scores(const RangeCall& call, std::span<const double> weights, std::size_t targets,
                    std::span<const double> intercepts) {
  const std::vector<Range> columns = column_ranges(call.in(0));
  DotSum all{.empty = true};
  const std::size_t width = targets == 0 ? 0 : weights.size() / targets;
  for (std::size_t t = 0; t < targets; ++t) {
    DotSum sum = weighted_columns(columns, weights.subspan(t * width, width));
    if (!intercepts.empty()) add_term(sum, point(intercepts[std::min(t, intercepts.size() - 1)]));
    all = join(all, sum);
  }
  return rounded(call, kFloat, all, static_cast<double>(width) + 2);
}

std::size_t label_count(const Call& call, std::string_view ints) {
  const std::size_t strings = call.texts("classlabels_strings").size();
  return strings > 0 ? strings : call.integers(ints).size();
}

}  // namespace

// ---- linear ------------------------------------------------------------------------

void range_linear_classifier(RangeCall& call) {
  const std::size_t classes = label_count(call, "classlabels_ints");
  const std::vector<double> intercepts = call.reals("intercepts"), weights = call.reals("coefficients");
  const bool single = classes == 2 && intercepts.size() == 1;
  const Range scores = linear_scores(call, weights, single ? 1 : classes, intercepts);
  give_labels(call, "classlabels_ints");
  call.out(1, class_scores(call, scores, single, call.ulps()));
}

void range_linear_regressor(RangeCall& call) {
  const auto targets = static_cast<std::size_t>(std::max<std::int64_t>(call.integer("targets"), 1));
  const std::vector<double> intercepts = call.reals("intercepts"), weights = call.reals("coefficients");
  const Range scores = linear_scores(call, weights, targets, intercepts);
  call.out(0, transformed_scores(call, scores, call.ulps()));
}

// ---- support vector machines -------------------------------------------------------

namespace {

// gamma * dot + coef0, and what the kernel makes of it.
class KernelRange {
 public:
  explicit KernelRange(const RangeCall& call)
      : kind_(call.text("kernel_type")), params_(call.reals("kernel_params")), columns_(column_ranges(call.in(0))) {
    params_.resize(3, 0.0);
  }

  Range of(const RangeCall& call, std::span<const double> vector) const {
    const bool known = columns_.size() == vector.size() || columns_.size() == 1;
    if (!known || vector.empty()) return top(kFloat);
    if (kind_ == "RBF") return radial(vector);
    DotSum sum = weighted_columns(columns_, vector);
    const Range dot = rounded(call, kFloat, sum, static_cast<double>(vector.size()));
    if (kind_ == "LINEAR") return dot;
    if (kind_ == "SIGMOID") return bounded(dot, -1, 1);
    return power(outward(kFloat, add(kFloat, multiply(kFloat, dot, point(params_[0])), point(params_[1])), 4));
  }

 private:
  static Range bounded(const Range& x, double lo, double hi) { return {.lo = lo, .hi = hi, .nan = x.nan}; }
  Range power(const Range& base) const {
    const double degree = params_[2];
    const bool natural = degree >= 0 && degree == std::floor(degree);
    if (!base.is_finite() || !natural) return top(kFloat);
    const double most = std::pow(base.magnitude(), degree) * (1 + 1e-5);
    return from_bounds(kFloat, base.lo >= 0 || std::fmod(degree, 2) == 0 ? 0.0 : -most, most, 1);
  }
  // exp(-gamma * |x - v|^2) is in [0, 1] for gamma >= 0.
  Range radial(std::span<const double> vector) const {
    Range squares = point(0);
    for (std::size_t i = 0; i < vector.size(); ++i) {
      const Range& x = columns_[columns_.size() == 1 ? 0 : i];
      squares = add(DType::float64, squares, square(DType::float64, subtract(DType::float64, x, point(vector[i]))));
    }
    if (params_[0] >= 0) return bounded(squares, 0, 1);
    const double most = std::exp(std::min(-params_[0] * squares.greatest(), 700.0)) * (1 + 1e-4);
    Range result = from_bounds(kFloat, 0, most, 4);
    result.nan |= squares.nan;
    return result;
  }

  std::string kind_;
  std::vector<double> params_;  // gamma, coef0, degree
  std::vector<Range> columns_;
};

// sum of weight * kernel over all support vectors.
std::vector<Range> kernels_of(const RangeCall& call, std::size_t supports) {
  const std::vector<double> vectors = call.reals("support_vectors");
  const KernelRange kernel(call);
  std::vector<Range> result;
  const std::size_t width = supports == 0 ? 0 : vectors.size() / supports;
  for (std::size_t i = 0; i < supports; ++i) {
    result.push_back(outward(kFloat, kernel.of(call, std::span(vectors).subspan(i * width, width)), 2));
  }
  return result;
}

}  // namespace

void range_svm_regressor(RangeCall& call) {
  const std::vector<double> weights = call.reals("coefficients"), rho = call.reals("rho");
  const auto supports = static_cast<std::size_t>(std::max<std::int64_t>(0, call.integer("n_supports")));
  DotSum sum;
  double terms = static_cast<double>(weights.size()) + 2;
  if (supports == 0) {
    sum = weighted_columns(column_ranges(call.in(0)), weights);
  } else {
    if (weights.size() < supports || call.reals("support_vectors").size() < supports) return call.top(0);
    const std::vector<Range> kernels = kernels_of(call, supports);
    for (std::size_t i = 0; i < supports; ++i) add_products(sum, kernels[i], point(weights[i]), 1, 1);
    terms += static_cast<double>(supports);
  }
  if (!rho.empty()) add_term(sum, point(rho[0]));
  Range value = rounded(call, kFloat, sum, terms);
  if (call.integer("one_class") != 0) value = {.lo = -1, .hi = 1, .integer = true};
  call.out(0, transformed_scores(call, value, call.ulps()));
}

void range_svm_classifier(RangeCall& call) {
  const std::size_t classes = label_count(call, "classlabels_ints");
  const std::vector<double> weights = call.reals("coefficients"), rho = call.reals("rho");
  std::size_t supports = 0;
  for (const std::int64_t size : call.integers("vectors_per_class")) {
    supports += static_cast<std::size_t>(std::max<std::int64_t>(size, 0));
  }
  give_labels(call, "classlabels_ints");
  const int ulps = call.ulps();
  if (supports == 0) {
    const std::vector<double> first(classes, rho.empty() ? 0.0 : rho[0]);
    return call.out(1, transformed_scores(call, linear_scores(call, weights, classes, first), ulps));
  }
  const std::vector<Range> kernels = kernels_of(call, supports);
  DotSum sum;
  // A pair of classes uses some of the vectors, each with a weight of one of the rows.
  for (std::size_t v = 0; v < supports; ++v) {
    Range weight = point(0);
    for (std::size_t at = v; at < weights.size(); at += supports) weight = join(weight, point(weights[at]));
    add_products(sum, kernels[v], weight, 1, 1);
  }
  Range offset = rho.empty() ? point(0) : Range{};
  for (const double value : rho) offset = join(offset, point(value));
  add_term(sum, offset);
  Range scores = rounded(call, kFloat, sum, static_cast<double>(supports) + 2);
  // Probabilities come out of an iteration: near 0 and 1, not exactly between them.
  if (!call.reals("prob_a").empty()) scores = {.lo = -1, .hi = 2, .nan = scores.nan};
  call.out(1, class_scores(call, scores, classes <= 2, ulps));
}

// ---- trees -------------------------------------------------------------------------

namespace {

// What one tree says for one target: a vote of one of its leaves, or nothing.
struct TreeVotes {
  double lo = 0, hi = 0;
  bool any = false;

  void add(double weight) {
    lo = any ? std::min(lo, weight) : weight;
    hi = any ? std::max(hi, weight) : weight;
    any = true;
  }
};

// Per target, per tree. A leaf may vote for a target several times; leaves without a vote count as 0.
std::map<std::int64_t, std::map<std::int64_t, TreeVotes>> tree_votes(const Call& call, const std::string& prefix) {
  const std::vector<std::int64_t> ids = call.integers(prefix + "ids"), trees = call.integers(prefix + "treeids");
  const std::vector<std::int64_t> nodes = call.integers(prefix + "nodeids");
  const std::vector<double> weights = real_list(call, prefix + "weights");
  const std::size_t count = std::min({ids.size(), trees.size(), nodes.size(), weights.size()});
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, double> sums;  // target, tree, node
  for (std::size_t i = 0; i < count; ++i) sums[{ids[i], trees[i], nodes[i]}] += weights[i];
  std::map<std::int64_t, std::int64_t> leaves;  // of each tree
  const std::vector<std::string> modes = call.texts("nodes_modes");
  const std::vector<std::int64_t> all = call.integers("nodes_treeids");
  for (std::size_t i = 0; i < std::min(modes.size(), all.size()); ++i) leaves[all[i]] += modes[i] == "LEAF" ? 1 : 0;
  std::map<std::int64_t, std::map<std::int64_t, TreeVotes>> result;
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> voting;
  for (const auto& [key, weight] : sums) {
    const auto& [target, tree, node] = key;
    result[target][tree].add(weight);
    ++voting[{target, tree}];
  }
  for (auto& [target, by_tree] : result) {
    for (auto& [tree, votes] : by_tree) {
      if (voting[{target, tree}] < leaves[tree]) votes.add(0);
    }
  }
  return result;
}

enum class Aggregate : std::uint8_t { average, sum, min, max };

// The result of all trees for one target.
Range aggregated(const RangeCall& call, DType dtype, const std::map<std::int64_t, TreeVotes>& trees, Aggregate how,
                 double tree_count, double base) {
  DotSum sum;
  Range extremes = point(0);
  for (const auto& [tree, votes] : trees) {
    add_term(sum, {.lo = votes.lo, .hi = votes.hi});
    extremes = join(extremes, {.lo = votes.lo, .hi = votes.hi});
  }
  if (how == Aggregate::min || how == Aggregate::max) {
    sum = {};
    add_term(sum, extremes);
  }
  if (how == Aggregate::average) scale_total(sum, 1 / std::max(tree_count, 1.0));
  add_term(sum, point(base));
  return rounded(call, dtype, sum, static_cast<double>(trees.size()) + 4);
}

std::size_t distinct(const std::vector<std::int64_t>& values) {
  return std::set<std::int64_t>(values.begin(), values.end()).size();
}

// All targets together; one without any vote has its base value alone.
Range forest_scores(const RangeCall& call, const std::string& prefix, std::size_t targets, Aggregate how,
                    bool base_of_any = false) {
  const auto votes = tree_votes(call, prefix);
  const std::vector<double> base = real_list(call, "base_values");
  const auto trees = static_cast<double>(distinct(call.integers("nodes_treeids")));
  const bool own_base = base.size() == targets && !base_of_any;
  Range hull = point(0);
  for (const double value : base) hull = join(hull, outward(kFloat, from_bounds(kFloat, value, value)));
  if (votes.size() >= targets) hull = {};  // every target has votes
  for (const auto& [target, by_tree] : votes) {
    std::vector<double> added = base;
    // Base values for fewer targets than there are may belong to any of them.
    if (own_base) added = {base[static_cast<std::size_t>(std::clamp<std::int64_t>(target, 0, std::ssize(base) - 1))]};
    else added.push_back(0);
    for (const double value : added) hull = join(hull, aggregated(call, kFloat, by_tree, how, trees, value));
  }
  return hull;
}

}  // namespace

void range_tree_regressor(RangeCall& call) {
  constexpr std::string_view kNames[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const auto how =
      static_cast<Aggregate>(std::ranges::find(kNames, call.text("aggregate_function")) - std::begin(kNames));
  const auto targets = static_cast<std::size_t>(std::max<std::int64_t>(call.integer("n_targets", 1), 1));
  const Range scores = forest_scores(call, "target_", targets, how);
  call.out(0, transformed_scores(call, scores, call.ulps()));
}

void range_tree_classifier(RangeCall& call) {
  const std::size_t classes = label_count(call, "classlabels_int64s");
  const bool two = classes == 2;
  // Of two classes, the votes for one may be taken for the other, with the other's base value.
  Range scores = forest_scores(call, "class_", classes, Aggregate::sum, two);
  if (two) scores = join(scores, point(0));
  give_labels(call, "classlabels_int64s");
  call.out(1, class_scores(call, scores, two, call.ulps()));
}

// Every leaf may belong to any tree.
void range_tree_ensemble(RangeCall& call) {
  const std::vector<std::int64_t> targets = call.integers("leaf_targetids");
  const ConstantPtr constant = call.constant("leaf_weights");
  if (!constant) return call.top(0);
  const std::vector<double> weights = elements<double>(constant->load());
  std::map<std::int64_t, TreeVotes> by_target;
  for (std::size_t i = 0; i < std::min(targets.size(), weights.size()); ++i) by_target[targets[i]].add(weights[i]);
  const std::size_t trees = call.integers("tree_roots").size();
  const std::int64_t how = call.integer("aggregate_function");
  if (how < 0 || how > 3) return call.top(0);
  const bool several = by_target.size() > 1 || call.integer("n_targets", 1) > 1;
  Range hull = several ? point(0) : Range{};
  for (auto& [target, votes] : by_target) {
    if (several) votes.add(0);
    std::map<std::int64_t, TreeVotes> each;
    for (std::size_t i = 0; i < trees; ++i) each[static_cast<std::int64_t>(i)] = votes;
    hull = join(hull,
                aggregated(call, call.out_dtype(0), each, static_cast<Aggregate>(how), static_cast<double>(trees), 0));
  }
  const Range scores = transformed_scores(call, hull, call.ulps());
  Range result = scores.has_finite() ? from_bounds(call.out_dtype(0), scores.lo, scores.hi, 1) : Range{};
  result.nan |= scores.nan;
  result.pinf |= scores.pinf;
  result.ninf |= scores.ninf;
  call.out(0, result);
}

}  // namespace finity

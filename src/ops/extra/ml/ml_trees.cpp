// ai.onnx.ml: ensembles of decision trees. The older ops list all nodes with tree
// and node ids, TreeEnsemble lists inner nodes and leaves apart; both become a Forest.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "base/error.h"
#include "ops/extra/ml/ml_range.h"
#include "ops/extra/ml/ml_scores.h"
#include "ops/table/families.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// In the order of TreeEnsemble's numbers.
enum class Mode : std::uint8_t { leq, lt, gte, gt, eq, neq, member, leaf };
constexpr std::string_view kModeNames[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE",    "BRANCH_GT",
                                           "BRANCH_EQ",  "BRANCH_NEQ", "BRANCH_MEMBER", "LEAF"};

struct Vote {
  std::size_t target = 0;
  double weight = 0;
};

struct TreeNode {
  Mode mode = Mode::leaf;
  std::size_t feature = 0;
  double threshold = 0;
  bool nan_is_true = false;
  std::size_t on_true = 0;  // of inner nodes, into Forest::nodes
  std::size_t on_false = 0;
  std::vector<double> members = {};  // for Mode::member
  std::vector<Vote> votes = {};      // of leaves
};

struct Forest {
  std::vector<TreeNode> nodes = {};
  std::vector<std::size_t> roots = {};
};

bool holds(const TreeNode& node, double x) {
  if (std::isnan(x)) return node.nan_is_true;
  switch (node.mode) {
    case Mode::leq: return x <= node.threshold;
    case Mode::lt: return x < node.threshold;
    case Mode::gte: return x >= node.threshold;
    case Mode::gt: return x > node.threshold;
    case Mode::eq: return x == node.threshold;
    case Mode::neq: return x != node.threshold;
    default: return std::ranges::find(node.members, x) != node.members.end();
  }
}

const TreeNode& find_leaf(const Forest& forest, std::size_t root, std::span<const double> row) {
  std::size_t at = root;
  // A path longer than there are nodes goes round in a circle.
  for (std::size_t steps = 0; steps <= forest.nodes.size(); ++steps) {
    const TreeNode& node = forest.nodes[at];
    if (node.mode == Mode::leaf) return node;
    if (node.feature >= row.size()) {
      throw Error("a node asks for feature " + std::to_string(node.feature) + " of " + std::to_string(row.size()));
    }
    at = holds(node, row[node.feature]) ? node.on_true : node.on_false;
  }
  throw Error("the nodes of a tree form a circle");
}

// ---- attributes --------------------------------------------------------------

std::vector<double> tensor_list(const Call& call, std::string_view attr) {
  const ConstantPtr tensor = call.constant(attr);
  if (!tensor) throw Error("attribute '" + std::string(attr) + "' is missing");
  return elements<double>(tensor->load());
}

void require_length(std::size_t length, std::size_t wanted, std::string_view attr) {
  if (length != wanted) {
    throw Error("attribute '" + std::string(attr) + "' has " + std::to_string(length) + " entries, expected " +
                std::to_string(wanted));
  }
}

// Lists that may be left out are all zero then.
template <class T>
std::vector<T> optional_list(std::vector<T> values, std::size_t wanted, std::string_view attr) {
  if (values.empty()) values.resize(wanted);
  require_length(values.size(), wanted, attr);
  return values;
}

std::size_t index_below(std::int64_t index, std::size_t limit, std::string_view what) {
  if (index < 0 || index >= static_cast<std::int64_t>(limit)) {
    throw Error(std::string(what) + " " + std::to_string(index) + " is outside " + std::to_string(limit));
  }
  return static_cast<std::size_t>(index);
}

Mode mode_named(const std::string& name) {
  const auto* found = std::ranges::find(kModeNames, name);
  if (found == std::end(kModeNames) || name == "BRANCH_MEMBER") throw Error("unknown node mode '" + name + "'");
  return static_cast<Mode>(found - std::begin(kModeNames));
}

using NodeKey = std::pair<std::int64_t, std::int64_t>;  // tree id, node id

std::size_t node_at(const std::map<NodeKey, std::size_t>& places, NodeKey key) {
  const auto found = places.find(key);
  if (found != places.end()) return found->second;
  throw Error("tree " + std::to_string(key.first) + " has no node " + std::to_string(key.second));
}

// The leaves' votes: `prefix` is class_ or target_.
void read_votes(const Call& call, const std::string& prefix, std::size_t targets,
                const std::map<NodeKey, std::size_t>& places, Forest& forest) {
  const std::vector<std::int64_t> ids = call.integers(prefix + "ids");
  const std::vector<std::int64_t> trees = call.integers(prefix + "treeids");
  const std::vector<std::int64_t> nodes = call.integers(prefix + "nodeids");
  const std::vector<double> weights = real_list(call, prefix + "weights");
  require_length(trees.size(), ids.size(), prefix + "treeids");
  require_length(nodes.size(), ids.size(), prefix + "nodeids");
  require_length(weights.size(), ids.size(), prefix + "weights");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Vote vote{index_below(ids[i], targets, prefix + "ids"), weights[i]};
    forest.nodes[node_at(places, {trees[i], nodes[i]})].votes.push_back(vote);
  }
}

// The nodes of the ops before ai.onnx.ml 5; a tree's first node is its root.
Forest read_forest(const Call& call, const std::string& votes_prefix, std::size_t targets) {
  const std::vector<std::int64_t> trees = call.integers("nodes_treeids");
  const std::size_t count = trees.size();
  const std::vector<std::int64_t> ids = call.integers("nodes_nodeids");
  const std::vector<std::int64_t> features = call.integers("nodes_featureids");
  const std::vector<std::int64_t> on_true = call.integers("nodes_truenodeids");
  const std::vector<std::int64_t> on_false = call.integers("nodes_falsenodeids");
  const std::vector<std::string> modes = call.texts("nodes_modes");
  const std::vector<double> thresholds = real_list(call, "nodes_values");
  const std::vector<std::int64_t> nan_is_true =
      optional_list(call.integers("nodes_missing_value_tracks_true"), count, "nodes_missing_value_tracks_true");
  require_length(ids.size(), count, "nodes_nodeids");
  require_length(features.size(), count, "nodes_featureids");
  require_length(on_true.size(), count, "nodes_truenodeids");
  require_length(on_false.size(), count, "nodes_falsenodeids");
  require_length(modes.size(), count, "nodes_modes");
  require_length(thresholds.size(), count, "nodes_values");

  Forest forest;
  std::map<NodeKey, std::size_t> places;
  std::set<std::int64_t> seen;
  for (std::size_t i = 0; i < count; ++i) {
    if (!places.emplace(NodeKey{trees[i], ids[i]}, i).second) throw Error("a node id occurs twice in a tree");
    if (seen.insert(trees[i]).second) forest.roots.push_back(i);
  }
  for (std::size_t i = 0; i < count; ++i) {
    TreeNode node{.mode = mode_named(modes[i]), .threshold = thresholds[i], .nan_is_true = nan_is_true[i] != 0};
    if (node.mode != Mode::leaf) {
      node.feature = index_below(features[i], std::numeric_limits<std::int32_t>::max(), "nodes_featureids");
      node.on_true = node_at(places, {trees[i], on_true[i]});
      node.on_false = node_at(places, {trees[i], on_false[i]});
    }
    forest.nodes.push_back(std::move(node));
  }
  read_votes(call, votes_prefix, targets, places, forest);
  return forest;
}

// ---- regression --------------------------------------------------------------

enum class Aggregate : std::uint8_t { average, sum, min, max };

double combine(Aggregate how, double so_far, double weight, bool first) {
  if (how == Aggregate::sum || how == Aggregate::average) return so_far + weight;
  if (first) return weight;
  return how == Aggregate::min ? std::fmin(so_far, weight) : std::fmax(so_far, weight);
}

// The votes of every tree for one row, per target.
std::vector<double> aggregate(const Forest& forest, std::span<const double> row, std::size_t targets, Aggregate how) {
  std::vector<double> totals(targets, 0.0);
  std::vector<bool> voted(targets, false);
  for (const std::size_t root : forest.roots) {
    for (const Vote& vote : find_leaf(forest, root, row).votes) {
      totals[vote.target] = combine(how, totals[vote.target], vote.weight, !voted[vote.target]);
      voted[vote.target] = true;
    }
  }
  if (how == Aggregate::average) {
    for (double& total : totals) total /= static_cast<double>(forest.roots.size());
  }
  return totals;
}

std::int64_t target_count(const Call& call, std::size_t listed) {
  const std::int64_t targets = call.integer("n_targets", 1);
  // More targets than votes could only be constant; the bound keeps a bad number from costing memory.
  if (targets < 1 || targets > static_cast<std::int64_t>(std::max<std::size_t>(listed, 1024))) {
    throw Error("attribute 'n_targets' is " + std::to_string(targets));
  }
  return targets;
}

std::int64_t regressor_targets(const Call& call) { return target_count(call, call.integers("target_ids").size()); }

void infer_tree_regressor(InferCall& call) { call.set_shape(0, {row_count(call), Dim::of(regressor_targets(call))}); }

// Base values: one per target, or one for a single target.
std::vector<double> base_values(const Call& call, std::size_t targets) {
  return optional_list(real_list(call, "base_values"), targets, "base_values");
}

void eval_tree_regressor(EvalCall& call) {
  const auto targets = static_cast<std::size_t>(regressor_targets(call));
  const Forest forest = read_forest(call, "target_", targets);
  const std::vector<double> base = base_values(call, targets);
  constexpr std::string_view kNames[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  const auto how =
      static_cast<Aggregate>(std::ranges::find(kNames, call.text("aggregate_function")) - std::begin(kNames));
  const PostTransform transform = post_transform(call);
  const FeatureRows input(call.in(0));
  std::vector<double> all;
  for (std::int64_t r = 0; r < input.rows; ++r) {
    std::vector<double> scores = aggregate(forest, input.row(r), targets, how);
    for (std::size_t t = 0; t < targets; ++t) scores[t] += base[t];
    apply_transform(transform, scores);
    all.insert(all.end(), scores.begin(), scores.end());
  }
  call.out(0, score_tensor(input.rows, static_cast<std::int64_t>(targets), all));
}

// ---- classification ----------------------------------------------------------

void infer_tree_classifier(InferCall& call) {
  const ClassLabels labels(call, "classlabels_int64s", "classlabels_strings");
  infer_classifier(call, labels, static_cast<std::int64_t>(labels.size()));
}

// Two classes of which only one is voted for: the votes decide against a threshold, one half when they are
// probabilities, which no negative weight suggests. Votes for the first class stand for the second one's score.
struct TwoClasses {
  bool single = false;
  bool is_probability = true;
  bool complement = false;

  TwoClasses(const Call& call, std::size_t classes) {
    const std::vector<std::int64_t> ids = call.integers("class_ids");
    single = classes == 2 && std::ranges::all_of(ids, [&](std::int64_t id) { return id == ids.front(); });
    complement = single && (ids.empty() || ids.front() == 0);
    for (const double weight : real_list(call, "class_weights")) is_probability = is_probability && weight >= 0;
  }
  std::size_t choose(double score) const { return score > (is_probability ? 0.5 : 0.0) ? 1 : 0; }
};

struct TreeClassifier {
  ClassLabels labels;
  TwoClasses two;
  Forest forest;
  std::vector<double> base;
  PostTransform transform;

  explicit TreeClassifier(const Call& call)
      : labels(call, "classlabels_int64s", "classlabels_strings"),
        two(call, labels.size()),
        forest(read_forest(call, "class_", labels.size())),
        base(real_list(call, "base_values")),
        transform(post_transform(call)) {
    if (two.single) base.insert(base.begin(), 2 - std::min<std::size_t>(base.size(), 2), 0.0);
    base = optional_list(std::move(base), labels.size(), "base_values");
  }
  // Appends the scores of one row, and gives the index of its label.
  std::size_t classify(std::span<const double> row, std::vector<double>& all) const {
    std::vector<double> scores = aggregate(forest, row, labels.size(), Aggregate::sum);
    if (two.complement) scores[1] = std::exchange(scores[0], 0.0);
    for (std::size_t c = 0; c < scores.size(); ++c) scores[c] += base[c];
    std::size_t label = 0;
    if (two.single) label = two.choose(scores[1]);
    else label = scores.size() == 1 ? (scores[0] > 0 ? 1 : 0) : index_of_largest(scores);
    if (two.complement) scores = both_scores(transform, scores[1], two.is_probability);
    else apply_transform(transform, scores);
    all.insert(all.end(), scores.begin(), scores.end());
    return label;
  }
};

void eval_tree_classifier(EvalCall& call) {
  const TreeClassifier model(call);
  const FeatureRows input(call.in(0));
  std::vector<double> all;
  std::vector<std::size_t> chosen;
  for (std::int64_t r = 0; r < input.rows; ++r) chosen.push_back(model.classify(input.row(r), all));
  call.out(0, model.labels.select(chosen));
  call.out(1, score_tensor(input.rows, static_cast<std::int64_t>(model.labels.size()), all));
}

// ---- TreeEnsemble ------------------------------------------------------------

// Sets of members, one per node of mode `member`, each ended by a NaN.
std::vector<std::vector<double>> member_sets(const Call& call) {
  std::vector<std::vector<double>> sets;
  if (!call.constant("membership_values")) return sets;
  std::vector<double> open;
  for (const double value : tensor_list(call, "membership_values")) {
    if (!std::isnan(value)) {
      open.push_back(value);
      continue;
    }
    sets.push_back(std::move(open));
    open.clear();
  }
  if (!open.empty()) sets.push_back(std::move(open));
  return sets;
}

// A branch leads to a leaf or to an inner node; leaves come after the inner nodes in the forest.
std::size_t branch(std::int64_t id, bool is_leaf, std::size_t inner, std::size_t leaves) {
  return is_leaf ? inner + index_below(id, leaves, "leaf") : index_below(id, inner, "node");
}

void add_inner_nodes(const Call& call, std::size_t leaves, Forest& forest) {
  const std::vector<double> modes = tensor_list(call, "nodes_modes");
  const std::size_t count = modes.size();
  const std::vector<double> splits = tensor_list(call, "nodes_splits");
  const std::vector<std::int64_t> features = call.integers("nodes_featureids");
  const std::vector<std::int64_t> on_true = call.integers("nodes_truenodeids");
  const std::vector<std::int64_t> on_false = call.integers("nodes_falsenodeids");
  const std::vector<std::int64_t> true_leaf = call.integers("nodes_trueleafs");
  const std::vector<std::int64_t> false_leaf = call.integers("nodes_falseleafs");
  const std::vector<std::int64_t> nan_is_true =
      optional_list(call.integers("nodes_missing_value_tracks_true"), count, "nodes_missing_value_tracks_true");
  require_length(splits.size(), count, "nodes_splits");
  require_length(features.size(), count, "nodes_featureids");
  require_length(on_true.size(), count, "nodes_truenodeids");
  require_length(on_false.size(), count, "nodes_falsenodeids");
  require_length(true_leaf.size(), count, "nodes_trueleafs");
  require_length(false_leaf.size(), count, "nodes_falseleafs");
  std::vector<std::vector<double>> sets = member_sets(call);
  std::size_t next_set = 0;
  for (std::size_t i = 0; i < count; ++i) {
    TreeNode node{.threshold = splits[i], .nan_is_true = nan_is_true[i] != 0};
    node.mode = static_cast<Mode>(index_below(static_cast<std::int64_t>(modes[i]), 7, "nodes_modes"));
    node.feature = index_below(features[i], std::numeric_limits<std::int32_t>::max(), "nodes_featureids");
    node.on_true = branch(on_true[i], true_leaf[i] != 0, count, leaves);
    node.on_false = branch(on_false[i], false_leaf[i] != 0, count, leaves);
    if (node.mode == Mode::member) {
      if (next_set >= sets.size()) throw Error("membership_values has too few sets");
      node.members = std::move(sets[next_set++]);
    }
    forest.nodes.push_back(std::move(node));
  }
}

std::int64_t ensemble_targets(const Call& call) { return target_count(call, call.integers("leaf_targetids").size()); }

Forest read_ensemble(const Call& call) {
  const std::vector<std::int64_t> targets = call.integers("leaf_targetids");
  const std::vector<double> weights = tensor_list(call, "leaf_weights");
  require_length(weights.size(), targets.size(), "leaf_weights");
  Forest forest;
  add_inner_nodes(call, targets.size(), forest);
  const std::size_t inner = forest.nodes.size();
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const auto limit = static_cast<std::size_t>(ensemble_targets(call));
    forest.nodes.push_back({.votes = {{index_below(targets[i], limit, "leaf_targetids"), weights[i]}}});
  }
  for (const std::int64_t root : call.integers("tree_roots"))
    forest.roots.push_back(index_below(root, inner, "tree_roots"));
  return forest;
}

void infer_tree_ensemble(InferCall& call) { call.set_shape(0, {row_count(call), Dim::of(ensemble_targets(call))}); }

void eval_tree_ensemble(EvalCall& call) {
  const Forest forest = read_ensemble(call);
  const std::int64_t targets = ensemble_targets(call);
  const auto how = static_cast<Aggregate>(index_below(call.integer("aggregate_function"), 4, "aggregate_function"));
  const PostTransform transform = post_transform(call);
  const FeatureRows input(call.in(0));
  std::vector<double> all;
  for (std::int64_t r = 0; r < input.rows; ++r) {
    std::vector<double> scores = aggregate(forest, input.row(r), static_cast<std::size_t>(targets), how);
    apply_transform(transform, scores);
    all.insert(all.end(), scores.begin(), scores.end());
  }
  call.out(0, from_elements<double>(call.in(0).dtype(), {input.rows, targets}, all));
}

constexpr std::string_view kFreedom = "votes are summed tree by tree in double, scores rounded once";

const OpDef kOps[] = {
    {.identity =
         {.name = "TreeEnsembleClassifier",
          .domain = kMlDomain,
          .summary = "the class with most weight in the leaves that a row reaches",
          .signature = "(X: float32|float64|int32|int64) -> (Y: L, Z: float32) where L: string|int64",
          .attrs =
              "base_values: floats; base_values_as_tensor: tensor; class_ids: ints; class_nodeids: ints; "
              "class_treeids: ints; class_weights: floats; class_weights_as_tensor: tensor; "
              "classlabels_int64s: ints; classlabels_strings: strings; nodes_falsenodeids: ints; "
              "nodes_featureids: ints; nodes_hitrates: floats; nodes_hitrates_as_tensor: tensor; "
              "nodes_missing_value_tracks_true: ints; nodes_modes: strings; nodes_nodeids: ints; "
              "nodes_treeids: ints; nodes_truenodeids: ints; nodes_values: floats; nodes_values_as_tensor: tensor; "
              "post_transform: string = NONE {NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT}"},
     .meaning = {.infer = infer_tree_classifier, .eval = eval_tree_classifier, .freedom = kFreedom},
     .analysis = {.range = range_tree_classifier}},
    {.identity =
         {.name = "TreeEnsembleRegressor",
          .domain = kMlDomain,
          .summary = "sum, mean, least or greatest of the leaves that a row reaches",
          .signature = "(X: float32|float64|int32|int64) -> (Y: float32)",
          .attrs =
              "aggregate_function: string = SUM {AVERAGE, SUM, MIN, MAX}; base_values: floats; "
              "base_values_as_tensor: tensor; n_targets: int; nodes_falsenodeids: ints; nodes_featureids: ints; "
              "nodes_hitrates: floats; nodes_hitrates_as_tensor: tensor; nodes_missing_value_tracks_true: ints; "
              "nodes_modes: strings; nodes_nodeids: ints; nodes_treeids: ints; nodes_truenodeids: ints; "
              "nodes_values: floats; nodes_values_as_tensor: tensor; "
              "post_transform: string = NONE {NONE, SOFTMAX, LOGISTIC, SOFTMAX_ZERO, PROBIT}; target_ids: ints; "
              "target_nodeids: ints; target_treeids: ints; target_weights: floats; target_weights_as_tensor: tensor"},
     .meaning = {.infer = infer_tree_regressor, .eval = eval_tree_regressor, .freedom = kFreedom},
     .analysis = {.range = range_tree_regressor}},
    {.identity =
         {.name = "TreeEnsemble",
          .domain = kMlDomain,
          .since = 5,
          .summary = "sum, mean, least or greatest of the leaves that a row reaches",
          .signature = "(X: T) -> (Y: T) where T: float16|float32|float64",
          .attrs =
              "aggregate_function: int = 1; leaf_targetids: ints; leaf_weights: tensor; membership_values: tensor; "
              "n_targets: int; nodes_falseleafs: ints; nodes_falsenodeids: ints; nodes_featureids: ints; "
              "nodes_hitrates: tensor; nodes_missing_value_tracks_true: ints; nodes_modes: tensor; "
              "nodes_splits: tensor; nodes_trueleafs: ints; nodes_truenodeids: ints; post_transform: int = 0; "
              "tree_roots: ints"},
     .meaning = {.infer = infer_tree_ensemble, .eval = eval_tree_ensemble, .freedom = kFreedom},
     .analysis = {.range = range_tree_ensemble}},
};

}  // namespace

std::span<const OpDef> ml_tree_ops() { return kOps; }

}  // namespace finity

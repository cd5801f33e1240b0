#include "check/compat.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <numeric>
#include <unordered_map>

#include "graph/initial_weight.h"
#include "ops/table/rule_patterns.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::array kEntries = {
    CompatEntry{Compat::small_weights, "small-weights", "variables are in [-1, 1], whatever they start from"},
    CompatEntry{Compat::positive_draws, "positive-draws", "uniform and normal random numbers are in [1e-36, 1]"},
    CompatEntry{Compat::small_transposed_convolutions, "small-transposed-convolutions",
                "results of transposed convolutions are in [-1, 1]"},
    CompatEntry{Compat::real_arithmetic, "real-arithmetic", "nothing is rounded: float32 is looked at as float64"},
    CompatEntry{Compat::no_gradients, "no-gradients",
                "what depends on a node with 'gradient' in its name is not looked at"},
    CompatEntry{Compat::largest_part, "largest-part", "only the largest connected part of the graph is looked at"},
    CompatEntry{Compat::eight_operations, "eight-operations",
                "only exponentials, logarithms, roots, quotients and reciprocals are looked at"},
    CompatEntry{Compat::any_safe_element, "any-safe-element", "a constant operand is safe when one of its elements is"},
    CompatEntry{Compat::pole_of_log1p, "pole-of-log1p", "Log1p fails at -1 only, not below"},
};

constexpr std::array<std::string_view, 7> kRules = {"FN101", "FN102", "FN103", "FN104", "FN105", "FN114", "FN201"};

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

bool speaks_of_gradient(const Node& node) {
  const std::string name = lower(node.name);
  return name.find("gradient") != std::string::npos && name.find("stopgradient") == std::string::npos;
}

// What of the value's elements is unsafe under the rule of an operand.
bool is_unsafe(std::string_view rule, double x) {
  if (rule == "FN102" || rule == "FN105") return !(x > 0);
  if (rule == "FN104") return !(x >= 0);
  return x == 0;
}

bool has_safe_element(const Graph& graph, const Finding& finding) {
  constexpr std::int64_t kMost = std::int64_t{1} << 20;
  if (!finding.value.valid() || finding.operand < 0) return false;
  const ConstantPtr& constant = graph.value(finding.value).constant;
  if (!constant || !constant->missing().empty() || element_count(constant->dims()) > kMost) return false;
  const std::vector<double> all = elements<double>(constant->load());
  return std::ranges::any_of(all, [&](double x) { return !is_unsafe(finding.rule, x); });
}

// By NodeId: a gradient is among what it is computed from. Bodies come after their owners, in order.
std::vector<bool> behind_gradients(const Graph& graph) {
  std::vector<bool> nodes(graph.nodes().size(), false);
  const auto tainted = [&](ValueId id) {
    const NodeId producer = id.valid() ? graph.value(id).producer : NodeId{};
    return producer.valid() && nodes[producer.at()];
  };
  for (const Body& body : graph.bodies()) {
    for (const NodeId id : body.nodes) {
      const Node& node = graph.node(id);
      nodes[id.at()] = speaks_of_gradient(node) || std::ranges::any_of(node.inputs, tainted) ||
                       std::ranges::any_of(node.captures, tainted);
    }
  }
  return nodes;
}

// By NodeId: it belongs to the largest part that edges connect.
std::vector<bool> in_largest_part(const Graph& graph) {
  std::vector<std::size_t> parent(graph.values().size() + graph.nodes().size());
  std::iota(parent.begin(), parent.end(), std::size_t{0});
  const auto root = [&](std::size_t i) {
    while (parent[i] != i) i = parent[i] = parent[parent[i]];
    return i;
  };
  const std::size_t values = graph.values().size();
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.nodes()[i];
    for (const auto* ids : {&node.inputs, &node.outputs, &node.captures}) {
      for (const ValueId id : *ids) {
        // Equal constants are one value here and were several nodes there.
        if (id.valid() && !graph.value(id).constant) parent[root(id.at())] = root(values + i);
      }
    }
    // A node of the arena may belong to no body, and a body to nobody.
    const NodeId owner = node.body.valid() ? graph.body(node.body).owner : NodeId{};
    if (owner.valid()) parent[root(values + i)] = root(values + owner.at());
  }
  std::unordered_map<std::size_t, std::size_t> sizes;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) ++sizes[root(values + i)];
  const auto largest = std::ranges::max_element(sizes, {}, [](const auto& entry) { return entry.second; });
  std::vector<bool> nodes(graph.nodes().size(), false);
  for (std::size_t i = 0; i < nodes.size(); ++i) nodes[i] = root(values + i) == largest->first;
  return nodes;
}

// What is taken for granted of a node's results; an empty range: nothing. These ops are named here and not marked in
// the table, for the list is DEBAR's, not a property of the ops: nothing else may come to rely on it.
Range granted(const CompatSet& set, const Node& node) {
  const bool draws = node.op_type == "RandomUniformLike" || node.op_type == "RandomNormalLike" ||
                     node.op_type == "RandomUniform" || node.op_type == "RandomNormal";
  Range range = empty_range();
  if (draws && has(set, Compat::positive_draws)) {
    range.lo = 1e-36;
    range.hi = 1;
  }
  const bool transposed = node.op_type == "ConvInputGradient" || node.op_type == "ConvTranspose";
  if (transposed && has(set, Compat::small_transposed_convolutions)) {
    range.lo = -1;
    range.hi = 1;
  }
  return range;
}

void assume_weights(const Graph& graph, const Types& types, Premises& premises) {
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    const auto* initial = dynamic_cast<const InitialWeight*>(value.constant.get());
    if (initial == nullptr || !is_float(initial->dtype()) || initial->dims().empty()) continue;
    const bool counts = value.name.find("/step") != std::string::npos;
    const Range range = from_bounds(initial->dtype(), counts ? 1 : -1, counts ? 1e38 : 1);
    const ValueId id = {static_cast<std::int32_t>(i)};
    premises.of[i] = std::make_shared<AbsTensor>(uniform(types[id], range));
    premises.of[i]->identity = id;
  }
}

// Without rounding there is still an end to float32.
void keep_limit_of_exp(const Graph& graph, Analysis& analysis) {
  for (Finding& finding : analysis.findings) {
    if (raised_rule(finding.rule) != "FN201" || finding.verdict != Verdict::proved || !finding.node.valid()) continue;
    const std::vector<ValueId>& outputs = graph.node(finding.node).outputs;
    const ValueId result = outputs.empty() ? ValueId{} : outputs.front();
    if (!result.valid() || !(analysis.ranges[result.at()].hull().greatest() > max_finite(DType::float32))) continue;
    finding.verdict = Verdict::possible;
    finding.seen = analysis.ranges[result.at()].hull();
  }
}

}  // namespace

std::span<const CompatEntry> compat_entries() { return kEntries; }

bool has(const CompatSet& set, Compat which) { return std::ranges::find(set, which) != set.end(); }

CompatSet compat_from_text(std::string_view text) {
  CompatSet set;
  while (!text.empty()) {
    const std::size_t comma = std::min(text.find(','), text.size());
    const std::string_view one = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    if (one == "debar") {
      for (const CompatEntry& entry : kEntries) set.push_back(entry.which);
      continue;
    }
    const auto* found = std::ranges::find(kEntries, one, &CompatEntry::name);
    if (found == kEntries.end()) {
      std::string names = "debar";
      for (const CompatEntry& entry : kEntries) names += ", " + std::string(entry.name);
      throw Error("--compat: '" + std::string(one) + "' is none of " + names);
    }
    set.push_back(found->which);
  }
  return set;
}

void assume(const CompatSet& set, const Graph& graph, const Types& types, Premises& premises) {
  if (has(set, Compat::small_weights)) assume_weights(graph, types, premises);
  for (const Node& node : graph.nodes()) {
    const Range range = granted(set, node);
    if (range.is_empty() || node.outputs.empty() || !node.outputs.front().valid()) continue;
    const ValueId id = node.outputs.front();
    if (!is_float(types[id].dtype)) continue;
    premises.of[id.at()] =
        std::make_shared<AbsTensor>(uniform(types[id], from_bounds(types[id].dtype, range.lo, range.hi)));
  }
  for (const CompatEntry& entry : kEntries) {
    if (!has(set, entry.which)) continue;
    premises.assumptions.push_back("not sound, as DEBAR has it (--compat " + std::string(entry.name) +
                                   "): " + std::string(entry.says));
  }
}

void forgive(const CompatSet& set, const Graph& graph, Analysis& analysis) {
  if (has(set, Compat::real_arithmetic)) keep_limit_of_exp(graph, analysis);
  std::vector<bool> gradients, part;
  if (has(set, Compat::no_gradients)) gradients = behind_gradients(graph);
  if (has(set, Compat::largest_part) && !graph.nodes().empty()) part = in_largest_part(graph);
  for (Finding& finding : analysis.findings) {
    if (finding.verdict == Verdict::proved) continue;
    const std::size_t node = finding.node.valid() ? finding.node.at() : graph.nodes().size();
    const bool known = node < graph.nodes().size();
    const bool listed = std::ranges::find(kRules, raised_rule(finding.rule)) != kRules.end();
    const bool unseen = (has(set, Compat::eight_operations) && !listed && finding.verdict != Verdict::unknown) ||
                        (known && !gradients.empty() && gradients[node]) || (known && !part.empty() && !part[node]);
    const bool safe = (has(set, Compat::any_safe_element) && has_safe_element(graph, finding)) ||
                      (has(set, Compat::pole_of_log1p) && finding.rule == "FN103" && !finding.seen.contains(-1));
    if (unseen || safe) finding.verdict = Verdict::proved;
  }
  // What a forgiven finding explained is no longer explained by it.
  for (Finding& finding : analysis.findings) {
    if (finding.root >= 0 && analysis.findings[static_cast<std::size_t>(finding.root)].verdict == Verdict::proved) {
      finding.root = -1;
    }
  }
}

}  // namespace finity

// Findings that need no search for an input: one run shows that they come true.
#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "base/memory_error.h"
#include "base/time_limit.h"
#include "check/escape.h"
#include "check/verify.h"

namespace finity {

namespace {

bool is_about_constant(const Finding& finding) {
  return finding.rule == "FN401" || finding.rule == "FN402" || finding.rule == "FN403";
}

// Does it fail whatever the inputs are, as far as the analysis can tell?
bool for_every_input(const Graph& graph, const Analysis& analysis, const Finding& finding) {
  if (finding.verdict != Verdict::possible) return false;
  if (finding.certain) return true;
  const auto known = [&](ValueId id) { return !id.valid() || analysis.ranges[id.at()].exact != nullptr; };
  if (finding.operand >= 0) return finding.value.valid() && known(finding.value);
  return finding.node.valid() && std::ranges::all_of(graph.node(finding.node).inputs, known);
}

// Follows what is not finite from a constant to the outputs of the model.
class Trail {
 public:
  Trail(const Graph& graph, std::size_t index, const Finding& finding)
      : graph_(graph), index_(index), nan_(finding.rule == "FN401"), reached_({finding.value}) {}

  void look_at(const Node& node, std::span<const Datum> outputs) {
    const auto reached = [&](ValueId id) { return reached_.contains(id); };
    if (std::ranges::none_of(node.inputs, reached) && std::ranges::none_of(node.captures, reached)) return;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (node.outputs[i].valid() && first_bad(outputs[i])) reached_.insert(node.outputs[i]);
    }
  }

  void finish(const std::vector<Datum>& outputs, std::vector<FailingRun>& witnesses) const {
    const std::vector<ValueId>& ids = graph_.main().outputs;
    for (std::size_t i = 0; i < outputs.size() && i < ids.size(); ++i) {
      const auto at = reached_.contains(ids[i]) ? first_bad(outputs[i]) : std::nullopt;
      if (!at) continue;
      witnesses.push_back(
          {.finding = index_, .what = element_text(*outputs[i].tensor(), *at, graph_.value(ids[i]).name)});
      return;
    }
  }

 private:
  std::optional<std::size_t> first_bad(const Datum& datum) const {
    return first_element(datum, [&](double x) { return nan_ ? std::isnan(x) : !std::isfinite(x); });
  }

  const Graph& graph_;
  std::size_t index_;
  bool nan_;
  std::unordered_set<ValueId> reached_;
};

class Confirmation {
 public:
  Confirmation(const Graph& graph, const Premises& premises, const Analysis& analysis)
      : graph_(graph), analysis_(analysis) {
    for (std::size_t i = 0; i < analysis.findings.size(); ++i) {
      const Finding& finding = analysis.findings[i];
      if (!for_every_input(graph, analysis, finding)) continue;
      wanted_.insert(i);
      const bool as_in_file = finding.value.valid() && !premises.of[finding.value.at()];
      if (is_about_constant(finding) && as_in_file) trails_.emplace_back(graph, i, finding);
    }
  }

  bool is_needed() const { return !wanted_.empty(); }

  std::vector<FailingRun> run(const std::shared_ptr<const Drawn>& drawn) {
    Judged judged;
    // A value outside its range would be a bug of finity; looking for those is what --verify is for.
    const auto ignore = [](const Node*, ValueId, const std::string&) {};
    Judge judge(graph_, analysis_, judged, false, ignore,
                [&](const Finding& finding, const std::string& what) { met(finding, what); });
    for (const ValueId id : graph_.main().inputs) {
      const auto given = drawn->inputs.find(graph_.value(id).name);
      if (given != drawn->inputs.end()) judge.give(id, given->second);
    }
    for (const auto& [id, datum] : drawn->weights) judge.give(id, datum);
    std::vector<Datum> outputs = evaluate(*drawn, judge);
    for (const Trail& trail : trails_) trail.finish(outputs, witnesses_);
    for (FailingRun& witness : witnesses_) {
      witness.drawn = drawn;
      witness.outputs = outputs;
    }
    return std::move(witnesses_);
  }

 private:
  void met(const Finding& finding, const std::string& what) {
    const auto index = static_cast<std::size_t>(&finding - analysis_.findings.data());
    if (wanted_.erase(index) > 0) witnesses_.push_back({.finding = index, .what = what});
  }

  std::vector<Datum> evaluate(const Drawn& drawn, Judge& judge) {
    std::vector<Note> unsupported;
    RunOptions options = {.unsupported = &unsupported, .weights = &drawn.weights};
    options.trace = [&](const Node& node, std::span<const Datum> made) {
      judge.look_at(node, made);
      for (Trail& trail : trails_) trail.look_at(node, made);
      check_time();
    };
    try {
      return run_reference(graph_, drawn.inputs, options);
    } catch (const TimeUp&) {
      return {};
    } catch (const Error& error) {
      judge.stopped(error.what());
    }
    return {};
  }

  const Graph& graph_;
  const Analysis& analysis_;
  std::unordered_set<std::size_t> wanted_;  // findings
  std::vector<Trail> trails_;
  std::vector<FailingRun> witnesses_;
};

}  // namespace

namespace {

// Elements that are drawn for one run: the weights of a large model and its optimiser are not worth a second look.
constexpr double kMostDrawn = 1 << 24;

double elements_to_draw(const Types& types, const Premises& premises) {
  double count = 0;
  for (std::size_t i = 0; i < premises.of.size(); ++i) {
    if (premises.of[i]) count += static_cast<double>(types.of[i].elements().least_size());
  }
  return count;
}

}  // namespace

std::vector<FailingRun> confirm_certain(const Graph& graph, const Types& types, const Premises& premises,
                                        const Analysis& analysis, double seconds) {
  Confirmation confirmation(graph, premises, analysis);
  if (!confirmation.is_needed() || elements_to_draw(types, premises) > kMostDrawn) return {};
  const TimeLimit limit(seconds);
  Rng rng(0);
  try {
    const auto drawn = std::make_shared<Drawn>();
    with_memory_errors([&] { *drawn = draw_inside(graph, types, premises, rng, 0); });
    return confirmation.run(drawn);
  } catch (const Error&) {
    return {};  // an input of unknown rank cannot be drawn
  }
}

}  // namespace finity

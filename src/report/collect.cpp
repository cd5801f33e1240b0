#include "report/collect.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "base/suggest.h"
#include "ops/table/op.h"
#include "ops/table/rule_group.h"
#include "report/advice.h"
#include "report/words.h"

namespace finity {

bool speaks_of(std::string_view prefix, const Rule& rule) {
  return prefix == "all" || prefix == "ALL" || prefix == rule.slug ||
         (!prefix.empty() && rule.code.starts_with(prefix));
}

bool is_about_coverage(const Rule& rule) { return group_of(rule.code) == RuleGroup::coverage; }

bool may_silence(std::string_view prefix, const Rule& rule) {
  return is_about_coverage(rule) ? prefix == rule.code || prefix == rule.slug : speaks_of(prefix, rule);
}

namespace {

// Length of the longest entry that speaks of the rule; -1: none does.
int strength(const std::vector<std::string>& prefixes, const Rule& rule) {
  int best = -1;
  for (const std::string& prefix : prefixes) {
    if (!speaks_of(prefix, rule)) continue;
    const bool code = rule.code.starts_with(prefix);
    const std::size_t length = code ? prefix.size() : prefix == rule.slug ? rule.code.size() : 0;
    best = std::max(best, static_cast<int>(length));
  }
  return best;
}

}  // namespace

bool is_selected(const Selection& selection, const Rule& rule) {
  if (is_about_coverage(rule)) {
    return std::ranges::none_of(selection.ignore, [&](const std::string& entry) { return may_silence(entry, rule); });
  }
  const int wanted = selection.select.empty() ? 0 : strength(selection.select, rule);
  return wanted > strength(selection.ignore, rule);
}

void check_prefixes(const std::vector<std::string>& prefixes, std::string_view option) {
  for (const std::string& prefix : prefixes) {
    const auto speaks = [&](const Rule& rule) { return speaks_of(prefix, rule); };
    if (std::ranges::any_of(all_rules(), speaks)) continue;
    std::vector<std::string> names;
    for (const Rule& rule : all_rules()) names.insert(names.end(), {std::string(rule.code), std::string(rule.slug)});
    throw Error(std::string(option) + ": no rule is named '" + prefix + "' or has a code that starts so" +
                did_you_mean(prefix, names) + "; finity rules lists them");
  }
}

void check_silencers(const std::vector<std::string>& prefixes, std::string_view option) {
  check_prefixes(prefixes, option);
  for (const std::string& prefix : prefixes) {
    const auto silences = [&](const Rule& rule) { return may_silence(prefix, rule); };
    if (std::ranges::any_of(all_rules(), silences)) continue;
    throw Error(std::string(option) + ": '" + prefix +
                "' would hide that parts of the model were not checked; name such rules in full (FN901)");
  }
}

namespace {

constexpr Rule kUnlisted = {.code = "FN000",
                            .slug = "unlisted",
                            .summary = "a rule that is not in the table",
                            .detail = "It has no page.",
                            .fix = "look at the operand's range"};

class Collector {
 public:
  Collector(Report& report, const Checked& checked, const Selection& selection)
      : report_(report),
        checked_(checked),
        selection_(selection),
        advisor_(checked),
        alarm_of_(checked.analysis.findings.size(), -1) {
    for (const Finding& finding : checked.analysis.findings) {
      const bool fails = group_of(finding.rule) == RuleGroup::domain || group_of(finding.rule) == RuleGroup::overflow ||
                         group_of(finding.rule) == RuleGroup::invalid;
      if (fails && finding.verdict != Verdict::proved && finding.node.valid()) failing_.insert(finding.node);
    }
    for (const std::string& text : checked.assumptions) assumption_of_.emplace(text.substr(0, text.find(": ")), &text);
  }

  void run() {
    report_.assumptions = checked_.assumptions;
    report_.complete = checked_.analysis.complete;
    report_.counts.nodes = graph().nodes().size() - never_entered();
    report_.counts.modelled = checked_.analysis.modelled_nodes;
    report_.not_checked.nodes = report_.counts.nodes - std::min(report_.counts.nodes, report_.counts.modelled);
    for (std::size_t i = 0; i < findings().size(); ++i) add(i);
    // A cause may come later: constants are looked at last.
    for (std::size_t i = 0; i < findings().size(); ++i) {
      if (alarm_of_[i] >= 0) report_.alarms[static_cast<std::size_t>(alarm_of_[i])].root = root_of(findings()[i]);
    }
    // A node that is not modelled is told as a finding already.
    const auto told = [&](const Note& note) { return unmodelled_.contains(note.where); };
    std::ranges::remove_copy_if(checked_.analysis.notes, std::back_inserter(report_.notes), told);
  }

 private:
  const Graph& graph() const { return checked_.graph; }
  const std::vector<Finding>& findings() const { return checked_.analysis.findings; }

  // Nodes of branches and loop bodies that are never taken, and of bodies that belong to no node, which a reader tried
  // and replaced: there is nothing to model. What lies in a body of a node that was given up is another matter.
  std::size_t never_entered() const {
    if (!checked_.analysis.complete) return 0;
    std::unordered_set<NodeId> given_up;
    for (const Finding& finding : findings()) {
      if (group_of(finding.rule) == RuleGroup::coverage) given_up.insert(finding.node);
    }
    const std::vector<bool>& reached = checked_.analysis.reached;
    const auto is_reached = [&](ValueId id) { return id.valid() && id.at() < reached.size() && reached[id.at()]; };
    std::size_t count = 0;
    for (const Node& node : graph().nodes()) {
      const Node* outer = &node;
      NodeId owner;
      BodyId body = Graph::kMain;
      while (outer != nullptr && std::ranges::none_of(outer->outputs, is_reached)) {
        body = outer->body;
        owner = graph().body(body).owner;
        outer = owner.valid() ? &graph().node(owner) : nullptr;
      }
      const bool replaced = outer == nullptr && body != Graph::kMain;
      const bool not_taken = outer != nullptr && owner.valid() && !given_up.contains(owner);
      count += replaced || not_taken ? 1 : 0;
    }
    return count;
  }

  void add(std::size_t index) {
    const Finding& finding = findings()[index];
    const auto [rule, wanted] = looked_up(finding.rule);
    if (is_about_coverage(*rule)) tell_why_not_checked(finding);
    if (!wanted) {
      report_.counts.left_out += finding.verdict == Verdict::proved ? 0 : 1;
      return;
    }
    ++report_.counts.sites;
    RuleCounts& of_rule = report_.rules[rule->code];
    ++(finding.verdict == Verdict::proved      ? of_rule.proved
       : finding.verdict == Verdict::confirmed ? of_rule.confirmed
       : finding.verdict == Verdict::possible  ? of_rule.possible
                                               : of_rule.unknown);
    if (finding.verdict == Verdict::proved) {
      ++report_.counts.proved;
      return;
    }
    ++count_of(finding.verdict);
    alarm_of_[index] = static_cast<int>(report_.alarms.size());
    report_.alarms.push_back(alarm(finding, *rule));
    report_.alarms.back().finding = index;
    if (group_of(rule->code) == RuleGroup::coverage) unmodelled_.insert(report_.alarms.back().place.title);
  }

  void tell_why_not_checked(const Finding& finding) {
    const bool limit = finding.rule == "FN903", weights = finding.rule == "FN904";
    std::string why = weights                          ? "missing weights"
                      : limit || !finding.node.valid() ? "stopped at a limit"
                                                       : std::string(graph().node(finding.node).op_type);
    std::vector<std::string>& known = report_.not_checked.why;
    if (!why.empty() && std::ranges::find(known, why) == known.end()) known.push_back(std::move(why));
  }

  // There are far more sites than rules.
  std::pair<const Rule*, bool> looked_up(std::string_view code) {
    const auto known = rules_.find(code);
    if (known != rules_.end()) return known->second;
    const Rule* found = find_rule(code);
    const Rule* rule = found == nullptr ? &kUnlisted : found;
    return rules_[code] = {rule, is_selected(selection_, *rule)};
  }

  std::size_t& count_of(Verdict verdict) {
    if (verdict == Verdict::confirmed) return report_.counts.confirmed;
    return verdict == Verdict::possible ? report_.counts.possible : report_.counts.unknown;
  }

  Alarm alarm(const Finding& finding, const Rule& rule) {
    Alarm result;
    result.rule = &rule;
    result.verdict = finding.verdict;
    result.certain = finding.certain;
    result.place = place_of(graph(), finding);
    result.operand = finding.operand;
    result.seen = finding.seen;
    result.reason = finding.reason;
    describe_value(result, finding);
    // A constant of the file has no history.
    if (group_of(rule.code) != RuleGroup::constant) result.path = steps(finding.path);
    // The path ends with what the finding says of the value, not with what was assumed of it afterwards.
    if (!result.path.empty() && finding.node.valid() && !finding.seen.is_empty())
      result.path.back().range = finding.seen;
    if (!result.path.empty() && finding.operand < 0) result.path.back().holds.clear();
    result.assumed = assumed(finding.path);
    Advice advice = advisor_.on(finding, rule);
    result.fix = std::move(advice.fix);
    result.contract = std::move(advice.contract);
    const std::string key = fingerprint(rule, result.place, result.operand, 0);
    const std::size_t occurrence = occurrences_[key]++;
    result.fingerprint = occurrence == 0 ? key : fingerprint(rule, result.place, result.operand, occurrence);
    ignore_if_asked(result, finding);
    return result;
  }

  void describe_value(Alarm& alarm, const Finding& finding) {
    if (finding.value.valid()) {
      const Type& type = checked_.types[finding.value];
      alarm.tensor = graph().value(finding.value).name;
      alarm.type = to_string(graph(), type);
      alarm.dtype = type.dtype;
      if (finding.node.valid() && finding.operand >= 0) alarm.made_by = maker(finding.value);
    }
    const OpDef* op = finding.node.valid() ? graph().node(finding.node).op : nullptr;
    if (op == nullptr || finding.operand < 0) return;
    for (const Hazard& hazard : op->analysis.hazards) {
      if (hazard.rule != finding.rule || hazard.operand != static_cast<std::size_t>(finding.operand)) continue;
      if (hazard.quantity != nullptr) continue;  // the unsafe values are not the operand's
      if (hazard.unsafe != nullptr) alarm.unsafe = unsafe_text(hazard.unsafe(alarm.dtype), alarm.dtype);
    }
  }

  std::string maker(ValueId id) const {
    const Value& value = graph().value(id);
    if (value.producer.valid()) return describe(graph(), graph().node(value.producer));
    if (value.body.valid() && value.body != Graph::kMain && !value.constant) return "the subgraph's input";
    const auto& inputs = graph().main().inputs;
    if (std::ranges::find(inputs, id) == inputs.end()) return "constant";
    if (!value.constant) return "input";
    const bool fixed = id.at() < checked_.analysis.ranges.size() && checked_.analysis.ranges[id.at()].exact;
    return fixed ? "input, taken at its default value" : "input that has a default value";
  }

  // A range under a guard is not that of all elements, and after an alarm it is what comes when nothing goes wrong.
  std::string holds(ValueId id) const {
    const auto found = checked_.analysis.conditional.find(id);
    const bool guarded = found != checked_.analysis.conditional.end();
    const bool fails = failing_.contains(graph().value(id).producer);
    std::string text = guarded ? "where " + describe(graph(), graph().node(found->second.select)) + " uses it" : "";
    if (fails) text += guarded ? ", if it does not fail" : "if it does not fail";
    return text;
  }

  Step step(ValueId id) const {
    const Type& type = checked_.types[id];
    return {.value = graph().value(id).name,
            .type = to_string(graph(), type),
            .dtype = type.dtype,
            .range = id.at() < checked_.analysis.ranges.size() ? checked_.analysis.used(id).hull() : Range{},
            .maker = maker(id),
            .holds = holds(id)};
  }

  // Long paths lose their middle, earlier when there are very many of them.
  std::vector<Step> steps(const std::vector<ValueId>& path) {
    constexpr std::size_t kBudget = 100'000;
    const std::size_t most = steps_ < kBudget ? kMaxSteps : 4;
    const std::size_t head = path.size() <= most ? path.size() : most / 4;
    const std::size_t tail = path.size() <= most ? 0 : most - head - 1;
    std::vector<Step> result;
    for (std::size_t i = 0; i < head; ++i) result.push_back(step(path[i]));
    if (tail > 0) result.push_back({.skipped = path.size() - head - tail});
    for (std::size_t i = path.size() - tail; i < path.size(); ++i) result.push_back(step(path[i]));
    steps_ += result.size();
    return result;
  }

  std::vector<std::string> assumed(const std::vector<ValueId>& path) const {
    std::vector<std::string> result;
    for (const ValueId id : path) {
      if (graph().value(id).producer.valid()) continue;
      const auto found = assumption_of_.find(graph().value(id).name);
      if (found != assumption_of_.end()) result.push_back(*found->second);
    }
    return result;
  }

  // Roots that are proved or not selected explain nothing here: theirs may.
  int root_of(const Finding& finding) const {
    int root = finding.root;
    for (std::size_t hops = 0; root >= 0 && hops < findings().size(); ++hops) {
      if (static_cast<std::size_t>(root) >= findings().size()) return -1;
      const auto at = static_cast<std::size_t>(root);
      if (alarm_of_[at] >= 0) return alarm_of_[at];
      root = findings()[at].root;
    }
    return -1;
  }

  void ignore_if_asked(Alarm& alarm, const Finding& finding) {
    const Location* where = finding.node.valid() ? &graph().node(finding.node).where : nullptr;
    const bool by_node = where != nullptr && where->origin != nullptr && ignored(where->origin->metadata, *alarm.rule);
    if (!by_node && !ignored(graph().info().metadata, *alarm.rule)) return;
    alarm.accepted = Acceptance::model;
    alarm.accepted_why = by_node ? "finity.ignore in the node's metadata" : "finity.ignore in the model's metadata";
    ++report_.counts.accepted;
  }

  static bool ignored(const Properties& metadata, const Rule& rule) {
    for (const auto& [key, value] : metadata) {
      if (key != "finity.ignore") continue;
      constexpr std::string_view kBetween = ", ;\t\n";
      for (std::size_t at = 0; (at = value.find_first_not_of(kBetween, at)) != std::string::npos;) {
        const std::size_t end = std::min(value.find_first_of(kBetween, at), value.size());
        if (may_silence(std::string_view(value).substr(at, end - at), rule)) return true;
        at = end;
      }
    }
    return false;
  }

  Report& report_;
  const Checked& checked_;
  const Selection& selection_;
  Advisor advisor_;
  std::vector<int> alarm_of_;  // by finding
  std::unordered_map<std::string, const std::string*> assumption_of_;
  std::unordered_map<std::string, std::size_t> occurrences_;
  std::map<std::string_view, std::pair<const Rule*, bool>> rules_;
  std::unordered_set<std::string> unmodelled_;  // titles of places
  std::unordered_set<NodeId> failing_;          // nodes with alarms
  std::size_t steps_ = 0;
};

}  // namespace

void collect(Report& report, const Checked& checked, const Selection& selection) {
  Collector(report, checked, selection).run();
}

}  // namespace finity

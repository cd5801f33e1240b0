#include "check/analyze.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/memory_error.h"
#include "check/analyzer.h"
#include "check/causes.h"
#include "check/convert.h"
#include "check/patterns.h"
#include "domain/constant_cells.h"

namespace finity {

std::string_view name(Verdict verdict) {
  switch (verdict) {
    case Verdict::proved: return "proved";
    case Verdict::confirmed: return "confirmed";
    case Verdict::possible: return "possible";
    case Verdict::unknown: return "unknown";
  }
  return "unknown";
}

Analyzer::Analyzer(const Graph& graph, const Types& types, const Premises& premises, const CheckOptions& options)
    : graph_(graph), types_(types), premises_(premises), options_(options), taints_(graph.values().size()) {
  result_.ranges.resize(graph.values().size());
  result_.reached.resize(graph.values().size(), false);
  last_site_.resize(graph.nodes().size(), -1);
  modelled_.resize(graph.nodes().size(), false);
  unrounded_.resize(graph.values().size(), false);
  computed_.reserve(graph.nodes().size());
  const auto limit = std::chrono::duration<double>(options.time_limit > 0 ? options.time_limit : 1e9);
  deadline_ = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(limit);
}

namespace {

// A finding is explained by one that nothing explains.
void shorten_roots(std::vector<Finding>& findings) {
  for (Finding& finding : findings) {
    for (std::size_t steps = 0; finding.root >= 0 && steps < findings.size(); ++steps) {
      const int next = findings[static_cast<std::size_t>(finding.root)].root;
      if (next < 0 || &findings[static_cast<std::size_t>(next)] == &finding) break;
      finding.root = next;
    }
  }
}

}  // namespace

Analysis Analyzer::run() {
  find_missing_weights();
  store_inputs();
  run_nodes(graph_.main());
  count_missing_weights();
  for (auto& [id, range] : joined_) {
    result_.ranges[id.at()] = std::move(range);
    result_.reached[id.at()] = true;  // also in bodies of which nothing is known
  }
  for (auto& [index, finding] : joined_findings_) result_.findings[static_cast<std::size_t>(index)] = finding;
  shorten_roots(result_.findings);
  trace_paths();
  return std::move(result_);
}

void Analyzer::store_inputs() {
  for (const ValueId id : graph_.main().inputs) {
    if (premises_.of[id.at()]) {
      store(id, as_operand(id, *premises_.of[id.at()]));
      apply_orders(premises_, id, result_.ranges[id.at()], symbols_);
    } else if (!graph_.value(id).constant) store(id, uniform(types_[id], any_finite(types_[id].dtype)));
  }
}

void Analyzer::run_nodes(const Body& body) {
  for (const NodeId id : body.nodes) run_node(id);
}

// "time" or "memory".
std::string_view Analyzer::limit_reached() {
  if (std::chrono::steady_clock::now() > deadline_) return "time";
  return options_.memory_limit > 0 && stored_ > options_.memory_limit ? "memory" : "";
}

void Analyzer::run_node(NodeId id) {
  if (result_.complete) {
    limit_ = limit_reached();
    result_.complete = limit_.empty();
  }
  if (!result_.complete) return stop_at(id);
  drop_sites(id);
  const std::string trouble = trouble_with(id);
  if (trouble.empty()) return;
  if (probing_ == 0) abandon_bodies(id, trouble);
  if (result_.complete) give_up(id, trouble, "FN902");
  else stop_at(id);
}

std::string Analyzer::limit_text() const { return "the " + std::string(limit_) + " limit was reached"; }

// Evaluates the node; "" when all went well.
std::string Analyzer::trouble_with(NodeId id) {
  const auto [probing, depth] = std::pair(probing_, depth_);
  const Node& node = graph_.node(id);
  try {
    with_memory_errors([&] { evaluate(id, node); });
    // A limit may have come in the midst of a body.
    return result_.complete || bodies_of(node.attrs).empty() ? "" : limit_text();
  } catch (const Error& error) {
    probing_ = probing;
    depth_ = depth;
    return error.what();
  }
}

// What was proved of a node is not proved after all.
void Analyzer::undecide(NodeId id, const std::string& reason) {
  for (int at = last_site_[id.at()]; at >= 0; at = site_before_[static_cast<std::size_t>(at)]) {
    Finding& finding = result_.findings[static_cast<std::size_t>(at)];
    if (finding.verdict != Verdict::proved) continue;
    finding.verdict = Verdict::unknown;
    finding.reason = reason;
  }
}

// What was seen of some iterations does not hold for those that were not looked at.
void Analyzer::abandon_bodies(NodeId id, const std::string& reason) {
  for (const BodyId body : bodies_of(graph_.node(id).attrs)) {
    for (const NodeId inner : graph_.body(body).nodes) {
      undecide(inner, reason);
      join_sites(inner);
      for (const ValueId out : graph_.node(inner).outputs) {
        if (out.valid()) joined_[out] = uniform(types_[out], top(types_[out].dtype));
      }
      abandon_bodies(inner, reason);
    }
    for (const ValueId input : graph_.body(body).inputs)
      joined_[input] = uniform(types_[input], top(types_[input].dtype));
  }
}

// One finding speaks of all nodes that are not reached; their sites are counted, as not known.
void Analyzer::stop_at(NodeId id) {
  if (probing_ > 0) return forget_results(id);
  if (!stopped_at_.valid()) {
    stopped_at_ = id;
    give_up(id, limit_text() + "; nothing from here on was analysed", "FN903");
  }
  forget_results(id);
  for (const ValueId out : graph_.node(id).outputs) {
    if (out.valid()) taints_[out.at()].unmodelled = stopped_at_;
  }
  leave_undecided(id, limit_text() + " before it", true);
  if (graph_.node(id).body != Graph::kMain) join_sites(id);
  for (const BodyId body : bodies_of(graph_.node(id).attrs)) {
    for (const NodeId inner : graph_.body(body).nodes) stop_at(inner);
  }
}

// Nothing is known of the node's results, and the report says so.
void Analyzer::give_up(NodeId id, std::string reason, std::string_view rule) {
  const Node& node = graph_.node(id);
  if (probing_ == 0) {
    const std::size_t before = result_.findings.size();
    const int index = record(id, {}, {.rule = rule, .operand = -1, .seen = {}, .possible = true});
    if (result_.findings.size() > before) result_.notes.push_back({describe(graph_, node), reason});
    Finding& finding = result_.findings[static_cast<std::size_t>(index)];
    finding.verdict = Verdict::unknown;
    finding.root = -1;
    finding.reason = reason;
  }
  forget_results(id);
  leave_undecided(id, reason, false);
}

void Analyzer::trace_paths() {
  CauseTracer::Rule rule;
  if (options_.find_causes) {
    rule = [this](const Node& node, Operands operands, std::size_t output) {
      return rule_result(node, std::move(operands), output).hull();
    };
  }
  const auto operands = [this](const Node& node) {
    Operands all = operands_of(node);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].range != nullptr) all[i].range = &result_.used(node.inputs[i]);
    }
    return all;
  };
  CauseTracer tracer(graph_, types_, result_, std::move(rule), operands);
  for (Finding& finding : result_.findings) {
    if (finding.verdict != Verdict::proved && finding.value.valid() && finding.node.valid()) tracer.trace(finding);
  }
}

// One finding speaks of all weights that are not there, and explains what is not known for their sake.
void Analyzer::find_missing_weights() {
  missing_.resize(graph_.values().size(), false);
  ValueId first;
  const auto lacks = [&](ValueId id) {
    missing_[id.at()] = true;
    if (!first.valid()) first = id;
  };
  std::ranges::for_each(premises_.missing, lacks);
  for (const Node& node : graph_.nodes()) {
    if (!node.inputs.empty() || node.outputs.empty() || !node.outputs.front().valid()) continue;
    const ConstantPtr stated = stated_constant(node);
    if (stated && !stated->missing().empty()) lacks(node.outputs.front());
  }
  if (!first.valid()) return;
  missing_finding_ = static_cast<int>(result_.findings.size());
  site_before_.push_back(-1);
  result_.findings.push_back({.value = first, .rule = "FN904", .operand = -1, .verdict = Verdict::unknown});
}

void Analyzer::count_missing_weights() {
  if (missing_finding_ < 0) return;
  std::set<std::string> files;
  std::size_t tensors = 0;
  for (std::size_t i = 0; i < missing_.size(); ++i) {
    if (!missing_[i]) continue;
    ++tensors;
    const Value& value = graph_.values()[i];
    const std::string why =
        value.constant ? value.constant->missing() : stated_constant(graph_.node(value.producer))->missing();
    const std::size_t quote = why.find('\'');
    const std::size_t end = why.rfind('\'');
    files.insert(quote < end && end != std::string::npos ? why.substr(quote + 1, end - quote - 1) : why);
  }
  const auto follows = [&](const Finding& finding) { return finding.root == missing_finding_; };
  const auto sites = std::ranges::count_if(result_.findings, follows);
  result_.findings[static_cast<std::size_t>(missing_finding_)].reason =
      (tensors == 1 ? "the weights of 1 tensor are missing ("
                    : "the weights of " + std::to_string(tensors) + " tensors are missing (") +
      *files.begin() + (files.size() > 1 ? ", ..." : "") + "): " + std::to_string(sites) +
      (sites == 1 ? " site unknown" : " sites unknown");
}

void Analyzer::forget_results(NodeId id) {
  for (const ValueId out : graph_.node(id).outputs) {
    if (!out.valid()) continue;
    store(out, uniform(types_[out], top(types_[out].dtype)));
    taints_[out.at()].unmodelled = id;
  }
}

const AbsTensor& Analyzer::get(ValueId id) {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const auto found = scope->values.find(id); found != scope->values.end()) return found->second;
  }
  if (!result_.reached[id.at()]) store_for_all(id, as_operand(id, constant_range(id)));
  return result_.ranges[id.at()];
}

bool Analyzer::restricted() const {
  return std::ranges::any_of(scopes_, [](const Scope& scope) { return scope.takes_results; });
}

AbsTensor Analyzer::constant_range(ValueId id) {
  const Value& value = graph_.value(id);
  if (premises_.of[id.at()]) return *premises_.of[id.at()];
  if (types_.known[id.at()]) {
    return from_tensor(std::make_shared<const Tensor>(*types_.known[id.at()]), options_.ranges.max_cells);
  }
  if (value.constant && value.constant->missing().empty()) {
    return from_constant(*value.constant, options_.ranges.max_cells);
  }
  if (value.constant) return uniform(types_[id], any_finite(types_[id].dtype));
  return uniform(types_[id], top(types_[id].dtype));
}

// Each cell that is not expressed by others becomes a symbol of its own.
AbsTensor Analyzer::settled(ValueId id, AbsTensor range) {
  // What is taken for granted of a result counts, whatever the operation makes of its operands.
  if (premises_.of[id.at()] && graph_.value(id).producer.valid()) range = as_operand(id, *premises_.of[id.at()]);
  if (!range.identity.valid()) range.identity = id;
  set_limits(range, types_[id]);
  if (options_.ranges.affine) {
    if (range.forms.size() != range.cells.size()) range.forms.clear();
    if (range.forms.empty()) {
      range.first_symbol = static_cast<Sym>(symbols_.size());
      for (const Range& cell : range.cells) symbols_.fresh(cell);
    }
    for (std::size_t i = 0; i < range.forms.size(); ++i) {
      if (!range.forms[i].valid) range.forms[i] = symbol_form(symbols_.fresh(range.cells[i]));
    }
  } else {
    range.forms.clear();
    range.first_symbol = -1;
  }
  constexpr std::size_t kSymbolBytes = 96;
  stored_ += range.cells.size() * (sizeof(Range) + kSymbolBytes) + range.forms.size() * (sizeof(Form) + sizeof(Term));
  return range;
}

void Analyzer::store(ValueId id, AbsTensor range) {
  if (scopes_.empty() || !scopes_.back().takes_results) return store_for_all(id, std::move(range));
  scopes_.back().values.insert_or_assign(id, settled(id, std::move(range)));
  taints_[id.at()] = {};
}

// Whatever scope is open.
void Analyzer::store_for_all(ValueId id, AbsTensor range) {
  result_.ranges[id.at()] = settled(id, std::move(range));
  result_.reached[id.at()] = true;
  taints_[id.at()] = {};
  if (depth_ > 0 && probing_ == 0) remember(id);
}

void Analyzer::remember(ValueId id) {
  const AbsTensor& now = result_.ranges[id.at()];
  const auto [found, added] = joined_.try_emplace(id, now);
  if (!added) found->second = join(found->second, now, options_.ranges.max_cells);
}

std::vector<AbsTensor> Analyzer::run_body(BodyId id, std::span<const AbsTensor> inputs) {
  if (!result_.complete) throw Error(limit_text());  // ends the loop
  const Body& body = graph_.body(id);
  ++depth_;
  // What enters the body comes from its owner's operands, or from the iteration before.
  Taint entering = body.owner.valid() ? taint_of(graph_.node(body.owner)) : Taint{};
  for (const ValueId output : body.outputs) {
    if (!entering.unmodelled.valid()) entering.unmodelled = taints_[output.at()].unmodelled;
    entering.missing |= taints_[output.at()].missing;
  }
  entering.overflow = -1;
  for (std::size_t i = 0; i < body.inputs.size(); ++i) {
    const ValueId input = body.inputs[i];
    // The type holds for every iteration; sizes and relations of one iteration need not.
    AbsTensor range = uniform(types_[input], i < inputs.size() ? inputs[i].hull() : top(types_[input].dtype));
    store(input, std::move(range));
    set_taint(input, entering);
  }
  run_nodes(body);
  std::vector<AbsTensor> outputs;
  for (const ValueId output : body.outputs) {
    outputs.push_back(output.valid() ? get(output) : uniform(Type{}, top(DType::undefined)));
  }
  if (probing_ == 0) std::ranges::for_each(body.nodes, [this](NodeId node) { join_sites(node); });
  --depth_;
  return outputs;
}

std::vector<AbsTensor> Analyzer::probe_body(BodyId id, std::span<const AbsTensor> inputs) {
  ++probing_;
  std::vector<AbsTensor> outputs = run_body(id, inputs);
  --probing_;
  return outputs;
}

// The branch sees outer values restricted by what its condition says.
std::vector<AbsTensor> Analyzer::run_branch(BodyId id, const Node& node, std::size_t condition, bool truth) {
  Restrictions restrictions;
  collect_restrictions(node.inputs[condition], truth, restrictions, 0);
  const OpenScope scope(*this, {.values = std::move(restrictions)});
  return run_body(id, {});
}

namespace {

// The range that is assumed of each element of a short integer vector.
std::optional<Shape> bounds_of(const AbsTensor& x) {
  constexpr std::int64_t kShort = 64;
  if (!is_int(x.dtype) || !x.ranked || x.rank() > 1 || (x.rank() == 1 && (x.sizes[0] < 0 || x.sizes[0] > kShort))) {
    return std::nullopt;
  }
  const Range hull = x.hull();
  // Where every number is possible there is nothing to say.
  if (!hull.has_finite() || !(hull.lo > -0x1p62 && hull.hi < 0x1p62)) return std::nullopt;
  const Dim each = Dim::between(static_cast<std::int64_t>(hull.lo), static_cast<std::int64_t>(hull.hi));
  return Shape(x.rank() == 0 ? 1 : static_cast<std::size_t>(x.sizes[0]), each);
}

// Types once more, now that it is known what the numbers are that sizes are computed from.
std::optional<Types> with_bounds(const Graph& graph, const Types& types, const Premises& premises) {
  ElementBounds elements;
  for (const ValueId id : graph.main().inputs) {
    if (types.known[id.at()] || !premises.of[id.at()]) continue;
    if (auto bounds = bounds_of(*premises.of[id.at()])) elements.emplace(id, std::move(*bounds));
  }
  if (elements.empty()) return std::nullopt;
  try {
    return infer_types(graph, types.bindings, elements);
  } catch (const Error&) {
    return std::nullopt;  // the contract does not fit: then it says nothing
  }
}

}  // namespace

Analysis analyze(const Graph& graph, const Types& types, const Premises& premises, const CheckOptions& options) {
  const std::optional<Types> better = with_bounds(graph, types, premises);
  Analysis analysis = Analyzer(graph, better ? *better : types, premises, options).run();
  name_patterns(graph, analysis);
  analysis.flushes_subnormals = options.ranges.flush_subnormals;
  return analysis;
}

}  // namespace finity

#include "check/verify.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "domain/abs_tensor.h"
#include "ops/op.h"
#include "ops/rules.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kEscape = "verification failed: ";

bool has_non_finite(const Datum& datum) {
  if (const Sequence* items = datum.sequence()) return std::ranges::any_of(*items, has_non_finite);
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr || !is_float(tensor->dtype())) return false;
  return std::ranges::any_of(elements<double>(*tensor), [](double x) { return !std::isfinite(x); });
}

bool is_number(DType dtype) { return is_float(dtype) || is_int(dtype) || dtype == DType::boolean; }

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

struct Escape {
  std::string what = {};
};

std::string shown(double x) { return to_string(point(x)); }

// The file itself declares another shape: these inputs are not what it is meant for.
bool contradicts_file(const Type& declared, const Datum& datum) {
  if (datum.tensor() == nullptr || !declared.is_tensor() || !declared.ranked) return false;
  bool conflict = false;
  merge(declared, Type::tensor_of(declared.dtype, datum.tensor()->dims()), &conflict);
  return conflict;
}

std::optional<Escape> shape_escape(const AbsTensor& range, const Tensor& tensor) {
  if (range.dtype != DType::undefined && range.dtype != tensor.dtype()) {
    return Escape{"is " + std::string(name(tensor.dtype())) + " but was taken to be " + std::string(name(range.dtype))};
  }
  if (!range.ranked) return std::nullopt;
  bool fits = range.sizes.size() == tensor.rank();
  for (std::size_t i = 0; fits && i < range.sizes.size(); ++i) {
    fits = range.sizes[i] < 0 || range.sizes[i] == tensor.dim(i);
  }
  if (fits) return std::nullopt;
  return Escape{"has shape " + to_string(tensor.dims()) + " but was taken to be " + to_string(range.sizes)};
}

std::string index_text(const Dims& dims, std::size_t position) {
  std::vector<std::int64_t> index(dims.size());
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    index[axis] = static_cast<std::int64_t>(position % static_cast<std::size_t>(dims[axis]));
    position /= static_cast<std::size_t>(dims[axis]);
  }
  return to_string(index);
}

// The cell of every element, in order; empty when there is only one.
std::vector<std::size_t> cells_of(const AbsTensor& range, const Dims& dims) {
  std::vector<std::size_t> cells;
  if (!range.cut()) return cells;
  for (IndexCounter at(dims); at.valid(); at.next()) {
    std::size_t cell = 0;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      const Cuts& cuts = range.cuts[axis];
      const auto block = std::ranges::upper_bound(cuts, at.index()[axis]) - cuts.begin();
      cell = cell * range.blocks(axis) + static_cast<std::size_t>(block);
    }
    cells.push_back(cell);
  }
  return cells;
}

std::optional<Escape> cell_escape(const AbsTensor& range, const Tensor& tensor) {
  const std::vector<double> values = elements<double>(tensor);
  const std::vector<std::size_t> cells = cells_of(range, tensor.dims());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Range& cell = range.cells[cells.empty() ? 0 : cells[i]];
    if (cell.contains(values[i])) continue;
    return Escape{"element " + index_text(tensor.dims(), i) + " is " + shown(values[i]) + ", outside " +
                  to_string(cell)};
  }
  return std::nullopt;
}

std::optional<Escape> exact_escape(const AbsTensor& range, const Tensor& tensor) {
  if (!range.exact) return std::nullopt;
  if (range.exact->dims() != tensor.dims()) return Escape{"has another shape than its known elements"};
  const std::vector<double> known = elements<double>(*range.exact);
  const std::vector<double> values = elements<double>(tensor);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!same_number(known[i], values[i])) {
      return Escape{"element " + std::to_string(i) + " is " + shown(values[i]) + ", known to be " + shown(known[i])};
    }
  }
  return std::nullopt;
}

std::optional<Escape> escape_of(const AbsTensor& range, const Datum& datum) {
  if (const Sequence* items = datum.sequence()) {
    for (const Datum& item : *items) {
      if (auto escape = escape_of(range, item)) return escape;
    }
    return std::nullopt;
  }
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr || !is_number(tensor->dtype())) return std::nullopt;
  if (auto escape = shape_escape(range, *tensor)) return escape;
  if (auto escape = exact_escape(range, *tensor)) return escape;
  return cell_escape(range, *tensor);
}

class Run {
 public:
  Run(const Graph& graph, const Analysis& analysis, const Drawn& drawn, VerifyReport& report);

  void start(std::uint64_t seed);

 private:
  void look_at(const Node& node, std::span<const Datum> outputs);
  bool inherits_failure(const Node& node) const;
  bool predicted_failure(const Node& node, std::span<const Datum> outputs, bool escaped) const;
  bool hits_unsafe(const Node& node, const Finding& finding) const;
  void fail_from(const Node& node);
  void check_output(const Node& node, ValueId id, const Datum& datum);
  void check_relations(ValueId id, const Datum& datum);
  const Datum* concrete(ValueId id) const;
  [[noreturn]] void escaped(const Node* node, ValueId id, const std::string& what) const;

  const Graph& graph_;
  const Analysis& analysis_;
  const Drawn& drawn_;
  VerifyReport& report_;
  std::unordered_map<NodeId, std::vector<const Finding*>> open_;  // findings that were not proved
  std::unordered_map<ValueId, Datum> values_;
  std::vector<bool> failed_;       // by ValueId: comes after a failure that was predicted
  std::vector<bool> body_failed_;  // by BodyId: something in it failed
};

Run::Run(const Graph& graph, const Analysis& analysis, const Drawn& drawn, VerifyReport& report)
    : graph_(graph),
      analysis_(analysis),
      drawn_(drawn),
      report_(report),
      failed_(graph.values().size(), false),
      body_failed_(graph.bodies().size(), false) {
  for (const Finding& finding : analysis.findings) {
    if (finding.verdict != Verdict::proved && finding.node.valid()) open_[finding.node].push_back(&finding);
  }
}

void Run::escaped(const Node* node, ValueId id, const std::string& what) const {
  const std::string where = node == nullptr ? "input" : describe(graph_, *node) + ": output";
  throw Error(std::string(kEscape) + where + " '" + graph_.value(id).name + "' " + what);
}

const Datum* Run::concrete(ValueId id) const {
  const auto found = values_.find(id);
  return found == values_.end() ? nullptr : &found->second;
}

void Run::start(std::uint64_t seed) {
  for (const ValueId id : graph_.main().inputs) {
    const auto given = drawn_.inputs.find(graph_.value(id).name);
    if (given == drawn_.inputs.end()) continue;
    values_[id] = given->second;
    const auto escape = escape_of(analysis_.ranges[id.at()], given->second);
    if (analysis_.reached[id.at()] && escape) escaped(nullptr, id, escape->what);
    check_relations(id, given->second);
  }
  for (const auto& [id, datum] : drawn_.weights) values_[id] = datum;
  RunOptions options;
  options.seed = seed;
  options.weights = &drawn_.weights;
  std::vector<Note> unsupported;
  options.unsupported = &unsupported;
  options.trace = [this](const Node& node, std::span<const Datum> outputs) { look_at(node, outputs); };
  try {
    run_reference(graph_, drawn_.inputs, options);
  } catch (const Error& error) {
    // On its way here an escape was given the context of an evaluation that failed, which it is not.
    const std::string_view text = error.what();
    if (const std::size_t at = text.find(kEscape); at != std::string_view::npos)
      throw Error(std::string(text.substr(at)));
    ++report_.failed;
    if (report_.first_failure.empty()) report_.first_failure = error.what();
  }
  ++report_.runs;
  if (report_.unsupported.empty()) report_.unsupported = std::move(unsupported);
}

bool Run::inherits_failure(const Node& node) const {
  const auto failed = [&](ValueId id) {
    if (!id.valid()) return false;
    if (failed_[id.at()]) return true;
    // What enters a body is not traced: after one failure inside, everything entering it is suspect.
    const Value& value = graph_.value(id);
    const bool enters = !value.producer.valid() && !value.constant && value.body != Graph::kMain;
    if (!enters) return false;
    const Node& owner = graph_.node(graph_.body(value.body).owner);
    return body_failed_[value.body.at()] || inherits_failure(owner);
  };
  const auto body_failed = [&](BodyId body) { return static_cast<bool>(body_failed_[body.at()]); };
  return std::ranges::any_of(node.inputs, failed) || std::ranges::any_of(node.captures, failed) ||
         std::ranges::any_of(bodies_of(node.attrs), body_failed);
}

bool Run::hits_unsafe(const Node& node, const Finding& finding) const {
  const auto operand = static_cast<std::size_t>(finding.operand);
  for (const Hazard& hazard : node.op->hazards) {
    if (hazard.rule != finding.rule || hazard.operand != operand) continue;
    const Value& value = graph_.value(node.inputs[operand]);
    const Datum* datum = concrete(node.inputs[operand]);
    const Datum loaded = datum == nullptr && value.constant ? Datum(value.constant->load()) : Datum();
    const Tensor* tensor = datum == nullptr ? loaded.tensor() : datum->tensor();
    if (tensor == nullptr) return true;  // enters a body: not known
    const UnsafeSet unsafe = hazard.unsafe(tensor->dtype());
    return std::ranges::any_of(elements<double>(*tensor), [&](double x) { return meets(point(x), unsafe); });
  }
  return false;
}

// Is there a finding that foretold what happened here?
bool Run::predicted_failure(const Node& node, std::span<const Datum> outputs, bool escaped) const {
  const auto found = open_.find(graph_.value(*std::ranges::find_if(node.outputs, &ValueId::valid)).producer);
  if (found == open_.end()) return false;
  for (const Finding* finding : found->second) {
    const auto from_table = [&](const Hazard& hazard) {
      return hazard.rule == finding->rule && static_cast<int>(hazard.operand) == finding->operand;
    };
    if (finding->operand >= 0 && std::ranges::any_of(node.op->hazards, from_table)) {
      if (hits_unsafe(node, *finding)) return true;
    } else if (finding->operand >= 0) {
      if (escaped) return true;  // found by the rule itself, which alone knows its unsafe values
    } else if (std::ranges::any_of(outputs, has_non_finite)) {
      return true;
    }
  }
  return false;
}

void Run::fail_from(const Node& node) {
  for (const ValueId id : node.outputs) {
    if (id.valid()) failed_[id.at()] = true;
  }
  if (node.body != Graph::kMain) body_failed_[node.body.at()] = true;
  ++report_.skipped;
}

void Run::check_relations(ValueId id, const Datum& datum) {
  const Tensor* tensor = datum.tensor();
  const AbsTensor& range = analysis_.ranges[id.at()];
  if (tensor == nullptr || graph_.value(id).body != Graph::kMain || !is_number(tensor->dtype())) return;
  const auto source = [&](ValueId other) -> const Tensor* {
    const bool usable = other.valid() && !failed_[other.at()] && graph_.value(other).body == Graph::kMain;
    const Datum* found = usable ? concrete(other) : nullptr;
    return found == nullptr ? nullptr : found->tensor();
  };
  const Tensor* same = source(range.identity);
  if (same != nullptr && range.identity != id) {
    const bool equal = same->dims() == tensor->dims() &&
                       std::ranges::equal(elements<double>(*same), elements<double>(*tensor), same_number);
    if (!equal) escaped(nullptr, id, "was taken to be the same as '" + graph_.value(range.identity).name + "'");
  }
  const std::string broken = broken_fact(range, *tensor, source);
  if (!broken.empty()) escaped(nullptr, id, broken);
}

void Run::check_output(const Node& node, ValueId id, const Datum& datum) {
  if (!analysis_.reached[id.at()]) {
    if (analysis_.complete) escaped(&node, id, "was taken to be never computed");
    return;
  }
  if (const auto escape = escape_of(analysis_.ranges[id.at()], datum)) escaped(&node, id, escape->what);
  check_relations(id, datum);
  ++report_.tensors;
  const AbsTensor& range = analysis_.ranges[id.at()];
  if (is_subset(top(range.dtype), range.hull())) ++report_.vacuous;
  if (datum.tensor() != nullptr) report_.elements += static_cast<std::size_t>(datum.tensor()->size());
}

void Run::look_at(const Node& node, std::span<const Datum> outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (node.outputs[i].valid()) values_[node.outputs[i]] = outputs[i];
  }
  if (std::ranges::none_of(node.outputs, &ValueId::valid)) return;
  if (inherits_failure(node)) return fail_from(node);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId id = node.outputs[i];
    if (id.valid() && contradicts_file(graph_.value(id).type, outputs[i])) return fail_from(node);
  }
  bool escaped = false;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId id = node.outputs[i];
    const bool ranged = id.valid() && analysis_.reached[id.at()];
    escaped |= ranged && escape_of(analysis_.ranges[id.at()], outputs[i]).has_value();
  }
  if (predicted_failure(node, outputs, escaped)) return fail_from(node);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const ValueId id = node.outputs[i];
    if (!id.valid()) continue;
    const bool conditional = id.at() < analysis_.guarded.size() && analysis_.guarded[id.at()];
    if (!conditional) check_output(node, id, outputs[i]);
  }
}

}  // namespace

void verify_run(const Graph& graph, const Analysis& analysis, const Drawn& drawn, std::uint64_t seed,
                VerifyReport& report) {
  Run(graph, analysis, drawn, report).start(seed);
}

VerifyReport verify(const Graph& graph, const Types& types, const Premises& premises, const Analysis& analysis,
                    const VerifyOptions& options) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  Rng rng(options.seed);
  VerifyReport report;
  for (int number = 0; number < options.runs; ++number) {
    const double elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
    if (options.time_limit > 0 && elapsed > options.time_limit) break;
    const Drawn drawn = draw_inside(graph, types, premises, rng, number);
    try {
      verify_run(graph, analysis, drawn, options.seed + static_cast<std::uint64_t>(number), report);
    } catch (Error& error) {
      error.in("run " + std::to_string(number) + " of seed " + std::to_string(options.seed));
      throw;
    }
  }
  return report;
}

}  // namespace finity

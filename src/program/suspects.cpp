#include "program/suspects.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/error.h"
#include "gradient/gradient.h"
#include "ops/table/hazard.h"
#include "ops/table/op.h"
#include "ops/table/rule_patterns.h"
#include "program/engine.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"
#include "trigger/distance_text.h"
#include "trigger/loss_writer.h"
#include "types/graph_writer.h"
#include "types/hazard_quantity.h"

namespace finity {

namespace {

// The formats of its results are those of operands: in double it computes in double.
bool follows_formats(const OpDef& op) {
  const Signature& signature = signature_of(op);
  return std::ranges::all_of(signature.outputs, [&](const Param& output) {
    const auto same = [&](const Param& input) { return input.type.variable == output.type.variable; };
    return !output.type.variable.empty() && std::ranges::any_of(signature.inputs, same);
  });
}

// Cheap ops, and exact enough in double to be worth it.
bool is_light(const Node& node) {
  if (node.op == nullptr || node.op->traits.random || node.body != Graph::kMain || !bodies_of(node.attrs).empty())
    return false;
  const OpTraits& traits = node.op->traits;
  return node.op->identity.domain.empty() && (traits.elementwise || traits.light) && follows_formats(*node.op);
}

// Losses of programs: values in double, and of each sample its own.
class SuspectWriter : public LossWriter {
 public:
  explicit SuspectWriter(GraphWriter& writer) : LossWriter(writer), writer_(writer) {}

  // The value in double; its light producers are computed again.
  ValueId wide(ValueId id) {
    const auto known = wide_.find(id);
    if (known != wide_.end()) return known->second;
    const ValueId result = computed_wide(id);
    wide_[id] = result;
    return result;
  }

  // The smallest (or another reduction) of every row along the first axis; a single one where there are no rows.
  ValueId per_row(std::string_view op, ValueId id) {
    const Type& type = writer_.type(id);
    if (!type.ranked || type.shape.empty()) {
      return writer_.add("Reshape",
                         {over_all(op, id), writer_.constant(Tensor::vector_of(std::vector<std::int64_t>{1}))});
    }
    if (type.shape.size() == 1) return id;
    std::vector<std::int64_t> axes;
    for (std::size_t axis = 1; axis < type.shape.size(); ++axis) axes.push_back(static_cast<std::int64_t>(axis));
    Attrs attrs;
    attrs.set("keepdims", std::int64_t{0});
    return writer_.add(op, {id, writer_.constant(Tensor::vector_of(axes))}, std::move(attrs));
  }

 private:
  ValueId computed_wide(ValueId id) {
    const Value& value = writer_.graph().value(id);
    if (!is_float(writer_.type(id).dtype)) return id;
    if (!value.producer.valid()) return as_double(id);
    const Node node = writer_.graph().node(value.producer);  // a copy: nodes are added below
    if (!is_light(node) || node.outputs.size() != 1) return as_double(id);
    std::vector<ValueId> inputs;
    for (const ValueId in : node.inputs) inputs.push_back(in.valid() ? wide(in) : in);
    try {
      const std::vector<ValueId> again = writer_.repeat(call_of(writer_.graph(), node), std::move(inputs), node.attrs);
      return as_double(again.front());
    } catch (const Error&) {
      return as_double(id);
    }
  }

  GraphWriter& writer_;
  std::map<ValueId, ValueId> wide_;
};

std::string node_name(const Graph& graph, const Node& node) {
  if (!node.name.empty() || node.outputs.empty() || !node.outputs.front().valid()) return node.name;
  return graph.value(node.outputs.front()).name;
}

// Numbers that are too large, and no others.
bool only_huge(const UnsafeSet& unsafe, double limit) {
  return std::ranges::all_of(unsafe, [&](const Unsafe& part) { return part.lo >= limit || part.hi <= -limit; });
}

class Preparer {
 public:
  Preparer(const CheckedGraph& checked, Prepared& prepared)
      : checked_(checked), prepared_(prepared), writer_(checked.graph, checked.types), losses_(writer_) {}

  void add_all(const std::vector<std::string>& sites) {
    for (const Finding& finding : checked_.analysis.findings) {
      prepared_.proved += finding.verdict == Verdict::proved;
      if (!finding.node.valid()) continue;
      const std::vector<ValueId>& outputs = checked_.graph.node(finding.node).outputs;
      if (outputs.empty() || !outputs.front().valid()) continue;
      prepared_.verdicts.push_back(
          {checked_.graph.value(outputs.front()).name, std::string(finding.rule), finding.verdict == Verdict::proved});
    }
    std::set<std::string> named;
    for (const Finding& finding : ordered()) {
      if (!finding.node.valid()) {
        if (sites.empty() && finding.verdict != Verdict::proved) leave_out(finding, "it belongs to no node");
        continue;
      }
      bool wanted = sites.empty() && finding.verdict != Verdict::proved;
      for (const std::string& site : sites) {
        if (!matches(finding, site)) continue;
        wanted = true;
        named.insert(site);
      }
      if (!wanted) continue;
      if (!tried_.insert({finding.node, finding.rule}).second) continue;
      if (checked_.graph.node(finding.node).body != Graph::kMain) leave_out(finding, "it is inside a branch or loop");
      else add(finding);
    }
    std::ranges::stable_sort(prepared_.suspects, {}, &Suspect::general);
    for (const std::string& site : sites) {
      if (!named.contains(site)) throw Error("--site: no hazard of the program is at '" + site + "'");
    }
  }

  GraphWriter& writer() { return writer_; }

 private:
  // What an operand makes invalid comes first, then overflows that an op is known for, then those of sums and products,
  // which every network with free weights may have; the forward pass before the backward pass.
  std::vector<Finding> ordered() const {
    std::vector<Finding> findings = checked_.analysis.findings;
    const auto rank = [&](const Finding& finding) {
      if (!finding.node.valid()) return 9;
      const bool backward = checked_.graph.node(finding.node).gradient_of.valid();
      return (finding.operand >= 0 ? 0 : is_general(finding) ? 4 : 2) + (backward ? 1 : 0);
    };
    std::ranges::stable_sort(findings, {}, rank);
    return findings;
  }

  bool is_open(NodeId node) const {
    return std::ranges::any_of(checked_.analysis.findings, [&](const Finding& finding) {
      return finding.node == node && finding.verdict != Verdict::proved;
    });
  }

  bool is_general(const Finding& finding) const {
    const OpDef* op = checked_.graph.node(finding.node).op;
    if (op == nullptr) return true;
    return finding.operand < 0 && hazard_of(*op, finding.rule, finding.operand) == nullptr &&
           raised_rule(finding.rule) != op->analysis.overflow;
  }

  bool matches(const Finding& finding, const std::string& site) const {
    const Node& node = checked_.graph.node(finding.node);
    // A node's derivative stands for it where its value itself is proved.
    const bool stands_in = node.gradient_of.valid() && !is_open(node.gradient_of);
    const Node& forward = stands_in ? checked_.graph.node(node.gradient_of) : node;
    const auto is_here = [&](std::string_view name) {
      if (node.name == name || name == finding.rule || (!name.empty() && forward.name == name)) return true;
      return std::ranges::any_of(node.outputs,
                                 [&](ValueId id) { return id.valid() && checked_.graph.value(id).name == name; });
    };
    if (is_here(site)) return true;
    const std::size_t colon = site.rfind(':');
    return colon != std::string::npos && is_here(site.substr(0, colon)) && site.substr(colon + 1) == finding.rule;
  }

  void add(const Finding& finding) {
    const Node node = checked_.graph.node(finding.node);
    Suspect suspect = {.name = node_name(checked_.graph, node), .title = describe(checked_.graph, node)};
    suspect.rule = finding.rule;
    suspect.in_gradient = node.gradient_of.valid();
    suspect.general = is_general(finding);
    if (!node.outputs.empty() && node.outputs.front().valid())
      suspect.result = checked_.graph.value(node.outputs.front()).name;
    try {
      const bool written = add_hazards(finding, node, suspect) || add_overflow(finding, node, suspect);
      if (written) prepared_.suspects.push_back(std::move(suspect));
      else leave_out(finding, "there is no quantity to walk along");
    } catch (const Error& error) {
      leave_out(finding, error.what());
    }
  }

  void leave_out(const Finding& finding, const std::string& why) {
    if (finding.verdict == Verdict::proved) return;  // asked for all the same
    const std::string title =
        finding.node.valid() ? describe(checked_.graph, checked_.graph.node(finding.node)) : "the whole program";
    prepared_.unsearched.push_back(
        {.title = title, .rule = std::string(finding.rule), .why = finding.reason.empty() ? why : finding.reason});
  }

  bool add_hazards(const Finding& finding, const Node& node, Suspect& suspect) {
    if (node.op == nullptr) return false;
    const DType dtype = finding.value.valid() ? checked_.types[finding.value].dtype : DType::undefined;
    const Hazard* hazard = hazard_of(*node.op, finding.rule, finding.operand);
    if (hazard == nullptr) return false;
    const UnsafeSet unsafe = hazard->unsafe(dtype);
    if (unsafe.empty()) return false;
    const ValueId quantity = add_quantity(writer_, finding.node, *hazard).value;
    if (!quantity.valid()) return false;
    const ValueId exact = hazard->quantity == nullptr ? losses_.wide(quantity) : losses_.as_double(quantity);
    if (only_infinities(unsafe)) return write_room(exact, quantity, max_finite(dtype), suspect);
    // Sums inside a recurrent layer.
    if (only_huge(unsafe, max_finite(dtype))) {
      suspect.general = true;
      return write_room(exact, quantity, max_finite(dtype), suspect);
    }
    suspect.unsafe = unsafe_values_text(unsafe);
    const ValueId own = losses_.as_double(quantity);
    name_value(losses_.over_all("ReduceMin", losses_.distances(own, unsafe)), suspect.distance);
    const ValueId each = losses_.distances(exact, unsafe);
    name_value(losses_.over_all("ReduceMin", each), suspect.nearest);
    write_rows(losses_.logarithm(losses_.per_row("ReduceMin", each)), suspect);
    return true;
  }

  bool add_overflow(const Finding& finding, const Node& node, Suspect& suspect) {
    ValueId value = finding.value;
    if (finding.seen.nan) {
      const auto is_operand = [&](ValueId id) { return id.valid() && is_float(writer_.type(id).dtype); };
      const auto operand = std::ranges::find_if(node.inputs, is_operand);
      if (operand == node.inputs.end()) return false;
      value = *operand;
    }
    if (!value.valid() || !is_float(writer_.type(value).dtype)) return false;
    return write_room(losses_.wide(value), value, max_finite(writer_.type(value).dtype), suspect);
  }

  // How far the logarithm of the largest magnitude is from the limit's.
  bool write_room(ValueId exact, ValueId own, double limit, Suspect& suspect) {
    suspect.limit = limit;
    const auto room = [&](ValueId size) { return losses_.room(size, limit); };
    const ValueId size = writer_.add("Abs", {exact});
    name_value(room(losses_.over_all("ReduceMax", writer_.add("Abs", {losses_.as_double(own)}))), suspect.distance);
    name_value(room(losses_.over_all("ReduceMax", size)), suspect.nearest);
    write_rows(room(losses_.per_row("ReduceMax", size)), suspect);
    return true;
  }

  void write_rows(ValueId rows, Suspect& suspect) {
    name_value(rows, suspect.rows);
    name_value(losses_.over_all("ReduceSum", rows), suspect.total);
    const std::optional<Dims> dims = writer_.type(rows).dims();
    suspect.row_count = dims ? element_count(*dims) : 1;
  }

  void name_value(ValueId id, std::string& name) {
    name = writer_.graph().value(id).name;
    writer_.add_output(id);
  }

  const CheckedGraph& checked_;
  Prepared& prepared_;
  GraphWriter writer_;
  SuspectWriter losses_;
  std::set<std::pair<NodeId, std::string_view>> tried_;
};

InputContract declared(const std::string& name, const LegalRange& range) {
  InputContract contract = {.pattern = name, .origin = "the program"};
  contract.lo = std::isinf(range.lo) ? -kMostFinite : range.lo;
  contract.hi = std::isinf(range.hi) ? kMostFinite : range.hi;
  return contract;
}

// Of trained weights nothing is known but that they are finite, unless the program says how far they go.
Contract contract_of(const Program& program) {
  Contract contract;
  for (const ProgramInput& input : program.inputs) {
    const DType dtype = program.types[input.id].dtype;
    if (!is_float(dtype) && !is_int(dtype)) continue;
    contract.inputs.push_back(declared(input.name, *input.range));
  }
  for (const ProgramWeight& weight : program.weights) {
    const bool fixed = !weight.train && weight.update.empty();
    if (!fixed) contract.inputs.push_back(declared(weight.name, {-weight.reach, weight.reach}));
    else if (weight.range) contract.inputs.push_back(declared(weight.name, *weight.range));
    else if (weight.init && weight.init->kind == Draw::Kind::uniform)
      contract.inputs.push_back(declared(weight.name, {weight.init->a, weight.init->b}));
    else if (!program.graph->value(weight.id).constant) contract.inputs.push_back(declared(weight.name, {}));
  }
  return contract;
}

}  // namespace

Graph training_step(const Program& program) {
  GraphWriter writer(*program.graph, program.types);
  const std::vector<ValueId>& outputs = program.graph->main().outputs;
  const auto output = [&](ValueId id) {
    if (std::ranges::find(outputs, id) == outputs.end()) writer.add_output(id);
  };
  output(program.loss_id);
  for (const ValueId id : program.watch_ids) output(id);
  for (const Phase& phase : phases_of(program)) {
    std::vector<ValueId> by;
    for (const std::size_t i : phase.weights) by.push_back(program.weights[i].id);
    const GradientResult gradient = add_gradient(writer, phase.loss, by);
    for (std::size_t i = 0; i < by.size(); ++i) {
      if (gradient.of[i].valid())
        writer.add_output(gradient.of[i], "gradient of " + program.weights[phase.weights[i]].name);
    }
  }
  return std::move(writer).finish().graph;
}

CheckedGraph check_program(const Program& program) {
  constexpr double kSeconds = 10;
  GraphCheckOptions options;
  options.analysis.ranges.flush_subnormals = program.flush_subnormals;
  options.analysis.time_limit = kSeconds;
  options.analysis.find_causes = false;
  options.bindings = program.types.bindings;
  return check_graph(training_step(program), contract_of(program), options);
}

Prepared prepare(const Program& program, const std::vector<std::string>& sites) {
  const CheckedGraph checked = check_program(program);
  Prepared prepared = {.program = program};
  const std::size_t before = program.graph->main().outputs.size();
  for (std::size_t i = before; i < checked.graph.main().outputs.size(); ++i) {
    const Value& value = checked.graph.value(checked.graph.main().outputs[i]);
    if (value.name.starts_with("gradient of ")) prepared.gradients.push_back(value.name);
  }
  Preparer preparer(checked, prepared);
  preparer.add_all(sites);
  GraphWriter::Result result = std::move(preparer.writer()).finish();
  prepared.program.graph = std::make_shared<const Graph>(std::move(result.graph));
  prepared.program.types = std::move(result.types);
  return prepared;
}

}  // namespace finity

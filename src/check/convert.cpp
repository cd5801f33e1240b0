#include "check/convert.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "graph/builder.h"
#include "graph/unique_names.h"
#include "ops/table/op.h"
#include "types/check.h"

namespace finity {

namespace {

DType leaf_dtype(const Type& type) { return type.element ? leaf_dtype(*type.element) : type.dtype; }

// Attributes that name the dtype of a result. Those that only choose an internal precision (stash_type, ...) stay.
constexpr std::array<std::string_view, 4> kDTypeAttrs = {"to", "dtype", "output_dtype", "output_datatype"};

class Converter {
 public:
  Converter(const Graph& graph, const Types& types, DType target, const NodeSet& keep)
      : graph_(graph),
        types_(types),
        target_(target),
        keep_(keep),
        builder_(graph),
        now_(graph.values().size(), DType::undefined) {}

  Conversion run();

 private:
  struct Plan {
    std::vector<DType> in;   // wanted of each operand
    std::vector<DType> out;  // what the node then gives
    Attrs attrs;
    std::map<BodyId, std::vector<Type>> body_inputs;
  };

  void convert_body(BodyId id, bool kept, const std::vector<Type>* inputs);
  void convert_node(NodeId id, bool kept);
  bool touches_floats(const Node& node) const;
  bool handles_containers(const Node& node) const;
  Plan unchanged(const Node& node) const;
  Plan changed(const Node& node) const;
  Attrs changed_attrs(const Node& node) const;
  void infer(const Node& node, Plan& plan) const;
  DType wanted(const Node& node, std::size_t operand) const;
  DType own(ValueId id) const { return leaf_dtype(types_[id]); }
  // What a value becomes when nothing speaks against it.
  DType usual(ValueId id) const {
    const Type& type = types_[id];
    return type.is_tensor() && is_converted(type.dtype, target_) ? target_ : leaf_dtype(type);
  }
  Type usual_type(ValueId id) const;

  ValueId as(ValueId id, DType wanted);
  ConstantPtr constant_of(ValueId id) const;
  ValueId add_constant_copy(ValueId id, DType wanted, const ConstantPtr& constant);
  ValueId add_cast(ValueId id, DType wanted);
  std::string copy_name(const std::string& name, DType dtype);
  void settle_constants();

  const Graph& graph_;
  const Types& types_;
  DType target_;
  const NodeSet& keep_;
  GraphBuilder builder_;
  std::vector<DType> now_;  // by ValueId of the original; undefined for a constant nobody has asked for yet
  std::map<std::pair<ValueId, DType>, ValueId> copies_;
  std::optional<UniqueNames> names_;  // most conversions need none
  Conversion result_;
};

Conversion Converter::run() {
  convert_body(Graph::kMain, false, nullptr);
  settle_constants();
  result_.graph = std::move(builder_).build();
  return std::move(result_);
}

void Converter::convert_body(BodyId id, bool kept, const std::vector<Type>* inputs) {
  const Body& body = graph_.body(id);
  for (std::size_t i = 0; i < body.inputs.size(); ++i) {
    const ValueId input = body.inputs[i];
    if (graph_.value(input).constant) continue;
    const bool told = inputs != nullptr && i < inputs->size();
    const DType given = told ? leaf_dtype((*inputs)[i]) : DType::undefined;
    now_[input.at()] = given != DType::undefined ? given : kept ? own(input) : usual(input);
  }
  for (const NodeId node : body.nodes) convert_node(node, kept);
  for (std::size_t i = 0; i < body.outputs.size(); ++i) {
    const ValueId output = body.outputs[i];
    if (!output.valid()) continue;
    // An output of the model is what its producer gives; one of a subgraph must be what the owner expects.
    const bool of_model = id == Graph::kMain && now_[output.at()] != DType::undefined;
    if (!of_model) builder_.body(id).outputs[i] = as(output, kept ? own(output) : usual(output));
  }
}

bool Converter::touches_floats(const Node& node) const {
  const auto converted = [&](ValueId id) { return id.valid() && is_converted(own(id), target_); };
  return std::ranges::any_of(node.inputs, converted) || std::ranges::any_of(node.outputs, converted);
}

bool is_container(const Type& type) { return type.kind != Type::Kind::tensor && type.kind != Type::Kind::unknown; }

// What is put into a sequence or optional keeps its format: nothing can cast it there.
bool Converter::handles_containers(const Node& node) const {
  const auto is_one = [&](ValueId id) { return id.valid() && is_container(types_[id]); };
  return (std::ranges::any_of(node.inputs, is_one) || std::ranges::any_of(node.outputs, is_one)) &&
         bodies_of(node.attrs).empty();
}

Converter::Plan Converter::unchanged(const Node& node) const {
  Plan plan{.in = {}, .out = {}, .attrs = node.attrs, .body_inputs = {}};
  const bool any_format = node.op != nullptr && node.op->traits.shape_only;
  for (const ValueId id : node.inputs) {
    plan.in.push_back(id.valid() && !any_format ? own(id) : DType::undefined);
  }
  for (const ValueId id : node.outputs) plan.out.push_back(id.valid() ? own(id) : DType::undefined);
  return plan;
}

void Converter::convert_node(NodeId id, bool kept) {
  const Node& node = graph_.node(id);
  const bool asked = kept || keep_.contains(id) || handles_containers(node);
  std::string reason;
  Plan plan;
  if (asked || node.op == nullptr) {
    plan = unchanged(node);
    reason = asked ? "" : "the op is not modelled";
  } else {
    try {
      plan = changed(node);
    } catch (const Error& error) {
      plan = unchanged(node);
      reason = error.what();
    }
  }
  const bool stays = asked || !reason.empty();
  if (stays) result_.kept.insert(id);
  if (!reason.empty() && touches_floats(node)) {
    result_.notes.push_back({describe(graph_, node), "stays in its own format: " + reason});
  }
  std::vector<ValueId> inputs = node.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].valid()) inputs[i] = as(inputs[i], plan.in[i]);
  }
  builder_.node(id).inputs = std::move(inputs);
  builder_.node(id).attrs = std::move(plan.attrs);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    if (node.outputs[i].valid()) now_[node.outputs[i].at()] = plan.out[i];
  }
  for (const BodyId body : bodies_of(node.attrs)) {
    const auto found = plan.body_inputs.find(body);
    convert_body(body, stays, found == plan.body_inputs.end() ? nullptr : &found->second);
  }
}

DType Converter::wanted(const Node& node, std::size_t operand) const {
  const ValueId id = node.inputs[operand];
  const DType usual_dtype = usual(id);
  if (usual_dtype == own(id)) return usual_dtype;
  const Param* param = Signature::param(signature_of(*node.op).inputs, operand);
  const bool unchecked = param == nullptr || param->type.kind == Type::Kind::unknown;
  return unchecked || param->type.dtypes[static_cast<std::size_t>(target_)] ? target_ : own(id);
}

Converter::Plan Converter::changed(const Node& node) const {
  const bool plain = !touches_floats(node) && bodies_of(node.attrs).empty();
  if (plain || node.op->traits.shape_only) return unchanged(node);
  Plan plan{.in = {}, .out = {}, .attrs = changed_attrs(node), .body_inputs = {}};
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    plan.in.push_back(node.inputs[i].valid() ? wanted(node, i) : DType::undefined);
  }
  infer(node, plan);
  return plan;
}

Attrs Converter::changed_attrs(const Node& node) const {
  const bool gives_tensor = !node.outputs.empty() && node.outputs[0].valid() && types_[node.outputs[0]].is_tensor();
  if (!gives_tensor) return node.attrs;
  Attrs attrs;
  const auto is_code = [&](std::string_view name, const Attr& value) {
    const auto* code = std::get_if<std::int64_t>(&value);
    if (code == nullptr || std::ranges::find(kDTypeAttrs, name) == kDTypeAttrs.end()) return false;
    const auto dtype = dtype_from_code(*code);
    return dtype && is_converted(*dtype, target_);
  };
  const Attr target = static_cast<std::int64_t>(target_);
  const ConstantPtr stated = stated_constant(node);
  for (const auto& [name, value] : node.attrs) {
    const auto* constant = std::get_if<ConstantPtr>(&value);
    const bool old_cast = name == "to" && (value == Attr("FLOAT") || value == Attr("DOUBLE"));
    if (stated && is_converted(stated->dtype(), target_)) {
      attrs.set("value", rounded_constant(stated, target_));
      return attrs;
    }
    if (constant != nullptr && is_converted((*constant)->dtype(), target_)) {
      attrs.set(name, rounded_constant(*constant, target_));
    } else {
      attrs.set(name, is_code(name, value) || old_cast ? target : value);
    }
  }
  for (const AttrSpec& spec : signature_of(*node.op).attrs) {
    if (spec.fallback && attrs.find(spec.name) == nullptr && is_code(spec.name, *spec.fallback))
      attrs.set(spec.name, target);
  }
  return attrs;
}

Type Converter::usual_type(ValueId id) const {
  Type type = types_[id];
  if (type.is_tensor()) type.dtype = usual(id);
  return type;
}

// The op's own inference says what the node gives for the operands it gets, or that it does not take them.
void Converter::infer(const Node& node, Plan& plan) const {
  std::vector<InferCall::Operand> operands(node.inputs.size());
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    if (!node.inputs[i].valid()) continue;
    const std::size_t at = node.inputs[i].at();
    operands[i].type = types_.of[at];
    const bool same = plan.in[i] == own(node.inputs[i]);
    if (!same) operands[i].type.dtype = plan.in[i];
    if (same && types_.known[at]) operands[i].value = &*types_.known[at];
  }
  OpCall what = call_of(graph_, node);
  what.attrs = &plan.attrs;
  InferCall call(std::move(what), std::move(operands), [&](BodyId body, std::span<const Type> inputs) {
    plan.body_inputs[body].assign(inputs.begin(), inputs.end());
    std::vector<Type> outputs;
    for (const ValueId id : graph_.body(body).outputs) outputs.push_back(id.valid() ? usual_type(id) : Type{});
    return outputs;
  });
  check_dtypes(*node.op, call);
  if (node.op->meaning.infer != nullptr) node.op->meaning.infer(call);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const DType inferred = leaf_dtype(call.outs()[i]);
    const bool known = inferred != DType::undefined || !node.outputs[i].valid();
    plan.out.push_back(known ? inferred : own(node.outputs[i]));
  }
}

ConstantPtr Converter::constant_of(ValueId id) const {
  const Value& value = graph_.value(id);
  if (value.constant) return value.constant;
  return value.producer.valid() ? stated_constant(graph_.node(value.producer)) : nullptr;
}

ValueId Converter::as(ValueId id, DType wanted) {
  DType& now = now_[id.at()];
  const Value& value = graph_.value(id);
  if (now == DType::undefined && value.constant) now = wanted;  // the first to ask decides which copy has the name
  if (now == wanted || wanted == DType::undefined || now == DType::undefined || is_container(types_[id])) return id;
  if (const auto found = copies_.find({id, wanted}); found != copies_.end()) return found->second;
  const ConstantPtr constant = constant_of(id);
  const bool replaceable = std::ranges::find(graph_.main().inputs, id) != graph_.main().inputs.end();
  const ValueId copy = constant && !replaceable ? add_constant_copy(id, wanted, constant) : add_cast(id, wanted);
  copies_.emplace(std::pair{id, wanted}, copy);
  return copy;
}

std::string Converter::copy_name(const std::string& name, DType dtype) {
  if (!names_) names_.emplace(graph_);
  return names_->make(name + "_" + std::string(finity::name(dtype)));
}

ValueId Converter::add_constant_copy(ValueId id, DType wanted, const ConstantPtr& constant) {
  const Value& value = graph_.value(id);
  return builder_.add_constant(value.body, copy_name(value.name, wanted), rounded_constant(constant, wanted));
}

ValueId Converter::add_cast(ValueId id, DType wanted) {
  const Value& value = graph_.value(id);
  Type type = types_[id];
  type.dtype = wanted;
  const ValueId copy = builder_.add_value(value.body, copy_name(value.name, wanted), std::move(type));
  constexpr int kSomeVersion = 13;
  const auto opset = graph_.info().opsets.find("");
  Node node = node_of(op_named("Cast"), opset == graph_.info().opsets.end() ? kSomeVersion : opset->second);
  node.name = value.name + " as " + std::string(name(wanted));
  node.inputs = {id};
  node.outputs = {copy};
  node.attrs.set("to", static_cast<std::int64_t>(wanted));
  node.body = value.body;
  builder_.add_node(std::move(node));
  return copy;
}

// Every original value now has its dtype; constants nobody uses follow the rule.
void Converter::settle_constants() {
  for (std::size_t i = 0; i < graph_.values().size(); ++i) {
    const ValueId id{static_cast<std::int32_t>(i)};
    const Value& value = graph_.value(id);
    Value& copy = builder_.value(id);
    if (now_[i] == DType::undefined) now_[i] = usual(id);
    if (value.constant) copy.constant = rounded_constant(value.constant, now_[i]);
    if (copy.type.is_tensor()) copy.type.dtype = now_[i];
  }
}

}  // namespace

bool is_converted(DType dtype, DType target) {
  // Widening to double is what a search does, to see differences that narrow formats round away.
  const bool narrow = dtype == DType::float16 || dtype == DType::bfloat16;
  if (target == DType::float64 && narrow) return true;
  return (dtype == DType::float32 || dtype == DType::float64) && dtype != target;
}

Conversion convert_floats(const Graph& graph, const Types& types, DType target, const NodeSet& keep) {
  return Converter(graph, types, target, keep).run();
}

}  // namespace finity

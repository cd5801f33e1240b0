#include "ops/control/loops.h"

#include <string>
#include <utility>

#include "base/error.h"
#include "ops/shared/pieces.h"
#include "ops/shared/shape_values.h"
#include "ops/shared/shapes.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// A loop body is inferred several times, so nested loops multiply: loops nested
// deeper than this are inferred once, with nothing known of the state but what the body declares.
constexpr int kPreciseNesting = 2;

bool deeply_nested(const Call& call) { return call.description().loops >= kPreciseNesting; }

// The dtype is kept, everything that may change between iterations is dropped.
Type without_shape(const Type& type) {
  Type result = type;
  result.ranked = false;
  result.shape.clear();
  result.count = {};
  if (type.element) result.element = std::make_shared<const Type>(without_shape(*type.element));
  return result;
}

void check_dtype_kept(const Type& before, const Type& after, std::size_t index) {
  if (!before.is_tensor() || !after.is_tensor() || before.dtype == after.dtype) return;
  if (before.dtype == DType::undefined || after.dtype == DType::undefined) return;
  throw Error("state " + std::to_string(index) + " changes from " + std::string(name(before.dtype)) + " to " +
              std::string(name(after.dtype)));
}

std::vector<Type> body_inputs(const LoopTypes& types) {
  std::vector<Type> inputs = types.before;
  inputs.insert(inputs.end(), types.state.begin(), types.state.end());
  inputs.insert(inputs.end(), types.after.begin(), types.after.end());
  return inputs;
}

// A bound that moves from one iteration to the next is no bound.
Dim widened(const Dim& before, const Dim& next) {
  Dim result = either(before, next);
  if (before.known() || result.known()) return result;
  if (before.most == Dim::kNoMost || result.most > before.most_size()) result.most = Dim::kNoMost;
  if (result.least < before.least_size()) result.least = Dim::kNoLeast;
  return result;
}

Type widened(const Type& before, const Type& next) {
  Type result = join(before, next);
  result.count = widened(before.count, result.count);
  for (std::size_t i = 0; before.ranked && i < result.shape.size(); ++i) {
    result.shape[i] = widened(before.shape[i], next.shape[i]);
  }
  if (result.element) result.element = std::make_shared<const Type>(widened(*before.element, *next.element));
  return result;
}

// Whether the state's types hold for the next iteration too; else makes them wider.
bool absorb(LoopTypes& types, const std::vector<Type>& outputs, int pass) {
  constexpr int kJoins = 4;  // how often exact joining is tried before shapes, and then everything, are dropped
  bool stable = true;
  for (std::size_t i = 0; i < types.state.size(); ++i) {
    const Type& next = outputs[types.first_output + i];
    check_dtype_kept(types.state[i], next, i);
    Type wider = widened(types.state[i], next);
    if (identical(wider, types.state[i])) continue;
    stable = false;
    types.state[i] = std::move(wider);
  }
  if (stable || pass < kJoins) return stable;
  for (Type& type : types.state) type = pass == kJoins ? without_shape(type) : Type{};
  return false;
}

}  // namespace

std::vector<Type> infer_every_iteration(InferCall& call, BodyId body, LoopTypes types) {
  if (deeply_nested(call)) types.state.assign(types.state.size(), Type{});
  for (int pass = 0;; ++pass) {
    std::vector<Type> outputs = call.infer_body(body, body_inputs(types));
    if (absorb(types, outputs, pass)) return outputs;
  }
}

Type collected_type(const Type& element, const Dim& length, std::int64_t axis) {
  if (element.kind != Type::Kind::tensor) return {};
  if (!element.ranked) {
    Type result = Type::tensor(element.dtype);
    result.count = times(element.count, length);
    return result;
  }
  Shape shape = element.shape;
  const std::size_t at = normalize_axis(axis, shape.size(), true);
  shape.insert(shape.begin() + static_cast<std::ptrdiff_t>(at), length);
  return Type::tensor(element.dtype, std::move(shape));
}

Tensor collect(const Call& call, ValueId body_output, const std::vector<Tensor>& parts, std::int64_t axis) {
  if (!parts.empty()) return stacked(parts, normalize_axis(axis, parts.front().rank(), true));
  if (!body_output.valid()) throw Error("the body leaves out an output that is collected");
  const Type type = collected_type(call.bodies().value(body_output).type, Dim::of(0), axis);
  if (!type.is_tensor() || type.dtype == DType::undefined || !type.ranked) {
    // Not a fault of the model: what depends on it is left out.
    throw Unsupported("no iteration ran, and the body does not declare the type of its output '" +
                      call.bodies().value(body_output).name + "'");
  }
  Dims dims;
  for (const Dim& dim : type.shape) dims.push_back(dim.known() ? dim.size : 0);
  return {type.dtype, std::move(dims)};
}

void require_body_arity(const Call& call, BodyId body, std::size_t inputs, std::size_t min_outputs) {
  const Body& graph = call.bodies().body(body);
  if (graph.inputs.size() != inputs) {
    throw Error("the body takes " + std::to_string(graph.inputs.size()) + " inputs, expected " +
                std::to_string(inputs));
  }
  if (graph.outputs.size() < min_outputs) {
    throw Error("the body gives " + std::to_string(graph.outputs.size()) + " outputs, expected at least " +
                std::to_string(min_outputs));
  }
}

const Tensor& require_tensor(const Datum& datum, std::string_view what) {
  if (const Tensor* tensor = datum.tensor()) return *tensor;
  throw Error(std::string(what) + " is not a tensor");
}

bool condition_counts(const Call& call) { return call.has_input(1) || !call.has_input(0); }

namespace {

bool holds_true(const ConstantPtr& constant) {
  return constant && constant->missing().empty() && element_count(constant->dims()) == 1 &&
         constant->dtype() == DType::boolean && element_as_int(constant->load(), 0) != 0;
}

}  // namespace

bool keeps_condition(const Call& call, const Body& body) {
  ValueId at = body.outputs.front();
  for (int steps = 0; steps < 8 && at.valid(); ++steps) {
    const Value& value = call.bodies().value(at);
    if (at == body.inputs[1] || holds_true(value.constant)) return true;
    if (!value.producer.valid()) return false;
    const Node& producer = call.bodies().node(value.producer);
    const Attr* constant = producer.op_type == "Constant" ? producer.attrs.find("value") : nullptr;
    if (constant != nullptr) {
      const auto* tensor = std::get_if<ConstantPtr>(constant);
      return tensor != nullptr && holds_true(*tensor);
    }
    const bool moves = producer.op != nullptr && producer.op->traits.elements == ElementSource::moved;
    if (!moves || producer.inputs.empty()) return false;
    at = producer.inputs.front();
  }
  return false;
}

}  // namespace finity

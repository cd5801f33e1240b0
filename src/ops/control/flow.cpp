// Ops that run subgraphs: If, Loop, SequenceMap. Scan is in scan.cpp.
#include <algorithm>
#include <optional>
#include <string>

#include "base/error.h"
#include "ops/control/flow_gradient.h"
#include "ops/control/flow_range.h"
#include "ops/control/loops.h"
#include "ops/table/families.h"
#include "tensor/convert.h"

namespace finity {

namespace {

bool truth(const Tensor& condition, std::string_view what) {
  if (condition.size() != 1) {
    throw Error(std::string(what) + " has shape " + to_string(condition.dims()) + ", expected one element");
  }
  return element_as_int(condition, 0) != 0;
}

// ---- If ----------------------------------------------------------------------

std::optional<bool> known_truth(const InferCall& call, std::size_t input) {
  if (const Tensor* value = call.value(input)) return truth(*value, "the condition");
  const std::optional<Shape> elements = call.shape_value(input);
  if (!elements || elements->size() != 1 || !elements->front().known()) return std::nullopt;
  return elements->front().size != 0;
}

std::vector<Type> infer_branch(InferCall& call, std::string_view branch) {
  const BodyId body = call.body(branch);
  require_body_arity(call, body, 0, call.output_count());
  return call.infer_body(body, {});
}

// Either branch may run. One that contradicts itself is taken to be dead when the other does not: exporters guard
// an op that only fits some shapes by a condition on the shape.
std::vector<Type> infer_either_branch(InferCall& call) {
  std::vector<Type> then_types;
  try {
    then_types = infer_branch(call, "then_branch");
  } catch (const Error&) {
    return infer_branch(call, "else_branch");
  }
  std::vector<Type> else_types;
  try {
    else_types = infer_branch(call, "else_branch");
  } catch (const Error&) {
    return then_types;
  }
  for (std::size_t i = 0; i < call.output_count(); ++i) then_types[i] = join(then_types[i], else_types[i]);
  return then_types;
}

void infer_if(InferCall& call) {
  const std::optional<bool> condition = known_truth(call, 0);
  const std::vector<Type> types =
      condition ? infer_branch(call, *condition ? "then_branch" : "else_branch") : infer_either_branch(call);
  for (std::size_t i = 0; i < call.output_count(); ++i) call.set_type(i, types[i]);
}

void eval_if(EvalCall& call) {
  const BodyId body = call.body(truth(call.in(0), "cond") ? "then_branch" : "else_branch");
  require_body_arity(call, body, 0, call.output_count());
  std::vector<Datum> results = call.run_body(body, {});
  for (std::size_t i = 0; i < call.output_count(); ++i) call.out(i, std::move(results[i]));
}

// ---- Loop --------------------------------------------------------------------

struct LoopParts {
  BodyId body;
  std::size_t states = 0;
  std::size_t scans = 0;
};

LoopParts loop_parts(const Call& call) {
  LoopParts parts;
  parts.body = call.body("body");
  parts.states = call.input_count() - std::min<std::size_t>(call.input_count(), 2);
  require_body_arity(call, parts.body, 2 + parts.states, 1 + parts.states);
  parts.scans = call.bodies().body(parts.body).outputs.size() - 1 - parts.states;
  if (call.output_count() > parts.states + parts.scans) {
    throw Error("has " + std::to_string(call.output_count()) + " outputs, the body gives " +
                std::to_string(parts.states + parts.scans));
  }
  return parts;
}

// Iteration number and condition are scalars, or vectors of one element where the body declares them so.
Dims declared_dims(const Call& call, BodyId body, std::size_t input) {
  const Type& declared = call.bodies().value(call.bodies().body(body).inputs[input]).type;
  return declared.is_tensor() && declared.ranked && declared.shape.size() == 1 ? Dims{1} : Dims{};
}

// What is known of the number of iterations.
struct TripCount {
  Dim exact;                   // perhaps a symbol, or bounds
  bool at_least_once = false;  // for certain
  bool never = false;          // for certain
};

TripCount trip_count(const InferCall& call, const Body& body) {
  const bool counts = condition_counts(call);
  const std::optional<bool> start = call.has_input(1) ? known_truth(call, 1) : true;
  if (start == false) return {.exact = Dim::of(0), .at_least_once = false, .never = true};
  Dim limit;
  if (call.has_input(0)) {
    if (const auto exact = call.ints(0)) {
      if (exact->size() == 1) limit = Dim::of(std::max<std::int64_t>(0, exact->front()));
    } else if (const auto elements = call.shape_value(0)) {
      if (elements->size() == 1) limit = elements->front();
    }
    limit.least = std::max<std::int64_t>(limit.least, 0);
    if (limit.size == 0) return {.exact = limit, .at_least_once = false, .never = true};
  }
  TripCount result;
  result.at_least_once = start.has_value() && (!call.has_input(0) || limit.least_size() > 0);
  if (start.has_value() && (!counts || keeps_condition(call, body))) result.exact = limit;
  else result.exact = Dim::between(result.at_least_once ? 1 : 0, call.has_input(0) ? limit.most : Dim::kNoMost);
  return result;
}

void infer_loop(InferCall& call) {
  const LoopParts parts = loop_parts(call);
  LoopTypes types{.before = {Type::tensor_of(DType::int64, declared_dims(call, parts.body, 0)),
                             Type::tensor_of(DType::boolean, declared_dims(call, parts.body, 1))},
                  .state = {},
                  .after = {},
                  .first_output = 1};
  for (std::size_t i = 0; i < parts.states; ++i) types.state.push_back(call.in(2 + i));
  const std::vector<Type> outputs = infer_every_iteration(call, parts.body, types);
  const TripCount trips = trip_count(call, call.bodies().body(parts.body));
  for (std::size_t i = 0; i < parts.states; ++i) {
    const Type& initial = call.in(2 + i);
    const Type& final = outputs[1 + i];
    call.set_type(i, trips.never ? initial : trips.at_least_once ? final : join(initial, final));
  }
  for (std::size_t i = parts.states; i < call.output_count(); ++i) {
    call.set_type(i, collected_type(outputs[1 + i], trips.exact, 0));
  }
}

// Iteration number, condition, state: what the body takes.
std::vector<Datum> loop_arguments(const EvalCall& call, const LoopParts& parts) {
  const bool start = !call.has_input(1) || truth(call.in(1), "cond");
  std::vector<Datum> arguments{Datum{}, Tensor::scalar(start).reshaped(declared_dims(call, parts.body, 1))};
  for (std::size_t i = 0; i < parts.states; ++i) arguments.push_back(call.datum(2 + i));
  return arguments;
}

// Without a trip count a model can ask for ever; nobody waits for that many iterations of an interpreter.
constexpr std::int64_t kMaxIterations = 10'000'000;

std::int64_t trip_limit(const EvalCall& call) {
  if (!call.has_input(0)) return -1;
  if (call.in(0).size() != 1) throw Error("M has shape " + to_string(call.in(0).dims()) + ", expected one element");
  return std::max<std::int64_t>(0, element_as_int(call.in(0), 0));
}

void eval_loop(EvalCall& call) {
  const LoopParts parts = loop_parts(call);
  const std::int64_t limit = trip_limit(call);
  std::vector<Datum> arguments = loop_arguments(call, parts);
  const Dims number = declared_dims(call, parts.body, 0), condition_dims = declared_dims(call, parts.body, 1);
  std::vector<std::vector<Tensor>> collected(parts.scans);
  bool go_on = truth(*arguments[1].tensor(), "cond");
  for (std::int64_t i = 0; go_on && (limit < 0 || i < limit); ++i) {
    if (i == kMaxIterations) throw Error("does not end within " + std::to_string(kMaxIterations) + " iterations");
    arguments[0] = Tensor::scalar(i).reshaped(number);
    std::vector<Datum> results = call.run_body(parts.body, arguments);
    const Tensor& condition = require_tensor(results[0], "the condition of the body");
    if (condition_counts(call)) go_on = truth(condition, "the condition of the body");
    if (condition.size() == 1) results[0] = condition.reshaped(condition_dims);
    for (std::size_t k = 0; k < parts.scans; ++k) {
      collected[k].push_back(require_tensor(results[1 + parts.states + k], "a collected output of the body"));
    }
    std::move(results.begin(), results.begin() + 1 + static_cast<std::ptrdiff_t>(parts.states), arguments.begin() + 1);
  }
  for (std::size_t i = 0; i < parts.states; ++i) call.out(i, std::move(arguments[2 + i]));
  const std::vector<ValueId>& outputs = call.bodies().body(parts.body).outputs;
  for (std::size_t i = parts.states; i < call.output_count(); ++i) {
    call.out(i, collect(call, outputs[1 + i], collected[i - parts.states], 0));
  }
}

// ---- SequenceMap -------------------------------------------------------------

BodyId map_body(const Call& call) {
  const BodyId body = call.body("body");
  require_body_arity(call, body, call.input_count(), call.output_count());
  return body;
}

void infer_sequence_map(InferCall& call) {
  std::vector<Type> arguments;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    const Type& type = call.in(i);
    const bool sequence = type.kind == Type::Kind::sequence;
    if (sequence && type.element) arguments.push_back(*type.element);
    else arguments.push_back(sequence || i == 0 ? Type{} : type);  // a file may leave out of what its items are
  }
  const std::vector<Type> results = call.infer_body(map_body(call), arguments);
  for (std::size_t i = 0; i < call.output_count(); ++i) call.set_type(i, Type::sequence(results[i]));
}

std::vector<Datum> map_arguments(const EvalCall& call, std::size_t position) {
  std::vector<Datum> arguments;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    const Sequence* items = call.datum(i).sequence();
    arguments.push_back(items != nullptr ? (*items)[position] : call.datum(i));
  }
  return arguments;
}

void eval_sequence_map(EvalCall& call) {
  const BodyId body = map_body(call);
  const Sequence* first = call.datum(0).sequence();
  if (first == nullptr) throw Error("input_sequence is not a sequence");
  for (std::size_t i = 1; i < call.input_count(); ++i) {
    const Sequence* other = call.datum(i).sequence();
    if (other != nullptr && other->size() != first->size()) {
      throw Error("input " + std::to_string(i) + " has " + std::to_string(other->size()) + " items, the first has " +
                  std::to_string(first->size()));
    }
  }
  std::vector<Sequence> outputs(call.output_count());
  for (std::size_t position = 0; position < first->size(); ++position) {
    std::vector<Datum> results = call.run_body(body, map_arguments(call, position));
    for (std::size_t i = 0; i < outputs.size(); ++i) outputs[i].push_back(std::move(results[i]));
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) call.out(i, Datum::sequence(std::move(outputs[i])));
}

const OpDef kOps[] = {
    {.identity = {.name = "If",
                  .summary = "runs one of two subgraphs, depending on a condition",
                  .signature = "(cond: bool) -> (outputs...: value)",
                  .attrs = "then_branch: graph; else_branch: graph",
                  .tf = "If"},
     .meaning = {.infer = infer_if, .eval = eval_if},
     .analysis = {.range = range_if, .vjp = if_gradient},
     .traits = {.branches = true}},
    {.identity = {.name = "Loop",
                  .summary = "runs a subgraph again and again, handing its results to itself",
                  .signature = "(M?: int64, cond?: bool, v_initial...?: value) -> (v_final_and_scan_outputs...: value)",
                  .attrs = "body: graph",
                  .tf = "While"},
     .meaning = {.infer = infer_loop,
                 .eval = eval_loop,
                 .freedom = "given M and no cond, the condition computed by the body is ignored"},
     .analysis = {.range = range_loop, .vjp = loop_gradient}},
    {.identity = {.name = "SequenceMap",
                  .since = 17,
                  .summary = "runs a subgraph on every item of a sequence",
                  .signature = "(input_sequence: value, additional_inputs...?: value) -> (out_sequence...: value)",
                  .attrs = "body: graph"},
     .meaning = {.infer = infer_sequence_map, .eval = eval_sequence_map},
     .analysis = {.range = range_sequence_map, .vjp = sequence_map_gradient}},
};

}  // namespace

std::span<const OpDef> flow_ops() { return kOps; }

}  // namespace finity

#include "ops/control/flow_gradient.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>

#include "base/error.h"
#include "ops/control/loop_states.h"
#include "ops/movement/move_gradient.h"
#include "ops/shared/shapes.h"
#include "ops/table/gradient_values.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity {

namespace {

bool draws(const Graph& graph, BodyId body) {
  return std::ranges::any_of(graph.body(body).nodes, [&](NodeId id) {
    const Node& node = graph.node(id);
    const std::vector<BodyId> inner = bodies_of(node.attrs);
    return (node.op != nullptr && node.op->traits.random) ||
           std::ranges::any_of(inner, [&](BodyId part) { return draws(graph, part); });
  });
}

void require_repeatable(const BuildCall& call, BodyId body) {
  if (draws(call.bodies(), body)) {
    throw Unsupported("its subgraph draws random numbers, which differ when it is computed again");
  }
}

// A subgraph gives what its own nodes compute.
void end_body(BuildCall& call, BodyId body, std::vector<ValueId> outputs) {
  for (ValueId& value : outputs) {
    const Value& given = call.bodies().value(value);
    if (given.body != body || !given.producer.valid()) value = call.add("Identity", {value});
  }
  call.writer().end_body(std::move(outputs));
}

// Values of enclosing bodies that want a gradient, and their places behind the operands.
struct Captured {
  std::vector<ValueId> values = {};
  std::vector<std::size_t> places = {};
};

Captured wanted_captures(const BuildCall& call) {
  Captured result;
  for (std::size_t i = 0; i < call.captures().size(); ++i) {
    const std::size_t place = call.input_count() + i;
    if (!call.wanted(place)) continue;
    result.values.push_back(call.captures()[i]);
    result.places.push_back(place);
  }
  return result;
}

// ---- If --------------------------------------------------------------------

std::vector<ValueId> copied_branch(BuildCall& call, std::string_view branch) {
  require_repeatable(call, call.body(branch));
  try {
    return call.writer().copy_body(call.body(branch), {});
  } catch (const Error& error) {
    // Type inference takes such a branch to be dead as long as the other one is sound.
    throw Unsupported("attribute '" + std::string(branch) + "' contradicts itself: " + error.what());
  }
}

BodyId branch_gradient(BuildCall& call, std::string_view branch, const Captured& captured) {
  const BodyId body = call.writer().begin_body();
  const std::vector<ValueId> outputs = copied_branch(call, branch);
  std::vector<ValueId> results, arriving;
  for (std::size_t i = 0; i < call.output_count(); ++i) {
    if (!call.has_grad(i)) continue;
    results.push_back(outputs[i]);
    arriving.push_back(call.grad(i));
  }
  std::vector<ValueId> gradients = call.derive(results, arriving, captured.values);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].valid()) gradients[i] = call.zeros_like(captured.values[i]);
  }
  end_body(call, body, std::move(gradients));
  return body;
}

// ---- Loop, Scan ------------------------------------------------------------

// What the forward run is asked for again.
struct Rerun {
  std::vector<ValueId> entered = {};  // by state: as every iteration found it, one after another; invalid for sequences
  ValueId count = {};                 // of iterations
};

// The iterations of a Loop one after another, without a loop.
std::vector<ValueId> unrolled(BuildCall& call, const LoopParts& parts) {
  constexpr std::int64_t kMostNodes = 1 << 12;
  const std::optional<std::int64_t> count = known_iterations(call, parts.body);
  if (!count) {
    throw Unsupported(
        "a state of the loop changes its shape, or is a sequence that iterations read, and their number is not known");
  }
  const auto nodes = static_cast<std::int64_t>(call.bodies().body(parts.body).nodes.size());
  if (*count > kMostNodes / std::max<std::int64_t>(nodes, 1)) {
    throw Unsupported(
        "a state of the loop changes its shape, or is a sequence that iterations read, and they are many");
  }
  std::vector<ValueId> states(call.inputs().begin() + static_cast<std::ptrdiff_t>(parts.first), call.inputs().end());
  std::vector<std::vector<ValueId>> collected(parts.outputs.size());
  for (std::int64_t i = 0; i < *count; ++i) {
    std::vector<ValueId> arguments = {call.scalar(static_cast<double>(i), DType::int64),
                                      call.writer().constant(Tensor::scalar(true))};
    arguments.insert(arguments.end(), states.begin(), states.end());
    const std::vector<ValueId> results = call.writer().copy_body(parts.body, arguments);
    std::copy_n(results.begin() + 1, states.size(), states.begin());
    for (std::size_t k = 0; k < collected.size(); ++k) {
      collected[k].push_back(call.add("Unsqueeze", {results[1 + states.size() + k], call.ints({0})}));
    }
  }
  for (std::vector<ValueId>& parts_of_one : collected) {
    if (parts_of_one.empty()) states.emplace_back();
    else states.push_back(call.add("Concat", std::move(parts_of_one), with_attr("axis", std::int64_t{0})));
  }
  return states;
}

ValueId at_step(BuildCall& call, ValueId from, ValueId step, std::int64_t axis) {
  return call.add("Gather", {from, step}, with_attr("axis", axis));
}

// The loop that goes back, one iteration of the forward one at a time.
class WayBack {
 public:
  WayBack(BuildCall& call, const LoopParts& parts, const Rerun& rerun)
      : call_(call), parts_(parts), rerun_(rerun), captured_(wanted_captures(call)) {
    for (std::size_t i = 0; i < parts.states; ++i) {
      const ValueId state = call.in(parts.first + i);
      // Of a sequence that nobody looks at, not even behind the loop, nothing depends.
      const bool matters =
          call.has_grad(i) || !is_sequence(call.type(state)) || list_use(call, parts, i) == ListUse::kept;
      if (holds_floats(call.type(state)) && matters) reals_.push_back(i);
    }
    for (std::size_t i = 0; i < parts.inputs.size(); ++i) {
      if (call.wanted(scanned(i))) scans_.push_back(i);
    }
  }

  void give() {
    std::vector<ValueId> inputs = {rerun_.count, {}};
    for (const std::size_t i : reals_) {
      inputs.push_back(call_.has_grad(i) ? call_.grad(i) : call_.zeros_like(call_.in(parts_.first + i)));
    }
    for (const ValueId value : captured_.values) inputs.push_back(call_.zeros_like(value));
    const std::size_t carried = inputs.size() - 2;
    const BodyId body = written_body(inputs);
    const std::vector<ValueId> results =
        call_.add_all("Loop", std::move(inputs), carried + scans_.size(), with_attr("body", body));
    std::size_t at = 0;
    for (const std::size_t i : reals_) call_.give(parts_.first + i, results[at++]);
    for (const std::size_t place : captured_.places) call_.give(place, results[at++]);
    for (const std::size_t i : scans_) call_.give(scanned(i), joined(results[at++], i));
  }

 private:
  std::size_t scanned(std::size_t i) const { return parts_.first + parts_.states + i; }

  // Where step `step` of `count` stands along an axis that is walked in either direction.
  ValueId position(const Walk& walk, ValueId step, ValueId from_end) const { return walk.backward ? from_end : step; }

  BodyId written_body(const std::vector<ValueId>& initial) {
    NodeWriter& writer = call_.writer();
    const BodyId body = writer.begin_body();
    const ValueId iteration = writer.add_body_input(Type::tensor(DType::int64, Shape{}));
    const ValueId go_on = writer.add_body_input(Type::tensor(DType::boolean, Shape{}));
    std::vector<ValueId> carried;
    for (std::size_t i = 2; i < initial.size(); ++i) carried.push_back(writer.add_body_input(call_.type(initial[i])));
    const ValueId last = call_.difference(rerun_.count, call_.scalar(1, DType::int64));
    const ValueId step = call_.difference(last, iteration);
    std::vector<ValueId> outputs = one_step(step, iteration, carried);
    outputs.insert(outputs.begin(), go_on);
    end_body(call_, body, std::move(outputs));
    return body;
  }

  // The operands of the forward body in this step.
  struct Step {
    std::vector<ValueId> states = {};
    std::vector<ValueId> scanned = {};
    std::vector<ValueId> outputs = {};
  };

  Step computed_again(ValueId step, ValueId from_end) {
    Step result;
    std::vector<ValueId> arguments;
    if (parts_.first_input == 2) arguments = {step, call_.writer().constant(Tensor::scalar(true))};
    for (std::size_t i = 0; i < rerun_.entered.size(); ++i) {
      const ValueId entered = rerun_.entered[i];
      // Its value does not change, or does not matter. An own name each: two may begin as the same one.
      if (!entered.valid()) result.states.push_back(call_.add("Identity", {call_.in(parts_.first + i)}));
      else result.states.push_back(at_step(call_, entered, step, 0));
    }
    for (std::size_t i = 0; i < parts_.inputs.size(); ++i) {
      const Walk& walk = parts_.inputs[i];
      result.scanned.push_back(at_step(call_, call_.in(scanned(i)), position(walk, step, from_end), walk.axis));
    }
    std::ranges::copy(result.states, std::back_inserter(arguments));
    std::ranges::copy(result.scanned, std::back_inserter(arguments));
    result.outputs = call_.writer().copy_body(parts_.body, arguments);
    return result;
  }

  std::vector<ValueId> one_step(ValueId step, ValueId from_end, const std::vector<ValueId>& carried) {
    const Step forward = computed_again(step, from_end);
    std::vector<ValueId> results, arriving, wanted;
    for (std::size_t i = 0; i < reals_.size(); ++i) {
      results.push_back(forward.outputs[parts_.first_output + reals_[i]]);
      arriving.push_back(carried[i]);
      wanted.push_back(forward.states[reals_[i]]);
    }
    for (std::size_t i = 0; i < parts_.outputs.size(); ++i) {
      if (!call_.has_grad(parts_.states + i)) continue;
      const Walk& walk = parts_.outputs[i];
      results.push_back(forward.outputs[parts_.first_output + parts_.states + i]);
      arriving.push_back(at_step(call_, call_.grad(parts_.states + i), position(walk, step, from_end), walk.axis));
    }
    std::ranges::copy(captured_.values, std::back_inserter(wanted));
    for (const std::size_t i : scans_) wanted.push_back(forward.scanned[i]);
    std::vector<ValueId> gradients = call_.derive(results, arriving, wanted);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      const bool added_up = i >= reals_.size() && i < carried.size();
      if (added_up && !gradients[i].valid()) gradients[i] = carried[i];
      else if (added_up) gradients[i] = sum_of_gradients(call_.writer(), carried[i], gradients[i]);
      else if (!gradients[i].valid()) gradients[i] = call_.zeros_like(wanted[i]);
    }
    return gradients;
  }

  // What the way back collected, first the last step, as it lies along the axis of a scanned operand.
  ValueId joined(ValueId collected, std::size_t i) {
    const Walk& walk = parts_.inputs[i];
    const std::size_t rank = call_.rank(call_.in(scanned(i)));
    const std::size_t axis = normalize_axis(walk.axis, rank);
    if (!walk.backward) {
      constexpr std::int64_t kBeyond = std::numeric_limits<std::int64_t>::min();
      collected =
          call_.add("Slice", {collected, call_.ints({-1}), call_.ints({kBeyond}), call_.ints({0}), call_.ints({-1})});
    }
    std::vector<std::int64_t> order;
    for (std::size_t k = 1; k < rank; ++k) order.push_back(static_cast<std::int64_t>(k));
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(axis), 0);
    return transpose(call_, collected, std::move(order));
  }

  BuildCall& call_;
  const LoopParts& parts_;
  const Rerun& rerun_;
  Captured captured_;
  std::vector<std::size_t> reals_;  // states that are floats
  std::vector<std::size_t> scans_;  // scanned operands that want a gradient
};

// Body inputs of the types that hold in every iteration.
std::vector<ValueId> add_arguments(BuildCall& call, BodyId body) {
  std::vector<ValueId> result;
  const std::vector<ValueId> inputs = call.bodies().body(body).inputs;
  for (const ValueId in : inputs) result.push_back(call.writer().add_body_input(call.type(in)));
  return result;
}

// The body once more, giving the states it was entered with.
BodyId recording_body(BuildCall& call, const LoopParts& parts) {
  const BodyId body = call.writer().begin_body();
  const std::vector<ValueId> arguments = add_arguments(call, parts.body);
  std::vector<ValueId> outputs = call.writer().copy_body(parts.body, arguments);
  outputs.resize(parts.first_output + parts.states);
  for (std::size_t i = 0; i < parts.states; ++i) {
    const ValueId entered = arguments[parts.first_input + i];
    if (!is_sequence(call.type(entered))) outputs.push_back(entered);
  }
  if (parts.first_input == 2) outputs.push_back(arguments[0]);
  end_body(call, body, std::move(outputs));
  return body;
}

Rerun rerun_loop(BuildCall& call, const LoopParts& parts) {
  const BodyId body = recording_body(call, parts);
  const std::size_t kept = call.bodies().body(body).outputs.size() - 1;
  const std::vector<ValueId> results = call.add_all("Loop", call.inputs(), kept, with_attr("body", body));
  Rerun result{.count = call.add("Size", {results.back()})};
  std::size_t next = parts.states;
  for (std::size_t i = 0; i < parts.states; ++i) {
    result.entered.push_back(is_sequence(call.type(call.in(parts.first + i))) ? ValueId{} : results[next++]);
  }
  return result;
}

std::vector<Walk> walks(const BuildCall& call, std::string_view axes, std::string_view directions, std::size_t count) {
  const std::vector<std::int64_t> along = call.integers(axes), backward = call.integers(directions);
  std::vector<Walk> result(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (i < along.size()) result[i].axis = along[i];
    if (i < backward.size()) result[i].backward = backward[i] == 1;
  }
  return result;
}

Rerun rerun_scan(BuildCall& call, const LoopParts& parts) {
  Rerun result;
  const ValueId sizes = call.add("Shape", {call.in(parts.states)});
  result.count = at_step(call, sizes, call.scalar(static_cast<double>(parts.inputs.front().axis), DType::int64), 0);
  if (parts.states == 0) return result;
  Attrs attrs = with_attr("body", recording_body(call, parts));
  for (const std::string_view name : {"num_scan_inputs", "scan_input_axes", "scan_input_directions"}) {
    if (const Attr* attr = call.attrs().find(name)) attrs.set(std::string(name), *attr);
  }
  const std::vector<ValueId> results = call.add_all("Scan", call.inputs(), 2 * parts.states, std::move(attrs));
  result.entered.assign(results.begin() + static_cast<std::ptrdiff_t>(parts.states), results.end());
  return result;
}

// The sum of the items of a sequence, each of the shape of `like`; zeros if there are none.
ValueId sum_of_items(BuildCall& call, ValueId items, ValueId like) {
  Attrs stack = with_attr("axis", std::int64_t{0});
  stack.set("new_axis", std::int64_t{1});
  const ValueId some = call.add("SequenceInsert", {items, call.zeros_like(like)});
  return call.add("ReduceSum", {call.add("ConcatFromSequence", {some}, std::move(stack)), call.ints({0})},
                  with_attr("keepdims", std::int64_t{0}));
}

// Runtimes also take bodies that want the number of the iteration and the condition as vectors of one element.
void require_scalars(const BuildCall& call, BodyId body) {
  const std::vector<ValueId>& inputs = call.bodies().body(body).inputs;
  for (std::size_t i = 0; i < std::min<std::size_t>(inputs.size(), 2); ++i) {
    const Type& type = call.bodies().value(inputs[i]).type;
    if (type.ranked && !type.shape.empty()) {
      throw Unsupported("its subgraph takes the number of the iteration or the condition as a vector");
    }
  }
}

}  // namespace

// An If on the same condition, of the gradients of the branches.
void if_gradient(BuildCall& call) {
  if (const Tensor* condition = call.known(call.in(0)); condition != nullptr && condition->size() == 1) {
    const bool taken = element_as_int(*condition, 0) != 0;
    return call.give_through(copied_branch(call, taken ? "then_branch" : "else_branch"));
  }
  const Captured captured = wanted_captures(call);
  Attrs attrs;
  for (const std::string_view branch : {"then_branch", "else_branch"}) {
    attrs.set(std::string(branch), branch_gradient(call, branch, captured));
  }
  const std::vector<ValueId> gradients = call.add_all("If", {call.in(0)}, captured.values.size(), std::move(attrs));
  for (std::size_t i = 0; i < gradients.size(); ++i) call.give(captured.places[i], gradients[i]);
}

void loop_gradient(BuildCall& call) {
  LoopParts parts{.body = call.body("body"), .first = 2, .first_input = 2, .first_output = 1};
  parts.states = call.input_count() - std::min<std::size_t>(call.input_count(), 2);
  parts.outputs.resize(call.bodies().body(parts.body).outputs.size() - 1 - parts.states);
  require_scalars(call, parts.body);
  require_repeatable(call, parts.body);
  if (!has_steady_states(call, parts)) return call.give_through(unrolled(call, parts));
  const Rerun rerun = rerun_loop(call, parts);
  WayBack(call, parts, rerun).give();
}

void scan_gradient(BuildCall& call) {
  if (call.version() < 9) throw Unsupported("the gradient of a Scan with a batch axis is not modelled");
  const auto scanned = static_cast<std::size_t>(call.integer("num_scan_inputs"));
  LoopParts parts{.body = call.body("body"), .states = call.input_count() - scanned};
  const std::size_t collected = call.bodies().body(parts.body).outputs.size() - parts.states;
  parts.inputs = walks(call, "scan_input_axes", "scan_input_directions", scanned);
  parts.outputs = walks(call, "scan_output_axes", "scan_output_directions", collected);
  require_repeatable(call, parts.body);
  if (!has_steady_states(call, parts)) throw Unsupported("a state of the loop is of unknown type");
  const Rerun rerun = rerun_scan(call, parts);
  WayBack(call, parts, rerun).give();
}

// A SequenceMap of the gradients of the body, which takes what arrives at each item besides. What it captures gets the
// sum of what all items give.
void sequence_map_gradient(BuildCall& call) {
  const BodyId forward = call.body("body");
  require_repeatable(call, forward);
  const Captured captured = wanted_captures(call);
  const BodyId body = call.writer().begin_body();
  const std::vector<ValueId> arguments = add_arguments(call, forward);
  std::vector<ValueId> inputs = call.inputs(), arriving, results, wanted;
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < call.output_count(); ++i) {
    if (!call.has_grad(i)) continue;
    inputs.push_back(call.grad(i));
    arriving.push_back(call.writer().add_body_input(innermost(call.type(call.grad(i)))));
  }
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (!call.wanted(i)) continue;
    places.push_back(i);
    wanted.push_back(arguments[i]);
  }
  std::ranges::copy(captured.places, std::back_inserter(places));
  std::ranges::copy(captured.values, std::back_inserter(wanted));
  const std::vector<ValueId> outputs = call.writer().copy_body(forward, arguments);
  for (std::size_t i = 0; i < call.output_count(); ++i) {
    if (call.has_grad(i)) results.push_back(outputs[i]);
  }
  std::vector<ValueId> gradients = call.derive(results, arriving, wanted);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].valid()) gradients[i] = call.zeros_like(wanted[i]);
  }
  end_body(call, body, std::move(gradients));
  const std::vector<ValueId> mapped =
      call.add_all("SequenceMap", std::move(inputs), places.size(), with_attr("body", body));
  for (std::size_t i = 0; i < places.size(); ++i) {
    const ValueId operand = places[i] < call.input_count() ? call.in(places[i]) : wanted[i];
    call.give(places[i], is_sequence(call.type(operand)) ? mapped[i] : sum_of_items(call, mapped[i], operand));
  }
}

}  // namespace finity

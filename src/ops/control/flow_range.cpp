// Branches are joined. Loops run abstractly as often as they really do when that is
// known and affordable; else their state is iterated to a fixpoint: join, then
// widening to thresholds, then two narrowing passes, then what is known of how fast
// a state grows (growth.h), and one pass that is recorded.
#include "ops/control/flow_range.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "ops/control/growth.h"
#include "ops/shared/range_rules.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr double kMostUnrolledNodes = 20'000;
constexpr int kJoins = 3;
constexpr int kMaxWidenings = 64;
constexpr int kNarrowings = 2;
constexpr double kUsualPasses = 8;  // of a fixpoint, about

// Evaluations of nodes that the loop at hand may still unroll: loops within loops share one budget. The rules of inner
// loops run inside those of outer ones, in the same thread.
thread_local double nodes_to_unroll = kMostUnrolledNodes;

class ShareUnrolling {
 public:
  explicit ShareUnrolling(double times) : before_(nodes_to_unroll) { nodes_to_unroll /= std::max(times, 1.0); }
  ShareUnrolling(const ShareUnrolling&) = delete;
  ShareUnrolling& operator=(const ShareUnrolling&) = delete;
  ~ShareUnrolling() { nodes_to_unroll = before_; }

 private:
  double before_;
};

using States = std::vector<AbsTensor>;

Range either(const Range& a, const Range& b) { return join(a, b); }

AbsTensor joined(const AbsTensor& a, const AbsTensor& b, std::size_t max_cells) {
  if (a.ranked && b.ranked && a.sizes == b.sizes) return join(a, b, max_cells);
  AbsTensor result;
  result.dtype = a.dtype;
  result.cells = {either(a.hull(), b.hull())};
  return result;
}

// One cell per state: sizes may change from one iteration to the next.
AbsTensor summary(const AbsTensor& x) {
  AbsTensor result;
  result.dtype = x.dtype;
  result.cells = {x.hull()};
  return result;
}

bool inside(const States& a, const States& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!is_subset(a[i].hull(), b[i].hull())) return false;
  }
  return true;
}

struct LoopShape {
  BodyId body;
  std::size_t states = 0;
  std::size_t first_output = 0;  // of the states in the body's outputs
  std::size_t first_state = 0;   // in the body's inputs
  double least = 0;              // trips, unless a condition ends the loop earlier
  double most = kInf;
  bool conditional = false;  // the body's first output says whether to go on
};

// Inputs of the body for a state: what stands before and after it.
using Arguments = std::function<States(const States& state, const Range& iteration)>;

struct LoopResult {
  States state;    // after the last iteration
  States outputs;  // of the body, joined over all iterations
  bool ran = false;
};

States states_of(const LoopShape& shape, const States& outputs) {
  States state;
  for (std::size_t i = 0; i < shape.states; ++i) state.push_back(summary(outputs[shape.first_output + i]));
  return state;
}

void accumulate(LoopResult& result, States outputs) {
  if (!result.ran) result.outputs = std::move(outputs);
  else
    for (std::size_t i = 0; i < outputs.size(); ++i) result.outputs[i] = joined(result.outputs[i], outputs[i], 1);
  result.ran = true;
}

// Exactly `trips` times, or until nothing changes any more.
LoopResult unrolled(RangeCall& call, const LoopShape& shape, States state, const Arguments& arguments) {
  LoopResult result{.state = std::move(state), .outputs = {}};
  bool stopped = false;
  for (double trip = 0; trip < shape.most; ++trip) {
    States outputs = call.run_body(shape.body, arguments(result.state, point(trip)));
    States next = states_of(shape, outputs);
    const bool may_stop = shape.conditional && !(outputs[0].hull().lo >= 1);
    accumulate(result, std::move(outputs));
    // A loop that may end earlier leaves with any of its states.
    if (trip + 1 > shape.least || may_stop || stopped) {
      stopped = true;
      for (std::size_t i = 0; i < next.size(); ++i) next[i] = joined(result.state[i], next[i], 1);
    }
    result.state = std::move(next);
  }
  return result;
}

States iterate(RangeCall& call, const LoopShape& shape, const States& initial, const Arguments& arguments,
               const Range& iteration) {
  States state = initial;
  for (int step = 0; step < kJoins + kMaxWidenings; ++step) {
    const States next = states_of(shape, call.probe_body(shape.body, arguments(state, iteration)));
    if (inside(next, state)) break;
    for (std::size_t i = 0; i < state.size(); ++i) {
      const Range grown = either(state[i].hull(), next[i].hull());
      state[i].cells = {step < kJoins ? grown : widen(state[i].hull(), grown, state[i].dtype)};
      // Past the last threshold nothing is left but everything.
      if (step + 1 == kJoins + kMaxWidenings) state[i].cells = {top(state[i].dtype)};
    }
  }
  for (int step = 0; step < kNarrowings; ++step) {
    const States next = states_of(shape, call.probe_body(shape.body, arguments(state, iteration)));
    for (std::size_t i = 0; i < state.size(); ++i) {
      state[i].cells = {meet(state[i].hull(), either(initial[i].hull(), next[i].hull()))};
    }
  }
  return state;
}

// Not much larger than what it started from: nothing to gain.
bool has_grown(const Range& state, const Range& start) {
  constexpr double kMuch = 1.5;
  return !state.is_finite() || state.magnitude() > kMuch * (1 + start.magnitude());
}

// States that only grow by so much in an iteration are bounded by the number of iterations. What the body makes of any
// finite state says how much that is; a pass with the bound confirms that nothing but finite numbers come of it.
// Gives what no state exceeds, the last one included; infinite where there is no such bound.
std::vector<double> bound_growth(RangeCall& call, const LoopShape& shape, const States& initial, States& state,
                                 const Arguments& arguments, const Range& iteration) {
  const Body& body = call.bodies().body(shape.body);
  std::vector<double> bounds(state.size(), kInf);
  for (std::size_t i = 0; i < state.size(); ++i) {
    const DType dtype = state[i].dtype;
    const Range start = initial[i].hull();
    if (!is_float(dtype) || !has_grown(state[i].hull(), start) || !start.is_finite()) continue;
    if (shape.first_state + i >= body.inputs.size() || shape.first_output + i >= body.outputs.size()) continue;
    States tried = state;
    tried[i].cells = {any_finite(dtype)};
    call.probe_body(shape.body, arguments(tried, iteration));
    const auto range_of = [&](ValueId id) { return call.range_of(id); };
    const Growth each = growth_of(call.bodies(), shape.body, body.inputs[shape.first_state + i],
                                  body.outputs[shape.first_output + i], range_of);
    const double largest = largest_after(shape.most, start.magnitude(), each);
    if (!(largest < max_finite(dtype))) continue;
    tried[i].cells = {meet(any_finite(dtype), from_bounds(dtype, -largest, largest))};
    const States next = states_of(shape, call.probe_body(shape.body, arguments(tried, iteration)));
    if (!next[i].hull().is_finite()) continue;
    // What the fixpoint knows of finite states still holds: a sum of squares stays at least 0.
    state[i].cells = {meet(tried[i].hull(), state[i].hull())};
    bounds[i] = largest;
  }
  return bounds;
}

// A state that was widened because another one was still growing, and that now stays where one pass puts it: an array
// into which a loop writes what it computes. Everything else is held at what holds of all iterations.
void settle(RangeCall& call, const LoopShape& shape, const States& initial, States& state, const Arguments& arguments,
            const Range& iteration) {
  for (std::size_t i = 0; i < state.size(); ++i) {
    if (state[i].cut() || !has_grown(state[i].hull(), initial[i].hull())) continue;
    States tried = state;
    tried[i] = initial[i];
    const auto after = [&] {
      return states_of(shape, call.probe_body(shape.body, arguments(tried, iteration)))[i].hull();
    };
    const Range once = either(initial[i].hull(), after());
    if (!is_subset(once, state[i].hull()) || once == state[i].hull()) continue;
    // What else is known of the start need not hold of what comes after it.
    tried[i] = state[i];
    tried[i].cells = {once};
    if (is_subset(after(), once)) state[i].cells = {once};
  }
}

// Of the body and of the bodies inside it.
double all_nodes(const Graph& graph, BodyId body) {
  double count = 0;
  for (const NodeId id : graph.body(body).nodes) {
    ++count;
    for (const BodyId inner : bodies_of(graph.node(id).attrs)) count += all_nodes(graph, inner);
  }
  return std::max(count, 1.0);
}

States anything(const States& initial) {
  States state = initial;
  for (AbsTensor& x : state) x.cells = {top(x.dtype)};
  return state;
}

LoopResult to_fixpoint(RangeCall& call, const LoopShape& shape, const States& initial, const Arguments& arguments,
                       bool affordable) {
  const Range iteration{.lo = 0, .hi = std::min(shape.most, 9.2e18), .integer = true};
  LoopResult result{.state = affordable ? iterate(call, shape, initial, arguments, iteration) : anything(initial),
                    .outputs = {}};
  std::vector<double> bounds(initial.size(), kInf);
  if (affordable) {
    bounds = bound_growth(call, shape, initial, result.state, arguments, iteration);
    settle(call, shape, initial, result.state, arguments, iteration);
  }
  States outputs = call.run_body(shape.body, arguments(result.state, iteration));
  States last = states_of(shape, outputs);
  for (std::size_t i = 0; i < last.size(); ++i) {
    if (!std::isfinite(bounds[i])) continue;
    const Range within = from_bounds(last[i].dtype, -bounds[i], bounds[i]);
    if (last[i].hull().is_finite()) last[i].cells = {meet(last[i].hull(), within)};
  }
  for (std::size_t i = 0; i < last.size(); ++i) result.state[i] = joined(result.state[i], last[i], 1);
  accumulate(result, std::move(outputs));
  return result;
}

LoopResult run_loop(RangeCall& call, const LoopShape& shape, const States& initial, const Arguments& arguments) {
  const double nodes = all_nodes(call.bodies(), shape.body);
  const double budget = nodes_to_unroll;
  const bool few = shape.most * nodes <= budget;
  const ShareUnrolling share(few ? shape.most : kUsualPasses);
  if (few) return unrolled(call, shape, initial, arguments);
  // Where loops are nested so deeply that not even one pass is affordable, nothing is known of the state.
  const bool affordable = nodes <= budget || budget == kMostUnrolledNodes;
  return to_fixpoint(call, shape, initial, arguments, affordable);
}

}  // namespace

void range_if(RangeCall& call) {
  const Range condition = call.hull(0);
  std::vector<AbsTensor> results;
  const auto take = [&](std::string_view branch, bool truth) {
    std::vector<AbsTensor> outputs = call.run_branch(call.body(branch), 0, truth);
    if (results.empty()) results = std::move(outputs);
    else
      for (std::size_t i = 0; i < results.size(); ++i) results[i] = joined(results[i], outputs[i], call.max_cells());
  };
  if (condition.hi >= 1) take("then_branch", true);
  if (condition.lo <= 0) take("else_branch", false);
  for (std::size_t i = 0; i < call.output_count() && i < results.size(); ++i) {
    results[i].relations.clear();
    results[i].forms.clear();
    results[i].first_symbol = -1;
    call.out(i, std::move(results[i]));
  }
}

void range_loop(RangeCall& call) {
  LoopShape shape;
  shape.body = call.body("body");
  shape.states = call.input_count() - std::min<std::size_t>(call.input_count(), 2);
  shape.first_output = 1;
  shape.first_state = 2;
  const std::vector<ValueId>& outputs = call.bodies().body(shape.body).outputs;
  if (call.has_input(0)) {
    const Range trips = call.hull(0);
    shape.most = trips.has_finite() ? std::max(trips.hi, 0.0) : kInf;
    shape.least = trips.has_finite() ? std::max(trips.lo, 0.0) : 0;
  }
  shape.conditional = true;
  const bool maybe_never = (call.has_input(1) && !(call.hull(1).lo >= 1)) || (call.has_input(0) && shape.least < 1);
  States initial;
  for (std::size_t i = 0; i < shape.states; ++i) initial.push_back(summary(call.in(2 + i)));
  const Arguments arguments = [&](const States& state, const Range& iteration) {
    AbsTensor number;
    number.dtype = DType::int64;
    number.cells = {iteration};
    AbsTensor go_on;
    go_on.dtype = DType::boolean;
    go_on.cells = {point(1)};  // else the body would not run
    States all = {number, go_on};
    all.insert(all.end(), state.begin(), state.end());
    return all;
  };
  const LoopResult result = run_loop(call, shape, initial, arguments);
  for (std::size_t i = 0; i < call.output_count(); ++i) {
    if (i < shape.states) {
      const AbsTensor after = maybe_never ? joined(initial[i], result.state[i], 1) : result.state[i];
      call.out(i, uniform(call.out_type(i), after.hull()));
    } else if (i + 1 < outputs.size()) {
      call.out(i, uniform(call.out_type(i), result.ran ? result.outputs[1 + i].hull() : Range{}));
    }
  }
}

void range_scan(RangeCall& call) {
  LoopShape shape;
  shape.body = call.body("body");
  const std::size_t first = call.version() < 9 ? 1 : 0;  // the first operand was the sequence lengths
  const auto scanned = static_cast<std::size_t>(call.integer("num_scan_inputs"));
  if (call.input_count() < first + scanned) throw Error("num_scan_inputs is larger than the number of inputs");
  shape.states = call.input_count() - first - scanned;
  const std::size_t scan_at = first + shape.states;
  const std::vector<std::int64_t> axes = call.integers("scan_input_axes");
  const Type& type = call.in_type(scan_at);
  if (type.ranked && !type.shape.empty()) {
    const auto rank = static_cast<std::int64_t>(type.shape.size());
    std::int64_t axis = first == 1 ? 1 : axes.empty() ? 0 : axes[0];
    if (axis < 0) axis += rank;
    if (axis >= 0 && axis < rank && type.shape[static_cast<std::size_t>(axis)].known()) {
      shape.most = static_cast<double>(type.shape[static_cast<std::size_t>(axis)].size);
      if (first == 0) shape.least = shape.most;
    }
  }
  States initial;
  for (std::size_t i = 0; i < shape.states; ++i) initial.push_back(summary(call.in(first + i)));
  const Arguments arguments = [&](const States& state, const Range&) {
    States all = state;
    for (std::size_t i = 0; i < scanned; ++i) all.push_back(summary(call.in(scan_at + i)));
    return all;
  };
  const LoopResult result = run_loop(call, shape, initial, arguments);
  for (std::size_t i = 0; i < call.output_count(); ++i) {
    const bool state = i < shape.states;
    Range range;
    if (state) range = result.state[i].hull();
    else if (result.ran && i < result.outputs.size()) range = result.outputs[i].hull();
    if (state && shape.least < 1) range = either(initial[i].hull(), range);
    // Opset 8 pads entries shorter than the longest with zeros.
    if (!state && first == 1) range = either(range, point(0));
    call.out(i, uniform(call.out_type(i), range));
  }
}

void range_sequence_map(RangeCall& call) {
  States arguments;
  for (std::size_t i = 0; i < call.input_count(); ++i) arguments.push_back(summary(call.in(i)));
  const States results = call.run_body(call.body("body"), arguments);
  for (std::size_t i = 0; i < call.output_count() && i < results.size(); ++i) {
    call.out(i, uniform(call.out_type(i), results[i].hull()));
  }
}

}  // namespace finity

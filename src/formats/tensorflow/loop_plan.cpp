#include "formats/tensorflow/loop_plan.h"

#include <algorithm>

#include "formats/tensorflow/importer.h"

namespace finity::tensorflow {

namespace {

constexpr int kMostAttempts = 4;

class LoopWriter {
 public:
  LoopWriter(Importer& importer, const LoopPlan& plan) : importer_(importer), plan_(plan), writer_(importer.writer()) {}

  std::vector<TfValue> write() {
    name_ = writer_.node_name();
    for (std::size_t i = 0; i < plan_.states.size(); ++i) {
      const LoopState& state = plan_.states[i];
      if (!state.initial.id.valid() || state.invariant) continue;
      carried_.push_back(i);
      types_.push_back(writer_.type(state.initial.id));
    }
    const ValueId start = scalar_truth(plan_.test(initial()));
    const ValueId trips = trip_limit();
    for (int attempt = 0;; ++attempt) {
      const std::size_t depth = writer_.depth();
      if (write_body(attempt)) break;
      writer_.return_to(depth);
    }
    return add_loop(trips, start);
  }

 private:
  std::vector<TfValue> initial() const {
    std::vector<TfValue> result;
    for (const LoopState& state : plan_.states) result.push_back(state.initial);
    return result;
  }

  // Conditions may be vectors of one element; undefined ranks are believed.
  ValueId scalar_truth(ValueId id) {
    if (!id.valid()) throw Unsupported("its condition is not a tensor");
    const Type& type = writer_.type(id);
    if (!type.ranked || type.shape.empty()) return id;
    return writer_.add("Reshape", {id, writer_.ints({})});
  }

  ValueId as_int64(ValueId id) {
    if (writer_.type(id).dtype == DType::int64) return id;
    Attrs attrs;
    attrs.set("to", static_cast<std::int64_t>(DType::int64));
    return writer_.add("Cast", {id}, std::move(attrs));
  }

  bool counts(std::size_t i) const {
    const LoopState& state = plan_.states[i];
    if (!state.step || !state.initial.id.valid()) return false;
    const DType dtype = writer_.type(state.initial.id).dtype;
    return has_limit() && (dtype == DType::int32 || dtype == DType::int64);
  }
  bool has_limit() const {
    if (plan_.counter < 0 || !plan_.limit.valid()) return false;
    const LoopState& state = plan_.states[static_cast<std::size_t>(plan_.counter)];
    if (!state.step || *state.step <= 0 || !state.initial.id.valid()) return false;
    return is_int(writer_.type(state.initial.id).dtype) && is_int(writer_.type(plan_.limit).dtype);
  }

  // No more rounds than this; nothing when it does not follow from the condition.
  ValueId trip_limit() {
    if (!has_limit()) return {};
    const LoopState& state = plan_.states[static_cast<std::size_t>(plan_.counter)];
    const std::int64_t step = *state.step;
    ValueId distance = writer_.add("Sub", {as_int64(plan_.limit), as_int64(state.initial.id)});
    const std::int64_t more = step - 1 + (plan_.or_equal ? 1 : 0);
    if (more != 0) distance = writer_.add("Add", {distance, int64(more)});
    if (step != 1) distance = writer_.add("Div", {distance, int64(step)});
    return writer_.add("Max", {distance, int64(0)});
  }
  ValueId int64(std::int64_t number) { return writer_.scalar(static_cast<double>(number), DType::int64); }

  // A counter in round `iteration`: where it starts, and the steps since.
  ValueId counted(std::size_t i, ValueId iteration) {
    const LoopState& state = plan_.states[i];
    const DType dtype = writer_.type(state.initial.id).dtype;
    ValueId steps = iteration;
    if (*state.step != 1) steps = writer_.add("Mul", {steps, int64(*state.step)});
    if (dtype != DType::int64) {
      Attrs attrs;
      attrs.set("to", static_cast<std::int64_t>(dtype));
      steps = writer_.add("Cast", {steps}, std::move(attrs));
    }
    return writer_.add("Add", {state.initial.id, steps});
  }

  // False when a state turned out to have more types than were assumed, which are now known.
  bool write_body(int attempt) {
    body_ = writer_.begin_body(name_ + "/body");
    const ValueId iteration = writer_.body_input(name_ + "/iteration", Type::tensor(DType::int64, {}));
    writer_.body_input(name_ + "/condition", Type::tensor(DType::boolean, {}));
    std::vector<TfValue> now = initial();
    for (std::size_t k = 0; k < carried_.size(); ++k) {
      now[carried_[k]].id = writer_.body_input(name_ + "/state", types_[k]);
    }
    for (const std::size_t i : carried_) {
      if (counts(i)) now[i].id = counted(i, iteration);
    }
    importer_.loops().push_back({.iteration = iteration, .depth = writer_.depth(), .pushed = {}});
    std::vector<TfValue> next;
    try {
      next = plan_.step(now);
    } catch (...) {
      importer_.loops().pop_back();
      throw;
    }
    pushed_ = std::move(importer_.loops().back().pushed);
    importer_.loops().pop_back();
    return end_body(std::move(next), attempt);
  }

  bool end_body(std::vector<TfValue> next, int attempt) {
    std::vector<ValueId> outputs;
    std::vector<TfValue> tested = initial();
    bool fits = true;
    for (std::size_t k = 0; k < carried_.size(); ++k) {
      const TfValue value = next[carried_[k]];
      if (!value.id.valid()) throw Unsupported("a value it hands on is not a tensor");
      outputs.push_back(value.id);
      tested[carried_[k]] = value;
      const Type joined =
          attempt + 1 < kMostAttempts ? join(types_[k], writer_.type(value.id)) : Type::tensor(types_[k].dtype);
      if (attempt + 1 >= kMostAttempts || joined == types_[k]) continue;
      if (joined.dtype != types_[k].dtype) throw Unsupported("a value it hands on changes its type");
      types_[k] = attempt + 2 < kMostAttempts ? joined : Type::tensor(joined.dtype);
      fits = false;
    }
    if (!fits) return false;
    outputs.insert(outputs.begin(), scalar_truth(plan_.test(tested)));
    for (const auto& [handle, id] : pushed_) outputs.push_back(id);
    writer_.end_body(std::move(outputs));
    return true;
  }

  std::vector<TfValue> add_loop(ValueId trips, ValueId start) {
    std::vector<ValueId> inputs = {trips, start};
    for (const std::size_t i : carried_) inputs.push_back(plan_.states[i].initial.id);
    Attrs attrs;
    attrs.set("body", body_);
    const std::size_t count = carried_.size() + pushed_.size();
    if (count == 0) throw Unsupported("nothing comes out of it");
    writer_.set_node(name_, 0);
    const std::vector<ValueId> outputs = writer_.add("Loop", std::move(inputs), std::move(attrs), count);
    std::vector<TfValue> result = initial();
    for (std::size_t k = 0; k < carried_.size(); ++k) result[carried_[k]].id = outputs[k];
    for (std::size_t k = 0; k < pushed_.size(); ++k) {
      State& stack = importer_.states()[static_cast<std::size_t>(pushed_[k].first)];
      stack.content = outputs[carried_.size() + k];
    }
    return result;
  }

  Importer& importer_;
  const LoopPlan& plan_;
  Writer& writer_;
  std::string name_;
  std::vector<std::size_t> carried_;  // states that are values and change
  std::vector<Type> types_;           // of those, in every round
  BodyId body_ = {};
  std::vector<std::pair<int, ValueId>> pushed_;
};

}  // namespace

std::vector<TfValue> write_loop(Importer& importer, const LoopPlan& plan) { return LoopWriter(importer, plan).write(); }

}  // namespace finity::tensorflow

#include "program/program.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/suggest.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::array<std::pair<std::string_view, Optimiser::Kind>, 11> kOptimisers = {{
    {"sgd", Optimiser::Kind::sgd},
    {"momentum", Optimiser::Kind::momentum},
    {"nesterov", Optimiser::Kind::nesterov},
    {"adagrad", Optimiser::Kind::adagrad},
    {"adadelta", Optimiser::Kind::adadelta},
    {"rmsprop", Optimiser::Kind::rmsprop},
    {"adam", Optimiser::Kind::adam},
    {"adamw", Optimiser::Kind::adamw},
    {"adamax", Optimiser::Kind::adamax},
    {"nadam", Optimiser::Kind::nadam},
    {"ftrl", Optimiser::Kind::ftrl},
}};

class Settler {
 public:
  explicit Settler(Program& program) : program_(program), graph_(*program.graph) {}

  void settle() {
    if (program_.batch < 1) throw Error("'batch' must be at least 1");
    for (ProgramInput& input : program_.inputs) input.id = find_input(input.name);
    for (ProgramWeight& weight : program_.weights) weight.id = find_weight(weight.name);
    require_all_inputs();
    program_.types = infer_types(graph_, bindings());
    for (ProgramInput& input : program_.inputs) settle_input(input);
    for (ProgramWeight& weight : program_.weights) settle_weight(weight);
    settle_loss();
  }

 private:
  ValueId find(std::string_view name) const {
    for (std::size_t i = 0; i < graph_.values().size(); ++i) {
      const Value& value = graph_.values()[i];
      if (value.body == Graph::kMain && value.name == name) return {static_cast<std::int32_t>(i)};
    }
    return {};
  }

  ValueId claim(const std::string& name, ValueId id) {
    if (!claimed_.insert(id).second) throw Error("'" + name + "' is described twice");
    return id;
  }

  ValueId find_input(const std::string& name) {
    const std::vector<ValueId>& inputs = graph_.main().inputs;
    const auto named = [&](ValueId id) { return graph_.value(id).name == name; };
    const auto found = std::ranges::find_if(inputs, named);
    if (found != inputs.end()) return claim(name, *found);
    std::vector<std::string> names;
    for (const ValueId id : inputs) names.push_back(graph_.value(id).name);
    throw Error("inputs: the model has no input named '" + name + "'" + did_you_mean(name, names));
  }

  ValueId find_weight(const std::string& name) {
    const ValueId id = find(name);
    if (id.valid() && !graph_.value(id).producer.valid()) return claim(name, id);
    if (id.valid()) throw Error("weights: '" + name + "' is computed by the model");
    throw Error("weights: the model has no input or initializer named '" + name + "'");
  }

  void require_all_inputs() const {
    for (const ValueId id : graph_.main().inputs) {
      if (claimed_.contains(id) || graph_.value(id).constant) continue;
      throw Error("input '" + graph_.value(id).name + "' is neither under inputs nor under weights");
    }
  }

  // The first axis of an input with data or draws, where it has no size, is the batch.
  Bindings bindings() const {
    Bindings bindings;
    for (const ProgramInput& input : program_.inputs) {
      const Type& type = graph_.value(input.id).type;
      if (!type.ranked) {
        if (!input.data.empty()) bindings.inputs[input.name] = input.data.dims();
        continue;
      }
      Dims dims;
      for (std::size_t axis = 0; axis < type.shape.size(); ++axis) {
        const Dim& dim = type.shape[axis];
        const bool from_data = axis > 0 && input.data.rank() == type.shape.size();
        dims.push_back(dim.known() ? dim.size : from_data ? input.data.dim(axis) : axis == 0 ? program_.batch : -1);
      }
      if (std::ranges::find(dims, -1) != dims.end()) {
        throw Error("input '" + input.name + "': the size of an axis is neither in the model nor in the data");
      }
      bindings.inputs[input.name] = std::move(dims);
    }
    return bindings;
  }

  Dims dims_of(ValueId id, const std::string& what) const {
    const std::optional<Dims> dims = program_.types[id].dims();
    if (!dims) throw Error(what + ": its shape is not known");
    return *dims;
  }

  void settle_input(ProgramInput& input) {
    const std::string what = "input '" + input.name + "'";
    const Dims dims = dims_of(input.id, what);
    const DType dtype = program_.types[input.id].dtype;
    if (input.data.dtype() == DType::undefined && !input.draw) throw Error(what + ": needs data, values or draw");
    input.batched = !dims.empty() && dims.front() == program_.batch && has_batch_axis(input, dims);
    if (!input.draw) settle_data(input, dims, dtype, what);
    if (!input.range) input.range = own_range(input);
    if (input.range->lo > input.range->hi) throw Error(what + ": the range is empty");
    if (!input.change) input.change = is_float(dtype) && !input.label;
    if (*input.change && !is_float(dtype)) throw Error(what + ": only floats can be changed by a search");
  }

  // Samples may have another shape than the model's, as long as they have as many elements: images in rows.
  bool has_batch_axis(const ProgramInput& input, const Dims& dims) const {
    if (input.draw) return true;
    if (is_whole_value(input, dims)) return false;
    const std::int64_t each = element_count(std::span(dims).subspan(1));
    return input.data.rank() > 0 && input.data.dim(0) > 0 && input.data.size() == input.data.dim(0) * each;
  }

  // A matrix that is just as long as the batch, where the samples come from inputs whose first axis has no size.
  bool is_whole_value(const ProgramInput& input, const Dims& dims) const {
    const auto is_sized = [&](const ProgramInput& which) {
      const Type& type = graph_.value(which.id).type;
      return type.ranked && !type.shape.empty() && type.shape.front().known();
    };
    const auto brings_samples = [&](const ProgramInput& other) {
      return !other.draw && !is_sized(other) && other.data.rank() > 0 && other.data.dim(0) != program_.batch;
    };
    return is_sized(input) && input.data.dims() == dims && std::ranges::any_of(program_.inputs, brings_samples);
  }

  void settle_data(ProgramInput& input, const Dims& dims, DType dtype, const std::string& what) {
    Tensor& data = input.data;
    if (data.dtype() != dtype) data = from_elements<double>(dtype, data.dims(), elements<double>(data));
    if (!input.batched) {
      if (element_count(dims) != data.size()) {
        throw Error(what + ": the data has shape " + to_string(data.dims()) + ", the model wants " + to_string(dims));
      }
      data = data.reshaped(dims);
      return;
    }
    const std::int64_t each = element_count(std::span(dims).subspan(1));
    if (data.dim(0) < 1 || data.size() / data.dim(0) != each) {
      throw Error(what + ": a sample of the data has shape " +
                  to_string(std::span<const std::int64_t>(data.dims()).subspan(1)) + ", the model wants " +
                  to_string(std::span<const std::int64_t>(dims).subspan(1)));
    }
    Dims all = dims;
    all[0] = data.dim(0);
    data = data.reshaped(std::move(all));
    if (samples_ > 0 && data.dim(0) != samples_) {
      throw Error(what + ": " + std::to_string(data.dim(0)) + " samples, another input has " +
                  std::to_string(samples_));
    }
    samples_ = data.dim(0);
  }

  static LegalRange own_range(const ProgramInput& input) {
    if (input.draw) return range_of(*input.draw);
    LegalRange range = {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()};
    for (const double x : elements<double>(input.data)) {
      range.lo = std::min(range.lo, x);
      range.hi = std::max(range.hi, x);
    }
    if (input.data.empty()) range = {};
    return range;
  }

  // Of what a generator can give; a normal distribution gives anything, but hardly ever more than six deviations.
  static LegalRange range_of(const Draw& draw) {
    constexpr double kDeviations = 6;
    switch (draw.kind) {
      case Draw::Kind::zeros: return {0, 0};
      case Draw::Kind::constant: return {draw.a, draw.a};
      case Draw::Kind::uniform: return {draw.a, draw.b};
      case Draw::Kind::normal: return {draw.a - kDeviations * draw.b, draw.a + kDeviations * draw.b};
      case Draw::Kind::truncated_normal: return {draw.a - 2 * draw.b, draw.a + 2 * draw.b};
      case Draw::Kind::bernoulli:
      case Draw::Kind::one_hot: return {0, 1};
      case Draw::Kind::integers: return {draw.a, draw.b - 1};
      default: return {};
    }
  }

  void settle_weight(ProgramWeight& weight) {
    const std::string what = "weight '" + weight.name + "'";
    const Dims dims = dims_of(weight.id, what);
    const DType dtype = program_.types[weight.id].dtype;
    if (!is_float(dtype)) throw Error(what + ": only floats are trained");
    if (!weight.start.empty()) {
      if (weight.start.size() != element_count(dims)) {
        throw Error(what + ": " + std::to_string(weight.start.size()) + " numbers given, the model wants " +
                    std::to_string(element_count(dims)));
      }
      weight.start = from_elements<double>(dtype, dims, elements<double>(weight.start));
      return;
    }
    if (!weight.init && !graph_.value(weight.id).constant) throw Error(what + ": needs init");
  }

  ValueId scalar(const std::string& name, const std::string& what) const {
    const ValueId id = find(name);
    if (!id.valid()) throw Error(what + ": the model has no value named '" + name + "'");
    const Type& type = program_.types[id];
    const std::optional<Dims> dims = type.dims();
    if (!is_float(type.dtype) || !dims || element_count(*dims) != 1) {
      throw Error(what + ": '" + name + "' is not a float with one element");
    }
    return id;
  }

  void settle_loss() {
    if (program_.loss.empty()) {
      for (const ValueId id : graph_.main().outputs) {
        if (!is_float(program_.types[id].dtype)) continue;
        if (!program_.loss.empty()) throw Error("the model has several float outputs: 'loss' must name one");
        program_.loss = graph_.value(id).name;
      }
      if (program_.loss.empty()) throw Error("the model has no float output that could be the loss");
    }
    const bool trains = std::ranges::any_of(program_.weights, [](const ProgramWeight& w) { return w.train; });
    const bool own = std::ranges::all_of(
        program_.weights, [](const ProgramWeight& w) { return !w.train || !w.loss.empty() || !w.update.empty(); });
    program_.loss_id = trains && !own ? scalar(program_.loss, "loss") : find(program_.loss);
    if (!program_.loss_id.valid()) throw Error("loss: the model has no value named '" + program_.loss + "'");
    for (const ProgramWeight& weight : program_.weights) {
      if (!weight.loss.empty()) scalar(weight.loss, "weight '" + weight.name + "'");
      if (!weight.update.empty()) require_update(weight);
    }
    if (program_.watch.empty()) program_.watch = {program_.loss};
    for (const std::string& watched : program_.watch) {
      const ValueId id = find(watched);
      if (!id.valid()) throw Error("watch: the model has no value named '" + watched + "'");
      program_.watch_ids.push_back(id);
    }
  }

  void require_update(const ProgramWeight& weight) const {
    const ValueId id = find(weight.update);
    if (!id.valid()) throw Error("weight '" + weight.name + "': the model has no value named '" + weight.update + "'");
    if (program_.types[id].dims() != program_.types[weight.id].dims()) {
      throw Error("weight '" + weight.name + "': '" + weight.update + "' has another shape");
    }
  }

  Program& program_;
  const Graph& graph_;
  std::set<ValueId> claimed_;
  std::int64_t samples_ = 0;
};

}  // namespace

void settle(Program& program) {
  if (program.graph == nullptr) throw Error("the program has no model");
  program.watch_ids.clear();
  Settler(program).settle();
}

std::string_view name(Optimiser::Kind kind) {
  return std::ranges::find(kOptimisers, kind, &std::pair<std::string_view, Optimiser::Kind>::second)->first;
}

std::optional<Optimiser::Kind> optimiser_named(std::string_view name) {
  const auto found = std::ranges::find(kOptimisers, name, &std::pair<std::string_view, Optimiser::Kind>::first);
  return found == kOptimisers.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace finity

#include "program/tensorflow_program.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/mapped_file.h"
#include "check/class_counts.h"
#include "formats/tensorflow/tensorflow.h"
#include "formats/tensorflow/training_step.h"
#include "graph/builder.h"
#include "graph/initial_weight.h"
#include "program/draws.h"
#include "tensor/convert.h"
#include "types/graph_writer.h"

namespace finity {

namespace {

constexpr std::int64_t kBatch = 16;
// A size that neither the graph nor --shape gives, of an axis that is no batch.
constexpr std::int64_t kOtherSize = 8;
// Draws of inputs that may be any number.
constexpr double kLargestDraw = 50;

using Start = TensorFlowVariable::Start;

// How a variable begins; the support of a draw is as many deviations wide as its generator gives.
Draw draw_of(const TensorFlowVariable& variable) {
  constexpr double kTruncated = 2;
  constexpr double kNormal = 5.678;
  if (!std::isfinite(variable.lo) || !std::isfinite(variable.hi)) return {.kind = Draw::Kind::uniform, .a = -1, .b = 1};
  const double middle = variable.lo / 2 + variable.hi / 2;
  const double half = variable.hi / 2 - variable.lo / 2;
  if (half == 0) return {.kind = Draw::Kind::constant, .a = variable.lo};
  if (variable.start == Start::truncated_normal) {
    return {.kind = Draw::Kind::truncated_normal, .a = middle, .b = half / kTruncated};
  }
  if (variable.start == Start::normal) return {.kind = Draw::Kind::normal, .a = middle, .b = half / kNormal};
  return {.kind = Draw::Kind::uniform, .a = variable.lo, .b = variable.hi};
}

// By the names of TensorFlow's operands.
Optimiser optimiser_of(const TensorFlowTraining& training, std::vector<std::string>& assumptions) {
  Optimiser optimiser;
  const auto setting = [&](std::size_t i, double otherwise) {
    return i < training.settings.size() && training.settings[i] ? *training.settings[i] : otherwise;
  };
  constexpr double kUsualRate = 0.001;
  optimiser.rate = setting(0, kUsualRate);
  if (training.settings.empty() || !training.settings[0]) {
    assumptions.push_back("the rate of learning is computed or fed; 0.001 is taken");
  }
  using Kind = Optimiser::Kind;
  const std::string& op = training.optimiser;
  if (op == "ApplyGradientDescent") optimiser.kind = Kind::sgd;
  if (op == "ApplyMomentum") {
    optimiser.kind = Kind::momentum;
    optimiser.momentum = setting(1, 0.9);
  }
  if (op == "ApplyAdagrad") optimiser.kind = Kind::adagrad;
  if (training.accumulator) optimiser.accumulator = *training.accumulator;
  if (op == "ApplyAdadelta") {
    optimiser.kind = Kind::adadelta;
    optimiser.decay = setting(1, 0.95);
    optimiser.epsilon = setting(2, 1e-8);
  }
  if (op == "ApplyRMSProp" || op == "ApplyCenteredRMSProp") {
    optimiser.kind = Kind::rmsprop;
    optimiser.decay = setting(1, 0.9);
    optimiser.momentum = setting(2, 0);
    optimiser.epsilon = setting(3, 1e-10);
    optimiser.epsilon_inside = true;
    optimiser.centred = op == "ApplyCenteredRMSProp";
  }
  if (op == "ApplyAdam") {
    optimiser.kind = Kind::adam;
    optimiser.beta1 = setting(1, 0.9);
    optimiser.beta2 = setting(2, 0.999);
    optimiser.epsilon = setting(3, 1e-8);
  }
  if (op == "ApplyFtrl" || op == "ApplyFtrlV2") {
    const std::size_t shrinks = op == "ApplyFtrlV2" ? 1 : 0;
    optimiser.kind = Kind::ftrl;
    optimiser.l1 = setting(1, 0);
    optimiser.l2 = setting(2, 0);
    if (shrinks > 0) optimiser.shrinkage = setting(3, 0);
    optimiser.power = -setting(3 + shrinks, -0.5);
  }
  return optimiser;
}

ValueId value_named(const Graph& graph, const std::string& name) {
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    if (graph.values()[i].body == Graph::kMain && graph.values()[i].name == name) return {static_cast<std::int32_t>(i)};
  }
  return {};
}

class ProgramMaker {
 public:
  ProgramMaker(Graph graph, TensorFlowTraining training, const Contract& contract, const Bindings& bindings)
      : graph_(std::move(graph)), training_(std::move(training)), contract_(contract), bindings_(bindings) {}

  Program make(const std::string& name, std::vector<std::string>& assumptions) {
    keep_losses();
    free_variables();
    refuse_unknown();
    settle_sizes(assumptions);
    Program program;
    program.name = name;
    program.batch = batch_;
    program.loss = losses_.at(training_.loss);
    for (const auto& [node, value] : losses_) program.watch.push_back(value);
    program.optimiser = optimiser_of(training_, assumptions);
    add_weights(program);
    program.graph = std::make_shared<const Graph>(std::move(graph_));
    add_inputs(program, assumptions);
    settle(program);
    return program;
  }

 private:
  // Only what the losses need; one with several elements is trained as their sum.
  void keep_losses() {
    std::set<std::string> wanted = {training_.loss};
    for (const TensorFlowVariable& variable : training_.variables) {
      if (!variable.loss.empty()) wanted.insert(variable.loss);
    }
    GraphWriter writer(graph_, infer_types(graph_));
    std::vector<ValueId> outputs;
    for (const std::string& node : wanted) {
      ValueId id = value_named(graph_, node);
      if (!id.valid()) throw Error("the loss '" + node + "' is not computed outside of loops and branches");
      if (const std::optional<Dims> dims = writer.type(id).dims(); !dims || element_count(*dims) != 1) {
        Attrs attrs;
        attrs.set("keepdims", std::int64_t{0});
        id = writer.add("ReduceSum", {id}, std::move(attrs));
        writer.builder().value(id).name = writer.fresh_name(node + "/total");
      }
      losses_[node] = writer.graph().value(id).name;
      outputs.push_back(id);
    }
    writer.set_outputs(std::move(outputs));
    writer.builder().drop_unneeded();
    graph_ = std::move(writer).finish().graph;
    GraphBuilder builder(graph_);
    std::set<ValueId> used;
    mark_used(Graph::kMain, used);
    // Nodes that were taken out keep their ids and still name what they read.
    std::erase_if(builder.body(Graph::kMain).inputs, [&](ValueId id) {
      if (used.contains(id)) return false;
      Value& value = builder.value(id);
      value.constant = std::make_shared<MissingConstant>(value.type.dtype, Dims{}, "nothing needs it");
      return true;
    });
    graph_ = std::move(builder).build();
  }

  void mark_used(BodyId body, std::set<ValueId>& used) const {
    for (const NodeId id : graph_.body(body).nodes) {
      const Node& node = graph_.node(id);
      used.insert(node.inputs.begin(), node.inputs.end());
      used.insert(node.captures.begin(), node.captures.end());
    }
    for (const ValueId output : graph_.body(body).outputs) used.insert(output);
  }

  // Variables become inputs, which the program starts and trains; whole numbers stay what they start as.
  void free_variables() {
    GraphBuilder builder(graph_);
    Body& main = builder.body(Graph::kMain);
    for (const ValueId id : std::vector<ValueId>(main.constants)) {
      Value& value = builder.value(id);
      const auto* initial = dynamic_cast<const InitialWeight*>(value.constant.get());
      if (initial == nullptr) continue;
      const DType dtype = initial->dtype();
      if (is_float(dtype)) {
        value.type = Type::tensor_of(dtype, initial->dims());
        value.constant = nullptr;
        std::erase(main.constants, id);
        main.inputs.push_back(id);
        variables_.insert(value.name);
        continue;
      }
      const double start = std::isfinite(initial->support().lo) ? initial->support().lo : 0;
      const std::vector<double> all(static_cast<std::size_t>(element_count(initial->dims())), start);
      value.constant = std::make_shared<TensorConstant>(from_elements<double>(dtype, initial->dims(), all));
    }
    graph_ = std::move(builder).build();
  }

  void refuse_unknown() const {
    for (const Body& body : graph_.bodies()) {
      for (const NodeId id : body.nodes) {
        const Node& node = graph_.node(id);
        if (node.op == nullptr) throw Error(describe(graph_, node) + " is not modelled, so the program cannot be run");
      }
    }
  }

  // Sizes that are left open: the first is the batch, as many samples as inputs of a known size have.
  void settle_sizes(std::vector<std::string>& assumptions) {
    GraphBuilder builder(graph_);
    bool open = false;
    std::int64_t stated = 0;
    for (const ValueId id : graph_.main().inputs) {
      const Value& value = graph_.value(id);
      if (variables_.contains(value.name)) continue;
      const auto given = bindings_.inputs.find(value.name);
      if (given != bindings_.inputs.end()) builder.value(id).type = Type::tensor_of(value.type.dtype, given->second);
      const Type& type = builder.value(id).type;
      if (!type.ranked)
        throw Error("input '" + value.name + "' has no shape: give one with --shape " + value.name + ":...");
      if (type.shape.empty()) continue;
      if (type.shape.front().known()) stated = std::max(stated, type.shape.front().size);
      else open = true;
      for (std::size_t axis = 1; axis < type.shape.size(); ++axis) {
        if (type.shape[axis].known()) continue;
        builder.value(id).type.shape[axis] = Dim::of(kOtherSize);
        assumptions.push_back("axis " + std::to_string(axis) + " of '" + value.name + "' is taken to be " +
                              std::to_string(kOtherSize) + "; use --shape");
      }
    }
    if (!open && stated > 0) batch_ = stated;
    if (open) assumptions.push_back("batches of " + std::to_string(batch_) + " samples");
    graph_ = std::move(builder).build();
  }

  void add_weights(Program& program) const {
    for (const TensorFlowVariable& variable : training_.variables) {
      if (!variables_.contains(variable.name)) continue;
      ProgramWeight weight = {.name = variable.name, .init = draw_of(variable), .train = !variable.loss.empty()};
      if (weight.train && variable.loss != training_.loss) weight.loss = losses_.at(variable.loss);
      const bool drawn = variable.lo < variable.hi && std::isfinite(variable.lo) && std::isfinite(variable.hi);
      if (drawn) weight.range = LegalRange{variable.lo, variable.hi};
      program.weights.push_back(std::move(weight));
    }
  }

  // As many for all inputs: some batches, if that is no more than some megabytes.
  std::int64_t samples_for(const Graph& graph) const {
    constexpr std::int64_t kBatches = 16;
    constexpr std::int64_t kMostElements = std::int64_t{1} << 22;
    for (const ValueId id : graph.main().inputs) {
      std::int64_t each = 1;
      if (variables_.contains(graph.value(id).name)) continue;
      for (const Dim& dim : graph.value(id).type.shape) each *= std::max<std::int64_t>(dim.size, 1);
      if (each > kMostElements / (kBatches * batch_)) return batch_;
    }
    return kBatches * batch_;
  }

  void add_inputs(Program& program, std::vector<std::string>& assumptions) {
    const Graph& graph = *program.graph;
    const Types types = infer_types(graph);
    samples_ = samples_for(graph);
    constexpr std::size_t kCells = 64;
    const Premises known = premises(graph, types, contract_, kCells);
    for (const Unmatched& unmatched : known.unmatched) {
      assumptions.push_back(unmatched.declaration + " speaks of nothing that the loss depends on");
    }
    const std::vector<std::int64_t> classes = class_counts(graph, types);
    for (const ValueId id : graph.main().inputs) {
      const Value& value = graph.value(id);
      if (variables_.contains(value.name)) continue;
      Range range = known.of[id.at()] ? known.of[id.at()]->hull() : any_finite(value.type.dtype);
      const bool guessed = std::ranges::find(known.guesses, id, &GuessedInput::value) != known.guesses.end();
      const std::int64_t count = guessed ? classes[id.at()] : -1;
      if (count > 0) range = from_bounds(value.type.dtype, 0, static_cast<double>(count - 1));
      program.inputs.push_back(input_of(value, range, count > 0));
      assumptions.push_back(value.name + ": " + to_string(range.finite()) +
                            (count > 0                    ? ", classes"
                             : is_float(value.type.dtype) ? ""
                                                          : ", of which small numbers are tried"));
    }
  }

  // Samples, or a whole value, drawn once: searches exchange and change them. Classes are only exchanged.
  ProgramInput input_of(const Value& value, const Range& range, bool classes) const {
    ProgramInput input = {.name = value.name, .range = LegalRange{range.lo, range.hi}, .label = classes};
    const DType dtype = value.type.dtype;
    const bool batched =
        !value.type.shape.empty() && (!value.type.shape.front().known() || value.type.shape.front().size == batch_);
    Dims dims;
    for (const Dim& dim : value.type.shape) dims.push_back(dim.known() ? dim.size : batch_);
    if (batched) dims.front() = samples_;
    const Draw draw =
        classes ? Draw{.kind = Draw::Kind::integers, .a = range.lo, .b = range.hi + 1} : draw_inside(dtype, range);
    input.data = drawn(draw, dtype, dims, seed_for(0, value.name));
    return input;
  }

  static Draw draw_inside(DType dtype, const Range& range) {
    if (!is_float(dtype)) {
      // They may be indices: the first two are there.
      const double first = std::clamp(0.0, range.lo, range.hi);
      return {.kind = Draw::Kind::integers, .a = first, .b = std::min(first + 1, range.hi) + 1};
    }
    const double lo = std::clamp(-kLargestDraw, range.lo, range.hi);
    const double hi = std::clamp(kLargestDraw, range.lo, range.hi);
    if (lo == hi) return {.kind = Draw::Kind::constant, .a = lo};
    return {.kind = Draw::Kind::uniform, .a = lo, .b = hi};
  }

  Graph graph_;
  TensorFlowTraining training_;
  const Contract& contract_;
  const Bindings& bindings_;
  std::map<std::string, std::string> losses_ = {};  // node of the file -> value of the graph
  std::set<std::string> variables_ = {};            // that are inputs now
  std::int64_t batch_ = kBatch;
  std::int64_t samples_ = 0;  // of every input that has a batch
};

}  // namespace

TensorFlowProgram tensorflow_program(const std::string& path, const Contract& contract, const Bindings& bindings) {
  TensorFlowProgram result;
  const auto file = MappedFile::open(path);
  if (!looks_like_tensorflow(file->bytes())) return result;
  const std::string_view bytes = {reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()};
  std::optional<TensorFlowTraining> training = tensorflow_training(bytes, path);
  if (!training) return result;
  std::vector<Note> notes;
  Graph graph = read_tensorflow(path, notes);
  try {
    ProgramMaker maker(std::move(graph), *std::move(training), contract, bindings);
    result.program = maker.make(path, result.assumptions);
  } catch (Error& error) {
    error.in(path);
    throw;
  }
  result.trains = true;
  return result;
}

}  // namespace finity

#include "muffin/trace.h"

#include <algorithm>

#include "base/error.h"
#include "formats/onnx/onnx.h"
#include "fuzz/backward.h"
#include "fuzz/public_steps.h"
#include "gradient/gradient.h"
#include "muffin/losses.h"
#include "tensor/convert.h"

namespace finity::muffin {

namespace {

std::map<std::string, ValueId, std::less<>> ids_of(const Graph& graph) {
  std::map<std::string, ValueId, std::less<>> ids;
  for (std::size_t i = 0; i < graph.values().size(); ++i)
    ids[graph.values()[i].name] = ValueId{static_cast<std::int32_t>(i)};
  return ids;
}

// Reduced to what distinguishes messages of one kind: numbers and names of values are left out.
std::string first_line(const std::string& text) {
  std::string line = text.substr(0, std::min(text.find('\n'), std::size_t{300}));
  std::string result;
  bool quoted = false;
  for (const char c : line) {
    if (c == '\'' || c == '"') quoted = !quoted;
    else if (!quoted && !(c >= '0' && c <= '9')) result += c;
  }
  return result;
}

Trace::End end_of(const Answer& answer) {
  if (answer.done()) return Trace::End::done;
  if (answer.outcome == Answer::Outcome::unsupported) return Trace::End::unsupported;
  return answer.stage == Stage::start || answer.stage == Stage::load ? Trace::End::refused : Trace::End::crashed;
}

std::optional<Tensor> tensor_of(const NamedData& data, const std::string& name) {
  const Datum datum = fuzz::find(data, name);
  if (datum.tensor() == nullptr) return std::nullopt;
  return *datum.tensor();
}

}  // namespace

Prepared::Prepared(const Model& model, bool with_twin) : model_(model), forward_(fuzz::with_older_forms(model.sample)) {
  forward_.outputs.clear();
  for (const Layer& layer : model.layers) forward_.outputs.push_back(layer.output);
  forward_.outputs.push_back(model.loss_value);
  add_probes();
  try {
    if (with_twin) twin_ = muffin::unrolled(model);
    if (twin_) unrolled_.reset(new Prepared(*twin_, false));
    else add_backward();
  } catch (const Error& error) {
    why_ = error.what();
  }
}

void Prepared::add_probes() {
  probed_ = forward_;
  probed_.outputs = {model_.loss_value};
  std::map<std::string, std::string, std::less<>> renamed;
  for (std::size_t i = 0; i < model_.layers.size(); ++i) {
    probes_.push_back("probe" + std::to_string(i));
    probed_.inputs[probes_.back()] = Tensor(DType::float32, model_.layers[i].dims);
    renamed[model_.layers[i].output] = probes_.back();
  }
  std::vector<fuzz::Step> steps;
  for (fuzz::Step step : probed_.steps) {
    for (std::string& input : step.inputs) {
      if (renamed.contains(input)) input += "/probed";
    }
    const std::string made = step.outputs.front();
    steps.push_back(std::move(step));
    if (const auto probe = renamed.find(made); probe != renamed.end())
      steps.push_back({.op = "Add", .inputs = {made, probe->second}, .outputs = {made + "/probed"}});
  }
  probed_.steps = std::move(steps);
}

void Prepared::add_backward() {
  const Graph graph = fuzz::graph(model_.sample);
  const auto ids = ids_of(graph);
  GraphWriter writer(graph, infer_types(graph));
  std::vector<ValueId> wanted;
  for (const Layer& layer : model_.layers) wanted.push_back(ids.at(layer.output));
  for (const std::string& weight : model_.weights) {
    if (ids.contains(weight)) wanted.push_back(ids.at(weight));
  }
  const GradientResult gradients = add_gradient(writer, ids.at(model_.loss_value), wanted);
  if (!gradients.stops.empty()) throw Error(gradients.stops.front().reason);
  std::vector<ValueId> outputs;
  std::size_t next = 0;
  const auto name_of = [&](ValueId id) {
    if (!id.valid() || !writer.graph().value(id).producer.valid()) return std::string();
    if (std::ranges::find(outputs, id) == outputs.end()) outputs.push_back(id);
    return writer.graph().value(id).name;
  };
  for (std::size_t i = 0; i < model_.layers.size(); ++i) by_layer_.push_back(name_of(gradients.of[next++]));
  for (const std::string& weight : model_.weights)
    by_weight_.push_back(ids.contains(weight) ? name_of(gradients.of[next++]) : std::string());
  writer.set_outputs(outputs);
  const GraphWriter::Result whole = std::move(writer).finish();
  for (const NodeId id : whole.graph.main().nodes) {
    if (!bodies_of(whole.graph.node(id).attrs).empty()) throw Error("the backward pass has loops");
  }
  fuzz::Sample sample = fuzz::with_public_steps(fuzz::sample_of(whole.graph, fuzz::inputs_of(model_.sample)));
  for (const fuzz::Step& step : sample.steps) {
    if (!step.domain.empty()) throw Error(step.op + " has no public form");
  }
  backward_ = fuzz::with_older_forms(sample);
}

namespace {

void take_forward(Trace& trace, const Answer& answer, const Model& model) {
  for (const Layer& layer : model.layers) {
    std::optional<Tensor> tensor = tensor_of(answer.outputs, layer.output);
    if (!tensor || tensor->dtype() != DType::float32 || tensor->dims() != layer.dims) {
      trace.end = Trace::End::crashed;
      trace.message = "another form of " + layer.spec.kind;
      return;
    }
    trace.outputs.push_back(std::move(*tensor));
  }
  const std::optional<Tensor> loss = tensor_of(answer.outputs, model.loss_value);
  if (loss && loss->size() == 1) trace.loss = element_as_double(*loss, 0);
}

void derive(Trace& trace, fuzz::Backend& backend, const Prepared& prepared) {
  const Model& model = prepared.model();
  std::vector<std::string> names = prepared.probes();
  for (const std::string& weight : model.weights) {
    if (prepared.probed().constants.contains(weight)) names.push_back(weight);
  }
  const Answer answer = backend.derive(prepared.probed(), model.loss_value, names);
  if (!answer.done()) {
    trace.backward = answer.text;
    return;
  }
  for (const std::string& probe : prepared.probes()) trace.gradients.push_back(tensor_of(answer.gradients, probe));
  for (const std::string& weight : model.weights) {
    if (auto tensor = tensor_of(answer.gradients, weight)) trace.weight_gradients[weight] = std::move(*tensor);
  }
}

// Weights have other names in the twin, but the same order.
void rename_weights(Trace& trace, const Model& twin, const Model& model) {
  std::map<std::string, Tensor> renamed;
  for (std::size_t i = 0; i < model.weights.size() && i < twin.weights.size(); ++i) {
    if (auto found = trace.weight_gradients.find(twin.weights[i]); found != trace.weight_gradients.end())
      renamed[model.weights[i]] = std::move(found->second);
  }
  trace.weight_gradients = std::move(renamed);
}

void run_backward(Trace& trace, fuzz::Backend& backend, const Prepared& prepared) {
  if (prepared.unrolled() != nullptr) {
    run_backward(trace, backend, *prepared.unrolled());
    return rename_weights(trace, prepared.unrolled()->model(), prepared.model());
  }
  if (!prepared.backward()) {
    trace.backward = prepared.why();
    return;
  }
  const Model& model = prepared.model();
  const Answer answer = backend.run(*prepared.backward(), Optimisation::all, false);
  if (!answer.done()) {
    trace.backward = answer.text;
    return;
  }
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    const std::string& name = prepared.by_layer()[i];
    trace.gradients.push_back(name.empty() ? std::nullopt : tensor_of(answer.outputs, name));
  }
  for (std::size_t i = 0; i < model.weights.size(); ++i) {
    const std::string& name = prepared.by_weight()[i];
    if (auto tensor = name.empty() ? std::nullopt : tensor_of(answer.outputs, name))
      trace.weight_gradients[model.weights[i]] = std::move(*tensor);
  }
}

// The library's own optimiser on its own gradients; false when it has none of that name. `model` is any that it loads.
bool step_natively(Trace& trace, fuzz::Backend& backend, const Model& model) {
  if (!backend.derives()) return false;
  LongRequest request{.model = write_onnx(fuzz::graph(model.sample)), .task = {.text = "optimiser " + model.optimiser}};
  for (const auto& [weight, gradient] : trace.weight_gradients) {
    const auto found = model.sample.constants.find(weight);
    if (found == model.sample.constants.end() || found->second.dims() != gradient.dims()) continue;
    request.task.data.emplace_back(weight, found->second);
    request.task.data.emplace_back("gradient", gradient);
  }
  const Answer answer = backend.worker().task(request);
  if (!answer.done()) return false;
  for (const auto& [weight, datum] : answer.outputs) {
    if (datum.tensor() != nullptr) trace.weights[weight] = *datum.tensor();
  }
  trace.native_step = true;
  return true;
}

// Else the optimiser's formula, computed by the library.
void step(Trace& trace, fuzz::Backend& backend, const Prepared& prepared) {
  const Model& model = prepared.model();
  if (trace.weight_gradients.empty() || step_natively(trace, backend, model)) return;
  Net net(Weights::scaled);
  Inputs inputs;
  std::vector<std::pair<std::string, ValueId>> moved;
  int number = 0;
  for (const auto& [weight, gradient] : trace.weight_gradients) {
    const auto found = model.sample.constants.find(weight);
    if (found == model.sample.constants.end() || found->second.dims() != gradient.dims()) continue;
    const std::string w = "w" + std::to_string(number), g = "g" + std::to_string(number++);
    inputs[w] = found->second;
    inputs[g] = gradient;
    const ValueId value = net.input(w, DType::float32, gradient.dims());
    moved.emplace_back(weight, add_step(net, model.optimiser, value, net.input(g, DType::float32, gradient.dims())));
  }
  std::vector<ValueId> outputs;
  for (const auto& [weight, id] : moved) outputs.push_back(id);
  net.writer().set_outputs(outputs);
  std::vector<std::string> names;
  for (const ValueId id : outputs) names.push_back(net.writer().graph().value(id).name);
  const Graph graph = std::move(net.writer()).finish().graph;
  const Answer answer = backend.run(fuzz::with_older_forms(fuzz::sample_of(graph, inputs)), Optimisation::all, false);
  for (std::size_t i = 0; i < names.size() && answer.done(); ++i) {
    if (auto tensor = tensor_of(answer.outputs, names[i])) trace.weights[moved[i].first] = std::move(*tensor);
  }
}

}  // namespace

Trace run_model(fuzz::Backend& backend, const Prepared& prepared, bool forward_only) {
  Trace trace{.backend = backend.spec().text()};
  const Answer answer = backend.run(prepared.forward(), Optimisation::all, false);
  trace.end = end_of(answer);
  if (trace.end == Trace::End::unsupported && prepared.unrolled() != nullptr) {
    trace = run_model(backend, *prepared.unrolled(), forward_only);
    rename_weights(trace, prepared.unrolled()->model(), prepared.model());
    trace.weights.clear();
    if (trace.ran() && !forward_only) step(trace, backend, prepared);
    return trace;
  }
  if (!trace.ran()) {
    trace.message = first_line(answer.text);
    return trace;
  }
  take_forward(trace, answer, prepared.model());
  if (!trace.ran() || forward_only) return trace;
  backend.derives() ? derive(trace, backend, prepared) : run_backward(trace, backend, prepared);
  step(trace, backend, prepared);
  return trace;
}

}  // namespace finity::muffin

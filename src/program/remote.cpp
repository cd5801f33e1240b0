#include "program/remote.h"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "formats/onnx/onnx.h"
#include "program/driver.h"
#include "program/read_program.h"
#include "tensor/convert.h"

namespace finity {

namespace {

using Json = nlohmann::json;

// JSON has no infinities.
Json number(double x) { return std::isfinite(x) ? Json(x) : Json(std::isnan(x) ? "nan" : x < 0 ? "-inf" : "inf"); }
double number(const Json& json) {
  if (json.is_number()) return json.get<double>();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const auto text = json.get<std::string>();
  return text == "nan" ? std::numeric_limits<double>::quiet_NaN() : text == "inf" ? kInfinity : -kInfinity;
}

// Fields that go over as they are, each named once for both directions.
template <class Of, class Visit>
void visit_suspect(Of& suspect, const Visit& visit) {
  visit("name", suspect.name);
  visit("title", suspect.title);
  visit("result", suspect.result);
  visit("rule", suspect.rule);
  visit("unsafe", suspect.unsafe);
  visit("gradient", suspect.in_gradient);
  visit("distance", suspect.distance);
  visit("nearest", suspect.nearest);
  visit("rows", suspect.rows);
  visit("total", suspect.total);
  visit("row_count", suspect.row_count);
  visit("general", suspect.general);
}

template <class Of, class Visit>
void visit_options(Of& options, const Visit& visit) {
  visit("seed", options.seed);
  visit("seconds", options.seconds);
  visit("epsilon", options.epsilon);
  visit("switch_rate", options.switch_rate);
  visit("sites", options.sites);
  visit("confirm", options.confirm);
}

template <class Of, class Visit>
void visit_outcome(Of& outcome, const Visit& visit) {
  visit("hit", outcome.hit);
  visit("confirmed", outcome.confirmed);
  visit("seconds", outcome.seconds);
  visit("wall_seconds", outcome.wall_seconds);
  visit("first_seconds", outcome.first_seconds);
  visit("iterations", outcome.iterations);
  visit("steps", outcome.steps);
  visit("node", outcome.node);
  visit("node_name", outcome.node_name);
  visit("rule", outcome.rule);
  visit("what", outcome.what);
  visit("gradient", outcome.in_gradient);
  visit("at_site", outcome.at_site);
  visit("disproves", outcome.disproves);
  visit("site", outcome.site);
  visit("engine", outcome.engine);
  visit("stopped", outcome.stopped);
}

auto write_to(Json& json) {
  return [&json](const char* key, const auto& field) { json[key] = field; };
}
auto read_from(const Json& json) {
  return [&json](const char* key, auto& field) { json.at(key).get_to(field); };
}

Json json_of(const Suspect& suspect) {
  Json json = {{"limit", number(suspect.limit)}};
  visit_suspect(suspect, write_to(json));
  return json;
}

Suspect suspect_from(const Json& json) {
  Suspect suspect{.limit = number(json.at("limit"))};
  visit_suspect(suspect, read_from(json));
  return suspect;
}

Json json_of(const ProgramSearch& options) {
  Json json = {{"strategy", std::string(name(options.strategy))},
               {"processor_time", options.clock == ClockKind::processor},
               {"until", static_cast<int>(options.until)}};
  visit_options(options, write_to(json));
  return json;
}

ProgramSearch options_from(const Json& json) {
  ProgramSearch options;
  options.strategy = strategy_from_name(json.at("strategy").get<std::string>());
  options.clock = json.at("processor_time").get<bool>() ? ClockKind::processor : ClockKind::wall;
  options.until = static_cast<Until>(json.at("until").get<int>());
  visit_options(options, read_from(json));
  return options;
}

Json json_of(const ProgramOutcome& outcome) {
  Json trace = Json::array();
  for (const double point : outcome.trace) trace.push_back(number(point));
  Json open = Json::array(), more = Json::array();
  for (const OpenSite& site : outcome.open) open.push_back(Json::array({site.title, site.rule, number(site.closest)}));
  for (const ProgramOutcome& other : outcome.more) more.push_back(json_of(other));
  Json json = {{"closest", number(outcome.closest)},
               {"open", std::move(open)},
               {"more", std::move(more)},
               {"trace", std::move(trace)}};
  visit_outcome(outcome, write_to(json));
  return json;
}

Prepared prepared_from(std::shared_ptr<const Graph> graph, const TaskRequest& request, const Json& json) {
  ProgramParts parts = {.graph = std::move(graph)};
  for (const auto& [key, datum] : request.data) parts.data[key] = *datum.tensor();
  Prepared prepared;
  prepared.program = parse_program(json.at("program").get<std::string>(), "program", "", parts);
  for (const Json& suspect : json.at("suspects")) prepared.suspects.push_back(suspect_from(suspect));
  json.at("gradients").get_to(prepared.gradients);
  for (const Json& verdict : json.at("verdicts")) {
    prepared.verdicts.push_back(
        {verdict.at(0).get<std::string>(), verdict.at(1).get<std::string>(), verdict.at(2).get<bool>()});
  }
  return prepared;
}

void add_tensors(NamedData& data, const std::string& prefix, const std::map<std::string, Tensor>& tensors) {
  for (const auto& [name, tensor] : tensors) data.emplace_back(prefix + name, tensor);
}

}  // namespace

NamedData tensors_of(const TrainingRun& run) {
  NamedData data;
  data.emplace_back("seed", Tensor::scalar(static_cast<std::int64_t>(run.seed)));
  add_tensors(data, "start/", run.weights);
  add_tensors(data, "samples/", run.samples);
  add_tensors(data, "weight/", run.last_weights);
  add_tensors(data, "input/", run.last_inputs);
  for (std::size_t i = 0; i < run.inputs.size(); ++i) {
    std::vector<std::int32_t> rows;
    for (const auto& step : run.steps) rows.insert(rows.end(), step[i].begin(), step[i].end());
    const auto steps = static_cast<std::int64_t>(run.steps.size());
    const std::int64_t each = steps == 0 ? 0 : static_cast<std::int64_t>(rows.size()) / steps;
    data.emplace_back("rows/" + run.inputs[i], Tensor::of<std::int32_t>(DType::int32, {steps, each}, rows));
  }
  return data;
}

TrainingRun run_from(const NamedData& data) {
  TrainingRun run;
  for (const auto& [name, datum] : data) {
    if (datum.tensor() == nullptr) throw Error("'" + name + "' is no tensor");
    const Tensor& tensor = *datum.tensor();
    const auto rest = [&](std::string_view prefix) { return name.substr(prefix.size()); };
    if (name == "seed") run.seed = static_cast<std::uint64_t>(element_as_int(tensor, 0));
    else if (name.starts_with("start/")) run.weights[rest("start/")] = tensor;
    else if (name.starts_with("samples/")) run.samples[rest("samples/")] = tensor;
    else if (name.starts_with("weight/")) run.last_weights[rest("weight/")] = tensor;
    else if (name.starts_with("input/")) run.last_inputs[rest("input/")] = tensor;
    else if (name.starts_with("rows/")) {
      if (tensor.rank() != 2 || tensor.dtype() != DType::int32) throw Error("'" + name + "' is no table of rows");
      const auto steps = static_cast<std::size_t>(tensor.dim(0)), each = static_cast<std::size_t>(tensor.dim(1));
      run.inputs.push_back(rest("rows/"));
      run.steps.resize(std::max(run.steps.size(), steps));
      for (std::size_t step = 0; step < steps; ++step) {
        const auto rows = tensor.data<std::int32_t>().subspan(step * each, each);
        run.steps[step].resize(run.inputs.size());
        run.steps[step].back().assign(rows.begin(), rows.end());
      }
    }
  }
  return run;
}

TaskRequest encode_search(const Prepared& prepared, const ProgramSearch& options) {
  const PrintedProgram printed = print_program(prepared.program, "model", "given:");
  Json json = {{"program", printed.text}, {"options", json_of(options)}, {"gradients", prepared.gradients}};
  json["suspects"] = Json::array();
  for (const Suspect& suspect : prepared.suspects) json["suspects"].push_back(json_of(suspect));
  json["verdicts"] = Json::array();
  for (const SiteVerdict& verdict : prepared.verdicts) {
    json["verdicts"].push_back(Json::array({verdict.result, verdict.rule, verdict.proved}));
  }
  TaskRequest request = {.text = json.dump()};
  for (const auto& [key, tensor] : printed.data) request.data.emplace_back(key, tensor);
  return request;
}

namespace {

// Data of the program stands under its inputs' names, the run's tensors behind a prefix.
constexpr std::string_view kRunPrefix = "run:";
// Before a failure among the words of progress.
constexpr std::string_view kFoundPrefix = "found:";
// Of the i-th other failure.
std::string other_prefix(std::size_t i) { return "more" + std::to_string(i) + ":"; }

TaskResult do_repeat(std::shared_ptr<const Graph> graph, const TaskRequest& request, const Json& json,
                     const MakeEngine& make) {
  ProgramParts parts = {.graph = std::move(graph)};
  NamedData tensors;
  for (const auto& [key, datum] : request.data) {
    if (key.starts_with(kRunPrefix)) tensors.emplace_back(key.substr(kRunPrefix.size()), datum);
    else parts.data[key] = *datum.tensor();
  }
  const Program program = parse_program(json.at("program").get<std::string>(), "program", "", parts);
  const std::unique_ptr<TrainingEngine> engine = make(program);
  const std::size_t pass = engine->add_pass({.read = program.watch_ids});
  const Repeated repeated = repeat_run(program, *engine, run_from(tensors), pass);
  const Json answer = {{"failed", repeated.failed}, {"weights", repeated.weights_failed}, {"step", repeated.step}};
  return {.text = answer.dump()};
}

}  // namespace

std::optional<Repeated> repeat_in_worker(const Program& program, const TrainingRun& run, Worker& worker) {
  const PrintedProgram printed = print_program(program, "model", "given:");
  LongRequest request = {.model = write_onnx(*program.graph), .seconds = 600};
  request.task.text = Json({{"program", printed.text}, {"repeat", true}}).dump();
  for (const auto& [key, tensor] : printed.data) request.task.data.emplace_back(key, tensor);
  for (auto& [key, datum] : tensors_of(run)) request.task.data.emplace_back(std::string(kRunPrefix) + key, datum);
  const Answer answer = worker.task(request);
  if (!answer.done()) return std::nullopt;
  const Json json = Json::parse(answer.words, nullptr, false);
  if (json.is_discarded()) return std::nullopt;
  return Repeated{json.value("failed", false), json.value("weights", false), json.value("step", std::size_t{0})};
}

TaskResult do_search(std::shared_ptr<const Graph> graph, const TaskRequest& request, const MakeEngine& make,
                     const std::function<bool(const std::string&)>& tell) {
  try {
    const Json json = Json::parse(request.text);
    if (json.contains("repeat")) return do_repeat(std::move(graph), request, json, make);
    const Prepared prepared = prepared_from(std::move(graph), request, json);
    ProgramSearch options = options_from(json.at("options"));
    options.progress = [&](double seconds, std::uint64_t iterations, double closest) {
      return tell(Json({{"seconds", seconds}, {"iterations", iterations}, {"closest", number(closest)}}).dump());
    };
    options.found = [&](const ProgramOutcome& found) {
      tell(std::string(kFoundPrefix) + encode(TaskResult{json_of(found).dump(), tensors_of(found.run)}));
    };
    const std::unique_ptr<TrainingEngine> engine = make(prepared.program);
    const ProgramOutcome outcome = drive(prepared, options, *engine);
    TaskResult result = {.text = json_of(outcome).dump()};
    if (outcome.hit) result.data = tensors_of(outcome.run);
    for (std::size_t i = 0; i < outcome.more.size(); ++i) {
      for (auto& [key, datum] : tensors_of(outcome.more[i].run)) result.data.emplace_back(other_prefix(i) + key, datum);
    }
    return result;
  } catch (const Json::exception& error) {
    throw Error(std::string("the search was not understood: ") + error.what());
  }
}

namespace {

ProgramOutcome outcome_from(const Json& json) {
  ProgramOutcome outcome;
  visit_outcome(outcome, read_from(json));
  outcome.closest = number(json.at("closest"));
  for (const Json& point : json.at("trace")) outcome.trace.push_back(number(point));
  for (const Json& site : json.at("open")) {
    outcome.open.push_back({site.at(0).get<std::string>(), site.at(1).get<std::string>(), number(site.at(2))});
  }
  for (const Json& other : json.at("more")) outcome.more.push_back(outcome_from(other));
  return outcome;
}

// Tensors whose names begin so, without that.
NamedData with_prefix(const NamedData& data, const std::string& prefix) {
  NamedData chosen;
  for (const auto& [key, datum] : data) {
    if (key.starts_with(prefix)) chosen.emplace_back(key.substr(prefix.size()), datum);
  }
  return chosen;
}

}  // namespace

ProgramOutcome decode_search(const std::string& text, const NamedData& data) {
  try {
    ProgramOutcome outcome = outcome_from(Json::parse(text));
    if (outcome.hit) outcome.run = run_from(data);
    for (std::size_t i = 0; i < outcome.more.size(); ++i) {
      outcome.more[i].run = run_from(with_prefix(data, other_prefix(i)));
    }
    return outcome;
  } catch (const Json::exception& error) {
    throw Error(std::string("the worker's answer was not understood: ") + error.what());
  }
}

std::optional<ProgramOutcome> decode_search_found(const std::string& text) {
  if (!text.starts_with(kFoundPrefix)) return std::nullopt;
  const TaskResult result = decode_finished(std::string_view(text).substr(kFoundPrefix.size()));
  return decode_search(result.text, result.data);
}

Progress decode_search_progress(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    return {json.at("seconds").get<double>(), json.at("iterations").get<std::uint64_t>(), number(json.at("closest"))};
  } catch (const Json::exception&) {
    return {};
  }
}

}  // namespace finity

#include "cli/data_runs.h"

#include <algorithm>

#include "base/time_limit.h"
#include "check/recorded.h"
#include "check/run_sizes.h"
#include "report/words.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr int kDrawnRuns = 8;
constexpr double kDrawnSeconds = 2;

// Of the inputs, in the formats that the graph has them in: data are mostly float32 whatever the model is.
Inputs inputs_for(const Graph& graph, const Types& types, const RecordedValues& recorded) {
  Inputs inputs;
  for (const auto& [name, datum] : recorded.values) {
    const auto is_named = [&](ValueId id) { return graph.value(id).name == name; };
    const auto id = std::ranges::find_if(graph.main().inputs, is_named);
    if (id == graph.main().inputs.end()) continue;
    const Tensor* tensor = datum.tensor();
    const DType wanted = types[*id].dtype;
    const bool floats = tensor != nullptr && is_float(wanted) && is_float(tensor->dtype());
    const bool other = tensor != nullptr && wanted != DType::undefined && tensor->dtype() != wanted;
    if (other && !floats) {
      throw Error(recorded.where + ": input '" + name + "' is " + std::string(finity::name(tensor->dtype())) +
                  ", the model wants " + std::string(finity::name(wanted)));
    }
    inputs[name] = other ? Datum(from_elements<double>(wanted, tensor->dims(), elements<double>(*tensor))) : datum;
  }
  if (inputs.empty()) throw Error(recorded.where + ": no input of the model is in it");
  return inputs;
}

}  // namespace

DataRuns::DataRuns(const ModelAnalysis& model, const CheckPlan& plan)
    : model_(model),
      plan_(plan),
      converted_(plan.check.target != DType::undefined),
      torch_(plan.data.empty() || plan.engine == "reference" ? nullptr : torch_engine(60)),
      observer_(as_it_is(), types_as_it_is(), torch_.get()) {}

void DataRuns::run_recorded(const RecordedValues& recorded, VerifyReport& report, std::vector<FailingRun>& witnesses) {
  const auto drawn = std::make_shared<Drawn>();
  drawn->inputs = inputs_for(model_.graph, model_.types, recorded);
  RecordedValues given = {.where = recorded.where, .values = {drawn->inputs.begin(), drawn->inputs.end()}};
  RecordedReport ignored;
  compare_recorded(model_.graph, model_.premises, model_.analysis, given, ignored);
  try {
    observer_.run(inputs_for(as_it_is(), types_as_it_is(), recorded), plan_.seed);
    const std::vector<Datum> outputs = verify_run(model_.graph, model_.analysis, *drawn, plan_.seed, report);
    for (FailingRun& witness : report.witnesses) {
      if (witness.drawn != nullptr) continue;
      witness.drawn = drawn;
      witness.outputs = outputs;
    }
  } catch (Error& error) {
    error.in(recorded.where);
    throw;
  }
  witnesses = report.witnesses;
}

// Some numbers that the model as it is may meet: at the ends of what was declared, and between.
void DataRuns::draw_some() {
  const TimeLimit limit(kDrawnSeconds);
  Rng rng(plan_.seed);
  try {
    const Premises inside =
        premises(as_it_is(), types_as_it_is(), plan_.contract, plan_.check.analysis.ranges.max_cells);
    Types types = types_as_it_is();
    const auto run = [&](int number) {
      observer_.run(draw_inside(as_it_is(), types, inside, rng, number).inputs, plan_.seed);
    };
    try {
      run(0);
    } catch (const TimeUp&) {
      throw;
    } catch (const Error&) {  // too small, perhaps
      types = with_sizes_that_run(as_it_is(), types, inside, rng, kDrawnSeconds);
      run(0);
    }
    for (int number = 1; number < kDrawnRuns; ++number) run(number);
  } catch (const TimeUp&) {
    return;
  } catch (const Error&) {
    return;  // what cannot be drawn or run shows nothing; the summary counts the runs
  }
}

std::vector<FailingRun> DataRuns::run() {
  std::vector<FailingRun> witnesses;
  VerifyReport report;
  for (const std::string& path : plan_.data) {
    for (const RecordedValues& recorded : read_recorded(path, as_it_is())) run_recorded(recorded, report, witnesses);
  }
  if (converted_ && (plan_.confirm > 0 || !plan_.data.empty())) draw_some();
  return witnesses;
}

void DataRuns::tell(Report& report) const {
  if (observer_.runs() == 0) return;
  for (Alarm& alarm : report.alarms) {
    const Finding& finding = model_.analysis.findings[alarm.finding];
    ValueId id = finding.value;
    if (finding.node.valid()) {
      const Node& node = model_.graph.node(finding.node);
      const auto operand = static_cast<std::size_t>(std::max(finding.operand, 0));
      id = finding.operand >= 0 ? node.inputs[operand] : node.outputs.empty() ? ValueId{} : node.outputs.front();
    }
    if (!id.valid() || id.at() >= as_it_is().values().size() || !observer_.of(id).seen()) continue;
    const ObservedRange& seen = observer_.of(id);
    const DType dtype = types_as_it_is()[id].dtype;
    alarm.observed = range_text({.lo = seen.lo, .hi = seen.hi}, dtype) + " in " + counted(observer_.runs(), "run") +
                     (converted_ ? " of the model as it is" : "");
  }
}

void DataRuns::tell(const NodeSet& kept, BlockList& list) const {
  list.runs = observer_.runs();
  if (list.runs == 0) return;
  list.limit = max_finite(plan_.check.target);
  for (const NodeId id : kept) {
    const Node& node = as_it_is().node(id);
    double most = -1;
    for (const std::vector<ValueId>* values : {&node.inputs, &node.outputs}) {
      for (const ValueId value : *values) {
        if (value.valid() && observer_.of(value).seen()) most = std::max(most, observer_.of(value).magnitude());
      }
    }
    list.reached.push_back(most < 0 ? -1 : most / list.limit);
  }
}

}  // namespace finity

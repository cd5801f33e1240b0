#include "bench/bench_run.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/suggest.h"

namespace finity {

namespace {

using Json = nlohmann::json;

constexpr double kEpsilons[] = {0.1, 0.15, 0.2, 0.25, 0.3};
constexpr double kSwitchRates[] = {0.01, 0.05, 0.1, 0.15, 0.2};
constexpr double kUsualEpsilon = 0.15, kUsualRate = 0.05;

std::string clock_name(ClockKind clock) { return clock == ClockKind::wall ? "wall" : "processor"; }

// The paper's study: three bugs, one parameter at a time.
std::vector<BenchRun> sweep_runs(const BenchOptions& options) {
  std::vector<BenchRun> runs;
  const auto add = [&](const char* bug, double epsilon, double rate) {
    for (int seed = 0; seed < options.seeds; ++seed) {
      runs.push_back({.bug = bug,
                      .strategy = std::string(name(Strategy::grist)),
                      .seed = static_cast<std::uint64_t>(seed),
                      .epsilon = epsilon,
                      .switch_rate = rate,
                      .limit = options.limit,
                      .clock = clock_name(options.clock),
                      .data = options.data,
                      .strict = options.strict});
    }
  };
  for (const char* bug : {"3", "18", "35a"}) {
    for (const double epsilon : kEpsilons) add(bug, epsilon, kUsualRate);
    for (const double rate : kSwitchRates) {
      if (rate != kUsualRate) add(bug, kUsualEpsilon, rate);
    }
  }
  return runs;
}

// Backward nodes carry the name of the forward one.
std::string backward_prefix(const std::string& node) { return "gradient/" + node + "/"; }

std::vector<std::string> sites_of(const GristBug& bug) {
  return bug.derivative ? std::vector{backward_prefix(bug.nodes.front()) + "Div"} : bug.nodes;
}

// Ours goes on for the bug itself when something else fails before it; the others end there, as published.
Until until_of(const BenchRun& run) {
  if (run.strict) return Until::at_site;
  return run.strategy == name(Strategy::automatic) ? Until::rather_site : Until::any_failure;
}

bool is_at_bug(const GristBug& bug, const std::string& node) {
  return std::ranges::any_of(bug.nodes, [&](const std::string& own) {
    return (node == own && !bug.derivative) || node.starts_with(backward_prefix(own));
  });
}

std::string question_text(const BenchRun& run) {
  return run.strategy + "|" + std::to_string(run.seed) + "|" + std::to_string(run.epsilon) + "|" +
         std::to_string(run.switch_rate) + "|" + std::to_string(run.limit) + "|" + run.clock + "|" + run.data +
         (run.strict ? "|strict" : "");
}

void fill_in(BenchRun& run, const GristBug& bug, const ProgramOutcome& outcome) {
  run.hit = outcome.hit;
  run.confirmed = outcome.confirmed;
  run.seconds = outcome.hit ? outcome.first_seconds : outcome.seconds;
  run.wall_seconds = outcome.wall_seconds;
  run.iterations = outcome.iterations;
  run.steps = outcome.steps;
  run.node = outcome.node_name;
  run.at_bug = outcome.hit && is_at_bug(bug, outcome.node_name);
  if (run.at_bug) run.own_seconds = outcome.seconds;
  run.closest = outcome.closest_text;
  run.engine = outcome.engine;
  const bool ended = outcome.stopped.empty() || outcome.stopped == "time" || outcome.stopped == "interrupted";
  if (!outcome.hit && !ended) run.error = outcome.stopped;
}

// A failure that ends the run of one bug may be at another's operation.
void copy_result(BenchRun& run, const GristBug& bug, const BenchRun& done) {
  BenchRun copy = done;
  copy.bug = run.bug;
  copy.at_bug = done.hit && is_at_bug(bug, done.node);
  if (!copy.at_bug) copy.own_seconds = 0;
  else if (!done.at_bug) copy.own_seconds = done.seconds;
  run = std::move(copy);
}

// Plain training that ends with any failure does not know which bug it is asked for.
bool pursues_a_site(const BenchRun& run) {
  return run.strategy != name(Strategy::plain) || until_of(run) != Until::any_failure;
}

Json to_json(const BenchRun& run) {
  return {{"bug", run.bug},
          {"strategy", run.strategy},
          {"seed", run.seed},
          {"epsilon", run.epsilon},
          {"switch_rate", run.switch_rate},
          {"limit", run.limit},
          {"clock", run.clock},
          {"data", run.data},
          {"hit", run.hit},
          {"confirmed", run.confirmed},
          {"seconds", run.seconds},
          {"wall_seconds", run.wall_seconds},
          {"own_seconds", run.own_seconds},
          {"iterations", run.iterations},
          {"steps", run.steps},
          {"node", run.node},
          {"at_bug", run.at_bug},
          {"strict", run.strict},
          {"closest", run.closest},
          {"engine", run.engine},
          {"error", run.error}};
}

BenchRun run_from(const Json& json) {
  return {.bug = json.at("bug"),
          .strategy = json.at("strategy"),
          .seed = json.at("seed"),
          .epsilon = json.at("epsilon"),
          .switch_rate = json.at("switch_rate"),
          .limit = json.at("limit"),
          .clock = json.value("clock", "wall"),
          .data = json.at("data"),
          .strict = json.at("strict"),
          .hit = json.at("hit"),
          .confirmed = json.at("confirmed"),
          .seconds = json.at("seconds"),
          .wall_seconds = json.value("wall_seconds", 0.0),
          .own_seconds = json.value("own_seconds", 0.0),
          .iterations = json.at("iterations"),
          .steps = json.at("steps"),
          .node = json.at("node"),
          .at_bug = json.at("at_bug"),
          .closest = json.at("closest"),
          .engine = json.at("engine"),
          .error = json.at("error")};
}

}  // namespace

bool BenchRun::asks_the_same(const BenchRun& other) const {
  return bug == other.bug && question_text(*this) == question_text(other);
}

std::vector<const GristBug*> chosen_bugs(const std::vector<std::string>& only) {
  std::vector<const GristBug*> chosen;
  std::vector<std::string> names;
  for (const GristBug& bug : grist_bugs()) names.push_back(bug.id);
  const auto means = [](const std::string& wanted, const GristBug& bug) {
    return bug.id == wanted || std::to_string(bug.program()) == wanted;
  };
  for (const std::string& wanted : only) {
    const bool known = std::ranges::any_of(grist_bugs(), [&](const GristBug& bug) { return means(wanted, bug); });
    if (!known) throw Error("--only: there is no bug '" + wanted + "'" + did_you_mean(wanted, names));
  }
  for (const GristBug& bug : grist_bugs()) {
    const auto wants = [&](const std::string& wanted) { return means(wanted, bug); };
    if (only.empty() || std::ranges::any_of(only, wants)) chosen.push_back(&bug);
  }
  return chosen;
}

std::vector<BenchRun> planned_runs(const BenchOptions& options) {
  if (options.sweep) return sweep_runs(options);
  std::vector<BenchRun> runs;
  for (const GristBug* bug : chosen_bugs(options.only)) {
    for (const Strategy strategy : options.strategies) {
      for (int seed = 0; seed < options.seeds; ++seed) {
        runs.push_back({.bug = bug->id,
                        .strategy = std::string(name(strategy)),
                        .seed = static_cast<std::uint64_t>(seed),
                        .limit = options.limit,
                        .clock = clock_name(options.clock),
                        .data = options.data,
                        .strict = options.strict});
      }
    }
  }
  return runs;
}

const Program& Bench::program_of_bug(const GristBug& bug) {
  if (kept_id_ == bug.id) return kept_;
  const Recipe recipe = bug.make({});
  kept_ = program_of(recipe, digits_, "program " + bug.id);
  const ProgramFolder folder = folder_of(recipe, digits_);
  kept_number_ = texts_.emplace(folder.description + folder.model + folder.tables, texts_.size()).first->second;
  kept_id_ = bug.id;
  return kept_;
}

std::string Bench::key_of(const GristBug& bug, const BenchRun& run) {
  program_of_bug(bug);
  const std::string site = pursues_a_site(run) ? sites_of(bug).front() : "";
  return site + "|" + question_text(run) + "|" + std::to_string(kept_number_);
}

void Bench::remember(const BenchRun& run) {
  const GristBug* bug = find_grist_bug(run.bug);
  if (bug != nullptr && run.error.empty()) done_.try_emplace(key_of(*bug, run), run);
}

void Bench::run(BenchRun& run) {
  const GristBug* bug = find_grist_bug(run.bug);
  if (bug == nullptr) throw Error("there is no bug '" + run.bug + "'");
  const Program& program = program_of_bug(*bug);
  const std::string key = key_of(*bug, run);
  if (const auto found = done_.find(key); found != done_.end()) {
    copy_result(run, *bug, found->second);
    return;
  }
  ProgramSearch search = {.strategy = strategy_from_name(run.strategy),
                          .seed = run.seed,
                          .seconds = run.limit,
                          .clock = run.clock == "wall" ? ClockKind::wall : ClockKind::processor,
                          .epsilon = run.epsilon,
                          .switch_rate = run.switch_rate,
                          .sites = sites_of(*bug),
                          .until = until_of(run)};
  try {
    fill_in(run, *bug, search_(program, search));
  } catch (const Error& error) {
    run.error = error.what();
  }
  done_.emplace(key, run);
}

std::string to_json_lines(const std::vector<BenchRun>& runs) {
  std::string text;
  for (const BenchRun& run : runs) text += to_json(run).dump() + "\n";
  return text;
}

std::vector<BenchRun> runs_from_json_lines(std::string_view text, const std::string& file) {
  std::vector<BenchRun> runs;
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (one.empty()) continue;
    try {
      runs.push_back(run_from(Json::parse(one)));
    } catch (const Json::exception&) {
      throw Error(file + ":" + std::to_string(line) + ": not a run of the bench");
    }
  }
  return runs;
}

}  // namespace finity

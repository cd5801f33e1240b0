#include "cli/trigger_program.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.h"
#include "cli/check_run.h"
#include "cli/pool.h"
#include "cli/program_witness.h"
#include "exec/torch_worker.h"
#include "ops/table/hazard.h"
#include "program/draws.h"
#include "program/read_program.h"
#include "program/tensorflow_program.h"
#include "report/words.h"

namespace finity {

namespace {

constexpr double kSearchSeconds = 30;
constexpr double kSilence = 120;  // seconds without a word from the worker, which also reads data and confirms

void refuse_model_options(const CheckSettings& settings) {
  const auto refuse = [](bool given, const char* option) {
    if (given) throw Error(std::string(option) + " speaks of models; a program's description says it");
  };
  refuse(!settings.ranges.empty(), "--range");
  refuse(!settings.shapes.empty(), "--shape");
  refuse(settings.contract.has_value(), "--contract");
  refuse(settings.weights.has_value(), "--weights");
  refuse(settings.train || settings.loss.has_value(), "--train");
  refuse(settings.as.has_value(), "--as");
}

ProgramSearch search_of(const CheckSettings& settings, const ProgramSettings& own) {
  ProgramSearch search;
  search.strategy = strategy_from_name(own.strategy);
  search.seed = settings.seed.value_or(0);
  search.seconds = settings.time_limit.value_or(kSearchSeconds);
  search.clock = own.clock == "processor" ? ClockKind::processor : ClockKind::wall;
  search.epsilon = own.epsilon;
  search.switch_rate = own.switch_rate;
  search.sites.assign(settings.sites.begin(), settings.sites.end());
  search.until = Until::all_sites;
  const bool shows = ::isatty(STDERR_FILENO) == 1;
  search.progress = [shows](double seconds, std::uint64_t iterations, double closest) {
    if (shows) {
      std::fprintf(stderr, "\r%.0f s, %s passes, closest %.4g  ", seconds, with_commas(iterations).c_str(), closest);
      std::fflush(stderr);
    }
    return !interrupt_wanted();
  };
  return search;
}

bool is_proved(const ProgramOutcome& outcome) { return outcome.suspects + outcome.unsearched == 0; }

std::string title_of(const ProgramOutcome& outcome) {
  const Rule* rule = outcome.rule.empty() ? nullptr : find_rule(outcome.rule);
  std::string text = rule != nullptr ? rule_title(*rule) : std::string("not finite");
  if (!outcome.node.empty()) text += " at " + printable(outcome.node);
  return text;
}

std::string effort_of(const ProgramOutcome& outcome, const ProgramSearch& search) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f", outcome.seconds);
  return "strategy " + std::string(name(search.strategy)) + ", " + seconds + " s, " + with_commas(outcome.iterations) +
         (outcome.iterations == 1 ? " pass on " : " passes on ") + outcome.engine;
}

void print_hit(const std::string& path, const ProgramOutcome& outcome, const ProgramSearch& search) {
  std::printf("%s: %s %s\n", printable(path).c_str(), outcome.confirmed ? "confirmed" : "seen once",
              title_of(outcome).c_str());
  const std::string when =
      outcome.steps == 0 ? "with the weights of the start" : "after " + counted(outcome.steps, "training step");
  std::printf("  %s %s%s\n", printable(outcome.what).c_str(), when.c_str(),
              outcome.in_gradient ? ", in the backward pass: the weights are lost with the next step" : "");
  std::printf("  found by %s\n", effort_of(outcome, search).c_str());
  std::printf(outcome.confirmed ? "  repeated from the start: it fails again at the same step\n"
                                : "  repeated from the start it did not fail: not confirmed\n");
  const Rule* rule = outcome.rule.empty() ? nullptr : find_rule(outcome.rule);
  if (rule != nullptr) std::printf("  fix: %s\n", std::string(rule->fix).c_str());
}

// What proofs say of trained weights.
std::string weights_text(const Program& program) {
  double reach = 0;
  for (const ProgramWeight& weight : program.weights) reach = std::max(reach, weight.reach);
  char text[64];
  std::snprintf(text, sizeof text, "for weights in [-%g, %g]", reach, reach);
  return std::isinf(reach) ? "for weights of any size" : program.weights.empty() ? "without weights" : text;
}

std::string text_of(const OpenSite& open) {
  return (open.searched ? "closest " : "not searched, ") + printable(open.closest_text);
}

// Trained weights of which nobody said how large they get: with such weights nearly every sum may overflow.
std::vector<std::string> weights_of_any_size(const Program& program) {
  std::vector<std::string> names;
  for (const ProgramWeight& weight : program.weights) {
    const bool changes = weight.train || !weight.update.empty();
    if (changes && std::isinf(weight.reach)) names.push_back(weight.name);
  }
  return names;
}

void print_hint(const Program& program, const ProgramOutcome& outcome) {
  constexpr std::size_t kMost = 4;
  const std::vector<std::string> names = weights_of_any_size(program);
  if (outcome.open.empty() || names.empty()) return;
  std::string text;
  for (std::size_t i = 0; i < std::min(kMost, names.size()); ++i) text += (i > 0 ? ", " : "") + printable(names[i]);
  if (names.size() > kMost) text += " and " + std::to_string(names.size() - kMost) + " more";
  std::printf("  to prove more, say how large training makes weights: 'reach' of %s\n", text.c_str());
}

// Sites that did not fail, after those that did.
void print_open(const ProgramOutcome& outcome) {
  constexpr std::size_t kMost = 8;
  if (outcome.open.empty()) return;
  std::printf("  possible at %s more, not seen to fail:\n", counted(outcome.open.size(), "site").c_str());
  for (std::size_t i = 0; i < std::min(kMost, outcome.open.size()); ++i) {
    const OpenSite& open = outcome.open[i];
    std::printf("    %s %s%s\n", open.rule.c_str(), printable(open.title).c_str(),
                open.closest_text.empty() ? "" : (": " + text_of(open)).c_str());
  }
  if (outcome.open.size() > kMost) std::printf("    and %zu more\n", outcome.open.size() - kMost);
}

void print_miss(const std::string& path, const Program& program, const ProgramOutcome& outcome,
                const ProgramSearch& search) {
  if (is_proved(outcome)) {
    std::printf("%s: all %s of the training step proved, %s\n", printable(path).c_str(),
                counted(outcome.proved, "site").c_str(), weights_text(program).c_str());
    return;
  }
  std::printf("%s: possible at %s: no training run found that fails\n", printable(path).c_str(),
              counted(outcome.suspects + outcome.unsearched, "site").c_str());
  std::printf("  searched by %s%s\n", effort_of(outcome, search).c_str(),
              outcome.stopped == "time"          ? ", until the time was up"
              : outcome.stopped == "interrupted" ? ", until it was interrupted"
                                                 : "");
  if (!outcome.closest_text.empty()) {
    std::printf("  closest: %s at %s\n", outcome.closest_text.c_str(), printable(outcome.site).c_str());
  }
  for (const OpenSite& open : outcome.open) {
    if (open.searched) continue;
    std::printf("  %s %s: %s\n", open.rule.c_str(), printable(open.title).c_str(), text_of(open).c_str());
  }
}

nlohmann::ordered_json json_of(const std::string& path, const ProgramOutcome& outcome, const ProgramSearch& search,
                               const std::string& folder) {
  nlohmann::ordered_json json = {{"program", path},
                                 {"verdict", outcome.hit          ? (outcome.confirmed ? "confirmed" : "seen")
                                             : is_proved(outcome) ? "proved"
                                                                  : "possible"},
                                 {"rule", outcome.rule},
                                 {"node", outcome.node_name},
                                 {"in_gradient", outcome.in_gradient},
                                 {"seen", outcome.what},
                                 {"steps", outcome.steps},
                                 {"strategy", std::string(name(search.strategy))},
                                 {"seed", search.seed},
                                 {"seconds", outcome.seconds},
                                 {"passes", outcome.iterations},
                                 {"engine", outcome.engine},
                                 {"closest", outcome.closest_text},
                                 {"stopped", outcome.stopped},
                                 {"witness", folder}};
  return json;
}

void print_json(const std::string& path, const Program& program, const ProgramOutcome& outcome,
                const ProgramSearch& search, const std::string& folder, const std::vector<std::string>& folders) {
  nlohmann::ordered_json json = json_of(path, outcome, search, folder);
  json["more"] = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < outcome.more.size(); ++i) {
    json["more"].push_back(json_of(path, outcome.more[i], search, folders[i]));
  }
  json["open"] = nlohmann::ordered_json::array();
  for (const OpenSite& open : outcome.open) {
    json["open"].push_back(
        {{"site", open.title}, {"rule", open.rule}, {open.searched ? "closest" : "not_searched", open.closest_text}});
  }
  json["weights_of_any_size"] = weights_of_any_size(program);
  std::printf("%s\n", json.dump(2).c_str());
}

// The search in a thread of its own, so that Ctrl-C is noticed.
ProgramOutcome searched(const Program& program, const ProgramSearch& search, Worker* torch, const std::string& path,
                        bool& interrupted) {
  constexpr double kGraceSeconds = 10;
  const auto outcome = std::make_shared<ProgramOutcome>();
  const auto failure = std::make_shared<std::exception_ptr>();
  const PoolOutcome pool = run_jobs(
      1, 1,
      [=, &program](std::size_t) {
        try {
          *outcome = search_program(program, search, torch);
        } catch (...) {
          *failure = std::current_exception();
        }
      },
      [&](std::size_t) { return printable(path); }, kGraceSeconds);
  interrupted = pool.interrupted;
  if (interrupted && !pool.finished[0]) finish_interrupted();
  if (*failure) std::rethrow_exception(*failure);
  return std::move(*outcome);
}

int search_and_tell(Program program, const std::string& path, const CheckSettings& settings, const ProgramSettings& own,
                    bool json) {
  const ProgramSearch search = search_of(settings, own);
  program.flush_subnormals |= settings.flush_subnormals;
  if (search.strategy == Strategy::automatic) program = with_drawn_samples(std::move(program), search.seed);
  const std::string engine = settings.engine.value_or("auto");
  std::optional<WorkerOptions> options = engine == "reference" ? std::nullopt : torch_worker();
  if (engine == "torch" && !options) throw Error("--engine torch: " + std::string(kNoTorchWorker));
  if (engine == "auto" && !options) {
    std::fprintf(stderr, "finity: note: %s%s\n", std::string(kNoTorchWorker).c_str(),
                 std::string(kInsteadOfTorch).c_str());
  }
  if (options) options->seconds = kSilence;
  std::optional<Worker> torch;
  if (options) torch.emplace(*options);
  bool interrupted = false;
  const ProgramOutcome outcome = searched(program, search, torch ? &*torch : nullptr, path, interrupted);
  if (::isatty(STDERR_FILENO) == 1) std::fprintf(stderr, "\r\033[K");
  if (!outcome.refused.empty()) {
    if (engine == "torch") throw Error("--engine torch: " + outcome.refused);
    std::fprintf(stderr, "finity: note: LibTorch cannot run this (%s): the reference was used, which is slower\n",
                 printable(outcome.refused).c_str());
  }
  std::string folder;
  if (outcome.hit && settings.witness) folder = write_program_witness(program, outcome, search, *settings.witness);
  std::vector<std::string> folders;
  for (std::size_t i = 0; i < outcome.more.size(); ++i) {
    folders.push_back(settings.witness
                          ? write_program_witness(program, outcome.more[i], search, *settings.witness, i + 2)
                          : std::string());
  }
  if (json) print_json(path, program, outcome, search, folder, folders);
  else if (outcome.hit) print_hit(path, outcome, search);
  else print_miss(path, program, outcome, search);
  if (!json && !folder.empty()) std::printf("  witness: %s\n", printable(folder).c_str());
  for (std::size_t i = 0; i < outcome.more.size() && !json; ++i) {
    print_hit(path, outcome.more[i], search);
    if (!folders[i].empty()) std::printf("  witness: %s\n", printable(folders[i]).c_str());
  }
  if (outcome.hit && !json) print_open(outcome);
  if (!json) print_hint(program, outcome);
  std::fflush(stdout);
  const auto require_no_disproof = [&](const ProgramOutcome& found) {
    if (!found.hit || !found.confirmed || !found.disproves) return;
    throw Error(path + ": verification failed: " + found.node +
                " failed, which check had proved it cannot: a bug of finity, please report it");
  };
  require_no_disproof(outcome);
  std::ranges::for_each(outcome.more, require_no_disproof);
  const bool broken = outcome.stopped.starts_with("crashed") || outcome.stopped.starts_with("late") ||
                      outcome.stopped.starts_with("failed");
  if (broken) throw Error(path + ": the engine " + outcome.stopped);
  if (interrupted) finish_interrupted();
  if (outcome.hit) return 1;
  return !is_proved(outcome) && fail_on_of(settings) != Verdict::confirmed ? 1 : 0;
}

}  // namespace

int trigger_program(const std::string& path, const CheckSettings& settings, const ProgramSettings& own, bool json) {
  refuse_model_options(settings);
  return search_and_tell(read_program(path), path, settings, own, json);
}

std::optional<int> trigger_training_graph(const std::string& path, const CheckSettings& settings,
                                          const ProgramSettings& own, bool json) {
  if (!std::filesystem::is_regular_file(path))
    return std::nullopt;                            // whoever reads it as a model says why it cannot be
  const Contract contract = contract_of(settings);  // what is wrong with them is no matter of this file
  const Bindings bindings = bindings_of(settings);
  TensorFlowProgram training;
  try {
    training = tensorflow_program(path, contract, bindings);
  } catch (const Error& error) {
    std::fprintf(stderr, "finity: note: not searched as a training program: %s\n", printable(error.what()).c_str());
    return std::nullopt;
  }
  if (!training.trains) return std::nullopt;
  for (const std::string& assumption : training.assumptions) {
    std::fprintf(json ? stderr : stdout, "assumed: %s\n", printable(assumption).c_str());
  }
  return search_and_tell(std::move(training.program), path, settings, own, json);
}

}  // namespace finity

// finity fuzz: looks for faults of libraries that run models.
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <thread>
#include <utility>

#include "base/error.h"
#include "cli/commands.h"
#include "cli/muffin.h"
#include "fuzz/campaign.h"
#include "fuzz/folder.h"
#include "fuzz/segment.h"
#include "fuzz/takes.h"
#include "report/words.h"

namespace finity {

namespace {

volatile std::sig_atomic_t interrupted = 0;

struct Options {
  std::string backends = "torch,ort";
  std::string shard;
  std::string time;
  std::string ops;
  bool unguided = false;
  fuzz::CampaignOptions campaign;
  MuffinOptions muffin;
};

// "90", "90s", "10m", "2h".
double seconds_of(const std::string& text) {
  std::size_t used = 0;
  double value = -1;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
  }
  const std::string unit = text.substr(std::min(used, text.size()));
  const double factor = unit.empty() || unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : -1;
  if (!(value > 0) || factor < 0) throw Error("--time " + text + ": expected a number with s, m or h, such as 10m");
  return value * factor;
}

// "3/8": the third of eight.
fuzz::Shard shard_of(const std::string& text) {
  fuzz::Shard shard;
  char rest = 0;
  const int read = std::sscanf(text.c_str(), "%d/%d%c", &shard.number, &shard.count, &rest);
  if (read != 2 || shard.count < 1 || shard.number < 1 || shard.number > shard.count)
    throw Error("--shard " + text + ": expected which of how many, such as 3/8 (1/8 is the first, 8/8 the last)");
  return shard;
}

std::vector<std::string> op_names(const std::string& text) {
  std::vector<std::string> names;
  for (std::size_t at = 0; at <= text.size() && !text.empty();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    names.push_back(text.substr(at, end - at));
    at = end + 1;
    if (fuzz::sample_ops({.ops = {names.back()}}).empty())
      throw Error("--ops: there is no op '" + names.back() + "' that samples can be made of");
  }
  return names;
}

std::string progress_line(const fuzz::Progress& p) {
  const double share = p.counts.elements == 0
                           ? 0
                           : 100.0 * static_cast<double>(p.counts.undecided) / static_cast<double>(p.counts.elements);
  char text[200];
  std::snprintf(text, sizeof text,
                "%lld models, %.0f/s, %lld findings, %zu ops, %lld layer checks, %.1f%% of elements undecided",
                static_cast<long long>(p.models), static_cast<double>(p.this_run) / std::max(p.seconds, 1e-3),
                static_cast<long long>(p.findings), p.ops, static_cast<long long>(p.counts.steps), share);
  return text;
}

void print_finding(const fuzz::Finding& finding, const std::string& folder) {
  std::printf("%s%s: %s\n", finding.complaint.proven ? "" : "(small) ", finding.backend.text().c_str(),
              fuzz::title(finding).c_str());
  std::printf("  %s\n", printable(finding.complaint.text).c_str());
  if (!finding.versions.empty()) std::printf("  versions: %s\n", fuzz::strip_text(finding.versions).c_str());
  std::printf("  %s; see %s\n",
              finding.known.empty() ? "not among the known faults" : ("known: " + finding.known).c_str(),
              folder.c_str());
  std::fflush(stdout);
}

// Samples are drawn that one of the libraries runs.
void guide(fuzz::CampaignOptions& campaign, bool terminal) {
  std::string told;
  fuzz::draw_what_runs(campaign.generate, campaign.backends, [&](const std::string& backend) {
    if (backend == std::exchange(told, backend)) return;
    std::fprintf(stderr, terminal ? "\r\033[K%s%s" : "finity: note: %s%s\n", backend.c_str(),
                 ": trying which ops it runs; that is kept");
  });
}

int run_fuzz(Options& options) {
  options.campaign.backends = fuzz::parse_specs(options.backends);
  if (!options.time.empty()) options.campaign.seconds = seconds_of(options.time);
  options.campaign.generate.ops = op_names(options.ops);
  options.campaign.version = FINITY_VERSION;
  if (!options.shard.empty()) options.campaign.shard = shard_of(options.shard);
  const std::string& store = options.campaign.store;
  if (!store.empty() && !is_server(store))
    throw Error("--store: expected the address of a server, such as postgresql://user@host/name");
  if (!store.empty() && !options.shard.empty()) throw Error("--shard and --store exclude each other");
  if (store.empty() && options.campaign.workdir.empty())
    throw Error("say where: --workdir DIR, or --store for a server");
  if (options.campaign.models == 0 && options.campaign.seconds == 0)
    throw Error("say how long: --models N or --time T");
  std::signal(SIGINT, [](int) { interrupted = 1; });
  if (wants_muffin(options.muffin))
    return run_muffin(options.muffin, options.campaign, [] { return interrupted != 0; });
  use_mode(options.muffin, options.campaign);
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  options.campaign.generate.in_turn = !options.unguided;
  if (!options.unguided && !options.campaign.make) guide(options.campaign, terminal);
  double shown = 0;
  fuzz::CampaignHooks hooks;
  hooks.progress = [&](const fuzz::Progress& p) {
    if (p.seconds - shown < (terminal ? 0.5 : 10)) return;
    shown = p.seconds;
    std::fprintf(stderr, terminal ? "\r\033[K%s" : "%s\n", progress_line(p).c_str());
  };
  hooks.found = [&](const fuzz::Finding& finding, const std::string& folder) {
    if (terminal) std::fputs("\r\033[K", stderr);
    print_finding(finding,
                  options.campaign.store.empty() ? options.campaign.workdir + "/" + folder : folder + " of the store");
  };
  hooks.note = [](const std::string& text) { std::fprintf(stderr, "finity: note: %s\n", text.c_str()); };
  hooks.stop = [] { return interrupted != 0; };
  const fuzz::Progress end = fuzz::run_campaign(options.campaign, hooks);
  if (terminal) std::fputs("\r\033[K", stderr);
  std::printf("%s\n", progress_line(end).c_str());
  return end.findings > 0 ? 1 : 0;
}

struct MergeOptions {
  std::string folder, store;
};

int run_merge(const MergeOptions& options) {
  const fuzz::Merged merged = options.store.empty() ? fuzz::merge_segments(options.folder)
                                                    : fuzz::fetch_campaign(options.store, options.folder);
  for (const std::string& note : merged.notes) std::fprintf(stderr, "finity: note: %s\n", note.c_str());
  std::printf("%lld models, %lld findings in %s\n", static_cast<long long>(merged.models),
              static_cast<long long>(merged.findings), options.folder.c_str());
  return 0;
}

}  // namespace

void add_fuzz(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("fuzz", "Look for faults of libraries that run models");
  auto options = std::make_shared<Options>();
  fuzz::CampaignOptions& campaign = options->campaign;
  command->add_option("--backends", options->backends, "Libraries to test: torch, ort@1.30.0, ... (default torch,ort)");
  command->add_option("--models", campaign.models, "Stop after so many models in all")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000'000}));
  command->add_option("--time", options->time, "Stop after so long: 90s, 10m, 2h");
  command->add_option("--seed", campaign.seed, "The same seed makes the same models (default 1)");
  command->add_option("--workdir", campaign.workdir, "Folder for the database and the findings");
  command->add_option("--store", campaign.store, "Address of a server for many machines: postgresql://...");
  command->add_option("--shard", options->shard, "Do a part, such as 3/8, and write a segment into the work folder");
  command->add_option("--mode", options->muffin.mode,
                      "Whose models: own (default), layers, muffin, ... (docs/fuzz.md)");
  command->add_option("--oracle", options->muffin.oracle, "How they are judged: proof (default), nnsmith or muffin")
      ->check(CLI::IsMember({"proof", "nnsmith", "muffin"}));
  command->add_option("--data", options->muffin.data, "A data set for models with layers; without: they take turns");
  command->add_option("--ops", options->ops, "Only models with one of these: Conv,MaxPool");
  command->add_flag("--unguided", options->unguided, "Draw without regard to what libraries run and whose turn it is");
  command->add_option("-j,--jobs", campaign.jobs, "Models at a time (default 1)")->check(CLI::Range(1, 256));
  command->add_flag("--resume", campaign.resume, "Go on with the campaign in the work folder");
  command->add_flag("--accuracy", campaign.accuracy, "Small errors are findings, too");
  command->add_flag("!--no-strips", campaign.strips, "Do not run findings in the other installed versions");
  CLI::App* merge = command->add_subcommand("merge", "Make one campaign of the segments of shards, or of a store");
  auto merged = std::make_shared<MergeOptions>();
  merge->add_option("folder", merged->folder, "Their --workdir, or where the store's campaign goes")->required();
  merge->add_option("--store", merged->store, "Address of the server that holds the campaign");
  command->callback([command, options, merged, &exit_code] {
    exit_code = command->get_subcommands().empty() ? run_fuzz(*options) : run_merge(*merged);
  });
}

}  // namespace finity

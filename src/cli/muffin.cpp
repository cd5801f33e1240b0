#include "cli/muffin.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "base/error.h"
#include "fuzz/nnsmith.h"
#include "muffin/run.h"
#include "muffin/samples.h"

namespace finity {

namespace {

std::string progress_line(const muffin::RunProgress& p) {
  char text[200];
  std::snprintf(text, sizeof text,
                "%lld models, %.1f/s, %lld inconsistencies, %lld NaN layers, %lld crashes, %lld of 59 layer types",
                static_cast<long long>(p.models), static_cast<double>(p.this_run) / std::max(p.seconds, 1e-3),
                static_cast<long long>(p.inconsistencies), static_cast<long long>(p.nans),
                static_cast<long long>(p.crashes), static_cast<long long>(p.layers));
  return text;
}

}  // namespace

bool wants_muffin(const MuffinOptions& options) {
  if (options.oracle != "muffin") return false;
  if (options.mode == "own") throw Error("--oracle muffin: choose whose models with --mode");
  if (options.mode == "nnsmith") throw Error("--oracle muffin: models of nnsmith have no layers; leave it out");
  return true;
}

void use_mode(const MuffinOptions& muffin, fuzz::CampaignOptions& campaign) {
  campaign.by_distance = muffin.oracle == "nnsmith";
  if (campaign.by_distance) campaign.generate.invalid = false;
  if (muffin.mode == "own") {
    if (!muffin.data.empty()) throw Error("--data: our own mode has no data sets; choose another with --mode");
    return;
  }
  if (!campaign.generate.ops.empty()) throw Error("--ops and --mode exclude each other");
  if (muffin.mode == "nnsmith") {
    if (!muffin.data.empty()) throw Error("--data: nnsmith has no data sets; choose another --mode");
    campaign.mode = muffin.mode;
    campaign.make = [seed = campaign.seed](std::uint64_t index) { return fuzz::nnsmith_sample(seed, index); };
    return;
  }
  campaign.mode = muffin.mode + (muffin.data.empty() ? "" : " on " + muffin.data);
  const auto samples = std::make_shared<muffin::Samples>(
      muffin.mode, muffin::SourceOptions{.seed = campaign.seed, .data = muffin.data, .small = true});
  campaign.make = [samples](std::uint64_t index) { return samples->at(index); };
}

int run_muffin(const MuffinOptions& muffin, const fuzz::CampaignOptions& campaign, const std::function<bool()>& stop) {
  muffin::RunOptions options{.version = campaign.version,
                             .mode = muffin.mode,
                             .seed = campaign.seed,
                             .data = muffin.data,
                             .models = campaign.models,
                             .seconds = campaign.seconds,
                             .workdir = campaign.workdir,
                             .backends = campaign.backends,
                             .resume = campaign.resume};
  const bool terminal = ::isatty(STDERR_FILENO) != 0;
  double shown = 0;
  muffin::RunHooks hooks;
  hooks.progress = [&](const muffin::RunProgress& p) {
    if (p.seconds - shown < (terminal ? 0.5 : 10)) return;
    shown = p.seconds;
    std::fprintf(stderr, terminal ? "\r\033[K%s" : "%s\n", progress_line(p).c_str());
  };
  hooks.note = [](const std::string& text) { std::fprintf(stderr, "finity: note: %s\n", text.c_str()); };
  hooks.stop = stop;
  const muffin::RunProgress end = muffin::run_baseline(options, hooks);
  if (terminal) std::fputs("\r\033[K", stderr);
  std::printf("%s\n", progress_line(end).c_str());
  return end.inconsistencies + end.nans + end.crashes > 0 ? 1 : 0;
}

}  // namespace finity

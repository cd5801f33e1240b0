// A campaign: samples from one seed put before several libraries, what was seen in a journal (a database in the work
// folder, a segment of a shared folder, or a server), one folder per distinct finding. Each sample is one transaction,
// in order: a campaign that is killed goes on where it was, and two campaigns of one seed have the same contents.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "fuzz/finding.h"
#include "fuzz/generate.h"
#include "fuzz/journal.h"

namespace finity::fuzz {

struct CampaignOptions {
  std::string version = {};  // of finity: samples are a function of it and the seed
  std::uint64_t seed = 1;
  std::int64_t models = 0;  // 0: no limit
  double seconds = 0;       // 0: no limit
  std::string workdir = {};
  std::string store = {};  // address of a server; empty: the work folder
  Shard shard = {};
  double claim_seconds = 300;
  std::vector<BackendSpec> backends = {};
  GenerateOptions generate = {};
  std::string mode = {};                                    // of what makes samples instead of generate(); empty: none
  std::function<Generated(std::uint64_t index)> make = {};  // that; called by several threads
  bool by_distance = false;                                 // judged as NNSmith does
  int jobs = 1;
  bool resume = false;
  bool accuracy = false;                                 // also findings that are a matter of accuracy
  std::function<Backend(const BackendSpec&)> open = {};  // how a backend is started, when not as usual
  bool strips = true;                                    // run findings in every other installed version
};

struct Progress {
  std::int64_t models = 0;  // done so far, earlier runs included
  std::int64_t this_run = 0;
  double seconds = 0;
  Counts counts = {};
  std::int64_t findings = 0, proven = 0, unknown_before = 0;
  std::size_t ops = 0;  // distinct ones used
};

struct CampaignHooks {
  std::function<void(const Progress&)> progress = {};
  std::function<void(const Finding&, const std::string& folder)> found = {};
  std::function<void(const std::string&)> note = {};
  std::function<bool()> stop = {};
};

// Throws Error when the work folder holds another campaign, or no backend can be started.
Progress run_campaign(const CampaignOptions& options, const CampaignHooks& hooks);

}  // namespace finity::fuzz

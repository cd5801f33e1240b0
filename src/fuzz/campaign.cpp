#include "fuzz/campaign.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "base/error.h"
#include "fuzz/ahead.h"
#include "fuzz/backward.h"
#include "fuzz/distance.h"
#include "fuzz/laws.h"

namespace finity::fuzz {

namespace {

using Clock = std::chrono::steady_clock;

// Complaints that look alike are reduced so often; then they are only counted. An op that is wrong for one set of
// attributes may be wrong for another reason with others, so each set gets one look.
constexpr int kLooksPerKind = 3;
constexpr int kLooksPerOp = 24;

constexpr std::chrono::milliseconds kPause{200};
constexpr int kStarts = 3;
constexpr int kStartsWhenEnded = 30;

std::vector<Backend> open_backends(const CampaignOptions& options, const std::vector<BackendSpec>& specs,
                                   const std::function<void(const std::string&)>& note) {
  std::vector<Backend> backends;
  for (const BackendSpec& spec : specs) {
    try {
      backends.push_back(options.open ? options.open(spec) : Backend(spec));
    } catch (const NotInstalled& missing) {
      if (note) note(spec.text() + " is skipped: " + missing.what());
    }
  }
  return backends;
}

// Whatever does not start is said before anything is written.
std::vector<Backend> started(std::vector<Backend> backends) {
  if (backends.empty()) throw Error("none of the backends is installed");
  for (Backend& backend : backends) {
    // A busy machine may take its time.
    for (int attempt = 1;; ++attempt) {
      try {
        backend.worker().hello();
        break;
      } catch (const Error& error) {
        if (attempt >= (ended_from_outside(error.what()) ? kStartsWhenEnded : kStarts)) throw;
      }
    }
  }
  return backends;
}

std::vector<Complaint> judge_whole(Backend& backend, const Generated& generated, Counts& counts) {
  std::vector<Complaint> complaints = judge_any(backend, generated.sample, generated.legal, counts);
  const auto add = [&](std::vector<Complaint> more) { complaints.insert(complaints.end(), more.begin(), more.end()); };
  if (complaints.empty() && !generated.law.empty())
    add(judge_law(backend, generated.before, generated.sample, generated.law, counts));
  if (complaints.empty() && generated.legal && backend.derives())
    add(judge_derivatives(backend, generated.sample, counts));
  return complaints;
}

Outcome run_one(const CampaignOptions& options, std::int64_t id, std::vector<Backend>& backends) {
  Outcome outcome{.id = id};
  const auto index = static_cast<std::uint64_t>(id);
  outcome.generated = options.make ? options.make(index) : generate(options.seed, index, options.generate);
  if (outcome.generated.sample.steps.empty()) return outcome;
  for (Backend& backend : backends) {
    BackendOutcome one{.backend = backend.spec()};
    try {
      one.complaints = options.by_distance ? judge_by_distance(backend, outcome.generated.sample, one.counts)
                                           : judge_whole(backend, outcome.generated, one.counts);
    } catch (const Error&) {
      ++one.counts.refused;
    }
    outcome.backends.push_back(std::move(one));
  }
  return outcome;
}

std::string configuration(const CampaignOptions& options) {
  std::string text = "finity " + options.version + " seed " + std::to_string(options.seed) + " backends";
  for (const BackendSpec& spec : options.backends) text += " " + spec.text();
  if (!options.mode.empty()) text += " mode " + options.mode;
  if (options.by_distance) text += " by distance";
  if (!options.generate.ops.empty()) text += " ops";
  for (const std::string& op : options.generate.ops) text += " " + op;
  if (!options.mode.empty()) return text;
  // Everything that samples are a function of.
  if (!options.generate.in_turn) text += " unguided";
  if (options.generate.newest_opset != GenerateOptions().newest_opset)
    text += " sets up to " + std::to_string(options.generate.newest_opset);
  if (options.generate.runs.empty()) return text;
  std::uint64_t mark = 0;
  for (const std::string& op : options.generate.runs) {
    for (const unsigned char letter : op + ",") mark = (mark ^ letter) * 0x100000001b3;
  }
  return text + " of " + std::to_string(options.generate.runs.size()) + " ops (" + std::to_string(mark) + ")";
}

Entry entry_of(const Outcome& outcome) {
  const Sample& sample = outcome.generated.sample;
  // What every library declines was not tested.
  const bool ran = std::ranges::any_of(outcome.backends, [](const BackendOutcome& o) { return o.counts.steps > 0; });
  return {.id = outcome.id,
          .origin = sample.origin,
          .chain = op_chain(sample),
          .opset = sample.opset,
          .legal = outcome.generated.legal,
          .cells = ran ? coverage_cells(sample) : std::vector<CoverageCell>(),
          .outcomes = outcome.backends};
}

JournalOptions journal_options(const CampaignOptions& options) {
  return {.workdir = options.workdir,
          .store = options.store,
          .shard = options.shard,
          .configuration = configuration(options),
          .resume = options.resume,
          .models = options.models,
          .claim_seconds = options.claim_seconds};
}

class Campaign {
 public:
  Campaign(const CampaignOptions& options, const CampaignHooks& hooks)
      : options_(options),
        hooks_(hooks),
        backends_(started(open_backends(options, options.backends, hooks.note))),
        journal_(open_journal(journal_options(options))) {}

  Progress run() {
    const Clock::time_point start = Clock::now();
    Ahead ahead(options_.jobs, [this] {
      return [backends = std::make_shared<std::vector<Backend>>(open_backends(options_, options_.backends, {})),
              this](std::int64_t id) { return run_one(options_, id, *backends); };
    });
    while (!over(start)) {
      const Journal::Turn turn = feed(ahead);
      if (ahead.waiting() > 0) {
        commit(ahead.take());
        ++progress_.this_run;
      } else if (turn == Journal::Turn::over) {
        break;
      } else {
        std::this_thread::sleep_for(kPause);
      }
      update(start, false);
      if (hooks_.progress) hooks_.progress(progress_);
    }
    update(start, true);
    return progress_;
  }

 private:
  Journal::Turn feed(Ahead& ahead) {
    while (ahead.waiting() < 4 * options_.jobs) {
      const Journal::Next next = journal_->next();
      if (next.turn != Journal::Turn::sample) return next.turn;
      ahead.give(next.id);
    }
    return Journal::Turn::sample;
  }

  bool over(Clock::time_point start) const {
    if (hooks_.stop && hooks_.stop()) return true;
    return options_.seconds > 0 && std::chrono::duration<double>(Clock::now() - start).count() >= options_.seconds;
  }

  void update(Clock::time_point start, bool now) {
    const Totals totals = journal_->totals(now);
    progress_.models = totals.models;
    progress_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    progress_.counts = totals.counts;
    progress_.findings = totals.findings;
    progress_.ops = totals.ops;
  }

  void commit(const Outcome& outcome) {
    Entry entry = entry_of(outcome);
    std::vector<Finding> findings;
    for (std::size_t i = 0; i < outcome.backends.size(); ++i)
      look_into(outcome.generated, outcome.backends[i], backends_[i], entry, findings);
    for (const Placed& placed : journal_->add(std::move(entry), findings)) {
      const Finding& finding = findings[placed.index];
      progress_.proven += finding.complaint.proven ? 1 : 0;
      progress_.unknown_before += finding.known.empty() ? 1 : 0;
      if (hooks_.found) hooks_.found(finding, placed.folder);
    }
  }

  bool looked_enough(const Kind& kind, const Entry& entry) const {
    const auto looks = [&](const std::string& text) {
      return journal_->looked_into(text) + static_cast<int>(std::ranges::count(entry.looked, text));
    };
    const bool first_of_its_set = kind.fine != kind.coarse && looks(kind.fine) == 0;
    return looks(kind.coarse) >= (first_of_its_set ? kLooksPerOp : kLooksPerKind);
  }

  void look_into(const Generated& generated, const BackendOutcome& outcome, Backend& backend, Entry& entry,
                 std::vector<Finding>& findings) {
    // What was looked at often enough must not hide what comes with it.
    std::vector<Complaint> open;
    for (const Complaint& complaint : outcome.complaints) {
      if ((complaint.proven || options_.accuracy) &&
          !looked_enough(kind_of(backend.spec(), complaint, generated.sample), entry))
        open.push_back(complaint);
    }
    const Complaint* complaint = worst(open);
    if (complaint == nullptr) return;
    const Kind kind = kind_of(backend.spec(), *complaint, generated.sample);
    entry.looked.push_back(kind.coarse);
    if (kind.fine != kind.coarse) entry.looked.push_back(kind.fine);
    std::optional<Finding> finding =
        complaint->symptom == Symptom::broken_law
            ? make_law_finding(backend, generated.before, generated.sample, generated.law, *complaint)
            : make_finding(backend, generated.sample, generated.legal, *complaint);
    if (!finding) return;
    if (!journal_->knows(finding->key)) add_versions(*finding, versions_of(backend.spec().family));
    findings.push_back(std::move(*finding));
  }

  std::vector<Backend>& versions_of(const std::string& family) {
    const auto found = versions_.find(family);
    if (found != versions_.end()) return found->second;
    return versions_[family] =
               options_.strips ? open_backends(options_, installed_versions(family), {}) : std::vector<Backend>();
  }

  const CampaignOptions& options_;
  const CampaignHooks& hooks_;
  std::vector<Backend> backends_;
  std::unique_ptr<Journal> journal_;
  std::map<std::string, std::vector<Backend>> versions_;
  Progress progress_;
};

}  // namespace

Progress run_campaign(const CampaignOptions& options, const CampaignHooks& hooks) {
  return Campaign(options, hooks).run();
}

}  // namespace finity::fuzz

#include "fuzz/campaign.h"

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "fuzz/backward.h"
#include "fuzz/folder.h"
#include "fuzz/laws.h"
#include "fuzz/ledger.h"

namespace finity::fuzz {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// Complaints that look alike are reduced so often; then they are only counted.
constexpr int kLooksPerKind = 3;

struct Outcome {
  Generated generated = {};
  std::vector<BackendOutcome> backends = {};
};

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

std::vector<Complaint> judge_whole(Backend& backend, const Generated& generated, Counts& counts) {
  std::vector<Complaint> complaints = judge_any(backend, generated.sample, generated.legal, counts);
  const auto add = [&](std::vector<Complaint> more) { complaints.insert(complaints.end(), more.begin(), more.end()); };
  if (complaints.empty() && !generated.law.empty())
    add(judge_law(backend, generated.before, generated.sample, generated.law, counts));
  if (complaints.empty() && generated.legal && backend.derives())
    add(judge_derivatives(backend, generated.sample, counts));
  return complaints;
}

Outcome run_one(const CampaignOptions& options, std::uint64_t index, std::vector<Backend>& backends) {
  Outcome outcome;
  outcome.generated = generate(options.seed, index, options.generate);
  if (outcome.generated.sample.steps.empty()) return outcome;
  for (Backend& backend : backends) {
    BackendOutcome one{.backend = backend.spec()};
    try {
      one.complaints = judge_whole(backend, outcome.generated, one.counts);
    } catch (const Error&) {
      ++one.counts.refused;
    }
    outcome.backends.push_back(std::move(one));
  }
  return outcome;
}

// Threads work ahead; outcomes are taken in order.
class Ahead {
 public:
  Ahead(const CampaignOptions& options, std::int64_t first) : options_(options), next_(first), taken_(first) {
    for (int i = 0; i < options.jobs; ++i) threads_.emplace_back([this] { work(); });
  }
  ~Ahead() {
    {
      const std::lock_guard lock(guard_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;

  Outcome take() {
    std::unique_lock lock(guard_);
    changed_.wait(lock, [this] { return failure_ != nullptr || done_.contains(taken_); });
    if (failure_ != nullptr) std::rethrow_exception(failure_);
    Outcome outcome = std::move(done_.extract(taken_).mapped());
    ++taken_;
    changed_.notify_all();
    return outcome;
  }

 private:
  void work() {
    try {
      std::vector<Backend> backends = open_backends(options_, options_.backends, {});
      for (;;) {
        std::int64_t index = 0;
        {
          std::unique_lock lock(guard_);
          changed_.wait(lock, [this] { return stop_ || next_ < taken_ + 4 * options_.jobs; });
          if (stop_) return;
          index = next_++;
        }
        Outcome outcome = run_one(options_, static_cast<std::uint64_t>(index), backends);
        const std::lock_guard lock(guard_);
        done_.emplace(index, std::move(outcome));
        changed_.notify_all();
      }
    } catch (...) {
      const std::lock_guard lock(guard_);
      failure_ = std::current_exception();
      changed_.notify_all();
    }
  }

  const CampaignOptions& options_;
  std::mutex guard_;
  std::condition_variable changed_;
  std::map<std::int64_t, Outcome> done_;
  std::exception_ptr failure_ = nullptr;
  std::int64_t next_ = 0;   // to be worked on
  std::int64_t taken_ = 0;  // to be taken
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

std::string configuration(const CampaignOptions& options) {
  std::string text = "finity " + options.version + " seed " + std::to_string(options.seed) + " backends";
  for (const BackendSpec& spec : options.backends) text += " " + spec.text();
  if (!options.generate.ops.empty()) text += " ops";
  for (const std::string& op : options.generate.ops) text += " " + op;
  return text;
}

class Campaign {
 public:
  Campaign(const CampaignOptions& options, const CampaignHooks& hooks)
      : options_(options),
        hooks_(hooks),
        ledger_((made(options.workdir) / "campaign.sqlite").string(), configuration(options), options.resume),
        backends_(open_backends(options, options.backends, hooks.note)) {
    if (backends_.empty()) throw Error("none of the backends is installed");
    for (Backend& backend : backends_) backend.worker().hello();
  }

  Progress run() {
    const Clock::time_point start = Clock::now();
    Ahead ahead(options_, ledger_.models());
    while (!over(start)) {
      const std::int64_t id = ledger_.models();
      commit(id, ahead.take());
      ++progress_.this_run;
      update(start);
      if (hooks_.progress) hooks_.progress(progress_);
    }
    update(start);
    return progress_;
  }

 private:
  static fs::path made(const std::string& folder) {
    std::error_code failed;
    fs::create_directories(fs::path(folder) / "findings", failed);
    if (failed) throw Error(folder + ": " + failed.message());
    return folder;
  }

  bool over(Clock::time_point start) const {
    if (hooks_.stop && hooks_.stop()) return true;
    if (options_.models > 0 && ledger_.models() >= options_.models) return true;
    return options_.seconds > 0 && std::chrono::duration<double>(Clock::now() - start).count() >= options_.seconds;
  }

  void update(Clock::time_point start) {
    progress_.models = ledger_.models();
    progress_.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    progress_.counts = ledger_.counts();
    progress_.findings = ledger_.findings();
    progress_.ops = ledger_.ops();
  }

  void commit(std::int64_t id, const Outcome& outcome) {
    ledger_.begin();
    ledger_.add_model(id, outcome.generated.sample, outcome.generated.legal);
    for (std::size_t i = 0; i < outcome.backends.size(); ++i) {
      ledger_.add_outcome(id, outcome.backends[i]);
      look_into(id, outcome.generated, outcome.backends[i], backends_[i]);
    }
    ledger_.commit();
  }

  void look_into(std::int64_t id, const Generated& generated, const BackendOutcome& outcome, Backend& backend) {
    const Complaint* complaint = worst(outcome.complaints);
    if (complaint == nullptr || (!complaint->proven && !options_.accuracy)) return;
    if (complaint->symptom == Symptom::broken_law) return;  // between two models: listed with the complaints
    const std::string kind = backend.spec().text() + " " + std::string(name(complaint->symptom)) +
                             (complaint->proven ? " " : " small ") + complaint->op +
                             (complaint->level == Optimisation::none ? "" : " optimised");
    if (ledger_.looked_into(kind) >= kLooksPerKind) return;
    ledger_.look_into(kind);
    Finding finding = make_finding(backend, generated.sample, generated.legal, *complaint);
    // Its folder is written first: a key in the database always has one.
    const std::string folder = "findings/" + std::to_string(ledger_.findings());
    if (!ledger_.knows(finding.key)) {
      add_versions(finding, versions_of(backend.spec().family));
      write_finding(finding, (fs::path(options_.workdir) / folder).string());
      progress_.proven += finding.complaint.proven ? 1 : 0;
      progress_.unknown_before += finding.known.empty() ? 1 : 0;
      if (hooks_.found) hooks_.found(finding, folder);
    }
    ledger_.add_finding(id, finding, folder);
  }

  std::vector<Backend>& versions_of(const std::string& family) {
    const auto found = versions_.find(family);
    if (found != versions_.end()) return found->second;
    return versions_[family] =
               options_.strips ? open_backends(options_, installed_versions(family), {}) : std::vector<Backend>();
  }

  const CampaignOptions& options_;
  const CampaignHooks& hooks_;
  Ledger ledger_;
  std::vector<Backend> backends_;
  std::map<std::string, std::vector<Backend>> versions_;
  Progress progress_;
};

}  // namespace

Progress run_campaign(const CampaignOptions& options, const CampaignHooks& hooks) {
  return Campaign(options, hooks).run();
}

}  // namespace finity::fuzz

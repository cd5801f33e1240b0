// Where a campaign is kept and which samples are its turn: in a file of its own, in one segment of a folder that many
// shards write to, or on a server whose ranges of samples many machines claim. A sample is kept whole or not at all.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "fuzz/entry.h"
#include "fuzz/ledger.h"

namespace finity::fuzz {

struct Shard {
  int number = 1, count = 1;  // 3/8: the third of eight
};

struct JournalOptions {
  std::string workdir = {};
  std::string store = {};          // address of a server; empty: files in the work folder
  Shard shard = {};                // more than one: a segment
  std::string configuration = {};  // the same for all that work on one campaign
  bool resume = false;
  std::int64_t models = 0;     // in all; 0: no limit
  double claim_seconds = 300;  // a worker that shows no life for so long has lost its claims
};

// A new finding and where it is.
struct Placed {
  std::size_t index = 0;  // among the findings handed in
  std::string folder = {};
};

class Journal {
 public:
  enum class Turn : std::uint8_t { sample, wait, over };
  struct Next {
    Turn turn = Turn::over;
    std::int64_t id = 0;
  };

  Journal() = default;
  virtual ~Journal() = default;
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  // The next sample to do, each once. `wait`: others still have some that may become ours.
  virtual Next next() = 0;
  virtual bool knows(const std::string& key) = 0;
  virtual int looked_into(const std::string& kind) = 0;
  // Keeps a sample with its findings, in the order in which samples were handed out. Those that are new.
  virtual std::vector<Placed> add(Entry entry, const std::vector<Finding>& findings) = 0;
  // `now`: what others did in the last moments counts, too.
  virtual Totals totals(bool now) = 0;
};

// Throws Error when the place cannot be used or holds another campaign.
std::unique_ptr<Journal> open_journal(const JournalOptions& options);
std::unique_ptr<Journal> open_segment(const JournalOptions& options);
std::unique_ptr<Journal> open_shared(const JournalOptions& options);

// Adds what an entry brings to totals.
class Tally {
 public:
  void add(const Entry& entry);
  Totals totals = {};  // findings are the owner's to count

 private:
  std::vector<std::string> ops_;  // sorted
};

}  // namespace finity::fuzz

// What a shard of a campaign writes: a file that only grows, one line per sample, in a folder that all shards share.
// A line that was not finished when its writer died counts as not written.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/journal.h"

namespace finity::fuzz {

struct Segment {
  std::string path = {};
  std::string configuration = {};
  Shard shard = {};
  std::vector<Entry> entries = {};
  std::int64_t good_bytes = 0;  // behind the last whole line
};

std::string segment_name(const Shard& shard);  // "segment-3-of-8.jsonl"
// Throws Error naming the file, and the line when one is no entry.
Segment read_segment(const std::string& path);

struct Merged {
  std::int64_t models = 0, findings = 0;
  std::vector<std::string> notes = {};  // what is missing
};

// Makes the database and the findings of the folder anew from its segments. Shards may be at work.
Merged merge_segments(const std::string& workdir);
// Copies a campaign from a server into a folder.
Merged fetch_campaign(const std::string& store, const std::string& workdir);

}  // namespace finity::fuzz

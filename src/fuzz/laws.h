// Laws: changes of a model that leave its outputs what they are. A library that has only itself to be compared with
// must give the same before and after; and what comes out is a graph that optimisers see with other eyes.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "base/rng.h"
#include "fuzz/oracle.h"

namespace finity::fuzz {

struct Law {
  std::string_view name;
  // Changes the sample at a place of its choice; false when there is none.
  bool (*apply)(Sample&, Rng&);
};

std::span<const Law> laws();

// A drawn law applied at a drawn place. The outputs keep their names. Nothing when it does not fit.
struct Changed {
  Sample sample = {};
  std::string_view law = {};
};
std::optional<Changed> apply_law(const Sample& sample, Rng& rng);
// The law of that name.
std::optional<Sample> apply_law(const Sample& sample, std::string_view law, Rng& rng);

// What a library gives for the changed sample against what it gave before and against what the sample it was made of
// allows. Only the latter proves anything.
std::vector<Complaint> judge_law(Backend& backend, const Sample& before, const Sample& after, const std::string& law,
                                 Counts& counts);

}  // namespace finity::fuzz

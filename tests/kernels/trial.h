// One subject in a runtime: everything it computes must lie in the range the analysis gave, and no NaN or infinity may
// come that no finding announced.
#pragma once

#include <map>
#include <string>

#include "check/judge.h"
#include "exec/worker.h"
#include "kernels/subjects.h"

namespace finity::kernels {

// How a result was outside.
struct Escape {
  std::string kind = {};   // NaN | infinite | beyond | relation | form
  std::string level = {};  // "" when it happens as the model is written, else how it was optimised
  std::string example = {};
  std::size_t example_size = 0;  // elements of its inputs
  int count = 0;
};

struct Tally {
  int cases = 0;  // subjects
  int runs = 0;   // answered
  Judged judged = {};
  std::map<std::string, Escape> escapes = {};  // by kind and level
  int refused = 0, unsupported = 0, crashed = 0;
  std::string first_refusal = {}, first_unsupported = {}, first_crash = {};

  void add(const Tally& other);
};

struct TrialOptions {
  std::uint64_t seed = 0;
  int mixes = 6;
};

// Adds to the tally.
void try_subject(Worker& worker, const Subject& subject, const TrialOptions& options, Tally& tally);

}  // namespace finity::kernels

// Samples from a seed: single ops with drawn attributes, chains with skips, cells, and the patterns that optimisers
// look for, with one thing changed. The same version of finity makes the same sample of the same seed everywhere.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fuzz/grower.h"

namespace finity::fuzz {

struct GenerateOptions {
  std::vector<std::string> ops = {};   // only these, and samples that hold one of them; empty: all
  bool invalid = true;                 // now and then a call that is not legal: no library may die of it
  bool in_turn = true;                 // which op stands behind which is not left to chance alone
  int newest_opset = 24;               // no library of the campaign reads more
  std::vector<std::string> runs = {};  // ops that some library of the campaign runs, sorted; empty: nobody asked
};

// Ops that samples may hold: those of the default domain that the reference runs and that are functions of operands.
std::vector<const OpDef*> sample_ops(const GenerateOptions& options);

struct Generated {
  Sample sample = {};
  bool legal = true;     // the reference runs it; otherwise libraries may refuse it, but not die
  std::string law = {};  // by which it was made of `before`, whose outputs it has
  Sample before = {};
};

// Sample number `index` of a campaign. Single ops take turns, so that all come early.
Generated generate(std::uint64_t seed, std::uint64_t index, const GenerateOptions& options);

// One of the patterns that optimisers know; without steps when the draw did not work out.
Sample draw_pattern(Rng& rng, int opset);

}  // namespace finity::fuzz

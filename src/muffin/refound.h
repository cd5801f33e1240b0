// What becomes of the flags of Muffin's oracle: each library that a flag concerns is held against the proven bounds of
// the flagged layer, on the operands that the library itself computed, and its version against the table of known
// faults.
#pragma once

#include <string>
#include <vector>

#include "muffin/verdict.h"

namespace finity::muffin {

struct Look {
  // `right`: every element is inside its bounds. `open`: nothing is proven (derivatives and crashes always are).
  enum class Proof : std::uint8_t { wrong, right, open };
  struct Fault {
    std::string text = {};
    bool sure = false;  // else it may be this one: unproven, of several entries' shapes, or an inexact entry
  };

  std::string stage = {};  // "FC", "LC", "BC", "step", "NaN", "crash"
  int layer = -1;          // -1: none
  std::string kind = {};
  std::size_t trace = 0;
  Proof proof = Proof::open;
  std::vector<Fault> faults = {};
};
std::string_view name(Look::Proof proof);

std::vector<Look> look_into(const Model& model, const std::vector<Trace>& traces, const Verdict& verdict);

}  // namespace finity::muffin

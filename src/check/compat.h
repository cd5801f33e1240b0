// What the published analyser DEBAR (ESEC/FSE 2020) takes for granted and what does not hold, by name. A check is sound
// without any of these; with them its numbers can be set beside the published ones. Every one that is switched on is
// printed among the assumptions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "check/analyze.h"

namespace finity {

enum class Compat : std::uint8_t {
  small_weights,
  positive_draws,
  small_transposed_convolutions,
  real_arithmetic,
  no_gradients,
  largest_part,
  eight_operations,
  any_safe_element,
  pole_of_log1p
};
using CompatSet = std::vector<Compat>;

struct CompatEntry {
  Compat which = {};
  std::string_view name = {};
  std::string_view says = {};
};
std::span<const CompatEntry> compat_entries();

// "debar": all of them; else names with commas between. Throws Error naming them.
CompatSet compat_from_text(std::string_view text);
bool has(const CompatSet& set, Compat which);

// Puts what is taken for granted of values into the premises, and says so.
void assume(const CompatSet& set, const Graph& graph, const Types& types, Premises& premises);
// Takes out findings that are not looked at, and proves what is taken to be safe.
void forgive(const CompatSet& set, const Graph& graph, Analysis& analysis);

}  // namespace finity

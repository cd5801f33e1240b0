#include "support/shown_ranges.h"

#include "tensor/float_formats.h"

namespace finity {

std::string shown(const AbsTensor& x) {
  constexpr std::size_t kShownCells = 12;
  if (x.cells.size() > kShownCells) return to_string(x.hull());
  std::string text;
  for (const Range& cell : x.cells) text += (text.empty() ? "" : " | ") + to_string(cell);
  return text;
}

std::string end_outside_format(const Graph& graph, const Analysis& analysis) {
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const AbsTensor& x = analysis.ranges[i];
    if (!analysis.reached[i] || !is_float(x.dtype)) continue;
    for (const Range& cell : x.cells) {
      const bool fits = round_to(x.dtype, cell.lo) == cell.lo && round_to(x.dtype, cell.hi) == cell.hi;
      if (cell.has_finite() && !fits) return graph.values()[i].name + " " + to_string(cell);
    }
  }
  return "";
}

}  // namespace finity

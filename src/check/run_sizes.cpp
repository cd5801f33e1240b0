#include "check/run_sizes.h"

#include <map>
#include <optional>
#include <vector>

#include "base/time_limit.h"
#include "check/verify.h"

namespace finity {

namespace {

using Axis = std::pair<ValueId, std::size_t>;

// What shares a name has one size.
std::vector<std::vector<Axis>> open_axes(const Graph& graph, const Types& types) {
  std::vector<std::vector<Axis>> groups;
  std::map<SymbolId, std::size_t> named;
  for (const ValueId id : graph.main().inputs) {
    const Type& type = types[id];
    if (!type.is_tensor() || !type.ranked || graph.value(id).constant) continue;
    for (std::size_t axis = 0; axis < type.shape.size(); ++axis) {
      const Dim& dim = type.shape[axis];
      if (dim.known()) continue;
      const bool fresh = !dim.symbol.valid() || named.try_emplace(dim.symbol, groups.size()).second;
      if (fresh) groups.emplace_back();
      (dim.symbol.valid() ? groups[named.at(dim.symbol)] : groups.back()).emplace_back(id, axis);
    }
  }
  return groups;
}

bool runs(const Graph& graph, const Types& types, const Premises& premises, Rng& rng) {
  try {
    const Drawn drawn = draw_inside(graph, types, premises, rng, 0);
    std::vector<Note> unsupported;
    run_reference(graph, drawn.inputs, {.unsupported = &unsupported, .weights = &drawn.weights});
    return true;
  } catch (const TimeUp&) {
    throw;
  } catch (const Error&) {
    return false;
  }
}

std::optional<Types> first_that_runs(const Graph& graph, const Types& types, const Premises& premises, Rng& rng) {
  const std::vector<std::vector<Axis>> groups = open_axes(graph, types);
  if (groups.empty()) return std::nullopt;
  for (const std::int64_t size : {16, 64, 256, 512, 1024, 4096}) {
    // One alone, as a batch of one is enough; then all of them.
    for (std::size_t i = 0; i <= groups.size(); ++i) {
      Types tried = types;
      for (std::size_t k = 0; k < groups.size(); ++k) {
        const bool larger = i == groups.size() || i == k;
        for (const auto& [id, axis] : groups[k]) tried.of[id.at()].shape[axis] = {.size = larger ? size : 1};
      }
      if (runs(graph, tried, premises, rng)) return tried;
    }
  }
  return std::nullopt;
}

}  // namespace

Types with_sizes_that_run(const Graph& graph, const Types& types, const Premises& premises, Rng& rng, double seconds) {
  const TimeLimit limit(seconds);
  try {
    return first_that_runs(graph, types, premises, rng).value_or(types);
  } catch (const TimeUp&) {
    return types;
  }
}

}  // namespace finity

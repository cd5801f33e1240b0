#include "support/sampling.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/rng.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// The cell of an element, given by its indices.
const Range& range_at(const AbsTensor& x, const Dims& index) {
  if (!x.cut()) return x.cells.front();
  std::vector<std::size_t> place(index.size());
  for (std::size_t axis = 0; axis < index.size(); ++axis) {
    const Cuts& cuts = x.cuts[axis];
    place[axis] = static_cast<std::size_t>(std::ranges::upper_bound(cuts, index[axis]) - cuts.begin());
  }
  return x.cells[cell_at(x, place)];
}

bool advance(Dims& index, const Dims& dims) {
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    if (++index[axis] < dims[axis]) return true;
    index[axis] = 0;
  }
  return false;
}

// How one tensor of one run is drawn.
enum class Style : std::uint8_t { lowest, highest, ends, tiny, one_value, uniform };
constexpr int kStyles = 6;

class Drawer {
 public:
  Drawer(DType dtype, const InputContract* contract, Rng& rng)
      : dtype_(dtype), contract_(contract), rng_(rng), style_(static_cast<Style>(rng.below(kStyles))) {}

  double draw(const Range& range) {
    if (contract_ != nullptr && !contract_->values.empty()) {
      return contract_->values[rng_.below(contract_->values.size())];
    }
    if (!range.has_finite()) return special(range);
    if (rng_.below(16) == 0 && (range.nan || range.pinf || range.ninf)) return special(range);
    if (style_ == Style::one_value && !std::isnan(value_) && range.contains(value_)) return value_;
    value_ = fitted(finite(range), range);
    return value_;
  }

 private:
  double special(const Range& range) const {
    if (range.ninf) return -kInf;
    if (range.pinf) return kInf;
    return std::nan("");
  }
  double finite(const Range& range) {
    switch (style_) {
      case Style::lowest: return range.lo;
      case Style::highest: return range.hi;
      case Style::ends: return rng_.below(2) == 0 ? range.lo : range.hi;
      case Style::tiny:
        return std::clamp(std::ldexp(rng_.uniform(-1, 1), -static_cast<int>(rng_.below(60))), range.lo, range.hi);
      default: return range.lo * (1 - rng_.uniform()) + range.hi * rng_.uniform();
    }
  }
  double fitted(double x, const Range& range) const {
    x = std::clamp(x, range.lo, range.hi);
    if (range.integer || !is_float(dtype_)) x = std::clamp(std::round(x), std::ceil(range.lo), std::floor(range.hi));
    const Tensor rounded = from_elements<double>(dtype_, {}, std::vector<double>{x});
    x = is_float(dtype_) ? element_as_double(rounded, 0) : x;
    return range.contains(x) ? x : range.lo != 0 ? range.lo : range.hi;
  }

  DType dtype_;
  const InputContract* contract_;
  Rng& rng_;
  Style style_;
  double value_ = std::nan("");
};

const InputContract* contract_of(const Contract& contract, const std::string& name) {
  const InputContract* found = nullptr;
  for (const InputContract& one : contract.inputs) {
    if (matches_glob(one.pattern, name)) found = &one;
  }
  return found;
}

bool related(const Contract& contract) {
  return !contract.orders.empty() || std::ranges::any_of(contract.inputs, [](const InputContract& one) {
    return one.one_true_axis || one.sums_to_one_axis;
  });
}

// False when the sizes are not known.
bool draw_inputs(const Graph& graph, const Types& types, const Premises& premises, const Contract& contract, Rng& rng,
                 Inputs& inputs) {
  for (const ValueId id : graph.main().inputs) {
    const auto dims = types[id].dims();
    const auto& premise = premises.of[id.at()];
    if (!dims || !premise) return false;
    Drawer drawer(types[id].dtype, contract_of(contract, graph.value(id).name), rng);
    std::vector<double> values;
    Dims index(dims->size(), 0);
    if (element_count(*dims) > 0) {
      do values.push_back(drawer.draw(range_at(*premise, index)));
      while (advance(index, *dims));
    }
    inputs[graph.value(id).name] = from_elements<double>(types[id].dtype, *dims, values);
  }
  return true;
}

// The first element outside its range, or "".
std::string escape_of(const Tensor& tensor, const AbsTensor& claimed) {
  if (tensor.dtype() == DType::string || is_complex(tensor.dtype()) || tensor.empty()) return "";
  const std::vector<double> values = elements<double>(tensor);
  Dims index(tensor.rank(), 0);
  const bool fits = claimed.ranked && claimed.rank() == tensor.rank();
  for (const double value : values) {
    const Range range = fits ? range_at(claimed, index) : claimed.hull();
    if (!range.contains(value))
      return std::to_string(value) + " at " + to_string(index) + " is outside " + to_string(range);
    advance(index, tensor.dims());
  }
  return "";
}

bool has_bad(const Datum& datum) {
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr || !is_float(tensor->dtype())) return false;
  return std::ranges::any_of(elements<double>(*tensor), [](double x) { return !std::isfinite(x); });
}

// Whether an alarm of this node may just have come true; integers show it by no special value.
bool alarm_came_true(const Analysis& analysis, NodeId id, std::span<const Datum> results) {
  return std::ranges::any_of(analysis.findings, [&](const Finding& finding) {
    if (finding.node != id || finding.verdict == Verdict::proved) return false;
    const bool integers = results.empty() || results[0].tensor() == nullptr || !is_float(results[0].tensor()->dtype());
    return integers || std::ranges::any_of(results, has_bad);
  });
}

// Values that are only ever seen through a select (Where): what they hold where they are not selected is nobody's
// concern, and the checker decides them under the select's condition.
std::vector<bool> behind_selects(const Graph& graph) {
  std::vector<bool> behind(graph.values().size(), true);
  for (const Body& body : graph.bodies()) {
    for (const ValueId id : body.outputs) behind[id.at()] = false;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (const Node& node : graph.nodes()) {
      const bool select = node.op_type == "Where";
      const bool passes = !node.outputs.empty() && node.outputs[0].valid() && behind[node.outputs[0].at()];
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId id = node.inputs[i];
        if (!id.valid() || passes || (select && i > 0) || !behind[id.at()]) continue;
        behind[id.at()] = false;
        changed = true;
      }
      for (const ValueId id : node.captures) behind[id.at()] = false;
    }
  }
  return behind;
}

std::string run_once(const Graph& graph, const Analysis& analysis, const Inputs& inputs,
                     const std::vector<bool>& skipped, std::uint64_t seed) {
  std::string escape;
  bool over = false;
  RunOptions options;
  options.seed = seed;
  options.trace = [&](const Node& node, std::span<const Datum> results) {
    const NodeId id{static_cast<std::int32_t>(&node - graph.nodes().data())};
    over = over || alarm_came_true(analysis, id, results);
    for (std::size_t i = 0; i < results.size() && !over && escape.empty(); ++i) {
      const ValueId value = i < node.outputs.size() ? node.outputs[i] : ValueId{};
      if (!value.valid() || results[i].tensor() == nullptr || skipped[value.at()]) continue;
      const std::string why = escape_of(*results[i].tensor(), analysis.ranges[value.at()]);
      if (!why.empty()) escape = graph.value(value).name + ": " + why;
    }
  };
  try {
    run_reference(graph, inputs, options);
  } catch (const Error& error) {
    // A run that stops is a failed alarm (integer division by zero), not a wrong range.
    if (!over && analysis.findings.empty()) escape = error.what();
  }
  return escape;
}

}  // namespace

std::string sample_escape(const Graph& graph, const Types& types, const Premises& premises, const Contract& contract,
                          const Analysis& analysis, int runs) {
  if (related(contract)) return "";
  const std::vector<bool> skipped = behind_selects(graph);
  Rng rng(1);
  for (int run = 0; run < runs; ++run) {
    Inputs inputs;
    if (!draw_inputs(graph, types, premises, contract, rng, inputs)) return "";
    const std::string escape = run_once(graph, analysis, inputs, skipped, static_cast<std::uint64_t>(run));
    if (!escape.empty()) return "run " + std::to_string(run) + ": " + escape;
  }
  return "";
}

std::string why_no_failure(const Graph& graph, const Inputs& inputs, const std::string& name) {
  std::string why = "no node computes " + name;
  RunOptions options;
  options.trace = [&](const Node& node, std::span<const Datum> results) {
    if (why.empty()) return;
    const bool wanted =
        std::ranges::any_of(node.outputs, [&](ValueId id) { return id.valid() && graph.value(id).name == name; });
    const bool bad = std::ranges::any_of(results, has_bad);
    if (wanted) why = bad ? "" : name + " is finite";
  };
  try {
    run_reference(graph, inputs, options);
  } catch (const Error& error) {
    why = error.what();
  }
  return why;
}

}  // namespace finity

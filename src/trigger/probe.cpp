#include "trigger/probe.h"

#include <algorithm>
#include <cmath>

#include "base/time_limit.h"
#include "exec/reference.h"
#include "ops/table/op.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"
#include "trigger/distance_text.h"
#include "trigger/loss_writer.h"

namespace finity {

std::optional<Probe> Probe::make(const CheckedGraph& model, std::size_t finding) {
  const Finding& site = model.analysis.findings[finding];
  if (!site.node.valid() || model.graph.node(site.node).op == nullptr) return std::nullopt;
  Probe probe(model);
  probe.node_ = site.node;
  for (const Hazard& hazard : model.graph.node(site.node).op->analysis.hazards) {
    if (hazard.rule != site.rule || static_cast<int>(hazard.operand) != site.operand) continue;
    if (hazard.quantity != nullptr || !site.value.valid()) return std::nullopt;
    probe.unsafe_ = hazard.unsafe(model.types[site.value].dtype);
    probe.operand_ = site.operand;
  }
  const bool overflows = probe.operand_ < 0 || only_infinities(probe.unsafe_);
  if (!overflows) return probe;
  if (!site.value.valid() || !is_float(model.types[site.value].dtype) || site.seen.nan) return std::nullopt;
  probe.limit_ = max_finite(model.types[site.value].dtype);
  return probe;
}

double Probe::nearest(const Tensor& tensor) const {
  double least = std::numeric_limits<double>::infinity();
  for (const double x : elements<double>(tensor)) {
    if (std::isnan(x)) continue;
    if (limit_ > 0) {
      constexpr double kTiny = 1e-300;
      least = std::min(least, std::isinf(x) ? 0 : std::log(limit_) - std::log(std::max(std::abs(x), kTiny)));
      continue;
    }
    for (const Unsafe& part : unsafe_) least = std::min(least, std::max(part.lo - x, x - part.hi));
  }
  return least;
}

double Probe::distance(const Drawn& drawn, std::uint64_t seed) const {
  double least = std::numeric_limits<double>::infinity();
  std::vector<Note> unsupported;
  RunOptions options = {
      .seed = seed, .unsupported = &unsupported, .weights = &drawn.weights, .flush_subnormals = drawn.flush_subnormals};
  const Node* wanted = &model_->graph.node(node_);
  options.watch = [&](const Node& node, std::span<const Datum> inputs, std::span<const Datum> outputs) {
    if (&node != wanted) return;
    const std::span<const Datum> looked =
        operand_ < 0 ? outputs : inputs.subspan(static_cast<std::size_t>(operand_), 1);
    for (const Datum& datum : looked) {
      if (datum.tensor() != nullptr) least = std::min(least, nearest(*datum.tensor()));
    }
  };
  try {
    run_reference(model_->graph, drawn.inputs, options);
  } catch (const TimeUp&) {
    throw;
  } catch (const Error&) {
    // This input does not suit the model; what was reached counts.
  }
  return least;
}

std::string Probe::describe(double distance) const {
  if (distance == std::numeric_limits<double>::infinity()) return "";
  if (distance <= 0) return "reached, but what was computed from it stayed finite";
  if (limit_ == 0) return distance_text(distance) + " away from " + unsafe_values_text(unsafe_);
  return "at most " + distance_text(limit_ * std::exp(-distance)) + " of " + distance_text(limit_);
}

}  // namespace finity

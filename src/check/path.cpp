// From a finding back to the inputs: at every node the operand that most explains
// the width of the result.
#include <algorithm>

#include "check/analyzer.h"

namespace finity {

namespace {

constexpr std::size_t kMaxPath = 64;

double width(const Range& range) {
  if (range.nan || range.pinf || range.ninf) return kInf;
  return range.has_finite() ? range.hi - range.lo : 0;
}

}  // namespace

void Analyzer::trace_paths() {
  for (Finding& finding : result_.findings) {
    if (finding.verdict != Verdict::proved && finding.value.valid()) finding.path = path_to(finding.value);
  }
}

std::vector<ValueId> Analyzer::path_to(ValueId value) {
  std::vector<ValueId> path = {value};
  while (path.size() < kMaxPath) {
    const NodeId producer = graph_.value(path.back()).producer;
    if (!producer.valid()) break;
    const Node& node = graph_.node(producer);
    ValueId widest;
    double best = -1;
    const auto consider = [&](ValueId input) {
      if (!input.valid() || !result_.reached[input.at()]) return;
      const AbsTensor& range = result_.ranges[input.at()];
      if (range.exact || graph_.value(input).constant || !is_float(range.dtype)) return;
      if (width(range.hull()) > best) {
        best = width(range.hull());
        widest = input;
      }
    };
    std::ranges::for_each(node.inputs, consider);
    std::ranges::for_each(node.captures, consider);
    if (!widest.valid()) break;
    path.push_back(widest);
  }
  std::ranges::reverse(path);
  return path;
}

}  // namespace finity

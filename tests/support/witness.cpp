// Whether the inputs that a case names really make its node fail.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "support/check_case.h"
#include "tensor/convert.h"

namespace finity {

namespace {

bool has_bad(const Datum& datum) {
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr || !is_float(tensor->dtype())) return false;
  return std::ranges::any_of(elements<double>(*tensor), [](double x) { return !std::isfinite(x); });
}

}  // namespace

std::string why_no_failure(const Graph& graph, const Inputs& inputs, const std::string& name, bool flush) {
  std::string why = "no node computes " + name;
  RunOptions options = {.flush_subnormals = flush};
  options.trace = [&](const Node& node, std::span<const Datum> results) {
    const auto is_named = [&](ValueId id) { return id.valid() && graph.value(id).name == name; };
    if (why.empty() || std::ranges::none_of(node.outputs, is_named)) return;
    why = std::ranges::any_of(results, has_bad) ? "" : name + " is finite";
  };
  try {
    run_reference(graph, inputs, options);
  } catch (const Error& error) {
    why = error.what();
  }
  return why;
}

}  // namespace finity

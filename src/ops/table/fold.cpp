#include "ops/table/fold.h"

#include "ops/table/op.h"

namespace finity {

bool folds(const Node& node, bool floats) {
  const OpDef* op = node.op;
  if (op == nullptr || op->random || op->eval == nullptr || !bodies_of(node.attrs).empty()) return false;
  return !floats || op->exact;
}

std::vector<Datum> fold(const Graph& graph, const Node& node, std::span<const Datum> operands) {
  Rng unused(0);
  EvalCall call(graph, node, operands, unused, nullptr);
  node.op->eval(call);
  return std::move(call.outs());
}

}  // namespace finity

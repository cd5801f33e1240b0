// What oneDNN has nothing to say about: elements that only move, shapes and constants. The reference does these; so
// that derivatives go through movements, it is also asked where each element of the first operand goes.
#include <numeric>

#include "base/error.h"
#include "onednn/call.h"

namespace finity::dnn {

namespace {

using Gradients = std::vector<std::optional<Tensor>>;
using Given = std::span<const std::optional<Tensor>>;

void by_reference(DnnCall& call) {
  const std::vector<Datum> results = call.reference(call.operands());
  for (std::size_t i = 0; i < results.size(); ++i) call.out(i, results[i]);
}

// Numbers from 1 on in the place of elements; what comes from elsewhere is 0.
std::vector<Datum> numbered(const DnnCall& call) {
  std::vector<Datum> operands(call.operands().begin(), call.operands().end());
  Tensor numbers(DType::int64, call.tensor(0).dims());
  const std::span<std::int64_t> places = numbers.mutable_data<std::int64_t>();
  std::iota(places.begin(), places.end(), std::int64_t{1});
  operands[0] = numbers;
  return operands;
}

void move(DnnCall& call) {
  by_reference(call);
  if (call.tensor(0).dtype() != DType::float32) return;
  // A value to pad with has the operand's type.
  std::vector<Datum> operands = numbered(call);
  if (call.op().identity.name == "Pad" && call.has(2)) operands[2] = Tensor::scalar(std::int64_t{0});
  const std::vector<Datum> places = call.reference(operands);
  const Dims own = call.tensor(0).dims();
  call.derived([places, own](Given given) -> Gradients {
    Tensor result(DType::float32, own);
    const std::span<float> sums = result.mutable_data<float>();
    for (float& sum : sums) sum = 0;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const Tensor* at = places[i].tensor();
      if (!given[i] || at == nullptr) continue;
      const std::span<const std::int64_t> from = at->data<std::int64_t>();
      const std::span<const float> g = given[i]->data<float>();
      for (std::size_t k = 0; k < from.size(); ++k) {
        if (from[k] > 0) sums[static_cast<std::size_t>(from[k] - 1)] += g[k];
      }
    }
    return {result};
  });
}

constexpr Lowering kEntries[] = {
    {"Cast", "", by_reference},
    {"Constant", "", by_reference},
    {"ConstantOfShape", "", by_reference},
    {"DepthToSpace", "", move},
    {"Expand", "", move},
    {"Flatten", "", move},
    {"Gather", "", move},
    {"GatherElements", "", move},
    {"GatherND", "", move},
    {"Identity", "", move},
    {"Pad", "", move},
    {"Reshape", "", move},
    {"Shape", "", by_reference},
    {"Size", "", by_reference},
    {"Slice", "", move},
    {"SpaceToDepth", "", move},
    {"Split", "", move},
    {"Squeeze", "", move},
    {"Tile", "", move},
    {"Transpose", "", move},
    {"Unsqueeze", "", move},
};

}  // namespace

std::span<const Lowering> movements() { return kEntries; }

}  // namespace finity::dnn

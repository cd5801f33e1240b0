#include "ops/movement/drawn_shapes.h"

#include <utility>

namespace finity {

// Axes in another order, merged, split off, or one left to be found.
bool draw_reshape(DrawCall& call) {
  DrawCall::Ints shape = call.dims();
  for (std::size_t i = shape.size(); i > 1; --i) std::swap(shape[i - 1], shape[call.rng().below(i)]);
  if (call.chance(30)) shape.insert(shape.begin() + call.between(0, call.rank()), 1);
  if (call.chance(30) && shape.size() > 1) {
    shape[1] *= shape[0];
    shape.erase(shape.begin());
  }
  if (call.chance(40) && !shape.empty()) shape[call.rng().below(shape.size())] = -1;
  call.add_ints(shape);
  return true;
}

bool draw_expand(DrawCall& call) {
  DrawCall::Ints shape = call.dims();
  for (std::int64_t& size : shape)
    size = size == 1 && call.chance(60) ? call.between(1, 4) : call.chance(20) ? 1 : size;
  if (call.chance(30)) shape.insert(shape.begin(), call.between(1, 3));
  call.add_ints(shape);
  return true;
}

bool draw_tile(DrawCall& call) {
  DrawCall::Ints repeats;
  for (std::int64_t i = 0; i < call.rank(); ++i) repeats.push_back(call.between(1, 3));
  call.add_ints(repeats);
  return true;
}

// An empty list of axes is left out: whether it means none or all is not said.
bool draw_squeeze(DrawCall& call) {
  if (call.opset() < 13) {
    if (call.integers("axes").empty()) call.drop("axes");
    return false;
  }
  DrawCall::Ints ones;
  for (std::int64_t axis = 0; axis < call.rank(); ++axis) {
    if (call.length(axis) == 1 && call.chance(70)) ones.push_back(axis);
  }
  if (!ones.empty()) call.add_ints(ones);
  return true;
}

bool draw_unsqueeze(DrawCall& call) {
  if (call.opset() < 13) return false;
  call.add_ints({call.between(-call.rank() - 1, call.rank())});
  return true;
}

}  // namespace finity

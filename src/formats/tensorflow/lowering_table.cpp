// The explicit list of families of lowerings.
#include <unordered_map>

#include "formats/tensorflow/lowering.h"

namespace finity::tensorflow {

std::span<const std::span<const Lowering>> all_lowerings() {
  static const std::span<const Lowering> kFamilies[] = {
      basic_lowerings(),    bookkeeping_lowerings(), state_lowerings(),  array_lowerings(),    math_lowerings(),
      reduce_lowerings(),   linear_lowerings(),      window_lowerings(), norm_lowerings(),     shape_lowerings(),
      slice_lowerings(),    index_lowerings(),       sparse_lowerings(), random_lowerings(),   image_lowerings(),
      resample_lowerings(), point_lowerings(),       train_lowerings(),  sequence_lowerings(),
  };
  return kFamilies;
}

const Lowering* find_lowering(std::string_view op) {
  static const auto kByName = [] {
    std::unordered_map<std::string_view, const Lowering*> table;
    for (const std::span<const Lowering> family : all_lowerings()) {
      for (const Lowering& lowering : family) table.emplace(lowering.op, &lowering);
    }
    return table;
  }();
  const auto found = kByName.find(op);
  return found == kByName.end() ? nullptr : found->second;
}

}  // namespace finity::tensorflow

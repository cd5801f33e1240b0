#include "exec/draw.h"

#include "base/error.h"
#include "tensor/convert.h"

namespace finity {

namespace {

Tensor draw_tensor(DType dtype, const Dims& dims, Rng& rng) {
  Tensor shaped(dtype, dims);  // refuses absurd sizes before anything is drawn
  const auto count = static_cast<std::size_t>(shaped.size());
  if (dtype == DType::string) {
    for (std::string& text : shaped.mutable_strings()) text = std::to_string(rng.below(10));
    return shaped;
  }
  if (is_float(dtype) || is_complex(dtype)) {
    std::vector<double> values(count);
    for (double& value : values) value = rng.uniform();
    return from_elements<double>(dtype, dims, values);
  }
  const std::uint64_t below = dtype == DType::boolean ? 2 : std::min<std::uint64_t>(10, int_max(dtype) + 1);
  std::vector<std::int64_t> values(count);
  for (std::int64_t& value : values) value = static_cast<std::int64_t>(rng.below(below));
  return from_elements<std::int64_t>(dtype, dims, values);
}

}  // namespace

void check_drawn_size(const std::string& input, const Dims& dims) {
  constexpr std::int64_t kMostElements = std::int64_t{1} << 27;
  if (element_count(dims) <= kMostElements) return;
  throw Error("input '" + input + "' has the shape " + to_string(dims) + ", which is too large to draw values for");
}

void draw_inputs(const Graph& graph, const Types& types, std::uint64_t seed, Inputs& given) {
  Rng rng(seed);
  for (const ValueId id : graph.main().inputs) {
    const Value& value = graph.value(id);
    if (value.constant || given.contains(value.name)) continue;
    const Type& type = types[id];
    const auto dims = type.dims();
    if (!dims || type.dtype == DType::undefined) {
      throw Error("input '" + value.name + "' is " + to_string(graph, type) +
                  ": give its dimensions with --shape or its values with --data");
    }
    check_drawn_size(value.name, *dims);
    given.emplace(value.name, draw_tensor(type.dtype, *dims, rng));
  }
}

}  // namespace finity

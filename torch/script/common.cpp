#include "torch/script/common.h"

#include "tensor/convert.h"

namespace finity {

ValueId as_float(ScriptCall& call, ValueId x) {
  const DType dtype = call.dtype(x);
  if (call.gives_number) {
    if (call.kind != kScriptFloat) throw Unsupported("gives a number of which the kind is not known");
    return call.cast(x, kScriptFloat);
  }
  return is_float(dtype) || dtype == DType::undefined ? x : call.cast(x, DType::float32);
}

ValueId truncated(ScriptCall& call, ValueId x) {
  return call.add("Mul", {call.add("Sign", {x}), call.add("Floor", {call.add("Abs", {x})})});
}

float number(double x) { return static_cast<float>(x); }

Ints spread(Ints numbers, std::size_t axes) {
  if (numbers.size() == 1) numbers.resize(axes, numbers.front());
  if (numbers.size() != axes) throw Unsupported("has windows of another rank");
  return numbers;
}

Ints both_ends(Ints pads) {
  const Ints same = pads;
  pads.insert(pads.end(), same.begin(), same.end());
  return pads;
}

ValueId filled_like(ScriptCall& call, ValueId like, double x) {
  const ValueId shape = call.add("Shape", {like});
  return call.add("Expand", {call.number_like(x, like), shape});
}

ValueId count_along(ScriptCall& call, ValueId x, const Ints& axes, DType dtype) {
  const ValueId shape = call.add("Shape", {x});
  const ValueId sizes =
      axes.empty() ? shape : call.add("Gather", {shape, call.vector_of(axes)}, {{"axis", std::int64_t{0}}});
  return call.cast(call.add("ReduceProd", {sizes}, {{"keepdims", std::int64_t{0}}}), dtype);
}

ValueId whole_constant(ScriptCall& call, const Dims& dims, const std::vector<std::int64_t>& numbers) {
  return call.constant(from_elements<std::int64_t>(DType::int64, dims, numbers));
}

}  // namespace finity

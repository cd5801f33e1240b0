#include "ops/windows/pool_windows.h"

#include <string>

#include "base/error.h"
#include "ops/linear/dot.h"

namespace finity {

namespace {

void require_spatial(const Shape& x, std::size_t least) {
  if (x.size() < least) {
    throw Error("input X has rank " + std::to_string(x.size()) + ", expected at least " + std::to_string(least));
  }
}

Dims known_dims(Shape shape) { return Type::tensor(DType::undefined, std::move(shape)).dims().value(); }
Shape shape_of(const Dims& dims) { return Type::tensor_of(DType::undefined, dims).shape; }

}  // namespace

Shape pool_shape(const Call& call, const Shape& x) {
  require_spatial(x, 3);
  const Window window = read_window(call, x.size() - 2);
  Shape out{x[0], x[1]};
  for (std::size_t i = 0; i < window.axes.size(); ++i)
    out.push_back(output_dim(window, i, x[i + 2], TooLarge::no_result));
  return out;
}

PoolPlan plan_pool(const Call& call, const Dims& x) {
  PoolPlan plan{.planes = 1, .axes = {}, .out = known_dims(pool_shape(call, shape_of(x)))};
  plan.planes = x[0] * x[1];
  plan.axes = place(read_window(call, x.size() - 2), std::span(x).subspan(2));
  result_count(plan.out);
  return plan;
}

Shape global_pool_shape(const Shape& x) {
  require_spatial(x, 2);
  Shape out(x.size(), Dim::of(1));
  out[0] = x[0];
  out[1] = x[1];
  return out;
}

PoolPlan plan_global_pool(const Dims& x) {
  PoolPlan plan{.planes = 1, .axes = {}, .out = known_dims(global_pool_shape(shape_of(x)))};
  plan.planes = x[0] * x[1];
  for (std::size_t i = 2; i < x.size(); ++i) plan.axes.push_back({{.kernel = x[i]}, x[i], 1});
  return plan;
}

std::optional<double> pool_exponent(const Attrs& attrs) {
  const Attr* attr = attrs.find("p");
  if (attr == nullptr) return 2;
  if (const auto* number = std::get_if<std::int64_t>(attr)) return static_cast<double>(*number);
  if (const auto* number = std::get_if<float>(attr)) return static_cast<double>(*number);
  return std::nullopt;
}

}  // namespace finity

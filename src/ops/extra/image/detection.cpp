// NonMaxSuppression: keeps the best of boxes that overlap.
#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "base/error.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "ops/table/range_call.h"
#include "tensor/convert.h"

namespace finity {

namespace {

struct Box {
  float left = 0;
  float right = 0;
  float top = 0;
  float bottom = 0;

  float area() const { return (right - left) * (bottom - top); }
};

// Corners come in any order, or as centre and size.
Box make_box(std::span<const float> c, bool center_point) {
  if (center_point) return {c[0] - c[2] / 2, c[0] + c[2] / 2, c[1] - c[3] / 2, c[1] + c[3] / 2};
  return {std::min(c[1], c[3]), std::max(c[1], c[3]), std::min(c[0], c[2]), std::max(c[0], c[2])};
}

// Comparisons are written so that NaN never overlaps.
bool overlap(const Box& a, const Box& b, float threshold) {
  const float width = std::min(a.right, b.right) - std::max(a.left, b.left);
  const float height = std::min(a.bottom, b.bottom) - std::max(a.top, b.top);
  if (!(width > 0 && height > 0 && a.area() > 0 && b.area() > 0)) return false;
  const float common = width * height;
  return common / (a.area() + b.area() - common) > threshold;
}

struct Limits {
  std::int64_t count = 0;
  float iou = 0;
  std::optional<float> score;
};

float float_scalar(const EvalCall& call, std::size_t input) {
  if (call.in(input).size() != 1) throw Error("input " + std::to_string(input) + " is not a scalar");
  return static_cast<float>(element_as_double(call.in(input), 0));
}

Limits read_limits(const EvalCall& call) {
  Limits limits;
  if (call.has_input(2)) {
    if (call.in(2).size() != 1) throw Error("max_output_boxes_per_class is not a scalar");
    limits.count = std::max<std::int64_t>(0, element_as_int(call.in(2), 0));
  }
  if (call.has_input(3)) limits.iou = float_scalar(call, 3);
  if (!(limits.iou >= 0 && limits.iou <= 1)) throw Error("iou_threshold must be between 0 and 1");
  if (call.has_input(4)) limits.score = float_scalar(call, 4);
  return limits;
}

// Indices of the boxes of one class that stay, best first.
std::vector<std::int64_t> select(const std::vector<Box>& boxes, std::span<const float> scores, const Limits& limits) {
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (!std::isnan(scores[i]) && (!limits.score || scores[i] > *limits.score)) order.push_back(i);
  }
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return scores[a] > scores[b]; });
  std::vector<std::int64_t> kept;
  for (const std::size_t candidate : order) {
    if (static_cast<std::int64_t>(kept.size()) >= limits.count) break;
    const auto covers = [&](std::int64_t index) {
      return overlap(boxes[candidate], boxes[static_cast<std::size_t>(index)], limits.iou);
    };
    if (std::ranges::none_of(kept, covers)) kept.push_back(static_cast<std::int64_t>(candidate));
  }
  return kept;
}

void check_size(const Dim& a, const Dim& b, std::string_view what) {
  if (a.known() && b.known() && a.size != b.size) {
    throw Error("boxes and scores differ in " + std::string(what) + ": " + std::to_string(a.size) + " and " +
                std::to_string(b.size));
  }
}

void check_shapes(const Shape& boxes, const Shape& scores) {
  if (boxes.size() != 3 || scores.size() != 3) throw Error("boxes and scores must have rank 3");
  if (boxes[2].known() && boxes[2].size != 4) throw Error("the last dimension of boxes is not 4");
  check_size(boxes[0], scores[0], "batch size");
  check_size(boxes[1], scores[2], "the number of boxes");
}

void infer_non_max_suppression(InferCall& call) {
  require_rank(call, 0, 3);
  require_rank(call, 1, 3);
  if (call.ranked(0) && call.ranked(1)) check_shapes(call.shape(0), call.shape(1));
  call.set_shape(0, {Dim{}, Dim::of(3)});
}

void eval_non_max_suppression(EvalCall& call) {
  const Dims& box_dims = call.in(0).dims();
  const Dims& score_dims = call.in(1).dims();
  check_shapes(Type::tensor_of(DType::float32, box_dims).shape, Type::tensor_of(DType::float32, score_dims).shape);
  const Limits limits = read_limits(call);
  const bool center_point = call.integer("center_point_box") != 0;
  const std::vector<float> corners = elements<float>(call.in(0));
  const std::vector<float> scores = elements<float>(call.in(1));
  const auto count = static_cast<std::size_t>(box_dims[1]);
  std::vector<std::int64_t> selected;
  for (std::int64_t batch = 0; batch < box_dims[0] && count > 0; ++batch) {
    std::vector<Box> boxes;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t first = (static_cast<std::size_t>(batch) * count + i) * 4;
      boxes.push_back(make_box(std::span(corners).subspan(first, 4), center_point));
    }
    for (std::int64_t label = 0; label < score_dims[1]; ++label) {
      const std::size_t first = static_cast<std::size_t>(batch * score_dims[1] + label) * count;
      for (const std::int64_t index : select(boxes, std::span(scores).subspan(first, count), limits)) {
        selected.insert(selected.end(), {batch, label, index});
      }
    }
  }
  const Dims dims{static_cast<std::int64_t>(selected.size() / 3), 3};
  call.out(0, Tensor::of<std::int64_t>(DType::int64, dims, selected));
}

// Columns: image, class, box.
void range_non_max_suppression(RangeCall& call) {
  const AbsTensor& scores = call.in(1);
  AbsTensor result = uniform(call.out_type(0), {});
  const bool ranked = result.ranked && result.rank() == 2 && result.sizes[1] == 3;
  result.cells.clear();
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t size = scores.ranked && scores.rank() == 3 ? scores.sizes[axis] : -1;
    const double last = size < 0 ? max_finite(DType::int64) : std::max(static_cast<double>(size - 1), 0.0);
    result.cells.push_back({.lo = 0, .hi = last, .integer = true});
  }
  if (ranked) result.cuts = {{}, {1, 2}};
  else result.cells = {join(join(result.cells[0], result.cells[1]), result.cells[2])};
  call.out(0, std::move(result));
}

const OpDef kOps[] = {
    {.identity = {.name = "NonMaxSuppression",
                  .since = 10,
                  .summary = "indices of the boxes that stay when those overlapping a better one are dropped",
                  .signature =
                      "(boxes: float32, scores: float32, max_output_boxes_per_class?: int64, iou_threshold?: float32, "
                      "score_threshold?: float32) -> (selected_indices: int64)",
                  .attrs = "center_point_box: int = 0",
                  .tf = "NonMaxSuppressionV3"},
     .meaning = {.infer = infer_non_max_suppression,
                 .eval = eval_non_max_suppression,
                 .freedom = "equal scores in order of index; a score equal to score_threshold or NaN is not selected"},
     .analysis = {.range = range_non_max_suppression}},
};

}  // namespace

std::span<const OpDef> detection_ops() { return kOps; }

}  // namespace finity

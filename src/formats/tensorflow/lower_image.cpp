// Images: other sizes, crops, colours, and the choice of boxes.
#include <string>

#include "formats/tensorflow/channels.h"

namespace finity::tensorflow {

namespace {

// ---- other sizes -----------------------------------------------------------

std::string coordinates_of(const TfCall& call) {
  if (call.flag("align_corners", false)) return "align_corners";
  return call.flag("half_pixel_centers", false) ? "half_pixel" : "asymmetric";
}

ValueId resized(TfCall& call, ValueId x, std::string_view mode, std::string coordinates, std::string_view nearest) {
  Emit emit(call);
  return emit.add("Resize", {x, ValueId{}, ValueId{}, emit.int64(call.in(1))},
                  {{"mode", std::string(mode)},
                   {"coordinate_transformation_mode", std::move(coordinates)},
                   {"nearest_mode", std::string(nearest)},
                   {"axes", std::vector<std::int64_t>{1, 2}}});
}

void lower_resize_bilinear(TfCall& call) {
  call.give(resized(call, call.cast(call.in(0), DType::float32), "linear", coordinates_of(call), "floor"));
}

// floor(x scale); with centres floor((x + 1/2) scale); with aligned corners rounded, halves upwards.
void lower_resize_nearest(TfCall& call) {
  std::string coordinates = coordinates_of(call);
  if (coordinates == "half_pixel") coordinates = "tf_half_pixel_for_nn";
  const bool corners = coordinates == "align_corners";
  call.give(resized(call, call.in(0), "nearest", coordinates, corners ? "round_prefer_ceil" : "floor"));
}

// ---- crops -----------------------------------------------------------------

// Where samples lie along one axis of each box, from 0 (first pixel) to 1 (last): [boxes, count].
ValueId sample_places(Emit& emit, ValueId boxes, std::int64_t from, std::int64_t to, std::int64_t count) {
  const ValueId begin = emit.slice(boxes, 1, from, from + 1), end = emit.slice(boxes, 1, to, to + 1);
  if (count == 1) return emit.product(emit.sum(begin, end), emit.number_like(0.5, boxes));
  const ValueId steps = emit.cast(emit.unsqueeze(emit.positions(emit.whole(count)), {0}), emit.dtype(boxes));
  const ValueId step =
      emit.quotient(emit.difference(end, begin), emit.number_like(static_cast<double>(count - 1), boxes));
  return emit.sum(begin, emit.product(step, steps));
}

ValueId inside(Emit& emit, ValueId place) {
  const ValueId above = emit.add("GreaterOrEqual", {place, emit.number_like(0, place)});
  return emit.add("And", {above, emit.add("LessOrEqual", {place, emit.number_like(1, place)})});
}

// (image, boxes, box_ind, crop_size): a grid of samples in each box; outside the image the extrapolation value.
void lower_crop_and_resize(TfCall& call) {
  Emit emit(call);
  const std::vector<std::int64_t> size = emit.need_ints(call.in(3), "the size of crops");
  if (size.size() != 2 || size[0] < 1 || size[1] < 1) throw Unsupported("the size of crops is not two numbers");
  const Layout layout;
  const ValueId images = emit.gather(emit.cast(call.in(0), DType::float32), call.in(2), 0);
  const ValueId rows = sample_places(emit, call.in(1), 0, 2, size[0]);
  const ValueId columns = sample_places(emit, call.in(1), 1, 3, size[1]);
  const ValueId y = emit.unsqueeze(rows, {2}), x = emit.unsqueeze(columns, {1});
  const ValueId two = emit.number(2, DType::float32), one = emit.number(1, DType::float32);
  const ValueId shape = emit.concat({emit.shape_part(rows, 0, 1), emit.ints({size[0], size[1]})}, 0);
  const auto coordinate = [&](ValueId place) {
    return emit.unsqueeze(emit.expand(emit.difference(emit.product(place, two), one), shape), {3});
  };
  const ValueId grid = emit.concat({coordinate(x), coordinate(y)}, 3);
  const std::string mode = call.text("method", "bilinear") == "nearest" ? "nearest" : "linear";
  const ValueId samples = emit.add("GridSample", {channels_second(emit, layout, images), grid},
                                   {{"mode", mode}, {"padding_mode", "border"}, {"align_corners", 1}});
  const ValueId mask = emit.unsqueeze(emit.add("And", {inside(emit, y), inside(emit, x)}), {3});
  const ValueId outside = emit.number(call.real("extrapolation_value", 0), DType::float32);
  call.give(emit.where(mask, channels_back(emit, layout, samples), outside));
}

// ---- boxes -----------------------------------------------------------------

// (boxes, scores, max_output_size[, iou_threshold[, score_threshold[, soft_nms_sigma]]])
void lower_suppression(TfCall& call) {
  Emit emit(call);
  const auto inputs = static_cast<int>(call.input_count());
  if (inputs > 5 && emit.need_number(call.in(5), "the sigma of soft suppression") != 0)
    throw Unsupported("soft suppression is not modelled");
  const ValueId overlap = inputs > 3 ? call.in(3) : emit.number(call.real("iou_threshold", 0.5), DType::float32);
  std::vector<ValueId> operands = {emit.unsqueeze(emit.cast(call.in(0), DType::float32), {0}),
                                   emit.unsqueeze(emit.cast(call.in(1), DType::float32), {0, 1}),
                                   emit.vector(emit.int64(call.in(2))),
                                   emit.vector(emit.cast(overlap, DType::float32))};
  if (inputs > 4) operands.push_back(emit.vector(emit.cast(call.in(4), DType::float32)));
  if (call.flag("pad_to_max_output_size", false)) throw Unsupported("padding to the largest size is not modelled");
  const ValueId chosen = emit.add("NonMaxSuppression", operands);
  const ValueId at = emit.gather(chosen, emit.whole(2), 1);
  call.give(0, emit.cast(at, DType::int32));
  if (call.output_count() == 1) return;
  const ValueId count = emit.cast(emit.scalar(emit.shape(at)), DType::int32);
  const bool scored = inputs > 5;
  if (scored) call.give(1, emit.gather(call.in(1), at, 0));
  call.give(scored ? 2 : 1, count);
}

// Boxes are drawn at random: where one begins, its size, and itself in shares of the image.
void lower_sampled_box(TfCall& call) {
  const DType dtype = call.dtype_of(call.in(0));
  call.give(0, call.outside(0, Type::tensor_of(dtype, Dims{3})));
  call.give(1, call.outside(1, Type::tensor_of(dtype, Dims{3})));
  call.give(2, call.outside(2, Type::tensor_of(DType::float32, Dims{1, 1, 4})));
}

// ---- colours ---------------------------------------------------------------

struct Three {
  ValueId a, b, c;
};

Three channels_of(TfCall& call, ValueId x) {
  Emit emit(call);
  const std::vector<ValueId> parts = call.add_all("Split", {x}, 3, {{"axis", -1}, {"num_outputs", 3}});
  return {parts[0], parts[1], parts[2]};
}

ValueId together(Emit& emit, const Three& parts) { return emit.concat({parts.a, parts.b, parts.c}, -1); }

// Hue, saturation and value; a grey pixel has hue 0, black has saturation 0.
Three hsv_of(Emit& emit, const Three& rgb) {
  const auto number = [&](double x) { return emit.number_like(x, rgb.a); };
  const ValueId value = emit.add("Max", {rgb.a, rgb.b, rgb.c});
  const ValueId spread = emit.difference(value, emit.add("Min", {rgb.a, rgb.b, rgb.c}));
  const ValueId zero = number(0);
  const ValueId saturation =
      emit.where(emit.add("Greater", {value, zero}), emit.add("finity:DivNoNan", {spread, value}), zero);
  const ValueId sixfold = emit.product(number(6), spread);
  const auto part = [&](ValueId x, ValueId y, double turn) {
    return emit.sum(emit.add("finity:DivNoNan", {emit.difference(x, y), sixfold}), number(turn));
  };
  const ValueId rest =
      emit.where(emit.add("Equal", {rgb.b, value}), part(rgb.c, rgb.a, 2.0 / 6), part(rgb.a, rgb.b, 4.0 / 6));
  const ValueId turn = emit.where(emit.add("Equal", {rgb.a, value}), part(rgb.b, rgb.c, 0), rest);
  const ValueId wrapped = emit.where(emit.add("Less", {turn, zero}), emit.sum(turn, number(1)), turn);
  const ValueId hue = emit.where(emit.add("Greater", {spread, zero}), wrapped, zero);
  return {hue, saturation, value};
}

Three rgb_of(Emit& emit, const Three& hsv) {
  const auto number = [&](double x) { return emit.number_like(x, hsv.a); };
  const ValueId turn = emit.product(hsv.a, number(6));
  const auto distance = [&](double from) { return emit.add("Abs", {emit.difference(turn, number(from))}); };
  const auto colour = [&](ValueId ramp) {
    const ValueId share = emit.add("Clip", {ramp, number(0), number(1)});
    const ValueId grey = emit.difference(number(1), hsv.b);
    return emit.product(emit.sum(grey, emit.product(hsv.b, share)), hsv.c);
  };
  return {colour(emit.difference(distance(3), number(1))), colour(emit.difference(number(2), distance(2))),
          colour(emit.difference(number(2), distance(4)))};
}

void lower_rgb_to_hsv(TfCall& call) {
  Emit emit(call);
  call.give(together(emit, hsv_of(emit, channels_of(call, call.in(0)))));
}

void lower_hsv_to_rgb(TfCall& call) {
  Emit emit(call);
  call.give(together(emit, rgb_of(emit, channels_of(call, call.in(0)))));
}

void lower_adjust_saturation(TfCall& call) {
  Emit emit(call);
  Three hsv = hsv_of(emit, channels_of(call, call.in(0)));
  const ValueId scaled = emit.product(hsv.b, emit.cast(call.in(1), emit.dtype(hsv.b)));
  hsv.b = emit.add("Clip", {scaled, emit.number_like(0, scaled), emit.number_like(1, scaled)});
  call.give(together(emit, rgb_of(emit, hsv)));
}

void lower_adjust_hue(TfCall& call) {
  Emit emit(call);
  Three hsv = hsv_of(emit, channels_of(call, call.in(0)));
  const ValueId turned = emit.sum(hsv.a, emit.cast(call.in(1), emit.dtype(hsv.a)));
  hsv.a = emit.add("finity:FloorMod", {turned, emit.number_like(1, turned)});
  call.give(together(emit, rgb_of(emit, hsv)));
}

// (images, contrast_factor): distances from the mean of each channel of each image.
void lower_adjust_contrast(TfCall& call) {
  Emit emit(call);
  const ValueId x = call.in(0);
  const ValueId mean = emit.reduce("ReduceMean", x, {-3, -2}, true);
  const ValueId factor = emit.cast(call.in(1), call.dtype_of(x));
  call.give(emit.sum(emit.product(emit.difference(x, mean), factor), mean));
}

constexpr Lowering kImage[] = {
    {.op = "AdjustContrastv2", .lower = lower_adjust_contrast},
    {.op = "AdjustHue", .lower = lower_adjust_hue},
    {.op = "AdjustSaturation", .lower = lower_adjust_saturation},
    {.op = "CropAndResize", .lower = lower_crop_and_resize},
    {.op = "DrawBoundingBoxes", .lower = bookkeeping},  // pictures for people
    {.op = "HSVToRGB", .lower = lower_hsv_to_rgb},
    {.op = "NonMaxSuppression", .lower = lower_suppression},
    {.op = "NonMaxSuppressionV2", .lower = lower_suppression},
    {.op = "NonMaxSuppressionV3", .lower = lower_suppression},
    {.op = "NonMaxSuppressionV4", .lower = lower_suppression},
    {.op = "NonMaxSuppressionV5", .lower = lower_suppression},
    {.op = "RGBToHSV", .lower = lower_rgb_to_hsv},
    {.op = "SampleDistortedBoundingBox", .lower = lower_sampled_box},
    {.op = "SampleDistortedBoundingBoxV2", .lower = lower_sampled_box},
    {.op = "ResizeBilinear", .lower = lower_resize_bilinear},
    {.op = "ResizeNearestNeighbor", .lower = lower_resize_nearest},
};

}  // namespace

std::span<const Lowering> image_lowerings() { return kImage; }

}  // namespace finity::tensorflow

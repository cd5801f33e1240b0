#include "ops/windows/roi_gradient.h"

#include "base/error.h"
#include "ops/movement/move_gradient.h"
#include "ops/movement/numbered.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// Written out: GridSample reads the sample points of each region in its image, and the mean of each bin is a pool.
class AlignedSamples {
 public:
  explicit AlignedSamples(BuildCall& call) : call_(call), ratio_(call.integer("sampling_ratio")) {
    const Shape x = call.in_type(0).shape;  // a copy: nodes are added below
    if (x.size() != 4 || !x[2].known() || !x[3].known())
      throw Unsupported("its derivative needs sizes of the image that are known");
    if (call.text("mode") != "avg") throw Unsupported("its derivative is known for means only");
    if (ratio_ < 1) throw Unsupported("its derivative is not known where regions choose how many samples they have");
    half_pixel_ = call.version() >= 16 && call.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
    rows_ = axis(1, x[2].size, call.integer("output_height"));
    columns_ = axis(0, x[3].size, call.integer("output_width"));
  }

  ValueId result() const {
    const DType dtype = call_.in_type(0).dtype;
    const Dims along = {-1, 1, columns_.count, 1}, down = {-1, rows_.count, 1, 1};
    const auto zeros = [&](const Dims& dims) {
      const std::vector<double> none(static_cast<std::size_t>(element_count(dims)));
      return call_.writer().constant(from_elements<double>(dtype, dims, none));
    };
    const ValueId across = call_.sum(reshape_to(call_, columns_.placed, along), zeros({1, rows_.count, 1, 1}));
    const ValueId downwards = call_.sum(reshape_to(call_, rows_.placed, down), zeros({1, 1, columns_.count, 1}));
    const ValueId grid = call_.add("Concat", {across, downwards}, with_attr("axis", std::int64_t{3}));
    const ValueId images = call_.add("Gather", {call_.in(0), call_.in(2)}, with_attr("axis", std::int64_t{0}));
    Attrs how = with_attr("mode", std::string("linear"));
    const ValueId read = call_.add("GridSample", {images, grid}, std::move(how));
    Attrs bins;
    bins.set("kernel_shape", std::vector<std::int64_t>{ratio_, ratio_});
    bins.set("strides", std::vector<std::int64_t>{ratio_, ratio_});
    return call_.add("AveragePool", {read}, std::move(bins));
  }

 private:
  // The sample points of one axis, one row per region.
  struct Axis {
    std::int64_t count = 0;
    ValueId placed = {};  // as GridSample wants them
  };

  Axis axis(std::int64_t column, std::int64_t size, std::int64_t bins) const {
    const DType dtype = call_.in_type(1).dtype;
    const auto number = [&](double x) { return call_.scalar(x, dtype); };
    const auto edge = [&](std::int64_t at) {
      const ValueId corner = call_.add("Slice", {call_.in(1), call_.ints({at}), call_.ints({at + 1}), call_.ints({1})});
      const ValueId scaled = call_.product(corner, number(call_.real("spatial_scale")));
      return half_pixel_ ? call_.difference(scaled, number(0.5)) : scaled;
    };
    const ValueId start = edge(column);
    ValueId length = call_.difference(edge(column + 2), start);
    if (!half_pixel_) length = call_.add("Max", {length, number(1)});
    Axis result = {.count = bins * ratio_};
    std::vector<double> shares;
    for (std::int64_t i = 0; i < result.count; ++i)
      shares.push_back((static_cast<double>(i) + 0.5) / static_cast<double>(result.count));
    const ValueId share = call_.writer().constant(from_elements<double>(dtype, {1, result.count}, shares));
    const ValueId at = call_.sum(start, call_.product(length, share));
    // Within a pixel of the image the edge is read, farther away zeros.
    const auto pixels = static_cast<double>(size);
    const ValueId near = call_.add(
        "And", {call_.add("GreaterOrEqual", {at, number(-1)}), call_.add("LessOrEqual", {at, number(pixels)})});
    const ValueId edged = call_.add("Clip", {at, number(0), number(pixels - 1)});
    const ValueId pixel = call_.add("Where", {near, edged, number(-2)});
    const ValueId centre = call_.sum(call_.product(pixel, number(2)), number(1));
    result.placed = call_.difference(call_.quotient(centre, number(pixels)), number(1));
    return result;
  }

  BuildCall& call_;
  std::int64_t ratio_ = 1;
  bool half_pixel_ = false;
  Axis rows_ = {}, columns_ = {};
};

}  // namespace

// Each bin's goes to its largest element. Which one that is changes in steps, as regions are rounded to pixels.
void max_roi_pool_gradient(BuildCall& call) {
  if (!call.wanted(0)) return;
  const ValueId places = call.add("finity:MaxRoiPlaces", {call.in(0), call.in(1)}, call.attrs());
  call.give(0, added_up(call, call.in(0), {{.numbers = places, .arriving = call.grad(0)}}));
}

void roi_align_gradient(BuildCall& call) { call.give_through(std::vector{AlignedSamples(call).result()}); }

}  // namespace finity

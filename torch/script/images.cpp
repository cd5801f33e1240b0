// Images: other sizes, sampling, blocks of pixels, padding.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "torch/script/call.h"
#include "torch/script/common.h"

namespace finity {

namespace {

// How large the last axes become: sizes, or factors.
struct Target {
  Ints now, sizes;
  std::vector<double> factors = {};
};

std::vector<double> factors_of(ScriptCall& call, std::size_t axes) {
  std::vector<double> factors;
  if (call.has("scale_factors")) {
    for (const ScriptItem& item : call.items("scale_factors")) {
      if (!item.is_constant() || !item.constant.isDouble()) throw Unsupported("its factors are computed");
      factors.push_back(item.constant.toDouble());
    }
    return factors;
  }
  const char* const names[] = {"scales_d", "scales_h", "scales_w"};
  if (axes == 1 && call.has("scales")) return {call.real("scales", 1)};
  for (std::size_t i = 3 - axes; i < 3; ++i) {
    if (call.has(names[i])) factors.push_back(call.real(names[i], 1));
  }
  return factors.size() == axes ? factors : std::vector<double>();
}

Target target(ScriptCall& call, ValueId x, std::size_t axes, const char* input) {
  Target result;
  const Dims dims = call.dims(x);
  if (dims.size() != axes + 2) throw Unsupported(std::string(input) + " has no batch and channels");
  result.now.assign(dims.begin() + 2, dims.end());
  result.factors = factors_of(call, axes);
  if (call.has("output_size")) {
    result.sizes = call.ints("output_size");
  } else {
    if (result.factors.size() != axes) throw Unsupported("has no size");
    for (std::size_t i = 0; i < axes; ++i)
      result.sizes.push_back(
          static_cast<std::int64_t>(std::floor(static_cast<double>(result.now[i]) * result.factors[i])));
  }
  if (result.sizes.size() != axes) throw Unsupported("has sizes of another rank");
  return result;
}

// PyTorch goes by the factor when one is given, and so by another than the sizes say when it does not divide.
bool goes_by_sizes(const Target& to) {
  for (std::size_t i = 0; i < to.factors.size(); ++i) {
    if (static_cast<double>(to.now[i]) * to.factors[i] != static_cast<double>(to.sizes[i])) return false;
  }
  return true;
}

const char* input_name(const ScriptCall& call) { return call.has("input") ? "input" : "self"; }

ValueId resized(ScriptCall& call, ValueId x, const Target& to, AttrEntries attrs) {
  Ints sizes = {call.dims(x)[0], call.dims(x)[1]};
  sizes.insert(sizes.end(), to.sizes.begin(), to.sizes.end());
  return call.add("Resize", {x, ValueId{}, ValueId{}, call.vector_of(sizes)}, attrs);
}

// Whole multiples and fractions: else rounding of coordinates decides which pixel is nearest.
template <std::size_t Axes>
void nearest(ScriptCall& call) {
  const ValueId x = call.tensor(input_name(call));
  const Target to = target(call, x, Axes, "its operand");
  for (std::size_t i = 0; i < Axes; ++i) {
    const std::int64_t now = to.now[i], then = to.sizes[i];
    if (then < 1 || (then % now != 0 && now % then != 0)) throw Unsupported("is no whole multiple");
  }
  if (!goes_by_sizes(to)) throw Unsupported("its factor does not divide");
  call.give(resized(call, x, to,
                    {{"mode", std::string("nearest")},
                     {"coordinate_transformation_mode", std::string("asymmetric")},
                     {"nearest_mode", std::string("floor")}}));
}

template <std::size_t Axes, bool Cubic>
void interpolated(ScriptCall& call) {
  const ValueId x = call.tensor(input_name(call));
  const Target to = target(call, x, Axes, "its operand");
  const bool corners = call.flag("align_corners");
  if (!corners && !goes_by_sizes(to)) throw Unsupported("its factor does not divide");
  call.give(resized(call, x, to,
                    {{"mode", std::string(Cubic ? "cubic" : "linear")},
                     {"coordinate_transformation_mode", std::string(corners ? "align_corners" : "half_pixel")},
                     {"cubic_coeff_a", -0.75F}}));
}

void grid_sample(ScriptCall& call) {
  constexpr const char* kModes[] = {"linear", "nearest", "cubic"};
  constexpr const char* kPaddings[] = {"zeros", "border", "reflection"};
  const auto mode = static_cast<std::size_t>(call.integer("interpolation_mode"));
  const auto padding = static_cast<std::size_t>(call.integer("padding_mode"));
  if (mode > 2 || padding > 2) throw Unsupported("has another mode");
  // ONNX moves the coordinate into the image, PyTorch every pixel that it takes.
  if (mode == 2 && padding != 0) throw Unsupported("is bicubic, with pixels outside that are not zero");
  call.give(call.add("GridSample", {call.tensor("input"), call.tensor("grid")},
                     {{"mode", std::string(kModes[mode])},
                      {"padding_mode", std::string(kPaddings[padding])},
                      {"align_corners", std::int64_t{call.flag("align_corners")}}}));
}

// ---- blocks of pixels ---------------------------------------------------------------------------------------

void pixels_from_channels(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  if (call.rank(x) != 4) throw Unsupported("has no batch");
  call.give(
      call.add("DepthToSpace", {x}, {{"blocksize", call.integer("upscale_factor")}, {"mode", std::string("CRD")}}));
}

void channels_from_pixels(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const Dims dims = call.dims(x);
  const std::int64_t block = call.integer("downscale_factor");
  if (dims.size() != 4) throw Unsupported("has no batch");
  const std::int64_t h = dims[2] / block, w = dims[3] / block;
  const ValueId parts = call.add("Reshape", {x, call.vector_of({dims[0], dims[1], h, block, w, block})});
  const ValueId turned = call.add("Transpose", {parts}, {{"perm", Ints{0, 1, 3, 5, 2, 4}}});
  call.give(call.add("Reshape", {turned, call.vector_of({dims[0], dims[1] * block * block, h, w})}));
}

void channel_shuffle(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  const Dims dims = call.dims(x);
  const std::int64_t groups = call.integer("groups");
  if (dims.size() != 4) throw Unsupported("has no batch");
  const ValueId parts = call.add("Reshape", {x, call.vector_of({dims[0], groups, dims[1] / groups, dims[2], dims[3]})});
  const ValueId turned = call.add("Transpose", {parts}, {{"perm", Ints{0, 2, 1, 3, 4}}});
  call.give(call.add("Reshape", {turned, call.vector_of(dims)}));
}

struct Blocks {
  Ints kernel, dilation, padding, stride;
};

Blocks blocks_of(const ScriptCall& call) {
  return {spread(call.ints("kernel_size"), 2), spread(call.ints("dilation"), 2), spread(call.ints("padding"), 2),
          spread(call.ints("stride"), 2)};
}

std::int64_t places(const Blocks& blocks, std::int64_t size, std::size_t axis) {
  const std::int64_t reach = blocks.dilation[axis] * (blocks.kernel[axis] - 1) + 1;
  return (size + 2 * blocks.padding[axis] - reach) / blocks.stride[axis] + 1;
}

// Every block as a column: of flattened pixels, those that the block covers.
void columns_of_blocks(ScriptCall& call) {
  ValueId x = call.tensor("self");
  const Dims dims = call.dims(x);
  if (dims.size() != 4) throw Unsupported("has no batch");
  const Blocks blocks = blocks_of(call);
  const std::int64_t rows = places(blocks, dims[2], 0), columns = places(blocks, dims[3], 1);
  const std::int64_t height = dims[2] + 2 * blocks.padding[0], width = dims[3] + 2 * blocks.padding[1];
  const Ints pads = {0, 0, blocks.padding[0], blocks.padding[1], 0, 0, blocks.padding[0], blocks.padding[1]};
  x = call.add("Pad", {x, call.vector_of(pads), call.number_like(0, x)});
  x = call.add("Reshape", {x, call.vector_of({dims[0], dims[1], height * width})});
  std::vector<std::int64_t> at;
  for (std::int64_t i = 0; i < blocks.kernel[0]; ++i) {
    for (std::int64_t j = 0; j < blocks.kernel[1]; ++j) {
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
          at.push_back((r * blocks.stride[0] + i * blocks.dilation[0]) * width + c * blocks.stride[1] +
                       j * blocks.dilation[1]);
        }
      }
    }
  }
  const std::int64_t kernel = blocks.kernel[0] * blocks.kernel[1];
  const ValueId index = whole_constant(call, {kernel, rows * columns}, at);
  x = call.add("Gather", {x, index}, {{"axis", std::int64_t{2}}});
  call.give(call.add("Reshape", {x, call.vector_of({dims[0], dims[1] * kernel, rows * columns})}));
}

void blocks_from_columns(ScriptCall& call) {
  const ValueId x = call.tensor("self");
  if (call.rank(x) != 3) throw Unsupported("has no batch");
  const Blocks blocks = blocks_of(call);
  call.give(
      call.add("Col2Im", {x, call.vector_of(spread(call.ints("output_size"), 2)), call.vector_of(blocks.kernel)},
               {{"dilations", blocks.dilation}, {"pads", both_ends(blocks.padding)}, {"strides", blocks.stride}}));
}

// ---- margins ------------------------------------------------------------------------------------------------

// The last axis comes first, begin and end.
ValueId padded(ScriptCall& call, ValueId x, const Ints& pads, const std::string& mode, double value) {
  const std::size_t rank = call.rank(x);
  Ints ends(2 * rank, 0);
  for (std::size_t i = 0; 2 * i + 1 < pads.size(); ++i) {
    ends.at(rank - 1 - i) = pads[2 * i];
    ends.at(2 * rank - 1 - i) = pads[2 * i + 1];
  }
  if (mode == "constant") return call.add("Pad", {x, call.vector_of(ends), call.number_like(value, x)});
  // LibTorch mirrors and repeats elements that the other end cuts off; what goes around is what is left.
  const bool cuts = mode != "wrap" && std::ranges::any_of(ends, [](std::int64_t end) { return end < 0; });
  if (!cuts) return call.add("Pad", {x, call.vector_of(ends)}, {{"mode", mode}});
  Ints added = ends, cut = ends;
  for (std::int64_t& end : added) end = std::max<std::int64_t>(end, 0);
  for (std::int64_t& end : cut) end = std::min<std::int64_t>(end, 0);
  const ValueId wide = call.add("Pad", {x, call.vector_of(added)}, {{"mode", mode}});
  return call.add("Pad", {wide, call.vector_of(cut), call.number_like(0, x)});
}

void pad(ScriptCall& call) {
  const std::string mode = call.text("mode", "constant");
  const std::string own = mode == "replicate" ? "edge" : mode == "circular" ? "wrap" : mode;
  call.give(padded(call, call.tensor("self"), call.ints("pad"), own, call.real("value", 0)));
}

template <OpName Mode>
void pad_with(ScriptCall& call) {
  call.give(padded(call, call.tensor("self"), call.ints("padding"), Mode.letters, 0));
}

constexpr ScriptLowering kEntries[] = {
    {"upsample_nearest1d", nearest<1>},
    {"upsample_nearest2d", nearest<2>},
    {"upsample_nearest3d", nearest<3>},
    {"upsample_linear1d", interpolated<1, false>},
    {"upsample_bilinear2d", interpolated<2, false>},
    {"upsample_trilinear3d", interpolated<3, false>},
    {"upsample_bicubic2d", interpolated<2, true>},
    {"grid_sampler", grid_sample},
    {"pixel_shuffle", pixels_from_channels},
    {"pixel_unshuffle", channels_from_pixels},
    {"channel_shuffle", channel_shuffle},
    {"im2col", columns_of_blocks},
    {"col2im", blocks_from_columns},
    {"constant_pad_nd", pad},
    {"pad", pad},
    {"reflection_pad1d", pad_with<"reflect">},
    {"reflection_pad2d", pad_with<"reflect">},
    {"reflection_pad3d", pad_with<"reflect">},
    {"replication_pad1d", pad_with<"edge">},
    {"replication_pad2d", pad_with<"edge">},
    {"replication_pad3d", pad_with<"edge">},
};

}  // namespace

std::span<const ScriptLowering> script_images() { return kEntries; }

}  // namespace finity

// Number 17: a U-Net that separates discs from their background, with a softmax by hand over two channels and the Dice
// loss.
#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "bench/grist.h"
#include "bench/maker.h"

namespace finity {

namespace {

constexpr std::int64_t kImages = 4;
constexpr double kDropped = 0.25;

struct Discs {
  Tensor images = {};
  Tensor inside = {};  // 1 where a disc is, without the margin that the network loses
};

struct Field {
  std::vector<double> grey = {};
  std::vector<bool> inside = {};
};

Field drawn_discs(Rng& rng, std::int64_t side) {
  constexpr int kDiscs = 20;
  const auto cells = static_cast<std::size_t>(side * side);
  Field field = {.grey = std::vector<double>(cells, 1), .inside = std::vector<bool>(cells)};
  const std::int64_t border = side * 92 / 572, largest = std::max<std::int64_t>(side * 50 / 572, 6);
  for (int disc = 0; disc < kDiscs; ++disc) {
    const auto place = [&] {
      return border + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(side - 2 * border)));
    };
    const std::int64_t row = place(), column = place();
    const std::int64_t radius = 5 + static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(largest - 5)));
    const double grey = 1 + static_cast<double>(rng.below(254));
    for (std::int64_t cell = 0; cell < side * side; ++cell) {
      const std::int64_t down = cell / side - row, right = cell % side - column;
      if (down * down + right * right > radius * radius) continue;
      field.grey[static_cast<std::size_t>(cell)] = grey;
      field.inside[static_cast<std::size_t>(cell)] = true;
    }
  }
  return field;
}

Discs discs(std::int64_t side, std::int64_t margin) {
  constexpr double kNoise = 20;
  const std::int64_t kept = side - 2 * margin;
  Discs made = {.images = Tensor(DType::float32, {kImages, 1, side, side}),
                .inside = Tensor(DType::float32, {kImages, 1, kept, kept})};
  Rng rng(17);
  float* image = made.images.mutable_data<float>().data();
  float* inside = made.inside.mutable_data<float>().data();
  for (std::int64_t i = 0; i < kImages; ++i) {
    Field field = drawn_discs(rng, side);
    for (double& x : field.grey) x += kNoise * rng.normal();
    const auto [low, high] = std::ranges::minmax(field.grey);
    for (const double x : field.grey) *image++ = static_cast<float>((x - low) / (high - low));
    for (std::int64_t cell = 0; cell < kept * kept; ++cell) {
      const std::int64_t row = cell / kept + margin, column = cell % kept + margin;
      *inside++ = field.inside[static_cast<std::size_t>(row * side + column)] ? 1 : 0;
    }
  }
  return made;
}

class Net {
 public:
  explicit Net(Maker& maker) : maker_(maker) {}

  std::string logits(const std::string& image, std::int64_t side) {
    const std::string down1 = pair(image, 1, 16, 16, "down1");
    const std::string down2 = pair(maker_.max_pool(down1), 16, 32, 32, "down2");
    const std::string down3 = pair(maker_.max_pool(down2), 32, 64, 64, "down3");
    const std::int64_t side1 = side - 4, side2 = side1 / 2 - 4, up2 = 2 * (side2 / 2 - 4), up1 = 2 * (up2 - 4);
    const std::string joined2 = joined(up(down3, 64, "up2"), down2, side2, up2);
    const std::string again2 = pair(joined2, 64, 32, 64, "again2");
    const std::string joined1 = joined(up(again2, 32, "up1"), down1, side1, up1);
    const std::string again1 = pair(joined1, 32, 16, 32, "again1");
    return maker_.relu(maker_.conv(again1, {2, 16, 1, 1}, false, "head", {deviation(32), begin::constant(0.1)}));
  }

 private:
  static Draw deviation(std::int64_t features) {
    return begin::truncated(std::sqrt(2.0 / (9.0 * static_cast<double>(features))));
  }

  std::string layer(const std::string& x, std::int64_t in, std::int64_t out, std::int64_t features,
                    const std::string& name) {
    const std::string h = maker_.conv(x, {out, in, 3, 3}, false, name, {deviation(features), {}});
    const std::string ratio = maker_.number(kDropped), training = maker_.constant(Tensor::scalar(true));
    const std::string kept = maker_.node("Dropout", {h, ratio, training});
    return maker_.relu(maker_.node("Add", {kept, bias(out, name)}));
  }

  std::string bias(std::int64_t channels, const std::string& name) {
    return maker_.reshape(maker_.weight(name + "_b", {channels}, begin::constant(0.1)), {1, channels, 1, 1});
  }

  std::string pair(const std::string& x, std::int64_t in, std::int64_t out, std::int64_t features,
                   const std::string& name) {
    return layer(layer(x, in, out, features, name + "a"), out, out, features, name + "b");
  }

  std::string up(const std::string& x, std::int64_t in, const std::string& name) {
    const std::string kernel = maker_.weight(name + "_w", {in, in / 2, 2, 2}, deviation(in));
    const std::string h = maker_.node("ConvTranspose", {x, kernel}, "strides = [2, 2]");
    return maker_.relu(maker_.node("Add", {h, bias(in / 2, name)}));
  }

  // What was seen on the way down, cropped to the size on the way up, and what comes up.
  std::string joined(const std::string& up, const std::string& down, std::int64_t down_side, std::int64_t side) {
    const std::int64_t margin = (down_side - side) / 2;
    const std::string middle =
        maker_.node("Slice", {down, maker_.whole_numbers({margin, margin}),
                              maker_.whole_numbers({margin + side, margin + side}), maker_.whole_numbers({2, 3})});
    return maker_.node("Concat", {middle, up}, "axis = 1");
  }

  Maker& maker_;
};

Recipe segmentation(const Build& build) {
  constexpr std::int64_t kMargin = 20;
  const std::int64_t side = build.small ? 60 : 572;
  const Discs data = discs(side, kMargin);
  Maker maker(1);
  maker.set_reach(1);
  const std::string x = maker.table("x", data.images, {0, 1}, true);
  const std::string inside = maker.table("y", data.inside, {0, 1}, false);
  const std::string y = maker.node("Concat", {maker.node("Sub", {maker.number(1), inside}), inside}, "axis = 1");
  std::string u = Net(maker).logits(x, side);
  if (build.repaired) u = maker.node("Min", {u, maker.number(50)});
  const std::string e = maker.node("Exp", {u}, "", "exp");
  const std::string p = maker.node("Div", {e, maker.node("ReduceSum", {e, maker.whole_numbers({1})}, "keepdims = 1")});
  const std::string both = maker.sum(maker.node("Mul", {p, y}));
  const std::string union_size = maker.node("Add", {maker.sum(p), maker.sum(y)});
  const std::string dice = maker.node("Div", {both, maker.node("Add", {maker.number(1e-5), union_size})});
  maker.loss(maker.node("Mul", {maker.number(-2), dice}));
  maker.optimiser(
      {.kind = Optimiser::Kind::momentum, .rate = 0.2, .momentum = 0.2, .rate_decay = 0.95, .rate_decay_steps = 32});
  return std::move(maker).finish();
}

}  // namespace

GristBugs grist_disc_segmentation() {
  return {{.id = "17",
           .family = "U-Net",
           .op = "exp",
           .rule = "FN201",
           .nodes = {"exp"},
           .repaired = {"exp"},
           .note = "four images that are drawn once",
           .make = segmentation}};
}

}  // namespace finity

// Number 1: a network that first moves its image to where a small network of its own says (a spatial transformer), then
// classifies it.
#include "bench/grist.h"
#include "bench/losses.h"
#include "bench/maker.h"

namespace finity {

namespace {

constexpr std::int64_t kSide = 40, kPixels = kSide * kSide;
constexpr double kKeep = 0.8;
const Init kInit = {begin::zeros, begin::normal(0.01)};

// Rows x, y and 1 of the points of the output, from -1 to 1.
std::string points(Maker& maker) {
  const std::string steps = maker.node("Range", {maker.number(0), maker.number(kSide), maker.number(1)});
  const std::string wide = maker.node("Mul", {steps, maker.number(2.0 / (kSide - 1))});
  const std::string line = maker.node("Sub", {wide, maker.number(1)});
  const auto spread = [&](const Dims& dims) {
    const std::string square = maker.node("Expand", {maker.reshape(line, dims), maker.whole_numbers({kSide, kSide})});
    return maker.reshape(square, {1, kPixels});
  };
  const std::string ones = maker.node("Expand", {maker.number(1), maker.whole_numbers({1, kPixels})});
  return maker.node("Concat", {spread({1, kSide}), spread({kSide, 1}), ones}, "axis = 0");
}

// A coordinate between two pixels.
struct Between {
  std::string at = {}, low = {}, high = {};
};

Between between(Maker& maker, const std::string& coordinates, std::int64_t row) {
  const std::string one = maker.node("Gather", {coordinates, maker.constant(Tensor::scalar(row))}, "axis = 1");
  const std::string at = maker.node("Mul", {maker.node("Add", {one, maker.number(1)}), maker.number(kSide / 2.0)});
  const std::string low = maker.node("Floor", {at});
  const std::string high = maker.node("Add", {low, maker.number(1)});
  return {.at = at, .low = maker.clip(low, 0, kSide - 1), .high = maker.clip(high, 0, kSide - 1)};
}

// The share of one of the four pixels around a point. Weights follow from indices that were clamped before.
std::string share(Maker& maker, const std::string& image, const std::string& x, const std::string& y,
                  const std::string& width, const std::string& height) {
  const std::string index = maker.node("Add", {maker.node("Mul", {y, maker.number(kSide)}), x});
  const std::string whole = maker.node("Cast", {index}, "to = 7");
  const std::string pixel = maker.node("GatherElements", {image, whole}, "axis = 1");
  return maker.node("Mul", {maker.node("Mul", {width, height}), pixel});
}

std::string moved(Maker& maker, const std::string& image, const std::string& theta) {
  const std::string matrix = maker.reshape(theta, {maker.batch(), 2, 3});
  const std::string coordinates = maker.node("MatMul", {matrix, points(maker)});
  const Between x = between(maker, coordinates, 0), y = between(maker, coordinates, 1);
  const std::string left = maker.node("Sub", {x.high, x.at}), right = maker.node("Sub", {x.at, x.low});
  const std::string top = maker.node("Sub", {y.high, y.at}), bottom = maker.node("Sub", {y.at, y.low});
  const std::string upper =
      maker.node("Add", {share(maker, image, x.low, y.low, left, top), share(maker, image, x.high, y.low, right, top)});
  const std::string lower = maker.node(
      "Add", {share(maker, image, x.low, y.high, left, bottom), share(maker, image, x.high, y.high, right, bottom)});
  return maker.reshape(maker.node("Add", {upper, lower}), {maker.batch(), 1, kSide, kSide});
}

// Where the image is moved: a matrix that begins near the identity.
std::string placement(Maker& maker, const std::string& image) {
  std::string h = maker.node("Tanh", {maker.dense(image, kPixels, 20, "locate1", kInit)});
  h = maker.dropout(h, "kept1", {20}, kKeep);
  const std::vector<float> identity = {1, 0, 0, 0, 1, 0};
  const std::string start = maker.constant(Tensor::of<float>(DType::float32, {6}, identity));
  const std::string linear = maker.dense(h, 20, 6, "locate2", {begin::zeros, begin::zeros});
  return maker.node("Tanh", {maker.node("Add", {linear, start})});
}

Recipe transformer(const Build& build) {
  Maker maker(build.small ? 2 : 101);
  const std::int64_t batch = maker.batch();
  const std::string x = maker.images("x", {784});
  const std::string y = maker.one_hot_labels("y");
  const std::string small = maker.reshape(x, {batch, 1, 28, 28});
  const std::string framed = maker.node("Pad", {small, maker.whole_numbers({0, 0, 6, 6, 0, 0, 6, 6})});
  const std::string image = maker.reshape(framed, {batch, kPixels});
  std::string h = moved(maker, image, placement(maker, image));
  h = maker.relu(maker.conv(h, {16, 1, 3, 3}, true, "conv1", kInit, 2));
  h = maker.relu(maker.conv(h, {16, 16, 3, 3}, true, "conv2", kInit, 2));
  h = maker.relu(maker.dense(maker.reshape(h, {batch, 1600}), 1600, 1024, "full", kInit));
  h = maker.dropout(h, "kept2", {1024}, kKeep);
  const std::string p = maker.node("Softmax", {maker.dense(h, 1024, 10, "last", kInit)}, "axis = 1");
  maker.loss(cross_entropy(maker, p, y, Over::sum, build.repaired));
  maker.optimiser({.kind = Optimiser::Kind::adam, .rate = 0.001});
  return std::move(maker).finish();
}

}  // namespace

GristBugs grist_transformer() {
  return {{.id = "1",
           .family = "spatial transformer",
           .op = "log",
           .rule = "FN102",
           .nodes = {"log"},
           .repaired = {"log"},
           .note = "digits in an empty frame instead of cluttered ones; the loss is looked at with dropout",
           .make = transformer}};
}

}  // namespace finity

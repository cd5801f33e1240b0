#include "bench/debar_graphs.h"

#include "bench/graph_def_maker.h"

namespace finity {

namespace {

constexpr int kPixels = 784;
constexpr int kClasses = 10;
constexpr std::int64_t kAny = -1;

// -sum(y log p), over classes and samples or their mean; the logarithm is the node "Log".
void cross_entropy(GraphDefMaker& maker, const std::string& operand, const std::string& y, bool mean) {
  const std::string terms = maker.op("Mul", {y, maker.op("Log", {operand}, "Log")});
  if (!mean) maker.op("Neg", {maker.sum(terms, {0, 1})}, "loss");
  else maker.mean(maker.op("Neg", {maker.sum(terms, {1})}), {0});
}

void cross_entropy_of_logits(GraphDefMaker& maker, const std::string& logits, const std::string& y) {
  maker.mean(maker.op("SoftmaxCrossEntropyWithLogits", {logits, y}), {0});
}

std::string clipped(GraphDefMaker& maker, const std::string& x, double lo) {
  return maker.op("Maximum", {maker.op("Minimum", {x, maker.number(1)}), maker.number(lo)});
}

// ---- softmax regression and perceptrons -------------------------------------------------------------------------

std::string regression(bool repaired, double added, bool over_logits) {
  GraphDefMaker maker;
  const std::string x = maker.placeholder("x", {kAny, kPixels});
  const std::string y = maker.placeholder("y", {kAny, kClasses});
  const std::string u = maker.dense(x, kPixels, kClasses, "layer", {begin::zeros, begin::zeros});
  if (repaired && over_logits) {
    cross_entropy_of_logits(maker, u, y);
    return std::move(maker).finish();
  }
  std::string p = maker.op("Softmax", {u});
  if (repaired) p = maker.op("Add", {p, maker.number(added)});
  cross_entropy(maker, p, y, repaired);
  return std::move(maker).finish();
}

// The loss of independent classes: y log p + (1 - y) log(1 - p).
std::string binary_loss(GraphDefMaker& maker, const std::string& p, const std::string& y, bool repaired) {
  const std::string one = maker.number(1, "one");
  const std::string not_p = maker.op("Sub", {one, p});
  const std::string log_p = maker.op("Log", {repaired ? clipped(maker, p, 1e-10) : p}, "Log");
  const std::string log_not = maker.op("Log", {repaired ? clipped(maker, not_p, 1e-10) : not_p}, "Log_1");
  const std::string absent = maker.op("Mul", {maker.op("Sub", {one, y}), log_not});
  return maker.op("Neg", {maker.op("Add", {maker.op("Mul", {y, log_p}), absent})});
}

std::string independent_classes(bool repaired) {
  GraphDefMaker maker;
  const std::string x = maker.placeholder("x-input", {kAny, kPixels});
  const std::string y = maker.placeholder("y-input", {kAny, kClasses});
  const std::string u = maker.dense(x, kPixels, kClasses, "layer", {begin::zeros, begin::zeros});
  maker.mean(binary_loss(maker, maker.op("Softmax", {u}), y, repaired), {0, 1});
  return std::move(maker).finish();
}

std::string sigmoid_perceptron(bool repaired) {
  GraphDefMaker maker;
  constexpr std::int64_t kHidden = 512;
  const std::string x = maker.placeholder("x", {kAny, kPixels});
  const std::string y = maker.placeholder("y", {kAny, kClasses});
  const Init init = {begin::zeros, {}};
  const std::string h = maker.op("Sigmoid", {maker.dense(x, kPixels, kHidden, "hidden", init)});
  const std::string o = maker.op("Sigmoid", {maker.dense(h, kHidden, kClasses, "last", init)});
  maker.mean(maker.sum(binary_loss(maker, o, y, repaired), {1}), {0});
  return std::move(maker).finish();
}

// A softmax by hand: exponentials without subtracting the largest, a division by their sum, a logarithm.
std::string hand_made_softmax(bool repaired) {
  GraphDefMaker maker;
  const Init init = {begin::uniform(-0.25, 0.25), begin::zeros};
  const std::string x = maker.placeholder("x", {kAny, 28, 28, 1});
  const std::string y = maker.placeholder("y", {kAny, kClasses});
  std::string h = maker.reshape(x, {kAny, kPixels});
  h = maker.op("Relu", {maker.dense(h, kPixels, 200, "first", init)});
  h = maker.op("Relu", {maker.dense(h, 200, 100, "second", init)});
  std::string u = maker.dense(h, 100, kClasses, "last", init);
  if (repaired) {
    const std::string largest =
        maker.node("Max", {u, maker.whole({1})}, "",
                   {{"T", "type: DT_FLOAT"}, {"Tidx", "type: DT_INT32"}, {"keep_dims", "b: true"}});
    u = maker.op("Sub", {u, largest});
  }
  const std::string above = maker.op("Exp", {u}, "Exp");
  const std::string below = maker.sum(maker.op("Exp", {u}, "Exp_1"), {1}, true);
  const std::string q = maker.op("RealDiv", {above, below}, "truediv");
  cross_entropy(maker, repaired ? clipped(maker, q, 1e-10) : q, y, true);
  return std::move(maker).finish();
}

// ---- convolutional networks ---------------------------------------------------------------------------------------

enum class Repair { clip, add };

std::string tutorial_network(bool repaired, Repair repair) {
  GraphDefMaker maker;
  const Init init = {begin::truncated(0.1), begin::constant(0.1)};
  const std::string x = maker.placeholder("x", {kAny, kPixels});
  const std::string y = maker.placeholder("y", {kAny, kClasses});
  const std::string keep = maker.placeholder("keep_prob", {});
  std::string h = maker.reshape(x, {kAny, 28, 28, 1});
  h = maker.max_pool(maker.op("Relu", {maker.conv(h, {5, 5, 1, 32}, 1, "conv1", init)}));
  h = maker.max_pool(maker.op("Relu", {maker.conv(h, {5, 5, 32, 64}, 1, "conv2", init)}));
  h = maker.op("Relu", {maker.dense(maker.reshape(h, {kAny, 3136}), 3136, 1024, "full", init)});
  h = maker.dropout(h, keep, "dropout");
  std::string p = maker.op("Softmax", {maker.dense(h, 1024, kClasses, "last", init)});
  if (repaired && repair == Repair::clip) p = clipped(maker, p, 1e-10);
  if (repaired && repair == Repair::add) p = maker.op("Add", {p, maker.number(1e-9)});
  cross_entropy(maker, p, y, false);
  return std::move(maker).finish();
}

// Where each point of the output lies in the input: one coordinate, in pixels, of all images.
struct Coordinate {
  std::string at = {};                 // float32
  std::string below = {}, above = {};  // int32, inside the image
};

constexpr std::int64_t kSide = 40;
constexpr std::int64_t kPoints = kSide * kSide;
constexpr std::int64_t kBatch = 101;

std::string whole_op(GraphDefMaker& maker, const std::string& op, const std::string& a, const std::string& b) {
  return maker.node(op, {a, b}, "", {{"T", "type: DT_INT32"}});
}

Coordinate coordinate(GraphDefMaker& maker, const std::string& points, std::int64_t row, const std::string& name) {
  const std::string part = maker.node("Slice", {points, maker.whole({0, row, 0}), maker.whole({-1, 1, -1})}, "",
                                      {{"T", "type: DT_FLOAT"}, {"Index", "type: DT_INT32"}});
  const std::string flat = maker.reshape(part, {-1});
  const std::string scaled =
      maker.op("Mul", {maker.op("Add", {flat, maker.number(1)}), maker.number(static_cast<double>(kSide))});
  Coordinate result = {.at = maker.op("RealDiv", {scaled, maker.number(2)}, name + "/truediv")};
  const std::string least = maker.whole_number(0);
  const std::string most = maker.whole_number(kSide - 1);
  const auto inside = [&](const std::string& index) {
    return whole_op(maker, "Minimum", whole_op(maker, "Maximum", index, least), most);
  };
  const std::string index = maker.cast(maker.op("Floor", {result.at}), "FLOAT", "INT32");
  result.below = inside(index);
  result.above = inside(whole_op(maker, "Add", index, maker.whole_number(1)));
  return result;
}

// Homogeneous coordinates of the output's points in [-1, 1], for every image: [batch, 3, points].
std::string grid_of_points(GraphDefMaker& maker) {
  const std::string line = maker.node("LinSpace", {maker.number(-1), maker.number(1), maker.whole_number(kSide)}, "",
                                      {{"T", "type: DT_FLOAT"}, {"Tidx", "type: DT_INT32"}});
  const std::string across = maker.op("MatMul", {maker.numbers({1}, {kSide, 1}), maker.reshape(line, {1, kSide})});
  const std::string down = maker.op("MatMul", {maker.reshape(line, {kSide, 1}), maker.numbers({1}, {1, kSide})});
  const std::string rows = maker.node("ConcatV2",
                                      {maker.reshape(across, {1, kPoints}), maker.reshape(down, {1, kPoints}),
                                       maker.numbers({1}, {1, kPoints}), maker.whole_number(0)},
                                      "", {{"T", "type: DT_FLOAT"}, {"Tidx", "type: DT_INT32"}, {"N", "i: 3"}});
  return maker.node("Tile", {maker.reshape(rows, {1, 3, kPoints}), maker.whole({kBatch, 1, 1})}, "",
                    {{"T", "type: DT_FLOAT"}, {"Tmultiples", "type: DT_INT32"}});
}

// Bilinear interpolation between the four neighbours; neighbours outside the image are moved to its border, and the
// weights computed from there, as the program has it.
std::string interpolated(GraphDefMaker& maker, const std::string& image, const Coordinate& x, const Coordinate& y) {
  const std::string counted =
      maker.node("Range", {maker.whole_number(0), maker.whole_number(kBatch), maker.whole_number(1)}, "",
                 {{"Tidx", "type: DT_INT32"}});
  const std::string first = whole_op(maker, "Mul", counted, maker.whole_number(kPoints));
  const std::string column = maker.cast(first, "INT32", "FLOAT");
  const std::string spread = maker.op("MatMul", {maker.reshape(column, {kBatch, 1}), maker.numbers({1}, {1, kPoints})});
  const std::string base = maker.cast(maker.reshape(spread, {-1}), "FLOAT", "INT32");
  const std::string pixels = maker.reshape(image, {-1, 1});
  GraphDefMaker::Names parts;
  for (const bool low_x : {true, false}) {
    for (const bool low_y : {true, false}) {
      const std::string row = whole_op(maker, "Mul", low_y ? y.below : y.above, maker.whole_number(kSide));
      const std::string place = whole_op(maker, "Add", whole_op(maker, "Add", base, row), low_x ? x.below : x.above);
      const std::string pixel =
          maker.node("Gather", {pixels, place}, "",
                     {{"Tparams", "type: DT_FLOAT"}, {"Tindices", "type: DT_INT32"}, {"validate_indices", "b: true"}});
      const auto weight = [&](const Coordinate& c, bool low) {
        const std::string other = maker.cast(low ? c.above : c.below, "INT32", "FLOAT");
        return low ? maker.op("Sub", {other, c.at}) : maker.op("Sub", {c.at, other});
      };
      const std::string area = maker.op("Mul", {weight(x, low_x), weight(y, low_y)});
      parts.push_back(maker.op("Mul", {maker.reshape(area, {-1, 1}), pixel}));
    }
  }
  return maker.node("AddN", parts, "", {{"T", "type: DT_FLOAT"}, {"N", "i: 4"}});
}

std::string spatial_transformer(bool repaired) {
  GraphDefMaker maker;
  const Init init = {begin::zeros, begin::normal(0.01)};
  const std::string x = maker.placeholder("x", {kBatch, kPoints});
  const std::string y = maker.placeholder("y", {kBatch, kClasses});
  const std::string keep = maker.placeholder("keep_prob", {});
  std::string h = maker.op("Tanh", {maker.dense(x, kPoints, 20, "locate1", init)});
  h = maker.dropout(h, keep, "dropout");
  const std::string theta = maker.op("Tanh", {maker.dense(h, 20, 6, "locate2", init)});
  const std::string points = maker.op("BatchMatMul", {maker.reshape(theta, {kBatch, 2, 3}), grid_of_points(maker)});
  const Coordinate across = coordinate(maker, points, 0, "across");
  const Coordinate down = coordinate(maker, points, 1, "down");
  h = maker.reshape(interpolated(maker, x, across, down), {kBatch, kSide, kSide, 1});
  h = maker.op("Relu", {maker.conv(h, {3, 3, 1, 16}, 2, "conv1", init)});
  h = maker.op("Relu", {maker.conv(h, {3, 3, 16, 16}, 2, "conv2", init)});
  h = maker.op("Relu", {maker.dense(maker.reshape(h, {kBatch, kPoints}), kPoints, 1024, "full", init)});
  h = maker.dropout(h, keep, "dropout_1");
  const std::string u = maker.dense(h, 1024, kClasses, "last", init);
  if (repaired) cross_entropy_of_logits(maker, u, y);
  else cross_entropy(maker, maker.op("Softmax", {u}), y, false);
  return std::move(maker).finish();
}

constexpr const char* kPixelsOf = "x:[0,1]";
constexpr const char* kOneHot = "y:[0,1]";

DebarGraph tutorial(std::string name, std::string grist, Repair repair) {
  return {.name = std::move(name),
          .grist = std::move(grist),
          .bugs = {"Log"},
          .ranges = {kPixelsOf, kOneHot, "keep_prob:[0.5,1]"},
          .repair = repair == Repair::clip ? "probabilities clipped to [1e-10, 1]" : "1e-9 added to probabilities",
          .make = [repair](bool repaired) { return tutorial_network(repaired, repair); }};
}

}  // namespace

const std::vector<DebarGraph>& debar_graphs() {
  static const std::vector<DebarGraph> kGraphs = {
      {.name = "TensorFuzz",
       .grist = "11",
       .bugs = {"Exp", "Exp_1", "truediv", "Log"},
       .ranges = {"x:[-1,1]", kOneHot},
       .repair = "the largest logit subtracted, the quotient clipped",
       .make = hand_made_softmax},
      {.name = "GitHub-IPS-1",
       .grist = "1",
       .bugs = {"Log"},
       .ranges = {kPixelsOf, kOneHot, "keep_prob:[0.8,1]"},
       .repair = "cross-entropy of logits",
       .make = spatial_transformer},
      {.name = "GitHub-IPS-6",
       .grist = "2",
       .bugs = {"Log", "Log_1"},
       .ranges = {"x-input:[0,1]", "y-input:[0,1]"},
       .repair = "both operands clipped to [1e-10, 1]",
       .make = independent_classes},
      {.name = "GitHub-IPS-9",
       .grist = "3",
       .bugs = {"Log"},
       .ranges = {kPixelsOf, kOneHot},
       .repair = "1e-8 added to probabilities",
       .make = [](bool repaired) { return regression(repaired, 1e-8, false); }},
      tutorial("StackOverflow-IPS-1", "6", Repair::clip),
      tutorial("StackOverflow-IPS-2", "7", Repair::add),
      tutorial("StackOverflow-IPS-6", "8", Repair::clip),
      {.name = "StackOverflow-IPS-7",
       .grist = "9",
       .bugs = {"Log", "Log_1"},
       .ranges = {kPixelsOf, kOneHot},
       .repair = "both operands clipped to [1e-10, 1]",
       .make = sigmoid_perceptron},
      {.name = "StackOverflow-IPS-14",
       .grist = "10",
       .bugs = {"Log"},
       .ranges = {kPixelsOf, kOneHot},
       .repair = "cross-entropy of logits",
       .make = [](bool repaired) { return regression(repaired, 0, true); }},
  };
  return kGraphs;
}

}  // namespace finity

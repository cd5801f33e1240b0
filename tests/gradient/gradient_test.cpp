// Derivative rules against central differences in float64: every op with a rule, on its cases of testdata/ops.
#include "gradient/gradient.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "exec/reference.h"
#include "formats/text/cases.h"
#include "formats/text/text.h"
#include "ops/table/op.h"
#include "support/paths.h"
#include "support/support.h"
#include "tensor/convert.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

const std::vector<OpCase>& all_cases() {
  static const std::vector<OpCase> kCases = [] {
    std::vector<OpCase> result;
    for (const auto& entry : fs::directory_iterator(testdata_folder() + "/ops")) {
      if (entry.path().extension() != ".txt") continue;
      for (OpCase& test : parse_cases(read_text_file(entry.path()), entry.path().filename().string())) {
        test.name = entry.path().stem().string() + "/" + test.name;
        if (test.error.empty()) result.push_back(std::move(test));
      }
    }
    return result;
  }();
  return kCases;
}

bool uses(const Graph& graph, const OpDef* op) {
  return std::ranges::any_of(graph.nodes(), [&](const Node& node) { return node.op == op; });
}

bool is_narrow(DType dtype) { return dtype == DType::float32 || dtype == DType::float16 || dtype == DType::bfloat16; }

Tensor widened(const Tensor& tensor) {
  return is_narrow(tensor.dtype()) ? from_elements<double>(DType::float64, tensor.dims(), elements<double>(tensor))
                                   : tensor;
}

// The case with every float as float64, so that differences have digits left.
Graph in_doubles(const Graph& graph) {
  GraphBuilder builder(graph);
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    Value& value = builder.value({static_cast<std::int32_t>(i)});
    if (is_narrow(value.type.dtype)) value.type.dtype = DType::float64;
    if (value.constant && is_narrow(value.constant->dtype()))
      value.constant = make_constant(widened(value.constant->load()));
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    Node& node = builder.node({static_cast<std::int32_t>(i)});
    for (const std::string_view name : {"to", "dtype"}) {
      const Attr* attr = node.attrs.find(name);
      const auto* code = attr != nullptr ? std::get_if<std::int64_t>(attr) : nullptr;
      const auto dtype = code != nullptr ? dtype_from_code(*code) : std::nullopt;
      if (dtype && is_narrow(*dtype)) node.attrs.set(std::string(name), std::int64_t{11});
    }
    const AttrSpec* stash = node.op != nullptr ? signature_of(*node.op).attr("stash_type") : nullptr;
    if (stash != nullptr) node.attrs.set("stash_type", std::int64_t{11});
    const Attr* filler = node.attrs.find("value");
    const auto* constant = filler != nullptr ? std::get_if<ConstantPtr>(filler) : nullptr;
    if (constant != nullptr && is_narrow((*constant)->dtype())) {
      node.attrs.set("value", make_constant(widened((*constant)->load())));
    }
  }
  return std::move(builder).build();
}

// A weighted sum of all float outputs, its gradient, and a way to run both.
class Trial {
 public:
  Trial(const OpCase& test, Rng& rng) : graph_(in_doubles(test.graph)), types_(infer_types(graph_)) {
    for (const ValueId id : graph_.main().inputs) {
      if (types_[id].dtype == DType::float64) wanted_.push_back(id);
    }
    for (std::size_t i = 0; i < test.inputs.size(); ++i) {
      inputs_[graph_.value(graph_.main().inputs[i]).name] = widened(test.inputs[i]);
    }
    build(rng);
  }

  bool usable() const { return !wanted_.empty() && loss_.valid(); }
  const std::vector<GradientStop>& stops() const { return result_.stops; }

  // Operands like those of the case, or uniform in a range.
  void draw(int style, Rng& rng) {
    for (const ValueId id : wanted_) {
      const Tensor& old = *inputs_.at(graph_.value(id).name).tensor();
      std::vector<double> values = elements<double>(old);
      for (double& x : values) {
        if (style == 0) x += 0.05 * rng.uniform(-1, 1);
        else x = style == 1 ? rng.uniform(0.1, 0.9) : style == 2 ? rng.uniform(1.1, 3) : rng.uniform(-2, 2);
      }
      inputs_[graph_.value(id).name] = from_elements<double>(DType::float64, old.dims(), values);
    }
  }

  // The number of elements whose derivative was compared; failures are reported.
  int compare(Rng& rng, const std::string& where) {
    const std::vector<Datum> all = run_reference(whole_.graph, inputs_);
    if (!std::isfinite(element_as_double(*all[0].tensor(), 0))) return 0;
    int compared = 0;
    for (std::size_t i = 0; i < wanted_.size(); ++i) {
      const Tensor& operand = *inputs_.at(graph_.value(wanted_[i]).name).tensor();
      const Tensor* gradient = result_.of[i].valid() ? all[position_[i]].tensor() : nullptr;
      if (gradient != nullptr) {
        EXPECT_EQ(gradient->dims(), operand.dims()) << where;
      }
      for (int pick = 0; pick < 4 && operand.size() > 0; ++pick) {
        const auto at = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(operand.size())));
        const double own = gradient != nullptr ? element_as_double(*gradient, at) : 0;
        compared += static_cast<int>(agrees(wanted_[i], at, own, where));
      }
    }
    return compared;
  }

 private:
  void build(Rng& rng) {
    GraphWriter writer(graph_, types_);
    std::vector<ValueId> outputs;
    for (const ValueId out : graph_.main().outputs) {
      if (!out.valid() || writer.type(out).dtype != DType::float64) continue;
      const std::vector<Datum> plain = run_reference(graph_, inputs_);
      const auto place = std::ranges::find(graph_.main().outputs, out) - graph_.main().outputs.begin();
      const Tensor* value = plain[static_cast<std::size_t>(place)].tensor();
      if (value == nullptr || value->size() == 0) continue;
      std::vector<double> weights(static_cast<std::size_t>(value->size()));
      for (double& w : weights) w = rng.uniform(0.5, 1.5);
      const ValueId factor = writer.constant(from_elements<double>(DType::float64, value->dims(), weights));
      Attrs attrs;
      attrs.set("keepdims", std::int64_t{0});
      const ValueId part = writer.add("ReduceSum", {writer.add("Mul", {out, factor})}, std::move(attrs));
      loss_ = loss_.valid() ? writer.add("Add", {loss_, part}) : part;
    }
    if (!loss_.valid() || wanted_.empty()) return;
    result_ = add_gradient(writer, loss_, wanted_);
    outputs = {loss_};
    for (const ValueId id : result_.of) {
      position_.push_back(outputs.size());
      if (id.valid()) outputs.push_back(id);
    }
    writer.set_outputs(outputs);
    whole_ = std::move(writer).finish();
  }

  double loss_at(ValueId id, std::int64_t at, double shift) {
    Inputs moved = inputs_;
    const Tensor& operand = *inputs_.at(graph_.value(id).name).tensor();
    std::vector<double> values = elements<double>(operand);
    values[static_cast<std::size_t>(at)] += shift;
    moved[graph_.value(id).name] = from_elements<double>(DType::float64, operand.dims(), values);
    return element_as_double(*run_reference(whole_.graph, moved)[0].tensor(), 0);
  }

  // Whether the function is smooth there and the derivative could be judged.
  bool agrees(ValueId id, std::int64_t at, double own, const std::string& where) {
    const double x = element_as_double(*inputs_.at(graph_.value(id).name).tensor(), at);
    // Differences of large numbers have no digits left.
    if (std::abs(x) > 1e3 || std::abs(loss_at(id, at, 0)) > 1e6) return false;
    const double h = 1e-5 * std::max(1.0, std::abs(x));
    const double wide = (loss_at(id, at, h) - loss_at(id, at, -h)) / (2 * h);
    const double narrow = (loss_at(id, at, h / 2) - loss_at(id, at, -h / 2)) / h;
    const double forward = (loss_at(id, at, h) - loss_at(id, at, 0)) / h;
    const double scale = 1 + std::abs(narrow);
    if (!(std::abs(wide - narrow) < 1e-6 * scale) || !(std::abs(forward - narrow) < 1e-3 * scale)) return false;
    EXPECT_NEAR(own, narrow, 2e-5 * scale) << where << ", '" << graph_.value(id).name << "' element " << at;
    return true;
  }

  Graph graph_;
  Types types_;
  std::vector<ValueId> wanted_;
  Inputs inputs_;
  ValueId loss_ = {};
  GradientResult result_;
  std::vector<std::size_t> position_;  // of each gradient among the outputs
  GraphWriter::Result whole_;
};

class Derivatives : public testing::TestWithParam<const OpDef*> {};

// Ops whose operands in the case files carry no float that a derivative could be taken of.
TEST_P(Derivatives, AreThoseOfTheFunction) {
  Rng rng(7);
  int compared = 0;
  std::map<std::string, std::string> stops;
  for (const OpCase& test : all_cases()) {
    if (!uses(test.graph, GetParam())) continue;
    for (int style = 0; style < 4; ++style) {
      const std::string where = test.name + ", style " + std::to_string(style);
      try {
        Trial trial(test, rng);
        if (!trial.usable()) continue;
        for (const GradientStop& stop : trial.stops()) {
          stops[describe(test.graph, test.graph.node(stop.node))] = stop.reason;
        }
        if (!trial.stops().empty()) continue;
        trial.draw(style, rng);
        compared += trial.compare(rng, where);
      } catch (const Unsupported&) {
      } catch (const Error& error) {
        // Operands drawn at random need not suit the op; its own case's operands do.
        if (std::string_view(error.what()).find("gradient") != std::string_view::npos)
          ADD_FAILURE() << where << ": " << error.what();
      }
    }
  }
  std::string reasons;
  for (const auto& [where, text] : stops) reasons += "\n  " + where + ": " + text;
  EXPECT_GT(compared, 0) << "no derivative was compared" << reasons;
}

// Differences are taken in float64.
bool takes_doubles(const OpDef& op) {
  return std::ranges::any_of(signature_of(op).inputs, [](const Param& param) {
    const bool anything = param.type.kind == Type::Kind::unknown;
    return anything || param.type.dtypes.test(static_cast<std::size_t>(DType::float64));
  });
}

std::vector<const OpDef*> differentiable() {
  std::vector<const OpDef*> result;
  for (const OpDef* op : all_ops()) {
    if (op->analysis.vjp != nullptr && op->analysis.vjp != flat && takes_doubles(*op)) result.push_back(op);
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(Ops, Derivatives, testing::ValuesIn(differentiable()), [](const auto& info) {
  std::string name(info.param->identity.domain);
  std::ranges::replace(name, '.', '_');
  return name + (name.empty() ? "" : "_") + std::string(info.param->identity.name);
});

// ---- ops that do not take float64 --------------------------------------------------

// The gradient of the sum of `y`, which is linear in the scale, so that it is a difference of two sums.
std::vector<double> slopes_by_scale(const std::string& operands, const std::string& attributes) {
  const Graph graph =
      parse_graph("opset 21\ngraph g (x_scale: " + operands.substr(0, operands.find('|')) + ") -> (total) {\n" +
                      operands.substr(operands.find('|') + 1) + "\n  y = DequantizeLinear(x, x_scale, zero) {" +
                      attributes + "}\n  total = ReduceSum(y) {keepdims = 0}\n}",
                  "test");
  const Types types = infer_types(graph);
  GraphWriter writer(graph, types);
  const ValueId scale = graph.main().inputs.front();
  const GradientResult gradient = add_gradient(writer, graph.main().outputs.front(), std::vector{scale});
  EXPECT_TRUE(gradient.stops.empty());
  writer.set_outputs({gradient.of.front()});
  const Type& type = types[scale];
  const Inputs inputs = {
      {"x_scale",
       from_elements<double>(type.dtype, *type.dims(),
                             std::vector<double>(static_cast<std::size_t>(element_count(*type.dims())), 0.5))}};
  return elements<double>(*run_reference(std::move(writer).finish().graph, inputs).front().tensor());
}

TEST(DerivativeOfDequantizeLinear, IsTheSumOfWhatTheScaleMultiplies) {
  EXPECT_EQ(slopes_by_scale("float32[]|  const x: int8[2, 3] = {1, 2, 3, 4, 5, 6}\n  const zero: int8[] = {1}", ""),
            (std::vector<double>{0 + 1 + 2 + 3 + 4 + 5}));
  EXPECT_EQ(slopes_by_scale("float32[2]|  const x: int8[2, 3] = {1, 2, 3, 4, 5, 6}\n  const zero: int8[2] = {0, 4}",
                            "axis = 0"),
            (std::vector<double>{6, 3}));
  // Blocks of two along the second axis, the last one with a single element.
  EXPECT_EQ(slopes_by_scale("float16[2, 2]|  const x: int8[2, 3] = {1, 2, 3, 4, 5, 6}\n"
                            "  const zero: int8[2, 2] = {0, 0, 0, 0}",
                            "axis = 1, block_size = 2"),
            (std::vector<double>{3, 3, 9, 6}));
}

// Of what is linear in each operand, on small whole numbers: the step of the sum when an element grows by one is exact.
TEST(DerivativeOfCausalConvWithState, IsWhatTheSumGrowsBy) {
  const Graph graph = parse_graph(R"(opset 27
graph g (x: float32[1, 2, 3], w: float32[2, 1, 3], b: float32[2], past: float32[1, 2, 2]) -> (total: float32[]) {
  const factors: float32[1, 2, 3] = {1, 2, 3, 4, 5, 6}
  y, state = CausalConvWithState(x, w, b, past)
  z = Mul(y, factors)
  all = ReduceSum(z) {keepdims = 0}
  kept = ReduceSum(state) {keepdims = 0}
  total = Add(all, kept)
})",
                                  "test");
  GraphWriter writer(graph, infer_types(graph));
  const std::vector<ValueId> operands = graph.main().inputs;
  const GradientResult gradient = add_gradient(writer, graph.main().outputs.front(), operands);
  ASSERT_TRUE(gradient.stops.empty());
  writer.set_outputs(gradient.of);
  Inputs inputs;
  double next = -3;
  for (const ValueId id : operands) {
    const Dims dims = *graph.value(id).type.dims();
    std::vector<double> values(static_cast<std::size_t>(element_count(dims)));
    for (double& value : values) value = next++;
    inputs[graph.value(id).name] = from_elements<double>(DType::float32, dims, values);
  }
  const std::vector<Datum> slopes = run_reference(std::move(writer).finish().graph, inputs);
  const auto total = [&](const Inputs& given) {
    return element_as_double(*run_reference(graph, given)[0].tensor(), 0);
  };
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const std::string& name = graph.value(operands[i]).name;
    const Tensor operand = *inputs.at(name).tensor();
    for (std::int64_t at = 0; at < operand.size(); ++at) {
      std::vector<double> values = elements<double>(operand);
      ++values[static_cast<std::size_t>(at)];
      Inputs moved = inputs;
      moved[name] = from_elements<double>(DType::float32, operand.dims(), values);
      EXPECT_EQ(element_as_double(*slopes[i].tensor(), at), total(moved) - total(inputs)) << name << " element " << at;
    }
  }
}

// ---- second derivatives --------------------------------------------------------------

// The critic of a generative network, whose training makes its slopes small: the slopes of that by the weights.
constexpr std::string_view kCritic = R"(opset 21
graph g (x: float64[1, 1, 4, 4], w: float64[2, 1, 2, 2]) -> (score: float64[]) {
  const grid: float64[1, 1, 2, 2] = {-0.3, 0.2, 0.4, -0.1}
  c = Conv(x, w)
  a = Tanh(c)
  largest = MaxPool(a) {kernel_shape = [2, 2]}
  mean = AveragePool(a) {kernel_shape = [2, 2], pads = [1, 0, 0, 1]}
  norm = LpPool(a) {kernel_shape = [2, 2], p = 3, strides = [2, 2], ceil_mode = 1}
  samples = GridSample(a, grid) {mode = "linear"}
  tallest = GlobalMaxPool(a)
  r1 = ReduceSum(largest) {keepdims = 0}
  r2 = ReduceSum(mean) {keepdims = 0}
  r3 = ReduceSum(norm) {keepdims = 0}
  r4 = ReduceSum(samples) {keepdims = 0}
  r5 = ReduceSum(tallest) {keepdims = 0}
  score = Sum(r1, r2, r3, r4, r5)
})";

TEST(SecondDerivatives, OfAGradientPenaltyAreThoseOfTheFunction) {
  const Graph graph = parse_graph(std::string(kCritic), "test");
  GraphWriter writer(graph, infer_types(graph));
  const ValueId x = graph.main().inputs[0], w = graph.main().inputs[1];
  const GradientResult first = add_gradient(writer, graph.main().outputs.front(), std::vector{x});
  ASSERT_TRUE(first.stops.empty());
  Attrs attrs;
  attrs.set("keepdims", std::int64_t{0});
  const ValueId penalty =
      writer.add("ReduceSum", {writer.add("Mul", {first.of.front(), first.of.front()})}, std::move(attrs));
  const GradientResult second = add_gradient(writer, penalty, std::vector{w});
  for (const GradientStop& stop : second.stops) ADD_FAILURE() << stop.reason;
  ASSERT_TRUE(second.of.front().valid());
  writer.set_outputs({penalty, second.of.front()});
  const Graph whole = std::move(writer).finish().graph;
  Rng rng(3);
  std::vector<double> image(16), weights(8);
  for (double& each : image) each = rng.uniform(-1, 1);
  for (double& each : weights) each = rng.uniform(-1, 1);
  const auto run = [&](const std::vector<double>& by) {
    return run_reference(whole, {{"x", from_elements<double>(DType::float64, {1, 1, 4, 4}, image)},
                                 {"w", from_elements<double>(DType::float64, {2, 1, 2, 2}, by)}});
  };
  const Tensor own = *run(weights)[1].tensor();
  for (std::size_t i = 0; i < weights.size(); ++i) {
    constexpr double kStep = 1e-6;
    std::vector<double> up = weights, down = weights;
    up[i] += kStep;
    down[i] -= kStep;
    const double rise = element_as_double(*run(up)[0].tensor(), 0) - element_as_double(*run(down)[0].tensor(), 0);
    EXPECT_NEAR(element_as_double(own, static_cast<std::int64_t>(i)), rise / (2 * kStep), 1e-5) << i;
  }
}

}  // namespace
}  // namespace finity

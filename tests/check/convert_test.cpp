#include "check/convert.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "check_support.h"
#include "conformance/conformance.h"
#include "exec/reference.h"
#include "formats/onnx/onnx.h"
#include "formats/text/text.h"
#include "graph/builder.h"
#include "ops/table/op.h"
#include "support/paths.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {
namespace {

struct Converted {
  Graph original;
  Conversion conversion;
  Types types;

  const Graph& graph() const { return conversion.graph; }
  const Value& value(std::string_view name) const {
    for (const Value& value : graph().values()) {
      if (value.name == name) return value;
    }
    throw Error("no value " + std::string(name));
  }
  DType dtype(std::string_view name) const {
    for (std::size_t i = 0; i < graph().values().size(); ++i) {
      if (graph().values()[i].name == name) return types.of[i].dtype;
    }
    throw Error("no value " + std::string(name));
  }
};

Converted convert(const std::string& text, DType target, const std::vector<std::string>& keep = {}) {
  Converted result{.original = parse_graph(text, "test"), .conversion = {}, .types = {}};
  NodeSet kept;
  for (std::size_t i = 0; i < result.original.nodes().size(); ++i) {
    const Node& node = result.original.nodes()[i];
    const bool wanted = std::ranges::find(keep, node.name) != keep.end();
    if (wanted) kept.insert({static_cast<std::int32_t>(i)});
  }
  result.conversion = convert_floats(result.original, infer_types(result.original), target, kept);
  result.types = infer_types(result.graph());
  return result;
}

constexpr const char* kSmall = R"(opset 17
  graph g (x: float32[2], d: float64[2], n: int64[2]) -> (y, z, i) {
    const w: float32[2] = {0.1, 1e-9}
    const m: float32[] = {-1e9}
    a = Mul(x, w) @ "mul"
    b = Add(a, m) @ "add"
    c = Constant() {value_float = 0.3} @ "constant"
    e = Exp(b) @ "exp"
    y = Div(e, c) @ "div"
    f = Cast(n) {to = 1} @ "cast"
    z = Mul(d, d) @ "double"
    i = Cast(f) {to = 7} @ "back"
  })";

TEST(Convert, EverythingBecomesTheTarget) {
  const Converted test = convert(kSmall, DType::float16);
  for (const char* name : {"x", "d", "w", "m", "a", "b", "c", "e", "y", "f", "z"}) {
    EXPECT_EQ(test.dtype(name), DType::float16) << name;
  }
  EXPECT_EQ(test.dtype("n"), DType::int64);
  EXPECT_EQ(test.dtype("i"), DType::int64);
  EXPECT_EQ(test.graph().nodes().size(), test.original.nodes().size()) << "no casts";
  EXPECT_EQ(test.graph().values().size(), test.original.values().size());
  for (std::size_t i = 0; i < test.original.nodes().size(); ++i) {
    EXPECT_EQ(test.graph().nodes()[i].name, test.original.nodes()[i].name);
    EXPECT_EQ(test.graph().nodes()[i].outputs, test.original.nodes()[i].outputs);
  }
  const std::vector<double> w = elements<double>(test.value("w").constant->load());
  EXPECT_EQ(w, (std::vector<double>{round_to(DType::float16, 0.1F), 0}));
  EXPECT_EQ(element_as_double(test.value("m").constant->load(), 0), -kInf);
  EXPECT_TRUE(test.conversion.kept.empty());
  EXPECT_TRUE(test.conversion.notes.empty());
}

TEST(Convert, KeptNodesKeepTheirFormatAndConstants) {
  const Converted test = convert(kSmall, DType::float16, {"add", "exp"});
  EXPECT_EQ(test.dtype("x"), DType::float16);
  EXPECT_EQ(test.dtype("a"), DType::float16);
  EXPECT_EQ(test.dtype("b"), DType::float32);
  EXPECT_EQ(test.dtype("e"), DType::float32);
  EXPECT_EQ(test.dtype("y"), DType::float16);
  EXPECT_EQ(test.dtype("m"), DType::float32) << "used by kept nodes only";
  EXPECT_EQ(element_as_double(test.value("m").constant->load(), 0), -1e9);
  EXPECT_EQ(test.dtype("a_float32"), DType::float32);
  EXPECT_EQ(test.dtype("e_float16"), DType::float16);
  EXPECT_EQ(test.graph().nodes().size(), test.original.nodes().size() + 2)
      << "one cast before, one after, none between";
  EXPECT_EQ(test.conversion.kept.size(), 2U);
}

TEST(Convert, ConstantsUsedByBothSidesExistTwice) {
  const char* text = R"(opset 17
    graph g (x: float32[2]) -> (y, z) {
      const eps: float32[] = {1e-9}
      c = Constant() {value = float32[] {1e-9}}
      p = Add(x, eps) @ "kept"
      q = Add(p, c) @ "kept2"
      z = Add(x, eps) @ "converted"
      y = Add(q, c) @ "converted2"
    })";
  const Converted test = convert(text, DType::float16, {"kept", "kept2"});
  EXPECT_EQ(test.dtype("eps"), DType::float32);
  EXPECT_EQ(element_as_double(test.value("eps").constant->load(), 0), 1e-9F);
  EXPECT_EQ(element_as_double(test.value("eps_float16").constant->load(), 0), 0);
  EXPECT_EQ(element_as_double(test.value("c_float32").constant->load(), 0), 1e-9F);
  EXPECT_EQ(test.dtype("y"), DType::float16);
}

TEST(Convert, OutputsOfKeptNodesAreNotCast) {
  const Converted test = convert(kSmall, DType::float16, {"div"});
  EXPECT_EQ(test.dtype("y"), DType::float32);
  EXPECT_EQ(test.graph().main().outputs, test.original.main().outputs);
}

TEST(Convert, ParametersThatMustBeFloat32Stay) {
  const char* text = R"(opset 17
    graph g (x: float32[1, 1, 2, 2], l: int64[3]) -> (y, q, s, h, r) {
      const scales: float32[4] = {1, 1, 1.0001, 2}
      y = Resize(x, _, scales)
      q, s, zp = DynamicQuantizeLinear(x)
      one = Constant() {value_int = 3}
      w = HannWindow(one)
      h = Cos(w)
      r = RandomNormal() {shape = [2]}
    })";
  const Converted test = convert(text, DType::float16);
  EXPECT_EQ(test.dtype("y"), DType::float16);
  EXPECT_EQ(test.dtype("scales"), DType::float32);
  EXPECT_EQ(test.dtype("s"), DType::float32);
  EXPECT_EQ(test.dtype("w"), DType::float16) << "the default of an attribute that names the dtype";
  EXPECT_EQ(test.dtype("r"), DType::float16);
}

TEST(Convert, OpsThatDoNotTakeTheTargetAreKept) {
  const char* text = R"(opset 17
    opset com.example 1
    graph g (x: float32[2, 2]) -> (y, z) {
      s = ai.onnx.ml.Scaler(x) {offset = [0.5], scale = [2.0]} @ "scaler"
      y = Relu(s) @ "relu"
      u: float32[2] = com.example.Thing(y) @ "thing"
      z = Exp(u) @ "exp"
    })";
  const Converted test = convert(text, DType::bfloat16);
  EXPECT_EQ(test.dtype("x"), DType::bfloat16);
  EXPECT_EQ(test.dtype("s"), DType::float32);
  EXPECT_EQ(test.dtype("y"), DType::bfloat16);
  EXPECT_EQ(test.dtype("u"), DType::float32);
  EXPECT_EQ(test.dtype("z"), DType::bfloat16);
  EXPECT_EQ(test.conversion.notes.size(), 1U) << "the op that is not modelled";
}

constexpr const char* kLoop = R"(opset 17
  graph g (x: float32[2], c: bool[]) -> (y, v) {
    const trip: int64[] = {3}
    const go: bool[] = {true}
    y = Loop(trip, go, x) {
      body = graph b (i: int64[], k: bool[], state: float32[2]) -> (k2, next) {
        k2 = Identity(k)
        const step: float32[] = {0.1}
        t = Mul(state, step) @ "inside"
        next = Add(t, x) @ "inside2"
      }
    } @ "loop"
    v = If(c) {
      then_branch = graph p () -> (r) { r = Exp(y) @ "branch" },
      else_branch = graph n () -> (y) { }
    } @ "if"
  })";

TEST(Convert, Subgraphs) {
  Converted test = convert(kLoop, DType::float16);
  for (const char* name : {"x", "state", "step", "t", "next", "y", "r", "v"}) {
    EXPECT_EQ(test.dtype(name), DType::float16) << name;
  }
  test = convert(kLoop, DType::float16, {"inside", "branch"});
  EXPECT_EQ(test.dtype("t"), DType::float32);
  EXPECT_EQ(test.dtype("next"), DType::float16);
  EXPECT_EQ(test.dtype("y"), DType::float16);
  EXPECT_EQ(test.dtype("v"), DType::float16);
  EXPECT_EQ(test.dtype("step"), DType::float32);
  test = convert(kLoop, DType::float16, {"loop"});
  for (const char* name : {"state", "step", "t", "next", "y"}) EXPECT_EQ(test.dtype(name), DType::float32) << name;
  EXPECT_EQ(test.dtype("v"), DType::float16);
}

TEST(Convert, ToWiderFormatsToo) {
  const Converted test = convert(kSmall, DType::float64);
  EXPECT_EQ(test.dtype("y"), DType::float64);
  EXPECT_EQ(element_as_double(test.value("w").constant->load(), 0), static_cast<double>(0.1F));
  const Converted single = convert(kSmall, DType::float32);
  EXPECT_EQ(single.dtype("z"), DType::float32);
}

TEST(RoundedConstant, IsTheNearestValue) {
  Rng rng(1);
  std::vector<float> values = {0,        -0.0F,    1,       65504,    65519,     65520, 1e9F,    -1e9F, 6e-8F,
                               2.98e-8F, 2.99e-8F, 6.1e-5F, INFINITY, -INFINITY, NAN,   3.4e38F, 1e-40F};
  for (int i = 0; i < 20000; ++i) {
    values.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(rng.bits())));
    values.push_back(static_cast<float>(rng.uniform(-70000, 70000)));
    values.push_back(static_cast<float>(rng.normal() * 1e-5));
  }
  const auto count = static_cast<std::int64_t>(values.size());
  const ConstantPtr source = make_constant(Tensor::of<float>(DType::float32, {count}, values));
  for (const DType target : {DType::float16, DType::bfloat16, DType::float64, DType::float8e4m3fn}) {
    const Tensor rounded = rounded_constant(source, target)->load();
    ASSERT_EQ(rounded.dtype(), target);
    const std::vector<double> actual = elements<double>(rounded);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double expected = round_to(target, values[i]);
      ASSERT_TRUE(actual[i] == expected || (std::isnan(actual[i]) && std::isnan(expected)))
          << values[i] << " in " << name(target) << ": " << actual[i];
      ASSERT_TRUE(std::isnan(expected) || std::signbit(actual[i]) == std::signbit(expected)) << values[i];
    }
  }
  EXPECT_EQ(rounded_constant(source, DType::float32), source);
}

// ---- all official models ---------------------------------------------------

DType expected_dtype(const Type& original, DType target) {
  return original.is_tensor() && is_converted(original.dtype, target) ? target : original.dtype;
}

void check_official(const std::string& test, DType target, int& converted) {
  std::vector<Note> notes;
  const Graph graph = read_onnx(onnx_testdata_folder() + "/" + test + "/model.onnx", notes);
  Types types;
  try {
    types = infer_types(graph);
  } catch (const Error&) {
    return;  // not a model that can be typed as it is
  }
  const Conversion conversion = convert_floats(graph, types, target);
  const Types after = infer_types(conversion.graph);
  for (const ValueId id : graph.main().inputs) {
    EXPECT_EQ(after[id].dtype, expected_dtype(types[id], target)) << test << " " << graph.value(id).name;
  }
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    EXPECT_EQ(conversion.graph.nodes()[i].op, graph.nodes()[i].op);
    EXPECT_EQ(conversion.graph.nodes()[i].name, graph.nodes()[i].name);
  }
  if (conversion.kept.empty()) ++converted;
  NodeSet all;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) all.insert({static_cast<std::int32_t>(i)});
  const Conversion kept = convert_floats(graph, types, target, all);
  const Types mixed = infer_types(kept.graph);
  for (const NodeId id : graph.main().nodes) {
    for (const ValueId out : graph.node(id).outputs) {
      if (!out.valid()) continue;
      EXPECT_EQ(mixed[out].dtype, types[out].dtype) << test;
    }
  }
}

TEST(Convert, AllOfficialModelsStayWellTyped) {
  if (!std::filesystem::exists(onnx_testdata_folder() + "/node")) GTEST_SKIP() << "no official tests here";
  for (const DType target : {DType::float16, DType::bfloat16, DType::float64}) {
    int converted = 0;
    int total = 0;
    for (const std::string& test : official_tests(onnx_testdata_folder())) {
      try {
        ++total;
        check_official(test, target, converted);
      } catch (const Error& error) {
        ADD_FAILURE() << test << " as " << name(target) << ": " << error.what();
      }
    }
    EXPECT_GT(total, 900);
    EXPECT_GT(converted, 800) << "as " << name(target);
  }
}

TEST(Convert, NodesThatNothingLeadsToKeepTheirIds) {
  const Graph whole =
      parse_graph("opset 17\ngraph g (x: float32[2]) -> (y, z) {\n  z = Exp(x)\n  y = Abs(x)\n}\n", "g");
  GraphBuilder builder(whole);
  std::erase_if(builder.body(Graph::kMain).outputs, [&](ValueId id) { return whole.value(id).name == "z"; });
  builder.drop_unneeded();
  const Graph graph = std::move(builder).build();
  const Conversion conversion = convert_floats(graph, infer_types(graph), DType::float16);
  for (const NodeId id : graph.main().nodes) {
    EXPECT_EQ(conversion.graph.node(id).op_type, graph.node(id).op_type);
  }
}

}  // namespace
}  // namespace finity

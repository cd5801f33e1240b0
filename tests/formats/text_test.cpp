// The text form: what is printed parses back into the same graph.
#include "formats/text/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "formats/text/cases.h"
#include "graph/builder.h"
#include "support/paths.h"
#include "support/support.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {
namespace {

// Already in canonical form: printing what was parsed gives it back.
void expect_canonical(const std::string& text) {
  EXPECT_EQ(print_graph(parse_graph(text, "test"), {.max_elements = -1}), text);
}

void expect_canonical_statement(const std::string& statement) {
  expect_canonical("opset 17\ngraph g (x, y) -> (x) {\n  " + statement + "\n}\n");
}

std::string canonical(const std::string& text) { return print_graph(parse_graph(text, "test")); }

TEST(TextForm, SmallestGraph) {
  expect_canonical("graph () -> () {\n}\n");
  EXPECT_EQ(canonical("graph()->(){}"), "graph () -> () {\n}\n");
}

TEST(TextForm, ModelInfo) {
  const std::string text =
      "model {ir_version = 8, producer_name = \"py\", producer_version = \"2\", domain = \"d\", model_version = -3, "
      "doc = \"two\\nlines\", metadata = {\"k\": \"v\", \"k\": \"\"}}\n"
      "opset 17\nopset com.microsoft 1\nopset \"odd domain\" 3\ngraph g () -> () {\n}\n";
  expect_canonical(text);
  const Graph graph = parse_graph(text, "file.txt");
  EXPECT_EQ(graph.info().file, "file.txt");
  EXPECT_EQ(graph.info().ir_version, 8);
  EXPECT_EQ(graph.info().model_version, -3);
  EXPECT_EQ(graph.info().doc, "two\nlines");
  EXPECT_EQ(graph.info().metadata.size(), 2u);
  EXPECT_EQ(graph.info().opsets.at("com.microsoft"), 1);
}

TEST(TextForm, DefaultDomainHasThreeSpellings) {
  for (const char* opset : {"opset 17", "opset \"\" 17", "opset ai.onnx 17"}) {
    EXPECT_EQ(canonical(std::string(opset) + " graph (x) -> (y) { y = ai.onnx.Relu(x) }"),
              "opset 17\ngraph (x) -> (y) {\n  y = Relu(x)\n}\n");
  }
}

TEST(TextForm, InputsOutputsAndTypes) {
  expect_canonical(
      "graph g (a: float32[2, ?, N, \"N + 1\", \"2\"], b: ?[2], c: float16[...], d: ?[...]) -> (a, a) {\n}\n");
  expect_canonical("graph g (a: sequence(float32[...]), b: optional(?), c: map(int64, string[])) -> () {\n}\n");
  expect_canonical("graph g (a: sparse float32[3], b: sequence(sequence(optional(int4[])))) -> () {\n}\n");
  expect_canonical("graph g (a: int64[], b: float32[2] = {1, 2}, c: float32[N] = float32[2] {1, 2}) -> (b) {\n}\n");
}

TEST(TextForm, LongListsTakeALinePerItem) {
  std::string names;
  for (int i = 0; i < 20; ++i) names += (i == 0 ? "" : ",\n  ") + std::string("input") + std::to_string(i);
  expect_canonical("graph g (\n  " + names + "\n) -> (\n  " + names + "\n) {\n}\n");
}

TEST(TextForm, TypeOfAnOutputStandsInTheHeader) {
  const std::string text = "opset 17\ngraph (x) -> (y: float32[N], x) {\n  h: float32[2] = Relu(x)\n  y = Relu(h)\n}\n";
  expect_canonical(text);
  const Graph graph = parse_graph(text, "test");
  EXPECT_EQ(to_string(graph, graph.value(graph.main().outputs[0]).type), "float32[N]");
  EXPECT_EQ(canonical("opset 17 graph (x) -> (y: float32[2]) { y: float32[2] = Relu(x) }"),
            "opset 17\ngraph (x) -> (y: float32[2]) {\n  y = Relu(x)\n}\n");
}

TEST(TextForm, GraphDocAndMetadata) { expect_canonical("graph g () -> () doc \"about\" meta {\"a\": \"b\"} {\n}\n"); }

TEST(TextForm, NamesOfAnyBytes) {
  expect_canonical(
      "opset 17\ngraph \"a b\" (\"1\", \"_\", \"const\", \"x:0\", /a/b.c, \"a//b\", \"a/\", "
      "\"\\x00\\xff\\n\\t\\\"\\\\\", \"é\", "
      "\"\\xc2\\x85\") -> () {\n}\n");
  const Graph graph = parse_graph("graph (\"\\x00\\xfF\") -> () {}", "test");
  EXPECT_EQ(graph.value(graph.main().inputs[0]).name, std::string("\0\xff", 2));
}

TEST(TextForm, ReservedWordsAreQuoted) {
  for (const char* word : {"_", "const", "doc", "meta", "from", "overload", "case", "opset", "expect", "error"}) {
    expect_canonical_statement("\"" + std::string(word) + "\" = Relu(x)");
  }
  expect_canonical_statement("graph = Relu(x)");
  expect_canonical_statement("float32 = Relu(x)");
}

TEST(TextForm, Nodes) {
  expect_canonical_statement("a, b: int64[2] = TopK(x, y) @ \"top k\"");
  expect_canonical_statement("a, _, _ = Split(x, _, y, _)");
  expect_canonical_statement("() = Print(x)");
  expect_canonical_statement("a = Now()");
  expect_canonical_statement("a = Softmax:11(x)");
  expect_canonical_statement("a = com.microsoft.FusedMatMul(x)");
  expect_canonical_statement("a = com.microsoft.FusedMatMul:2(x)");
  expect_canonical_statement("a = ai.onnx.ml.Scaler(x)");
  expect_canonical_statement("a = \"aten.add\"(x)");
  expect_canonical_statement("a = \"my ops\".\"aten.add\":0(x)");
  expect_canonical_statement(
      "a = Relu(x) @ \"n\" doc \"d\" meta {\"k\": \"v\"} overload \"o\" from [\"f (F)\", \"g\"]");
  expect_canonical("graph (x) -> () {\n  a = Relu:0(x)\n}\n");
}

TEST(TextForm, NodeFields) {
  const Graph graph = parse_graph("opset 17 graph (x) -> (y) { y = d.e.Op:3(x) @ n doc \"D\" from [\"c\"] }", "test");
  const Node& node = graph.nodes()[0];
  EXPECT_EQ(node.domain, "d.e");
  EXPECT_EQ(node.op_type, "Op");
  EXPECT_EQ(node.version, 3);
  EXPECT_EQ(node.name, "n");
  EXPECT_EQ(node.where.offset, 28u);
  ASSERT_TRUE(node.where.origin);
  EXPECT_EQ(node.where.origin->doc, "D");
  EXPECT_EQ(node.where.origin->calls, std::vector<std::string>{"c"});
}

TEST(TextForm, Attributes) {
  expect_canonical_statement(
      "a = Op(x) {i = 3, n = -9223372036854775808, f = 1.0, g = 1e-05, h = -inf, k = nan, l = -0.0}");
  expect_canonical_statement("a = Op(x) {s = \"a \\\"b\\\"\\x00\", \"odd name\" = \"\"}");
  expect_canonical_statement("a = Op(x) {t = float32[2] {1, 2}, u = sparse int8[1] {3}, v = string[0] {}}");
  expect_canonical_statement("a = Op(x) {t = type(float32[N]), u = type(?), v = [type(sequence(?))]}");
  expect_canonical_statement("a = Op(x) {a = [1, 2], b = [1.0, inf], c = [\"a\"], d = [float32[1] {1}, int4[] {-8}]}");
  expect_canonical_statement(
      "a = Op(x) {a = ints [], b = floats [], c = strings [], d = tensors [], e = graphs [], f = types []}");
}

TEST(TextForm, ListKindMayBeSpelled) {
  const Graph graph = parse_graph("opset 1 graph () -> () { () = Op() {a = floats [1, 2], b = [1.0, 2]} }", "test");
  const Attrs& attrs = graph.nodes()[0].attrs;
  EXPECT_EQ(std::get<std::vector<float>>(*attrs.find("a")), (std::vector<float>{1, 2}));
  EXPECT_EQ(std::get<std::vector<float>>(*attrs.find("b")), (std::vector<float>{1, 2}));
}

constexpr const char* kNested = R"(opset 17
graph main (c: bool[], x: float32[2]) -> (z) {
  z = If(c) {
    then_branch = graph g1 () -> (p) {
      p = If(c) {
        then_branch = graph () -> (q) {
          q = Relu(h)
        },
        else_branch = graph () -> (x) {
        }
      }
    },
    else_branch = graph g2 (i) -> (p: float32[2]) doc "d" {
      const k: float32[] = {1}
      p = Add(x, k)
    }
  } @ "If_3"
  list = Op() {
    bodies = [graph a () -> () {
    }, graph b () -> () {
    }]
  }
}
)";

TEST(TextForm, Subgraphs) {
  std::string text = kNested;
  text.insert(text.find("  z = If"), "  h = Relu(x)\n");
  expect_canonical(text);
  const Graph graph = parse_graph(text, "test");
  const Node& branch = graph.node(graph.value(graph.main().outputs[0]).producer);
  EXPECT_EQ(branch.captures.size(), 3u);
  EXPECT_EQ(bodies_of(branch.attrs).size(), 2u);
}

TEST(TextForm, ValuesMayBeUsedBeforeTheyAreProduced) {
  std::string text = kNested;
  text.insert(text.find("  list = "), "  h = Relu(x)\n");
  std::string ordered = kNested;
  ordered.insert(ordered.find("  z = If"), "  h = Relu(x)\n");
  EXPECT_EQ(canonical(text), ordered);
}

TEST(TextForm, InnerNamesHideOuterOnes) {
  const std::string text =
      "opset 17\ngraph (c, x) -> (y) {\n  y = If(c) {\n    then_branch = graph () -> (x) {\n      x = One()\n    },\n"
      "    else_branch = graph () -> (x) {\n    }\n  }\n}\n";
  expect_canonical(text);
  const Graph graph = parse_graph(text, "test");
  const ValueId outer = graph.main().inputs[1];
  EXPECT_NE(graph.bodies()[1].outputs[0], outer);
  EXPECT_EQ(graph.bodies()[2].outputs[0], outer);
}

TEST(TextForm, DeepestNesting) {
  std::string open;
  std::string close;
  for (int i = 0; i < 63; ++i) {
    open += "a = Op() {b = graph () -> () {";
    close += "}}";
  }
  const std::string text = "opset 1 graph () -> () {" + open + close + "}";
  EXPECT_EQ(canonical(canonical(text)), canonical(text));
}

TEST(TextForm, Constants) {
  expect_canonical_statement("const w: float32[2, 2] = {1, 2.5, -0, 1e-45}");
  expect_canonical_statement("const w: float32[] = {3.4028235e+38}");
  expect_canonical_statement("const w: float32[0, 1000000000] = {}");
  expect_canonical_statement("const w: float32[N] = float32[1] {1}");
  expect_canonical_statement("const w: sparse float32[1] = sparse float32[1] {1}");
  expect_canonical_statement("const w: float32[2] = sparse {0, 1}");
  expect_canonical_statement("const w: float32[1000000] = {...}");
  expect_canonical_statement("const w: float32[2] = sparse {...}");
  expect_canonical_statement("const w: float32[2] = {... \"weights.bin is not there\"}");
  expect_canonical_statement("const w: ?[2] = {...}");
  EXPECT_EQ(canonical("graph () -> () { const w = int8[1] {1} }"), "graph () -> () {\n  const w: int8[1] = {1}\n}\n");
}

TEST(TextForm, ElementsOfEveryDtype) {
  const std::vector<std::string> tensors = {
      "float32[6] {1, 0.1, -0, inf, -inf, nan}",
      "uint8[2] {0, 255}",
      "int8[2] {-128, 127}",
      "uint16[1] {65535}",
      "int16[1] {-32768}",
      "int32[1] {-2147483648}",
      "int64[2] {-9223372036854775808, 9223372036854775807}",
      "string[3] {\"\", \"a, b\", \"\\xff\\x00\\n\"}",
      "bool[2] {true, false}",
      "float16[5] {65504, 0.099975586, 5.9604645e-08, -inf, nan}",
      "float64[3] {0.1, 5e-324, 1.7976931348623157e+308}",
      "uint32[1] {4294967295}",
      "uint64[1] {18446744073709551615}",
      "complex64[2] {(1, -0), (nan, 0.1)}",
      "complex128[1] {(0.1, inf)}",
      "bfloat16[2] {3.3895314e+38, -1}",
      "float8e4m3fn[3] {448, nan, -0}",
      "float8e4m3fnuz[2] {240, nan}",
      "float8e5m2[2] {57344, inf}",
      "float8e5m2fnuz[1] {0.25}",
      "uint4[2] {0, 15}",
      "int4[2] {-8, 7}",
      "float4e2m1[2] {6, -0.5}",
      "float8e8m0[3] {5.877472e-39, 1.7014118e+38, nan}",
      "uint2[1] {3}",
      "int2[2] {-2, 1}",
  };
  ASSERT_EQ(tensors.size(), static_cast<std::size_t>(kDTypeCount - 1));
  for (const std::string& text : tensors) {
    EXPECT_EQ(print_tensor(parse_tensor(text)), text);
  }
}

TEST(TextForm, EveryFloat16AndFloat8ReadsBack) {
  for (const DType dtype : {DType::float16, DType::bfloat16, DType::float8e4m3fn, DType::float8e4m3fnuz,
                            DType::float8e5m2, DType::float8e5m2fnuz, DType::float8e8m0, DType::float4e2m1}) {
    std::vector<double> values;
    for (std::uint32_t bits = 0; bits < (1u << info(dtype).bits); ++bits) values.push_back(decode_float(dtype, bits));
    const Tensor tensor = from_elements<double>(dtype, {static_cast<std::int64_t>(values.size())}, values);
    const std::vector<double> again = elements<double>(parse_tensor(print_tensor(tensor)));
    ASSERT_EQ(again.size(), values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const bool same = std::memcmp(&again[i], &values[i], sizeof(double)) == 0;
      EXPECT_TRUE(same || (std::isnan(again[i]) && std::isnan(values[i]))) << name(dtype) << " " << i;
    }
  }
}

TEST(TextForm, TinyNumbersRoundToZeroAndDecimalsToTheNearest) {
  EXPECT_EQ(print_tensor(parse_tensor("float32[3] {1e-60, -1e-60, 16777217}")), "float32[3] {0, -0, 16777216}");
  EXPECT_EQ(print_tensor(parse_tensor("float16[2] {65519, 1e-30}")), "float16[2] {65504, 0}");
}

TEST(TextForm, LargeConstantsAreElided) {
  const std::string text = "opset 17 graph () -> () { const w: int8[3] = {1, 2, 3} a = Op() {t = int8[3] {1, 2, 3}} }";
  const Graph graph = parse_graph(text, "test");
  const std::string elided = print_graph(graph, {.max_elements = 2});
  EXPECT_EQ(elided, "opset 17\ngraph () -> () {\n  const w: int8[3] = {...}\n  a = Op() {t = int8[3] {...}}\n}\n");
  const Graph again = parse_graph(elided, "test");
  const Constant& constant = *again.value(again.main().constants[0]).constant;
  EXPECT_EQ(constant.missing(), "elements were elided in the text form");
  EXPECT_EQ(constant.dims(), Dims{3});
  EXPECT_EQ(print_graph(again), elided);
  EXPECT_NE(print_graph(graph, {.max_elements = 3}).find("{1, 2, 3}"), std::string::npos);
}

TEST(TextForm, SparseConstantsStaySparse) {
  const Graph graph = parse_graph("graph () -> () { const w: int8[2] = sparse {0, 3} }", "test");
  const Constant& constant = *graph.value(graph.main().constants[0]).constant;
  EXPECT_TRUE(constant.sparse());
  EXPECT_EQ(print_tensor(constant.load()), "int8[2] {0, 3}");
}

TEST(TextForm, DefaultsOfInputsAreConstantsToo) {
  const Graph graph = parse_graph("graph (w: int8[1] = {5}) -> (w) {}", "test");
  EXPECT_EQ(graph.main().inputs, graph.main().constants);
}

TEST(TextForm, ConstantThatCannotBeLoadedSaysWhy) {
  class Broken final : public Constant {
   public:
    Broken() : Constant(DType::int8, {2}) {}
    Tensor load() const override { throw Error("too few bytes"); }
  };
  GraphBuilder builder;
  builder.add_constant(builder.add_body("g"), "w", std::make_shared<const Broken>());
  EXPECT_EQ(print_graph(std::move(builder).build()),
            "graph g () -> () {\n  const w: int8[2] = {... \"too few bytes\"}\n}\n");
}

Node relu(GraphBuilder& builder, BodyId body, ValueId in, ValueId out) {
  Node node;
  node.op_type = builder.intern("Relu");
  node.domain = builder.intern("");
  node.version = 17;
  node.body = body;
  node.inputs = {in};
  node.outputs = {out};
  return node;
}

// Two values named x and two without a name in one body; ids keep them apart, the text needs names.
TEST(TextForm, NamesThatClashAreReplaced) {
  GraphBuilder builder;
  builder.info().opsets[""] = 17;
  const BodyId body = builder.add_body("g");
  const ValueId first = builder.add_input(body, "x", {});
  const ValueId unnamed = builder.add_value(body, "");
  const ValueId second = builder.add_value(body, "x");
  builder.add_node(relu(builder, body, first, unnamed));
  builder.add_node(relu(builder, body, unnamed, second));
  builder.add_output(body, second);
  const std::string text = "opset 17\ngraph g (x) -> (x.2) {\n  value.1 = Relu(x)\n  x.2 = Relu(value.1)\n}\n";
  EXPECT_EQ(print_graph(std::move(builder).build()), text);
  expect_canonical(text);
}

// The branch uses the outer x while it has an x of its own.
TEST(TextForm, HiddenCaptureIsRenamed) {
  GraphBuilder builder;
  builder.info().opsets[""] = 17;
  const BodyId main = builder.add_body("g");
  const ValueId outer = builder.add_input(main, "x", {});
  const BodyId inner = builder.add_body("b");
  const ValueId hiding = builder.add_value(inner, "x");
  builder.add_node(relu(builder, inner, outer, hiding));
  builder.add_output(inner, hiding);
  Node owner = relu(builder, main, outer, builder.add_value(main, "y"));
  owner.attrs.set("body", inner);
  builder.add_node(std::move(owner));
  const std::string text =
      "opset 17\ngraph g (x.0) -> () {\n  y = Relu(x.0) {\n    body = graph b () -> (x) {\n      x = Relu(x.0)\n    "
      "}\n  }\n}\n";
  EXPECT_EQ(print_graph(std::move(builder).build()), text);
  expect_canonical(text);
}

// The first block of the documentation is a graph, the third a file of cases.
TEST(TextForm, DocumentedExamples) {
  const std::string doc = read_text_file(testdata_folder() + "/../docs/text-form.md");
  std::vector<std::string> blocks;
  constexpr std::string_view kFence = "```\n";
  for (std::size_t end = 0, start = doc.find(kFence); start != std::string::npos; start = doc.find(kFence, end)) {
    start += kFence.size();
    end = doc.find(kFence, start);
    ASSERT_NE(end, std::string::npos);
    blocks.push_back(doc.substr(start, end - start));
    end += kFence.size();
  }
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(canonical(blocks[0]), blocks[0]);
  EXPECT_EQ(parse_cases(blocks[2], "doc").size(), 3u);
}

TEST(TextForm, Recognition) {
  const auto recognised = [](std::string_view head) { return looks_like_text(std::as_bytes(std::span(head))); };
  for (const char* head :
       {"graph g (", "graph(", "graph \"a b\" (", "opset 17", "model {", " \n// note", "\n\nmodel{"}) {
    EXPECT_TRUE(recognised(head)) << head;
  }
  for (const char* head :
       {"", " ", "graph {", "graph: {", "graph", "opset_import {", "ir_version: 8", "\x08\x08", "node {"}) {
    EXPECT_FALSE(recognised(head)) << head;
  }
}

}  // namespace
}  // namespace finity

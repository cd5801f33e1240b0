// Named dimensions survive the ways in which models compute shapes.
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "base/error.h"
#include "formats/text/text.h"
#include "graph/builder.h"
#include "types/infer.h"

namespace finity {
namespace {

struct ShapeCase {
  const char* name;
  const char* nodes;  // read x: float32[N, S, 768] and produce y
  const char* type;   // of y
};

std::ostream& operator<<(std::ostream& out, const ShapeCase& test) { return out << test.name; }

constexpr ShapeCase kCases[] = {
    {"heads_split", R"(
       s = Shape(x)
       const zero: int64[] = {0}
       const one: int64[] = {1}
       const front: int64[1] = {0}
       const heads: int64[2] = {12, 64}
       n = Gather(s, zero)
       l = Gather(s, one)
       nv = Unsqueeze(n, front)
       lv = Unsqueeze(l, front)
       t = Concat(nv, lv, heads) {axis = 0}
       r = Reshape(x, t)
       y = Transpose(r) {perm = [0, 2, 1, 3]})",
     "float32[N, 12, S, 64]"},
    {"heads_joined", R"(
       const split: int64[4] = {0, 0, 12, 64}
       h = Reshape(x, split)
       n = Shape(h) {start = 0, end = 1}
       const rest: int64[2] = {-1, 768}
       t = Concat(n, rest) {axis = 0}
       y = Reshape(h, t))",
     "float32[N, S, 768]"},
    {"slice_of_a_shape", R"(
       s = Shape(x)
       const a: int64[1] = {1}
       const b: int64[1] = {2}
       d = Slice(s, a, b)
       const three: int64[1] = {3}
       t = Concat(d, three) {axis = 0}
       y = ConstantOfShape(t))",
     "float32[S, 3]"},
    {"backward_slice_of_a_shape", R"(
       s = Shape(x)
       const a: int64[1] = {-1}
       const b: int64[1] = {-9223372036854775807}
       const step: int64[1] = {-1}
       const axis: int64[1] = {0}
       d = Slice(s, a, b, axis, step)
       y = ConstantOfShape(d))",
     "float32[768, S, N]"},
    {"split_of_a_shape", R"(
       s = Shape(x)
       n, l, c = Split(s) {axis = 0}
       t = Concat(c, n) {axis = 0}
       y = ConstantOfShape(t))",
     "float32[768, N]"},
    {"positions", R"(
       l = Shape(x) {start = 1, end = 2}
       none = Squeeze(l)
       const zero: int64[] = {0}
       const one: int64[] = {1}
       p = Range(zero, none, one)
       n = Shape(x) {start = 0, end = 2}
       y = Expand(p, n))",
     "int64[N, S]"},
    {"identity_and_reshape_of_a_size", R"(
       l = Shape(x) {start = 1, end = 2}
       i = Identity(l)
       const scalar: int64[0] = {}
       r = Reshape(i, scalar)
       const front: int64[1] = {0}
       v = Unsqueeze(r, front)
       y = ConstantOfShape(v))",
     "float32[S]"},
    {"repeated_size", R"(
       l = Shape(x) {start = 1, end = 2}
       const two: int64[1] = {2}
       t = Expand(l, two)
       y = ConstantOfShape(t))",
     "float32[S, S]"},
    {"minus_one_of_an_unknown_size", R"(
       f = Flatten(x) {axis = 1}
       const u: int64[3] = {0, -1, 768}
       y = Reshape(f, u))",
     "float32[N, ?, 768]"},
    {"minus_one_of_two_symbols", R"(
       const t: int64[2] = {-1, 768}
       y = Reshape(x, t))",
     "float32[?, 768]"},
    {"known_sizes_are_numbers", R"(
       c = Shape(x) {start = 2}
       const more: int64[1] = {-1}
       t = Concat(more, c) {axis = 0}
       y = Reshape(x, t))",
     "float32[?, 768]"},
    {"slice_keeps_what_it_takes_whole", R"(
       const a: int64[2] = {0, 1}
       const b: int64[2] = {9223372036854775807, 3}
       const axes: int64[2] = {1, 2}
       y = Slice(x, a, b, axes))",
     "float32[N, S, 2]"},
    {"slice_up_to_its_own_size", R"(
       e = Shape(x) {start = 1, end = 2}
       const a: int64[1] = {0}
       const axes: int64[1] = {1}
       y = Slice(x, a, e, axes))",
     "float32[N, S, 768]"},
    {"slice_of_unknown_bounds", R"(
       const a: int64[1] = {1}
       const b: int64[1] = {2}
       const axes: int64[1] = {1}
       y = Slice(x, a, b, axes))",
     "float32[N, ?, 768]"},
    {"pad_keeps_other_axes", R"(
       const pads: int64[6] = {0, 0, 1, 0, 0, 1}
       y = Pad(x, pads))",
     "float32[N, S, 770]"},
    {"tile_once", R"(
       const repeats: int64[3] = {1, 1, 2}
       y = Tile(x, repeats))",
     "float32[N, S, 1536]"},
    {"tile_to_a_symbol", R"(
       n = Shape(x) {start = 0, end = 1}
       v = Constant() {value_floats = [1.0]}
       y = Tile(v, n))",
     "float32[N]"},
    {"concat_on_a_known_axis", "y = Concat(x, x) {axis = -1}", "float32[N, S, 1536]"},
    {"concat_on_a_symbolic_axis", "y = Concat(x, x) {axis = 1}", "float32[N, ?, 768]"},
    {"split_in_parts", "y, z = Split(x) {axis = 2}", "float32[N, S, 384]"},
    {"gather_keeps_axes", R"(
       const i: int64[] = {0}
       y = Gather(x, i) {axis = 1})",
     "float32[N, 768]"},
    {"flatten_next_to_one", R"(
       const t: int64[1] = {1}
       u = Unsqueeze(x, t)
       const i: int64[] = {0}
       g = Gather(u, i) {axis = 2}
       y = Flatten(g) {axis = 2})",
     "float32[N, 768]"},
    {"resize_one_axis", R"(
       const scales: float32[3] = {1, 1, 2}
       y = Resize(x, _, scales))",
     "float32[N, S, 1536]"},
    {"resize_to_a_symbol", R"(
       s = Shape(x) {end = 2}
       const c: int64[1] = {4}
       t = Concat(s, c) {axis = 0}
       y = Resize(x, _, _, t))",
     "float32[N, S, 4]"},
    {"one_hot_of_a_symbol", R"(
       l = Shape(x) {start = 1, end = 2}
       const i: int64[2] = {0, 1}
       const v: float32[2] = {0, 1}
       y = OneHot(i, l, v))",
     "float32[2, S]"},
    {"unknown_axes_keep_the_rank", R"(
       const s: int64[] = {0}
       z = NonZero(x)
       a = Gather(z, s) {axis = 0}
       y = Tile(x, a))",
     "float32[?, ?, ?]"},
};

class SymbolicShapes : public testing::TestWithParam<ShapeCase> {};

TEST_P(SymbolicShapes, Survive) {
  const std::string text =
      "opset 18\ngraph g (x: float32[N, S, 768]) -> (y) {\n" + std::string(GetParam().nodes) + "\n}\n";
  const Graph graph = parse_graph(text, GetParam().name);
  const Types types = infer_types(graph);
  EXPECT_EQ(to_string(graph, types[graph.main().outputs[0]]), GetParam().type);
}

INSTANTIATE_TEST_SUITE_P(Rules, SymbolicShapes, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

// Also along an axis whose size is not known and with bounds that leave nothing out.
TEST(SymbolicSlices, OfStepZeroAreRefused) {
  const Graph graph = parse_graph(R"(opset 18
graph g (x: float32[N]) -> (y) {
  const a: int64[1] = {-1}
  const b: int64[1] = {-9223372036854775807}
  const step: int64[1] = {0}
  const axis: int64[1] = {0}
  y = Slice(x, a, b, axis, step)
}
)",
                                  "zero");
  try {
    infer_types(graph);
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("step 0"), std::string::npos) << error.what();
  }
}

// A file may call a value a sequence and leave out of what.
TEST(SequenceTypes, OfWhatTheyAreMayBeLeftOut) {
  const Graph parsed = parse_graph(R"(opset 18
    graph main (x: float32[2], bias: float32[]) -> (y) {
    s = SequenceConstruct(x)
    y = SequenceMap(s, bias) { body = graph (item, b) -> (sum) { sum = Add(item, b) } }
  })",
                                   "test");
  GraphBuilder builder(parsed);
  Type bare;
  bare.kind = Type::Kind::sequence;
  builder.value(parsed.main().inputs[0]).type = bare;
  const NodeId construct = parsed.main().nodes[0], map = parsed.main().nodes[1];
  builder.node(map).inputs[0] = parsed.main().inputs[0];
  std::erase(builder.body(Graph::kMain).nodes, construct);
  const Graph graph = std::move(builder).build();
  EXPECT_EQ(infer_types(graph)[graph.main().outputs[0]].kind, Type::Kind::sequence);
}

}  // namespace
}  // namespace finity

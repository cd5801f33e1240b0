#include "graph/rewrite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "formats/text/text.h"
#include "graph/unique_names.h"

namespace finity {
namespace {

// Symbols, a default of an input, a constant of a body, bodies in bodies, captures through two of them, an omitted
// operand, an op that is not in the table.
constexpr std::string_view kModel = R"(model {ir_version = 8}
opset 17
graph g (x: float32[N, 2], scale: float32[2] = {1, 2}) -> (y, last) doc "what it is" {
  const count = int64[] {3}
  w = Mul(x, scale)
  y = Loop(count, _, x) {
    body = graph (i: int64[], go: bool[], state: float32[N, 2]) -> (go, next) {
      const one = int64[] {1}
      first = Less(i, one)
      next = If(first) {
        then_branch = graph () -> (a) { a = Mul(state, w) },
        else_branch = graph () -> (c) {
          s = Mul(state, state)
          c = Add(s, scale)
        }
      }
    }
  }
  last = Mystery(y)
}
)";

Graph model() { return parse_graph(kModel, "model.txt"); }

Graph copy_whole(const Graph& graph) {
  GraphBuilder builder;
  builder.info() = graph.info();
  GraphCopy(graph, builder).copy_body(Graph::kMain);
  return std::move(builder).build();
}

std::vector<std::string> names_of(const Graph& graph, const std::vector<ValueId>& ids) {
  std::vector<std::string> names;
  for (const ValueId id : ids) names.push_back(graph.value(id).name);
  return names;
}

const Node& node_with_op(const Graph& graph, std::string_view op) {
  for (const Node& node : graph.nodes()) {
    if (node.op_type == op) return node;
  }
  throw Error("there is no " + std::string(op));
}

TEST(GraphCopy, WithoutAChangeGivesAnEqualGraph) {
  const Graph graph = model();
  EXPECT_EQ(print_graph(copy_whole(graph)), print_graph(graph));
}

TEST(GraphCopy, OutlivesTheOriginal) {
  std::string text;
  Graph copy;
  {
    const Graph graph = model();
    text = print_graph(graph);
    copy = copy_whole(graph);
  }
  EXPECT_EQ(print_graph(copy), text);
}

TEST(GraphCopy, KeepsWhatBodiesUseFromOutside) {
  const Graph graph = model(), copy = copy_whole(graph);
  for (const std::string_view op : {"Loop", "If"}) {
    const std::vector<std::string> captured = names_of(copy, node_with_op(copy, op).captures);
    const std::vector<std::string> before = names_of(graph, node_with_op(graph, op).captures);
    EXPECT_EQ(std::set(captured.begin(), captured.end()), std::set(before.begin(), before.end())) << op;
  }
  const Node& loop = node_with_op(copy, "Loop");
  const BodyId body = std::get<BodyId>(*loop.attrs.find("body"));
  EXPECT_EQ(&copy.node(copy.body(body).owner), &loop);
}

TEST(GraphCopy, MapsIdsAndKeepsLocations) {
  GraphBuilder builder;
  const BodyId main = builder.add_body("main");
  const ValueId x = builder.add_input(main, "x", Type::tensor(DType::float32));
  const ValueId y = builder.add_value(main, "y"), dx = builder.add_value(main, "dx");
  const auto origin = std::make_shared<const Origin>(Origin{.doc = "said by the user", .calls = {"layer (Block)"}});
  const NodeId forward = builder.add_node({.op_type = builder.intern("F"),
                                           .name = "f",
                                           .inputs = {x},
                                           .outputs = {y},
                                           .body = main,
                                           .where = {.offset = 42, .origin = origin}});
  const NodeId backward = builder.add_node({.op_type = builder.intern("G"),
                                            .inputs = {y},
                                            .outputs = {dx},
                                            .body = main,
                                            .where = {.offset = 42, .origin = origin},
                                            .gradient_of = forward});
  builder.add_output(main, dx);
  const Graph graph = std::move(builder).build();

  GraphBuilder into;
  const BodyId other = into.add_body("other");
  into.add_value(other, "shifts the ids");
  GraphCopy copy(graph, into);
  copy.copy_contents(Graph::kMain, std::vector{into.add_input(other, "z", {})}, other);
  into.add_output(other, copy.copy_of(dx));
  EXPECT_NE(copy.copy_of(dx), dx);
  const Graph result = std::move(into).build();
  const Node& copied = result.node(copy.copy_of(forward));
  EXPECT_EQ(names_of(result, copied.inputs), std::vector<std::string>{"z"});
  EXPECT_EQ(names_of(result, copied.outputs), std::vector<std::string>{"y"});
  EXPECT_EQ(copied.name, "f");
  EXPECT_EQ(copied.where.offset, 42U);
  EXPECT_EQ(copied.where.origin, origin);
  EXPECT_EQ(result.node(copy.copy_of(backward)).gradient_of, copy.copy_of(forward));
}

TEST(GraphCopy, MovesSymbolsByName) {
  const Graph graph = parse_graph("opset 17\ngraph g (x: float32[N, M]) -> (y) { y = Relu(x) }", "f");
  GraphBuilder builder;
  builder.symbol("M");  // has the number that N has in the original
  GraphCopy(graph, builder).copy_body(Graph::kMain);
  const Graph copy = std::move(builder).build();
  EXPECT_EQ(to_string(copy, copy.value(copy.main().inputs[0]).type), "float32[N, M]");
}

// A body within its own graph, twice: what is outside of it stands for itself, what is inside is there once per copy.
TEST(GraphCopy, CopiesABodyBesideTheOriginal) {
  const Graph graph = model();
  GraphBuilder builder(graph);
  const Node& loop = node_with_op(graph, "Loop");
  const BodyId body = std::get<BodyId>(*loop.attrs.find("body"));
  std::vector<ValueId> arguments = {
      loop.inputs[0], builder.add_input(Graph::kMain, "go2", Type::tensor(DType::boolean)), graph.main().inputs[0]};
  std::set<ValueId> outputs;
  for (int i = 0; i < 2; ++i) {
    GraphCopy copy(builder.peek(), builder);
    const std::vector<ValueId> given = copy.copy_contents(body, arguments, Graph::kMain);
    EXPECT_EQ(given[0], arguments[1]) << "an output that is an input is what was given for it";
    outputs.insert(given[1]);
    builder.add_output(Graph::kMain, given[1]);
  }
  EXPECT_EQ(outputs.size(), 2U);
  const Graph result = std::move(builder).build();
  EXPECT_EQ(result.main().nodes.size(), graph.main().nodes.size() + 4);
  EXPECT_EQ(result.bodies().size(), graph.bodies().size() + 4);
  for (const ValueId id : outputs) {
    const Node& choice = result.node(result.value(id).producer);
    EXPECT_EQ(choice.body, Graph::kMain);
    const std::vector<ValueId>& captures = choice.captures;
    EXPECT_NE(std::ranges::find(captures, arguments[2]), captures.end()) << "reads the argument, not the state";
    EXPECT_EQ(std::ranges::find(captures, graph.body(body).inputs[2]), captures.end());
  }
}

TEST(GraphCopy, AnOperandCanBeLeftOut) {
  const Graph graph = parse_graph("opset 17\ngraph g (x: float32[2], low: float32[]) -> (y) { y = Clip(x, low) }", "f");
  GraphBuilder builder;
  const BodyId main = builder.add_body("main");
  GraphCopy copy(graph, builder);
  const ValueId x = builder.add_input(main, "x", {});
  const std::vector<ValueId> given = copy.copy_contents(Graph::kMain, std::vector{x, ValueId{}}, main);
  const Graph& result = builder.peek();
  EXPECT_EQ(result.node(result.value(given[0]).producer).inputs, (std::vector<ValueId>{x, ValueId{}}));
}

TEST(GraphCopy, RefusesWhatItWasNotTold) {
  const Graph graph = model();
  GraphBuilder builder;
  const BodyId main = builder.add_body("main");
  GraphCopy copy(graph, builder);
  EXPECT_THROW(copy.copy_node(graph.main().nodes.front(), main), Error) << "an operand of another graph";
  EXPECT_THROW(copy.copy_contents(Graph::kMain, {}, main), Error) << "too few inputs";
}

// A node that was changed through the builder reads what it reads now.
TEST(GraphBuilder, FindsCapturesOfAChangedGraphAnew) {
  const Graph graph = model();
  GraphBuilder builder(graph);
  const ValueId scale = graph.main().inputs[1];
  for (std::size_t i = 0; i < builder.node_count(); ++i) {
    Node& node = builder.node({static_cast<std::int32_t>(i)});
    if (node.body == Graph::kMain) continue;
    for (ValueId& in : node.inputs) {
      if (in == scale) in = graph.main().inputs[0];
    }
  }
  const Graph changed = std::move(builder).build();
  const std::vector<std::string> captured = names_of(changed, node_with_op(changed, "Loop").captures);
  EXPECT_EQ(std::set(captured.begin(), captured.end()), (std::set<std::string>{"w", "x"}));
}

TEST(UniqueNames, GivesEachNameOnce) {
  const Graph graph = model();
  UniqueNames names(graph);
  std::set<std::string> given;
  for (const Value& value : graph.values()) given.insert(value.name);
  for (const char* wanted : {"x", "x_2", "x", "new", "new", "new_2", "x", "new"}) {
    EXPECT_TRUE(given.insert(names.make(wanted)).second) << wanted;
  }
  EXPECT_EQ(names.make("untouched"), "untouched");
  const std::string avoided = names.make("other", [](const std::string& name) { return name == "other"; });
  EXPECT_EQ(avoided, "other_2");
}

}  // namespace
}  // namespace finity

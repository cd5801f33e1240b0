#include "graph/builder.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace finity {
namespace {

struct Fixture {
  GraphBuilder builder;
  BodyId main = builder.add_body("main");

  NodeId node(const std::string& name, std::vector<ValueId> in, std::vector<ValueId> out, BodyId body = {0},
              Attrs attrs = {}) {
    return builder.add_node({.op_type = builder.intern("Op"),
                             .name = name,
                             .inputs = std::move(in),
                             .outputs = std::move(out),
                             .attrs = std::move(attrs),
                             .body = body});
  }
  ValueId value(const std::string& name, BodyId body = {0}) { return builder.add_value(body, name); }
};

std::string failure(GraphBuilder& builder) {
  try {
    std::move(builder).build();
  } catch (const Error& error) {
    return error.what();
  }
  return "built";
}

TEST(GraphBuilder, OrdersNodesAndKeepsFileOrderOtherwise) {
  Fixture f;
  const ValueId x = f.builder.add_input(f.main, "x", {});
  const ValueId a = f.value("a");
  const ValueId b = f.value("b");
  const ValueId c = f.value("c");
  f.node("third", {b}, {c});
  f.node("first", {x}, {a});
  f.node("second", {a}, {b});
  f.builder.add_output(f.main, c);
  const Graph graph = std::move(f.builder).build();
  std::vector<std::string> order;
  for (const NodeId id : graph.main().nodes) order.push_back(graph.node(id).name);
  EXPECT_EQ(order, (std::vector<std::string>{"first", "second", "third"}));
}

TEST(GraphBuilder, RejectsCycles) {
  Fixture f;
  const ValueId a = f.value("a");
  const ValueId b = f.value("b");
  f.node("n1", {b}, {a});
  f.node("n2", {a}, {b});
  EXPECT_EQ(failure(f.builder), "node 'n1' (Op): is part of a cycle");
}

TEST(GraphBuilder, RejectsUndefinedValuesAndDoubleDefinitions) {
  Fixture f;
  const ValueId a = f.value("a");
  f.node("n", {f.value("ghost")}, {a});
  EXPECT_THROW(f.node("again", {}, {a}), Error);
  Fixture g;
  g.node("n", {g.value("ghost")}, {g.value("a")});
  EXPECT_EQ(failure(g.builder), "node 'n' (Op): input 'ghost' is not defined anywhere");
}

TEST(GraphBuilder, FindsCapturesThroughNestedBodies) {
  Fixture f;
  const ValueId x = f.builder.add_input(f.main, "x", {});
  const ValueId late = f.value("late");
  const BodyId outer = f.builder.add_body("outer");
  const BodyId inner = f.builder.add_body("inner");
  const ValueId deep = f.value("deep", inner);
  f.node("uses_x_and_late", {x, late}, {deep}, inner);
  f.builder.add_output(inner, deep);
  Attrs inner_attrs;
  inner_attrs.set("body", inner);
  const ValueId middle = f.value("middle", outer);
  const NodeId nested = f.node("nested", {}, {middle}, outer, inner_attrs);
  f.builder.add_output(outer, middle);
  Attrs outer_attrs;
  outer_attrs.set("body", outer);
  const ValueId out = f.value("out");
  const NodeId top = f.node("top", {}, {out}, f.main, outer_attrs);
  f.node("makes_late", {x}, {late});
  f.builder.add_output(f.main, out);
  const Graph graph = std::move(f.builder).build();
  EXPECT_EQ(graph.node(nested).captures, (std::vector<ValueId>{x, late}));
  EXPECT_EQ(graph.node(top).captures, (std::vector<ValueId>{x, late}));
  EXPECT_EQ(graph.node(graph.main().nodes.front()).name, "makes_late") << "a captured value orders its producer first";
}

TEST(GraphBuilder, ASubgraphMayNotUseItsOwnersOutput) {
  Fixture f;
  const ValueId out = f.value("out");
  const BodyId body = f.builder.add_body("body");
  const ValueId y = f.value("y", body);
  f.node("inside", {out}, {y}, body);
  f.builder.add_output(body, y);
  Attrs attrs;
  attrs.set("body", body);
  f.node("loop", {}, {out}, f.main, attrs);
  EXPECT_EQ(failure(f.builder), "node 'loop' (Op): is part of a cycle");
}

TEST(Type, MergeFillsGapsAndReportsContradictions) {
  const Type partial = Type::tensor(DType::float32, {Dim{}, Dim::of(3)});
  const Type other = Type::tensor(DType::float32, {Dim::of(2), Dim{}});
  bool conflict = false;
  EXPECT_EQ(merge(partial, other, &conflict), Type::tensor_of(DType::float32, Dims{2, 3}));
  EXPECT_FALSE(conflict);
  merge(partial, Type::tensor_of(DType::float32, Dims{2, 4}), &conflict);
  EXPECT_TRUE(conflict);
}

TEST(Type, JoinKeepsOnlyWhatHoldsForBoth) {
  const Type joined = join(Type::tensor_of(DType::float32, Dims{2, 3}), Type::tensor_of(DType::float32, Dims{2, 4}));
  EXPECT_EQ(joined, Type::tensor(DType::float32, {Dim::of(2), Dim{}}));
  EXPECT_FALSE(join(Type::tensor_of(DType::float32, Dims{2}), Type::tensor_of(DType::float32, Dims{2, 4})).ranked);
}

}  // namespace
}  // namespace finity

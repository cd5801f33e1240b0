#include <gtest/gtest.h>

#include "formats/onnx_difference.h"
#include "formats/onnx_support.h"
#include "tensor/convert.h"

namespace finity::onnx_test {
namespace {

Message function(std::string_view name, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                 const std::vector<Message>& nodes, int version = 17) {
  Message result = Message().text(1, name);
  for (const std::string& input : inputs) result.text(4, input);
  for (const std::string& output : outputs) result.text(5, output);
  for (const Message& each : nodes) result.message(7, each);
  return result.message(9, opset("", version)).message(9, opset("f", 1)).text(10, "f");
}

Message call(std::string_view name, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
             std::string_view node_name = {}) {
  return node(name, inputs, outputs, node_name, "f");
}

Message model_with(const std::vector<Message>& nodes, const std::vector<Message>& functions,
                   std::string_view output = "y") {
  Message graph;
  for (const Message& each : nodes) graph.message(1, each);
  graph.message(11, value_info("x")).message(12, value_info(output));
  Message result = model(graph).message(8, opset("f", 1));
  for (const Message& each : functions) result.message(25, each);
  return result;
}

Message reference(std::string_view name, std::string_view to, int kind) {
  return Message().text(1, name).integer(20, kind).text(21, to);
}
Message integer(std::string_view name, std::int64_t value) {
  return Message().text(1, name).integer(20, 2).integer(3, value);
}

// "name: op(inputs) -> outputs" of every node.
std::vector<std::string> listing(const Graph& graph) {
  std::vector<std::string> lines;
  const auto names = [&](const std::vector<ValueId>& values) {
    std::string text;
    for (const ValueId id : values) text += (text.empty() ? "" : ", ") + (id.valid() ? graph.value(id).name : "-");
    return text;
  };
  for (const NodeId id : graph.main().nodes) {
    const Node& each = graph.node(id);
    lines.push_back(each.name + ": " + std::string(each.op_type) + "(" + names(each.inputs) + ") -> " +
                    names(each.outputs));
  }
  return lines;
}
using Lines = std::vector<std::string>;

TEST(OnnxFunction, IsInlinedWithPrefixedNamesAndItsOwnOpset) {
  const Message f = function("F", {"a"}, {"b"}, {node("Neg", {"a"}, {"t"}, "n"), node("Exp", {"t"}, {"b"})}, 13);
  const Graph graph = read(model_with({call("F", {"x"}, {"m"}, "one"), call("F", {"m"}, {"y"}, "two")}, {f}));
  EXPECT_EQ(listing(graph),
            (Lines{"one/n: Neg(x) -> one/t", ": Exp(one/t) -> m", "two/n: Neg(m) -> two/t", ": Exp(two/t) -> y"}));
  const Node& neg = graph.node(graph.main().nodes.front());
  EXPECT_EQ(neg.version, 13);
  EXPECT_EQ(neg.where.origin->calls, (Lines{"one (F)"}));
  EXPECT_GT(neg.where.offset, 0U);
}

TEST(OnnxFunction, NamesStayUnique) {
  const Message f = function("F", {"a"}, {"b"}, {node("Neg", {"a"}, {"t"}), node("Exp", {"t"}, {"b"})});
  const Graph graph = read(model_with(
      {node("Relu", {"x"}, {"F/t"}), call("F", {"x"}, {"y"}), call("F", {"F/t"}, {"z"}), call("F", {"z"}, {"v"}, "F")},
      {f}));
  EXPECT_EQ(listing(graph), (Lines{": Relu(x) -> F/t", ": Neg(x) -> F/t_2", ": Exp(F/t_2) -> y", ": Neg(F/t) -> F_2/t",
                                   ": Exp(F_2/t) -> z", ": Neg(z) -> F_3/t", ": Exp(F_3/t) -> v"}));
}

TEST(OnnxFunction, MayCallOthers) {
  const Message inner = function("G", {"a"}, {"b"}, {node("Neg", {"a"}, {"b"}, "n").text(6, "doc")}, 11);
  const Message outer = function("F", {"a"}, {"b"}, {call("G", {"a"}, {"t"}, "g"), node("Exp", {"t"}, {"b"}, "e")});
  const Graph graph = read(model_with({call("F", {"x"}, {"y"}, "f")}, {outer, inner}));
  EXPECT_EQ(listing(graph), (Lines{"f/g/n: Neg(x) -> f/t", "f/e: Exp(f/t) -> y"}));
  const Node& neg = graph.node(graph.main().nodes.front());
  EXPECT_EQ(neg.where.origin->calls, (Lines{"f (F)", "g (G)"}));
  EXPECT_EQ(neg.where.origin->doc, "doc");
  EXPECT_EQ(neg.version, 11);
}

TEST(OnnxFunction, ResolvesAttributesByReference) {
  const Message inner = function("G", {"a"}, {"b"},
                                 {node("Op", {"a"}, {"b"})
                                      .message(5, reference("axis", "k", 2))
                                      .message(5, reference("other", "absent", 2))
                                      .message(5, reference("with_default", "d", 2))
                                      .message(5, integer("own", 3))})
                            .message(11, integer("d", 9));
  const Message outer = function("F", {"a"}, {"b"}, {call("G", {"a"}, {"b"}).message(5, reference("k", "outer_k", 2))});
  const Graph graph = read(model_with({call("F", {"x"}, {"y"}).message(5, integer("outer_k", 7))}, {outer, inner}));
  const Attrs& attrs = graph.nodes()[0].attrs;
  EXPECT_EQ(std::get<std::int64_t>(*attrs.find("axis")), 7);
  EXPECT_EQ(attrs.find("other"), nullptr);
  EXPECT_EQ(std::get<std::int64_t>(*attrs.find("with_default")), 9);
  EXPECT_EQ(std::get<std::int64_t>(*attrs.find("own")), 3);
  EXPECT_EQ(read_error(model_with({node("Op", {"x"}, {"y"}, "n").message(5, reference("axis", "k", 2))}, {})),
            "m.onnx: node 'n' (Op): attribute 'axis': refers to attribute 'k' of a function, outside of functions");
}

TEST(OnnxFunction, GetsAGraphOfItsCallerByReference) {
  const Message choose =
      function("F", {"c"}, {"b"}, {node("If", {"c"}, {"b"}).message(5, reference("then_branch", "g", 5))});
  const Message branch = Message().text(2, "branch").message(1, node("Neg", {"x"}, {"n"})).message(12, value_info("n"));
  const Message graph = Message().text(1, "g").integer(20, 5).message(6, branch);
  const Graph read_back = read(
      model_with({call("F", {"x"}, {"y"}).message(5, graph), call("F", {"x"}, {"z"}).message(5, graph)}, {choose}));
  ASSERT_EQ(read_back.bodies().size(), 3U);
  for (const NodeId id : read_back.main().nodes) EXPECT_EQ(read_back.node(id).captures, read_back.main().inputs);
}

TEST(OnnxFunction, MayHoldSubgraphs) {
  const Message branch = Message().message(1, node("Add", {"a", "t"}, {"s"})).message(12, value_info("s"));
  const Message f = function(
      "F", {"a"}, {"b"},
      {node("Neg", {"a"}, {"t"}),
       node("If", {"a"}, {"b"}).message(5, Message().text(1, "then_branch").integer(20, 5).message(6, branch))});
  const Graph graph = read(model_with({call("F", {"x"}, {"y"}, "one")}, {f}));
  const Node& add = graph.node(graph.body(BodyId{1}).nodes.front());
  EXPECT_EQ(graph.value(add.inputs[0]).name, "x");
  EXPECT_EQ(graph.value(add.inputs[1]).name, "one/t");
  EXPECT_EQ(graph.value(add.outputs[0]).name, "one/s");
}

TEST(OnnxFunction, TakesFewerOperandsThanItDeclares) {
  const Message f = function("F", {"a", "b"}, {"c", "d"}, {node("Clip", {"a", "b"}, {"c"}), node("Neg", {"c"}, {"d"})});
  EXPECT_EQ(listing(read(model_with({call("F", {"x"}, {"y"}, "k")}, {f}))),
            (Lines{": Clip(x, -) -> y", ": Neg(y) -> k/d"}));
  EXPECT_EQ(listing(read(model_with({call("F", {"", "x"}, {"", "y"}, "k")}, {f}))),
            (Lines{": Clip(-, x) -> k/c", ": Neg(k/c) -> y"}));
  EXPECT_EQ(read_error(model_with({call("F", {"x", "x", "x"}, {"y"}, "k")}, {f})),
            "m.onnx: node 'k' (f.F): 3 inputs, function 'f.F' has 2");
  EXPECT_EQ(read_error(model_with({call("F", {"x"}, {"y", "z", "v"}, "k")}, {f})),
            "m.onnx: node 'k' (f.F): 3 outputs, function 'f.F' has 2");
}

TEST(OnnxFunction, MayReturnItsInputOrAnOutputTwice) {
  const Message f = function("F", {"a"}, {"a", "b", "b"}, {node("Neg", {"a"}, {"b"})});
  EXPECT_EQ(listing(read(model_with({call("F", {"x"}, {"u", "v", "y"}, "k")}, {f}))),
            (Lines{": Neg(x) -> v", ": Identity(x) -> u", ": Identity(v) -> y"}));
}

TEST(OnnxFunction, WinsOverAnOpOfTheSameName) {
  const Message relu = Message().text(1, "Relu").text(4, "a").text(5, "b").message(7, node("Neg", {"a"}, {"b"}));
  EXPECT_EQ(listing(read(model_with({node("Relu", {"x"}, {"y"})}, {relu}))), (Lines{": Neg(x) -> y"}));
}

TEST(OnnxFunction, IsChosenByItsOverload) {
  const auto overloaded = [](std::string_view overload, std::string_view op) {
    return function("F", {"a"}, {"b"}, {node(op, {"a"}, {"b"})}).text(13, overload);
  };
  const Message message =
      model_with({call("F", {"x"}, {"y"}).text(8, "two")}, {overloaded("one", "Neg"), overloaded("two", "Exp")});
  EXPECT_EQ(listing(read(message)), (Lines{": Exp(x) -> y"}));
}

TEST(OnnxFunction, SharesItsConstantsBetweenCalls) {
  const Message value = Message().text(1, "value").integer(20, 4).message(5, Message().integer(2, 1).real(4, 5));
  const Message f = function("F", {}, {"b"}, {node("Constant", {}, {"b"}).message(5, value)});
  const Graph graph = read(model_with({call("F", {}, {"y"}), call("F", {}, {"z"})}, {f}));
  EXPECT_EQ(std::get<ConstantPtr>(*graph.nodes()[0].attrs.find("value")),
            std::get<ConstantPtr>(*graph.nodes()[1].attrs.find("value")));
}

TEST(OnnxFunction, GivesItsTypesToInnerValuesOnly) {
  const Message f = function("F", {"a"}, {"b"}, {node("Neg", {"a"}, {"t"}), node("Exp", {"t"}, {"b"})})
                        .message(12, value_info("t", tensor_type(1, {7})))
                        .message(12, value_info("a", tensor_type(1, {7})));
  const Graph graph = read(model_with({call("F", {"x"}, {"y"}, "k")}, {f}));
  EXPECT_EQ(to_string(graph, graph.value(graph.nodes()[0].outputs[0]).type), "float32[7]");
  EXPECT_EQ(to_string(graph, graph.value(graph.nodes()[0].inputs[0]).type), "float32[2]");
}

TEST(OnnxFunction, ThatCallsItselfIsRefused) {
  const Message direct = function("F", {"a"}, {"b"}, {call("F", {"a"}, {"b"}, "again")});
  EXPECT_EQ(read_error(model_with({call("F", {"x"}, {"y"}, "k")}, {direct})),
            "m.onnx: node 'k' (f.F): node 'again' (f.F): function 'f.F' calls itself");
  const Message one = function("A", {"a"}, {"b"}, {call("B", {"a"}, {"b"}, "b")});
  const Message two = function("B", {"a"}, {"b"}, {call("A", {"a"}, {"b"}, "a")});
  EXPECT_EQ(read_error(model_with({call("A", {"x"}, {"y"}, "k")}, {one, two})),
            "m.onnx: node 'k' (f.A): node 'b' (f.B): node 'a' (f.A): function 'f.A' calls itself");
}

TEST(OnnxFunction, ThatExplodesIsRefused) {
  std::vector<Message> functions;
  for (int i = 0; i < 30; ++i) {
    const std::string next = "F" + std::to_string(i + 1);
    functions.push_back(
        function("F" + std::to_string(i), {"a"}, {"b"}, {call(next, {"a"}, {"t"}), call(next, {"t"}, {"b"})}));
  }
  functions.push_back(function("F30", {"a"}, {"b"}, {node("Neg", {"a"}, {"b"})}));
  EXPECT_NE(read_error(model_with({call("F0", {"x"}, {"y"})}, functions))
                .find("inlining the model's functions gives more than 10000 nodes"),
            std::string::npos);
}

TEST(OnnxFunction, ThatNestsTooDeepIsRefused) {
  std::vector<Message> functions;
  for (int i = 0; i < 100; ++i)
    functions.push_back(
        function("F" + std::to_string(i), {"a"}, {"b"}, {call("F" + std::to_string(i + 1), {"a"}, {"b"})}));
  const std::string error = read_error(model_with({call("F0", {"x"}, {"y"})}, functions));
  EXPECT_NE(error.find("graphs and function calls are nested more than 64 deep"), std::string::npos);
  EXPECT_LT(error.size(), 600U);
}

TEST(OnnxFunction, ThatIsIncompleteIsRefused) {
  const Message f = function("F", {"a"}, {"b"}, {node("Neg", {"a"}, {"c"})});
  EXPECT_EQ(read_error(model_with({call("F", {"x"}, {"y"}, "k")}, {f})),
            "m.onnx: node 'k' (f.F): function 'f.F' does not produce its output 'b'");
  EXPECT_EQ(read_error(model_with({}, {f, f})), "m.onnx: function 'f.F' is defined twice");
  const Message twice = function("F", {"a", "a"}, {"b"}, {});
  EXPECT_EQ(read_error(model_with({call("F", {"x", "x"}, {"y"}, "k")}, {twice})),
            "m.onnx: node 'k' (f.F): function 'f.F' has two inputs 'a'");
  const Message hides = function("F", {"a"}, {"b"}, {node("Neg", {"a"}, {"b"}), node("Neg", {"b"}, {"a"}, "n")});
  EXPECT_EQ(read_error(model_with({call("F", {"x"}, {"y"}, "k")}, {hides})),
            "m.onnx: node 'k' (f.F): node 'n' (Neg): value 'a' is defined twice");
  const Message undefined = function("F", {"a"}, {"b"}, {node("Neg", {"nowhere"}, {"b"}, "n")});
  EXPECT_EQ(read_error(model_with({call("F", {"x"}, {"y"}, "k")}, {undefined})),
            "m.onnx: node 'k/n' (Neg): input 'k/nowhere' is not defined anywhere");
}

TEST(OnnxFunction, OfAnotherOpsetIsWrittenWithThatOpset) {
  const Message branch =
      Message().text(2, "b").message(1, node("Neg", {"x"}, {"n"}, "neg")).message(12, value_info("n"));
  const Message f =
      function("F", {"a", "o"}, {"b"},
               {node("Op", {"a", "", "o"}, {"t", "", "u"}, "n").message(5, integer("axis", 2)).text(6, "doc"),
                node("If", {"t"}, {"b"}).message(5, reference("then_branch", "g", 5)),
                node("Op", {"a", "", "o"}, {"v", "", "w"}).message(5, integer("axis", 3))},
               11);
  const Message graph = Message().text(1, "g").integer(20, 5).message(6, branch);
  const Graph first = read(model_with({call("F", {"x"}, {"y"}, "k").message(5, graph)}, {f}));
  EXPECT_EQ(first.nodes()[0].version, 11);
  const std::string bytes = write_onnx(first);
  std::vector<Note> notes;
  const Graph second = read(bytes, notes);
  EXPECT_EQ(difference(first, second), "");
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(second.info().opsets, first.info().opsets);
}

}  // namespace
}  // namespace finity::onnx_test

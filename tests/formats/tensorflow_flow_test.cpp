// Loops, conditionals and functions of TensorFlow graphs compute what they mean.
#include "formats/tensorflow_support.h"

namespace finity::tensorflow_test {
namespace {

using Values = std::vector<double>;

// while i < limit: i += 1, x = f(x), as version 1 writes it. `body` computes "next" from "x_in" and "i_in".
std::string loop(const std::string& limit, const std::string& start, const std::string& body) {
  const A frame = text("frame_name", "frame");
  return integer("zero", 0) + node("i_enter", "Enter", {"zero"}, {frame}) + node("x_enter", "Enter", {start}, {frame}) +
         node("limit", "Enter", {limit}, {frame, {"is_constant", "b: true"}}) +
         node("i", "Merge", {"i_enter", "i_next"}) + node("x", "Merge", {"x_enter", "x_next"}) +
         node("less", "Less", {"i", "limit"}) + node("cond", "LoopCond", {"less"}) +
         node("i_switch", "Switch", {"i", "cond"}) + node("x_switch", "Switch", {"x", "cond"}) +
         node("i_in", "Identity", {"i_switch:1"}) + node("x_in", "Identity", {"x_switch:1"}) +
         integer("one", 1, {"^i_in"}) + node("i_plus", "Add", {"i_in", "one"}) +
         node("i_next", "NextIteration", {"i_plus"}) + body + node("x_next", "NextIteration", {"next"}) +
         node("i_exit", "Exit", {"i_switch"}) + node("x_exit", "Exit", {"x_switch"}) +
         node("result", "Mul", {"x_exit", "unit"}) + real("unit", 1) + node("count", "Mul", {"i_exit", "iunit"}) +
         integer("iunit", 1) + kVersions;
}

TEST(TensorflowLoops, RunAsOftenAsTheConditionHolds) {
  const std::string body = real("two", 2, {"^x_in"}) + node("next", "Mul", {"x_in", "two"});
  const std::string graph = integer("five", 5) + real("start", 3) + loop("five", "start", body);
  EXPECT_EQ(value_of(read(graph), "result"), (Values{96}));  // 3 * 2^5
  EXPECT_EQ(value_of(read(graph), "count"), (Values{5}));
}

TEST(TensorflowLoops, MayNotRunAtAll) {
  const std::string body = real("two", 2, {"^x_in"}) + node("next", "Mul", {"x_in", "two"});
  const std::string graph = integer("none", -1) + real("start", 3) + loop("none", "start", body);
  EXPECT_EQ(value_of(read(graph), "result"), (Values{3}));
  EXPECT_EQ(value_of(read(graph), "count"), (Values{0}));
}

TEST(TensorflowLoops, UseTheirCounter) {
  // 0 + 0 + 1 + 2 + 3
  const std::string body = node("as_float", "Cast", {"i_in"}, {type("SrcT", "INT32"), type("DstT", "FLOAT")}) +
                           node("next", "Add", {"x_in", "as_float"});
  const std::string graph = integer("four", 4) + real("start", 0) + loop("four", "start", body);
  EXPECT_EQ(value_of(read(graph), "result"), (Values{6}));
}

// Else what is inside would be said to be proved.
TEST(TensorflowLoops, ThatNothingLeavesAreRefused) {
  const A frame = text("frame_name", "frame");
  const std::string enter = real("start", -1) + node("x_enter", "Enter", {"start"}, {frame});
  EXPECT_NE(read_error(enter + node("y", "Log", {"x_enter"}) + kVersions).find("'x_enter': enters the loop 'frame'"),
            std::string::npos);
  const std::string round = node("x", "Merge", {"x_enter", "x_next"}) + node("next", "Exp", {"x"}) +
                            node("x_next", "NextIteration", {"next"});
  EXPECT_NE(read_error(enter + round + kVersions).find("'x_enter': enters the loop 'frame', which no node leaves"),
            std::string::npos);
}

TEST(TensorflowLoops, Nest) {
  // Inner: y doubles j < 2 times, so x becomes 4x in each of 3 rounds.
  const A frame = text("frame_name", "inner");
  const std::string body = integer("zero2", 0, {"^x_in"}) + node("j_enter", "Enter", {"zero2"}, {frame}) +
                           node("y_enter", "Enter", {"x_in"}, {frame}) + node("j", "Merge", {"j_enter", "j_next"}) +
                           node("y", "Merge", {"y_enter", "y_next"}) + integer("lim2", 2, {"^j"}) +
                           node("less2", "Less", {"j", "lim2"}) + node("cond2", "LoopCond", {"less2"}) +
                           node("j_switch", "Switch", {"j", "cond2"}) + node("y_switch", "Switch", {"y", "cond2"}) +
                           node("j_in", "Identity", {"j_switch:1"}) + node("y_in", "Identity", {"y_switch:1"}) +
                           integer("one2", 1, {"^j_in"}) + node("j_plus", "Add", {"j_in", "one2"}) +
                           node("j_next", "NextIteration", {"j_plus"}) + node("twice", "Add", {"y_in", "y_in"}) +
                           node("y_next", "NextIteration", {"twice"}) + node("next", "Exit", {"y_switch"});
  const std::string graph = integer("three", 3) + real("start", 1) + loop("three", "start", body);
  EXPECT_EQ(value_of(read(graph), "result"), (Values{64}));
}

TEST(TensorflowLoops, KeepArrays) {
  // a[i] = x^2 with x = 1, 2, 4; afterwards their sum.
  const A frame = text("frame_name", "frame");
  const std::string array =
      node("ta", "TensorArrayV3", {"three"}, {type("dtype", "FLOAT"), {"element_shape", "shape { }"}}) +
      node("handle", "Enter", {"ta"}, {frame, {"is_constant", "b: true"}}) +
      node("f_enter", "Enter", {"ta:1"}, {frame}) + node("f", "Merge", {"f_enter", "f_next"}) +
      node("f_switch", "Switch", {"f", "cond"}) + node("f_exit", "Exit", {"f_switch"}) +
      node("indices", "Range", {"zero", "three", "oneo"}) + integer("oneo", 1) +
      node("all", "TensorArrayGatherV3", {"ta", "indices", "f_exit"}, {type("dtype", "FLOAT")}) +
      node("size", "TensorArraySizeV3", {"ta", "f_exit"}) + node("sizes", "Mul", {"size", "iunit"}) +
      node("sum", "Sum", {"all", "zero"});
  const std::string body = node("square", "Mul", {"x_in", "x_in"}) + node("next", "Add", {"x_in", "x_in"}) +
                           node("f_write", "TensorArrayWriteV3", {"handle", "i_in", "square", "f_switch:1"}) +
                           node("f_next", "NextIteration", {"f_write"});
  const std::string graph = integer("three", 3) + real("start", 1) + array + loop("three", "start", body);
  EXPECT_EQ(value_of(read(graph), "sum"), (Values{21}));
  EXPECT_EQ(value_of(read(graph), "sizes"), (Values{3}));
}

TEST(TensorflowLoops, PopWhatAnotherLoopPushed) {
  // Pushes 1, 2, 4. The second loop computes 10 y + pop, last first: ((0*10 + 4)*10 + 2)*10 + 1.
  const A frame = text("frame_name", "frame");
  const A back = text("frame_name", "back");
  for (const std::string version : {"", "V2"}) {
    const std::string stack =
        integer("max", -1) + node("stack", "Stack" + version, {"max"}, {type("elem_type", "FLOAT")});
    const std::string body = node("handle", "Enter", {"stack"}, {frame, {"is_constant", "b: true"}}) +
                             node("push", "StackPush" + version, {"handle", "x_in"}) +
                             node("next", "Add", {"push", "push"});
    const std::string second = node("handle2", "Enter", {"stack"}, {back, {"is_constant", "b: true"}}) +
                               node("k_enter", "Enter", {"i_exit"}, {back}) +
                               node("y_enter", "Enter", {"nought"}, {back}) + real("nought", 0) +
                               node("k", "Merge", {"k_enter", "k_next"}) + node("y", "Merge", {"y_enter", "y_next"}) +
                               integer("least", 1, {"^k"}) + node("more", "GreaterEqual", {"k", "least"}) +
                               node("cond2", "LoopCond", {"more"}) + node("k_switch", "Switch", {"k", "cond2"}) +
                               node("y_switch", "Switch", {"y", "cond2"}) + node("y_in", "Identity", {"y_switch:1"}) +
                               integer("down", 1, {"^y_in"}) + node("k_minus", "Sub", {"k_switch:1", "down"}) +
                               node("k_next", "NextIteration", {"k_minus"}) +
                               node("pop", "StackPop" + version, {"handle2"}, {type("elem_type", "FLOAT")}) +
                               real("ten", 10, {"^y_in"}) + node("shifted", "Mul", {"y_in", "ten"}) +
                               node("digit", "Add", {"shifted", "pop"}) + node("y_next", "NextIteration", {"digit"}) +
                               node("y_exit", "Exit", {"y_switch"}) + node("digits", "Mul", {"y_exit", "unit"});
    const std::string graph = integer("three", 3) + real("start", 1) + stack + loop("three", "start", body) + second;
    EXPECT_EQ(value_of(read(graph), "digits"), (Values{421})) << version;
  }
}

TEST(TensorflowConditionals, TakeOneBranch) {
  const std::string graph =
      placeholder("p", "BOOL") + real("x", 5) + node("id", "Identity", {"p"}) + node("sw", "Switch", {"x", "id"}) +
      node("then", "Identity", {"sw:1"}) + node("twice", "Add", {"then", "then"}) + node("else", "Neg", {"sw"}) +
      node("m", "Merge", {"else", "twice"}) + real("unit", 1) + node("y", "Mul", {"m", "unit"}) + kVersions;
  EXPECT_EQ(value_of(read(graph), "y", {{"p", Tensor::scalar(true)}}), (Values{10}));
  EXPECT_EQ(value_of(read(graph), "y", {{"p", Tensor::scalar(false)}}), (Values{-5}));
}

std::string twice_function(const std::string& name) {
  return "function { signature { name: \"" + name +
         "\" input_arg { name: \"a\" type: DT_FLOAT } output_arg { name: \"b\" type: DT_FLOAT } } " +
         node("sum", "AddV2", {"a", "a"}, {type("T", "FLOAT")}, "node_def") +
         " ret { key: \"b\" value: \"sum:z:0\" } }";
}

TEST(TensorflowFunctions, AreInlinedWhereTheyAreCalled) {
  const std::string graph = real("x", 3) + node("c1", "PartitionedCall", {"x"}, {function("f", "Twice")}) +
                            node("c2", "Twice", {"c1"}) + "library { " + twice_function("Twice") + " }" + kVersions;
  const Graph g = read(graph);
  EXPECT_EQ(value_of(g, "c2/sum"), (Values{12}));
  EXPECT_NE(node_named(g, "c1/sum"), nullptr);
}

TEST(TensorflowFunctions, ThatCallThemselvesAreUnknown) {
  const std::string self =
      "function { signature { name: \"F\" input_arg { name: \"a\" type: DT_FLOAT } output_arg { name: \"b\" type: "
      "DT_FLOAT } } " +
      node("again", "F", {"a"}, {}, "node_def") + " ret { key: \"b\" value: \"again:b:0\" } }";
  std::vector<Note> notes;
  const Graph g = read(real("x", 3) + node("c", "F", {"x"}) + "library { " + self + " }" + kVersions, &notes);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].text, "function 'F' calls itself");
  ASSERT_NE(node_named(g, "c/again"), nullptr);
  EXPECT_EQ(node_named(g, "c/again")->op, nullptr);
}

TEST(TensorflowFunctions, OfWhileAndIf) {
  const std::string args =
      "input_arg { name: \"i\" type: DT_INT32 } input_arg { name: \"n\" type: DT_INT32 } "
      "input_arg { name: \"x\" type: DT_FLOAT } ";
  const auto constant_def = [](const std::string& name, const std::string& dtype, const std::string& value) {
    return node(name, "Const", {},
                {type("dtype", dtype), {"value", "tensor { dtype: DT_" + dtype + " tensor_shape { } " + value + " }"}},
                "node_def");
  };
  const std::string test =
      "function { signature { name: \"Test\" " + args + "output_arg { name: \"go\" type: DT_BOOL } } " +
      node("less", "Less", {"i", "n"}, {}, "node_def") + " ret { key: \"go\" value: \"less:z:0\" } }";
  const std::string body = "function { signature { name: \"Body\" " + args +
                           "output_arg { name: \"i2\" type: DT_INT32 } output_arg { name: \"n2\" type: DT_INT32 } "
                           "output_arg { name: \"x2\" type: DT_FLOAT } } " +
                           constant_def("one", "INT32", "int_val: 1") +
                           node("plus", "AddV2", {"i", "one:output:0"}, {}, "node_def") +
                           node("twice", "PartitionedCall", {"x"}, {function("f", "Twice")}, "node_def") +
                           " ret { key: \"i2\" value: \"plus:z:0\" } ret { key: \"n2\" value: \"n\" } "
                           "ret { key: \"x2\" value: \"twice:output:0\" } }";
  const std::string negate =
      "function { signature { name: \"Negate\" input_arg { name: \"a\" type: DT_FLOAT } output_arg { name: \"b\" type: "
      "DT_FLOAT } } " +
      node("neg", "Neg", {"a"}, {}, "node_def") + " ret { key: \"b\" value: \"neg:y:0\" } }";
  const std::string graph =
      integer("zero", 0) + integer("four", 4) + real("x", 3) +
      node("w", "While", {"zero", "four", "x"}, {function("cond", "Test"), function("body", "Body")}) +
      real("unit", 1) + node("looped", "Mul", {"w:2", "unit"}) + placeholder("p", "BOOL") +
      node("chosen", "If", {"p", "x"}, {function("then_branch", "Twice"), function("else_branch", "Negate")}) +
      "library { " + twice_function("Twice") + test + body + negate + " }" + kVersions;
  const Graph g = read(graph);
  EXPECT_EQ(value_of(g, "looped", {{"p", Tensor::scalar(true)}}), (Values{48}));
  EXPECT_EQ(value_of(g, "chosen", {{"p", Tensor::scalar(true)}}), (Values{6}));
  EXPECT_EQ(value_of(g, "chosen", {{"p", Tensor::scalar(false)}}), (Values{-3}));
}

// As SavedModels without signatures are: there is nothing to check, which is no proof.
TEST(TensorflowFunctions, ThatNobodyCallsAreNoEmptyModel) {
  const std::string library =
      "library { function { signature { name: \"f\" input_arg { name: \"x\" type: DT_FLOAT } output_arg { name: \"y\" "
      "type: DT_FLOAT } } " +
      node("n", "Log", {"x"}, {}, "node_def") + " ret { key: \"y\" value: \"n:y:0\" } } }\n";
  const std::string start = placeholder("p", "FLOAT", "dim { size: 1 }");
  EXPECT_NE(read_error(start + library + kVersions).find("functions that no node calls ('f')"), std::string::npos);
  EXPECT_EQ(read_error(start + node("y", "Neg", {"p"}) + library + kVersions), "no error");
  EXPECT_EQ(read_error(start + node("y", "f", {"p"}) + library + kVersions), "no error");
}

TEST(TensorflowHostile, CyclesAreNamed) {
  const std::string graph = node("a", "Neg", {"b"}) + node("b", "Neg", {"a"}) + kVersions;
  EXPECT_EQ(read_error(graph), "g.pbtxt: node 'a': is part of a cycle");
}

TEST(TensorflowHostile, FramesThatNeverEndStayUnknown) {
  const A frame = text("frame_name", "f");
  const std::string graph = real("x", 1) + node("e", "Enter", {"x"}, {frame}) + node("m", "Merge", {"e", "n"}) +
                            node("d", "Neg", {"m"}) + node("n", "NextIteration", {"d"}) + node("out", "Exit", {"d"}) +
                            real("unit", 1) + node("y", "Mul", {"out", "unit"}) + kVersions;
  std::vector<Note> notes;
  const Graph g = read(graph, &notes);
  ASSERT_NE(node_named(g, "out"), nullptr);
  EXPECT_EQ(node_named(g, "out")->op, nullptr);
  ASSERT_FALSE(notes.empty());
  EXPECT_EQ(notes[0].text, "its loop is not understood: it has no LoopCond");
}

// References that lead to each other, and operands that are named so often that all ways back cannot be gone.
TEST(TensorflowHostile, WhatVariablesStartFromIsFoundInTime) {
  const std::vector<A> shape = {type("dtype", "FLOAT"), {"shape", "shape { dim { size: 2 } }"}};
  EXPECT_NE(read_error(node("a", "RefIdentity", {"b"}) + node("b", "RefIdentity", {"a"}) + kVersions), "no error");
  const auto variable_of_sums = [&](const std::string& op, int operands, const std::string& first) {
    std::string graph = node("v", "VariableV2", {}, shape) +
                        constant("x0", "FLOAT", "float_val: 1", "dim { size: 2 }") +
                        node("x1", op, std::vector<std::string>(operands, first));
    for (int i = 2; i < 38; ++i)
      graph += node("x" + std::to_string(i), op, std::vector<std::string>(operands, "x" + std::to_string(i - 1)));
    return graph + node("set", "Assign", {"v", "x37"}) + node("y", "Neg", {"v"}) + kVersions;
  };
  EXPECT_EQ(read_error(variable_of_sums("Add", 2, "x0")), "no error");
  EXPECT_EQ(read_error(variable_of_sums("AddN", 50, "x0")), "no error");
  EXPECT_EQ(read_error(variable_of_sums("AddN", 50, "v")), "no error");
}

TEST(TensorflowHostile, LoopsWithoutAConditionAreNamed) {
  const std::string start = integer("five", 5) + real("start", 3), body = node("next", "Neg", {"x_in"});
  const auto with = [&](const std::string& condition) {
    std::string graph = start + loop("five", "start", body);
    const std::string plain = node("cond", "LoopCond", {"less"});
    return graph.replace(graph.find(plain), plain.size(), condition);
  };
  EXPECT_EQ(read_error(with(node("cond", "LoopCond", {}))), "g.pbtxt: node 'cond': has no input");
  for (const std::string other : {"^less", "start"})
    EXPECT_EQ(node_named(read(with(node("cond", "LoopCond", {other}))), "x_exit")->op, nullptr) << other;
}

// What a few numbers stand for needs no more memory than they.
TEST(TensorflowHostile, ConstantsThatRepeatTheirLastElementAreNotWrittenOut) {
  const auto sum = [](const std::string& size) {
    return constant("c", "FLOAT", "float_val: 1 float_val: 2 float_val: 3", "dim { size: " + size + " }") +
           integer("axis", 0) + node("y", "Sum", {"c", "axis"}) + kVersions;
  };
  EXPECT_EQ(value_of(read(sum("2000")), "y"), (Values{1 + 2 + 3 * 1998}));
  const Graph large = read(sum("1000000000"));
  for (const Value& value : large.values()) {
    const bool small = !value.constant || element_count(value.constant->dims()) < 1000;
    EXPECT_TRUE(small) << value.name;
  }
}

TEST(TensorflowHostile, FunctionsThatExpandWithoutEndAreRefused) {
  // Each of 40 functions calls the next one twice.
  std::string library;
  for (int i = 0; i < 40; ++i) {
    const std::string name = "F" + std::to_string(i);
    const std::string next = i == 39 ? "Neg" : "F" + std::to_string(i + 1);
    library += "function { signature { name: \"" + name +
               "\" input_arg { name: \"a\" type: DT_FLOAT } output_arg { name: \"b\" type: DT_FLOAT } } " +
               node("p", next, {"a"}, {}, "node_def") + node("q", next, {"p:b:0"}, {}, "node_def") +
               " ret { key: \"b\" value: \"q:b:0\" } }";
  }
  const std::string graph = real("x", 1) + node("c", "F0", {"x"}) + "library { " + library + " }" + kVersions;
  EXPECT_EQ(read_error(graph), "g.pbtxt: its functions and loops expand to more than 51312 nodes");
}

}  // namespace
}  // namespace finity::tensorflow_test

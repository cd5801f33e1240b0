// What TensorFlow graphs say besides arithmetic: declared shapes, what comes from outside, lists and arrays, recurrent
// loops, and ops of which only bounds are known.
#include <gtest/gtest.h>

#include <algorithm>

#include "check/check_graph.h"
#include "formats/tensorflow_support.h"
#include "report/collect.h"

namespace finity::tensorflow_test {
namespace {

using Values = std::vector<double>;

A output_shape(const std::string& dims) { return {"_output_shapes", "list { shape { " + dims + " } }"}; }

Verdict verdict_of(const std::string& graph, const std::string& name, Runtime runtime = Runtime::measured) {
  GraphCheckOptions options;
  options.analysis.ranges.runtime = runtime;
  const CheckedGraph checked = check_graph(read(graph), {}, options);
  Verdict worst = Verdict::proved;
  for (const Finding& finding : checked.analysis.findings) {
    const bool open = finding.verdict != Verdict::proved;
    if (open && checked.graph.node(finding.node).name == name) worst = finding.verdict;
  }
  EXPECT_NE(node_named(checked.graph, name), nullptr) << name;
  return worst;
}

std::string input_names(const Graph& graph) {
  std::string names;
  for (const ValueId id : graph.main().inputs) {
    names += (names.empty() ? "" : ", ") + graph.value(id).name + " " + to_string(graph, graph.value(id).type);
  }
  return names;
}

// ---- shapes that the file declares

TEST(TensorflowDeclaredShapes, AreUsedWhereNothingBetterIsKnown) {
  const std::string start = placeholder("x", "FLOAT", "dim { size: 6 }") +
                            placeholder("s", "INT32", "dim { size: 2 }") +
                            node("r", "Reshape", {"x", "s"}, {output_shape("dim { size: 2 } dim { size: 3 }")});
  const Graph g = read(start + node("y", "Neg", {"r"}) + kVersions);
  EXPECT_EQ(to_string(g, g.value(node_named(g, "r")->outputs[0]).type), "float32[2, 3]");
}

TEST(TensorflowDeclaredShapes, AreCheckedAgainstWhatIsComputed) {
  std::vector<Note> notes;
  const std::string x = placeholder("x", "FLOAT", "dim { size: 4 }");
  read(x + node("y", "Neg", {"x"}, {output_shape("dim { size: 5 }")}) + node("z", "Neg", {"y"}) + kVersions, &notes);
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes[0].where, "node 'y'");
  EXPECT_EQ(notes[0].text, "the file declares float32[5], what it computes is float32[4]");
  notes.clear();
  read(x + node("y", "Neg", {"x"}, {output_shape("dim { size: -1 }")}) + node("z", "Neg", {"y"}) + kVersions, &notes);
  EXPECT_TRUE(notes.empty());
}

// ---- what comes from outside

TEST(TensorflowOutside, QueuesIteratorsAndPythonAreInputs) {
  const std::string graph =
      node("queue", "FIFOQueueV2", {},
           {{"component_types", "list { type: DT_FLOAT type: DT_INT32 }"},
            {"shapes", "list { shape { dim { size: 3 } } shape { } }"}}) +
      integer("many", 4) +
      node("batch", "QueueDequeueManyV2", {"queue", "many"},
           {{"component_types", "list { type: DT_FLOAT type: DT_INT32 }"}}) +
      node("iterator", "IteratorV2", {}) +
      node("next", "IteratorGetNext", {"iterator"},
           {{"output_types", "list { type: DT_FLOAT }"}, {"output_shapes", "list { shape { dim { size: 2 } } }"}}) +
      node("python", "PyFunc", {"next"}, {{"Tin", "list { type: DT_FLOAT }"}, {"Tout", "list { type: DT_FLOAT }"}}) +
      node("a", "Neg", {"batch"}) + node("b", "Neg", {"batch:1"}) + node("c", "Neg", {"next"}) +
      node("d", "Neg", {"python"}) + kVersions;
  EXPECT_EQ(input_names(read(graph)), "batch float32[4, 3], batch:1 int32[4], next float32[2], python float32[...]");
}

TEST(TensorflowOutside, QueuesSayTheShapesOfWhatTheyHold) {
  for (const std::string op : {"FIFOQueue", "FIFOQueueV2", "PaddingFIFOQueue", "PaddingFIFOQueueV2",
                               "RandomShuffleQueue", "RandomShuffleQueueV2", "PriorityQueueV2"}) {
    const A types = {"component_types", "list { type: DT_FLOAT }"};
    const std::string graph =
        node("queue", op, {}, {types, {"shapes", "list { shape { dim { size: 3 } dim { size: 2 } } }"}}) +
        node("next", "QueueDequeueV2", {"queue"}, {types}) + node("y", "Neg", {"next"}) + kVersions;
    EXPECT_EQ(input_names(read(graph)), "next float32[3, 2]") << op;
  }
}

TEST(TensorflowOutside, ConstantsOfTheHostAreConstants) {
  const std::string graph =
      node("c", "HostConst", {},
           {type("dtype", "FLOAT"),
            {"value", "tensor { dtype: DT_FLOAT tensor_shape { dim { size: 2 } } float_val: 3 }"}}) +
      node("y", "Neg", {"c"}) + kVersions;
  EXPECT_EQ(value_of(read(graph), "y"), (Values{-3, -3}));
}

TEST(TensorflowOutside, WhatACheckpointGivesToVariablesIsNoInput) {
  const std::string start =
      constant("file", "STRING", "string_val: \"f\"") +
      constant("names", "STRING", "string_val: \"v\"", "dim { size: 1 }") +
      node("v", "VariableV2", {}, {type("dtype", "FLOAT"), {"shape", "shape { dim { size: 2 } }"}}) +
      node("restored", "RestoreV2", {"file", "names", "names"}, {{"dtypes", "list { type: DT_FLOAT }"}}) +
      node("same", "Identity", {"restored"}) + node("set", "Assign", {"v", "same"}) + node("y", "Neg", {"v"});
  EXPECT_EQ(input_names(read(start + kVersions)), "");
  EXPECT_EQ(input_names(read(start + node("used", "Neg", {"restored"}) + kVersions)), "restored float32[...]");
}

TEST(TensorflowOutside, TheRankOfATextIsANumber) {
  const std::string graph = placeholder("t", "STRING") + node("rank", "Rank", {"t"}, {type("T", "STRING")}) +
                            integer("none", 0) + node("y", "Equal", {"rank", "none"}, {type("T", "INT32")}) + kVersions;
  EXPECT_NE(node_named(read(graph), "y")->op, nullptr);
}

// ---- variables

TEST(TensorflowVariables, HoldWhatTheirInitialiserGives) {
  const std::vector<A> of_two = {type("dtype", "FLOAT"), {"shape", "shape { dim { size: 2 } }"}};
  for (const std::string op : {"Variable", "VariableV2", "AutoReloadVariable", "TemporaryVariable", "VarHandleOp"}) {
    const bool resource = op == "VarHandleOp";
    const auto divided = [&](double taken) {
      return node("v", op, {}, of_two) + constant("start", "FLOAT", "float_val: 3", "dim { size: 2 }") +
             node("set", resource ? "AssignVariableOp" : "Assign", {"v", "start"}) +
             node("read", resource ? "ReadVariableOp" : "Identity", {"v"}, {type("dtype", "FLOAT")}) +
             real("taken", taken) + node("d", "Sub", {"read", "taken"}) + node("y", "RealDiv", {"start", "d"}) +
             kVersions;
    };
    EXPECT_EQ(verdict_of(divided(2.5), "y"), Verdict::proved) << op;
    EXPECT_NE(verdict_of(divided(3), "y"), Verdict::proved) << op;
  }
}

// ---- lists and arrays

TEST(TensorflowLists, KeepWhatIsWritten) {
  const A floats = type("element_dtype", "FLOAT");
  const std::string graph =
      constant("shape", "INT32", "", "dim { size: 0 }") + integer("three", 3) + integer("zero", 0) + integer("two", 2) +
      real("x", 5) + real("y", 7) + node("list", "TensorListReserve", {"shape", "three"}, {floats}) +
      node("l1", "TensorListSetItem", {"list", "two", "x"}, {floats, output_shape("")}) +
      node("l2", "TensorListSetItem", {"l1", "zero", "y"}, {floats, output_shape("")}) +
      node("all", "TensorListStack", {"l2", "shape"}, {floats}) + node("ends", "Neg", {"all"}) +
      node("empty", "EmptyTensorList", {"shape", "three"}, {floats}) +
      node("p1", "TensorListPushBack", {"empty", "x"}, {floats}) +
      node("p2", "TensorListPushBack", {"p1", "y"}, {floats}) +
      node("pop", "TensorListPopBack", {"p2", "shape"}, {floats}) + node("last", "Neg", {"pop:1"}) + kVersions;
  std::vector<Note> notes;
  const Graph g = read(graph, &notes);
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(value_of(g, "ends"), (Values{-7, 0, -5}));
  EXPECT_EQ(value_of(g, "last"), (Values{-7}));
}

// Each write goes to a gradient of its own, and TensorFlow adds the flows, which it takes for scalars.
TEST(TensorflowArrays, GradientsThatMeetAreAdded) {
  const A floats = type("dtype", "FLOAT");
  const auto write = [&](const std::string& name, const std::string& index, const std::string& value) {
    return node(name, "TensorArrayWriteV3", {"grad", index, value, "grad:1"}, {output_shape("")});
  };
  const std::string graph = integer("three", 3) + integer("zero", 0) + integer("one", 1) + real("x", 5) + real("y", 7) +
                            node("array", "TensorArrayV3", {"three"}, {floats, {"element_shape", "shape { }"}}) +
                            node("grad", "TensorArrayGradV3", {"array", "array:1"}, {text("source", "gradients")}) +
                            write("w1", "zero", "x") + write("w2", "one", "y") +
                            node("both", "Add", {"w1", "w2"}, {output_shape("")}) +
                            node("indices", "Range", {"zero", "three", "one"}) +
                            node("all", "TensorArrayGatherV3", {"grad", "indices", "both"}, {floats}) +
                            node("result", "Neg", {"all"}) + kVersions;
  std::vector<Note> notes;
  const Graph g = read(graph, &notes);
  EXPECT_TRUE(notes.empty());
  EXPECT_EQ(value_of(g, "result"), (Values{-5, -7, 0}));
}

// ---- choices of a rank that is not known

TEST(TensorflowSelect, AVectorChoosesRowsWhateverIsKnownOfIt) {
  const std::string graph = placeholder("c", "BOOL", "unknown_rank: true") +
                            placeholder("x", "FLOAT", "dim { size: 2 } dim { size: 2 }") + node("n", "Neg", {"x"}) +
                            node("y", "Select", {"c", "x", "n"}) + kVersions;
  const Tensor x = from_elements<double>(DType::float32, {2, 2}, Values{1, 2, 3, 4});
  const Tensor rows = from_elements<double>(DType::boolean, {2}, Values{1, 0});
  const Tensor all = from_elements<double>(DType::boolean, {2, 2}, Values{1, 0, 0, 1});
  EXPECT_EQ(value_of(read(graph), "y", {{"x", x}, {"c", rows}}), (Values{1, 2, -3, -4}));
  EXPECT_EQ(value_of(read(graph), "y", {{"x", x}, {"c", all}}), (Values{1, -2, -3, 4}));
  EXPECT_EQ(value_of(read(graph), "y", {{"x", x}, {"c", Tensor::scalar(false)}}), (Values{-1, -2, -3, -4}));
}

// ---- orders of axes that are fed

TEST(TensorflowTranspose, FollowsAnOrderThatIsFed) {
  const std::string graph = placeholder("x", "FLOAT", "dim { size: 2 } dim { size: 1 } dim { size: 3 }") +
                            placeholder("order", "INT32", "dim { size: 3 }") + node("y", "Transpose", {"x", "order"}) +
                            kVersions;
  const Tensor x = from_elements<double>(DType::float32, {2, 1, 3}, Values{1, 2, 3, 4, 5, 6});
  const auto in_order = [&](const Values& order) {
    return value_of(read(graph), "y", {{"x", x}, {"order", from_elements<double>(DType::int32, {3}, order)}});
  };
  EXPECT_EQ(in_order({2, 1, 0}), (Values{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(in_order({1, 0, 2}), (Values{1, 2, 3, 4, 5, 6}));
}

// ---- conditionals of version 1

// y = s / n where n > 0.5, else s; the other way round when `taken` and `other` are exchanged.
std::string conditional(const std::string& more, const std::string& taken = ":1", const std::string& other = "") {
  return placeholder("n", "FLOAT", "dim { size: 1 }") + placeholder("s", "FLOAT", "dim { size: 1 }") +
         real("least", 0.5) + constant("dims", "INT32", "", "dim { size: 0 }") + node("one", "Reshape", {"n", "dims"}) +
         node("more", "Greater", {"one", "least"}) + node("pred", "Identity", {"more"}) +
         node("s_switch", "Switch", {"s", "pred"}) + node("n_switch", "Switch", {"one", "pred"}) +
         node("ratio", "RealDiv", {"s_switch" + taken, "n_switch" + taken}) +
         node("else", "Identity", {"s_switch" + other}) + node("y", "Merge", {"else", "ratio"}) +
         node("z", "Neg", {"y"}) + more + kVersions;
}

TEST(TensorflowConditionals, WhatOneBranchComputesIsCheckedUnderItsCondition) {
  EXPECT_EQ(verdict_of(conditional(""), "ratio"), Verdict::proved);
  EXPECT_EQ(verdict_of(conditional("", "", ":1"), "ratio"), Verdict::possible);
  const Tensor s = from_elements<double>(DType::float32, {1}, Values{6});
  const auto with = [&](double n) {
    const Tensor fed = from_elements<double>(DType::float32, {1}, Values{n});
    return value_of(read(conditional("")), "z", {{"s", s}, {"n", fed}});
  };
  EXPECT_EQ(with(3), (Values{-2}));
  EXPECT_EQ(with(0), (Values{-6}));
}

TEST(TensorflowConditionals, WhatOthersUseTooStaysOutside) {
  const std::string graph = conditional(node("besides", "Neg", {"ratio"}));
  EXPECT_EQ(verdict_of(graph, "ratio"), Verdict::possible);
}

// ---- recurrent loops, more rounds than are unrolled

// h and c from the gates of a layer of h and an input: sigmoid(6 h + x) and tanh(6 h + x). As long as "less" is true.
std::string recurrent(const std::string& cell, double added,
                      const std::string& condition = node("less", "Less", {"i", "limit"})) {
  const A frame = text("frame_name", "frame");
  const auto state = [&](const std::string& name, const std::string& start) {
    return node(name + "_enter", "Enter", {start}, {frame}) + node(name, "Merge", {name + "_enter", name + "_next"}) +
           node(name + "_switch", "Switch", {name, "cond"}) + node(name + "_in", "Identity", {name + "_switch:1"}) +
           node(name + "_next", "NextIteration", {name + "_new"}) + node(name + "_exit", "Exit", {name + "_switch"});
  };
  return integer("n", 1000) + integer("zero", 0) + constant("start", "FLOAT", "float_val: 0", "dim { size: 1 }") +
         state("i", "zero") + state("h", "start") + state("c", "start") +
         node("limit", "Enter", {"n"}, {frame, {"is_constant", "b: true"}}) + condition +
         node("cond", "LoopCond", {"less"}) + integer("one", 1, {"^i_in"}) + node("i_new", "Add", {"i_in", "one"}) +
         real("six", 6, {"^i_in"}) + placeholder("x", "FLOAT", "dim { size: 1 }") +
         node("x_in", "Enter", {"x"}, {frame, {"is_constant", "b: true"}}) + node("wide", "Mul", {"h_in", "six"}) +
         node("u", "Add", {"wide", "x_in"}) + node("gate", "Sigmoid", {"u"}) + node("new", "Tanh", {"u"}) + cell +
         real("added", added) + node("sum", "Add", {"h_exit", "added"}) + real("unit", 1) +
         node("y", "RealDiv", {"unit", "sum"}) + kVersions;
}

const std::string kLstm = node("kept", "Mul", {"c_in", "gate"}) + node("more", "Mul", {"gate", "new"}) +
                          node("c_new", "Add", {"kept", "more"}) + node("open", "Tanh", {"c_new"}) +
                          node("h_new", "Mul", {"gate", "open"});
const std::string kGru = node("kept", "Mul", {"gate", "h_in"}) + real("whole", 1, {"^i_in"}) +
                         node("rest", "Sub", {"whole", "gate"}) + node("more", "Mul", {"rest", "new"}) +
                         node("h_new", "Add", {"kept", "more"}) + node("c_new", "Identity", {"c_in"});
const std::string kPlain = node("h_new", "Tanh", {"u"}) + node("c_new", "Identity", {"c_in"});

TEST(TensorflowRecurrent, StatesStayBetweenMinusOneAndOne) {
  for (const std::string& cell : {kLstm, kGru, kPlain}) {
    EXPECT_EQ(verdict_of(recurrent(cell, 1.25), "y"), Verdict::proved) << cell;
    EXPECT_EQ(verdict_of(recurrent(cell, 0.25), "y"), Verdict::possible) << cell;
  }
}

// To the last bit, where kernels are exact: the next number above 1 is enough. ONNX Runtime's sigmoid and tanh
// exceed 1.
TEST(TensorflowRecurrent, StatesReachOneAndNoMore) {
  for (const std::string& cell : {kLstm, kGru, kPlain}) {
    const std::string graph = recurrent(cell, 1 + 0x1p-23);
    EXPECT_EQ(verdict_of(graph, "y", Runtime::exact), Verdict::proved) << cell;
    EXPECT_EQ(verdict_of(graph, "y"), Verdict::possible) << cell;
    EXPECT_EQ(verdict_of(recurrent(cell, 1), "y", Runtime::exact), Verdict::possible) << cell;
  }
}

// A loop that ends when its state says so, as decoders do: what is proved holds for any number of rounds.
TEST(TensorflowRecurrent, NoNumberOfRoundsIsNeeded) {
  const auto until = [](const std::string& cell, double added) {
    return recurrent(cell, added,
                     node("level", "Sum", {"h", "along"}) + integer("along", 0, {"^h"}) + real("enough", 0.5, {"^h"}) +
                         node("less", "Less", {"level", "enough"}));
  };
  for (const std::string& cell : {kLstm, kGru, kPlain}) {
    EXPECT_EQ(verdict_of(until(cell, 1.25), "y", Runtime::exact), Verdict::proved) << cell;
    EXPECT_EQ(verdict_of(until(cell, 0.25), "y", Runtime::exact), Verdict::possible) << cell;
  }
  // A gate that exceeds 1 by a rounding lets the state grow for ever.
  EXPECT_EQ(verdict_of(until(kGru, 1.25), "y"), Verdict::possible);
}

// What a loop writes into an array is as narrow as what it computes.
TEST(TensorflowRecurrent, ArraysOfStates) {
  const A frame = text("frame_name", "frame");
  const std::string array =
      node("ta", "TensorArrayV3", {"n"}, {type("dtype", "FLOAT"), {"element_shape", "shape { dim { size: 1 } }"}}) +
      node("handle", "Enter", {"ta"}, {frame, {"is_constant", "b: true"}}) +
      node("f_enter", "Enter", {"ta:1"}, {frame}) + node("f", "Merge", {"f_enter", "f_next"}) +
      node("f_switch", "Switch", {"f", "cond"}) + node("f_exit", "Exit", {"f_switch"}) +
      node("f_write", "TensorArrayWriteV3", {"handle", "i_in", "h_new", "f_switch:1"}) +
      node("f_next", "NextIteration", {"f_write"}) + node("indices", "Range", {"zero", "n", "step"}) +
      integer("step", 1) + node("all", "TensorArrayGatherV3", {"ta", "indices", "f_exit"}, {type("dtype", "FLOAT")}) +
      node("sums", "Add", {"all", "added"}) + node("ys", "RealDiv", {"unit", "sums"});
  for (const std::string& cell : {kLstm, kGru, kPlain}) {
    EXPECT_EQ(verdict_of(recurrent(cell, 1.25) + array, "ys"), Verdict::proved) << cell;
    EXPECT_EQ(verdict_of(recurrent(cell, 0.25) + array, "ys"), Verdict::possible) << cell;
  }
}

// x starts as a scalar and is a vector from the first round on: the body is written again, for any shape, and what was
// written first is not called "not checked".
TEST(TensorflowRecurrent, BodiesThatWereReplacedDoNotCount) {
  const A frame = text("frame_name", "frame");
  const std::string graph = integer("zero", 0) + integer("n", 100) + real("start", 0) +
                            constant("vector", "FLOAT", "float_val: 1", "dim { size: 3 }") +
                            node("i_enter", "Enter", {"zero"}, {frame}) + node("x_enter", "Enter", {"start"}, {frame}) +
                            node("v", "Enter", {"vector"}, {frame, {"is_constant", "b: true"}}) +
                            node("limit", "Enter", {"n"}, {frame, {"is_constant", "b: true"}}) +
                            node("i", "Merge", {"i_enter", "i_next"}) + node("x", "Merge", {"x_enter", "x_next"}) +
                            node("less", "Less", {"i", "limit"}) + node("cond", "LoopCond", {"less"}) +
                            node("i_switch", "Switch", {"i", "cond"}) + node("x_switch", "Switch", {"x", "cond"}) +
                            integer("one", 1, {"^i_switch"}) + node("i_plus", "Add", {"i_switch:1", "one"}) +
                            node("i_next", "NextIteration", {"i_plus"}) + node("sum", "Add", {"x_switch:1", "v"}) +
                            node("x_next", "NextIteration", {"sum"}) + node("x_exit", "Exit", {"x_switch"}) +
                            node("y", "Neg", {"x_exit"}) + kVersions;
  EXPECT_EQ(value_of(read(graph), "y"), (Values{-100, -100, -100}));
  const CheckedGraph checked = check_graph(read(graph), {});
  Report report;
  collect(report,
          {.graph = checked.graph,
           .types = checked.types,
           .analysis = checked.analysis,
           .assumptions = checked.premises.assumptions},
          {});
  EXPECT_EQ(report.not_checked.nodes, 0U);
  EXPECT_GT(checked.graph.nodes().size(), report.counts.nodes);  // there was a first try
}

// ---- ops of which only bounds are known

// 1 / (result + added), of a node "r".
std::string shifted(const std::string& graph, double added, const std::string& result = "r") {
  return graph + real("added", added) + node("sum", "Add", {result, "added"}) + real("unit", 1) +
         node("y", "RealDiv", {"unit", "sum"}) + kVersions;
}

TEST(TensorflowBounds, RecurrentLayersOfCudnn) {
  for (const std::string op : {"CudnnRNN", "CudnnRNNV2", "CudnnRNNV3"}) {
    const auto layer = [&](const std::string& mode) {
      return placeholder("x", "FLOAT", "dim { size: 5 } dim { size: 2 } dim { size: 3 }") +
             constant("h", "FLOAT", "float_val: 0.5", "dim { size: 1 } dim { size: 2 } dim { size: 4 }") +
             constant("c", "FLOAT", "float_val: 3", "dim { size: 1 } dim { size: 2 } dim { size: 4 }") +
             placeholder("p", "FLOAT", "dim { size: 100 }") +
             node("r", op, {"x", "h", "c", "p"}, {text("rnn_mode", mode)});
    };
    EXPECT_EQ(verdict_of(shifted(layer("lstm"), 1.25), "y"), Verdict::proved) << op;
    EXPECT_EQ(verdict_of(shifted(layer("lstm"), 0.75), "y"), Verdict::possible) << op;
    EXPECT_EQ(verdict_of(shifted(layer("rnn_tanh"), 1.25), "y"), Verdict::proved) << op;
    EXPECT_EQ(verdict_of(shifted(layer("gru"), 2.25), "y"), Verdict::proved) << op;
    EXPECT_EQ(verdict_of(shifted(layer("gru"), 0.75), "y"), Verdict::possible) << op;
    // The cell: 3 and one for each of five steps; twice that is what is claimed.
    EXPECT_EQ(verdict_of(shifted(layer("lstm"), 16.25, "r:2"), "y"), Verdict::proved) << op;
    EXPECT_EQ(verdict_of(shifted(layer("lstm"), 7.75, "r:2"), "y"), Verdict::possible) << op;
    // Nothing bounds a relu.
    EXPECT_EQ(node_named(read(shifted(layer("rnn_relu"), 1)), "r")->op, nullptr) << op;
  }
}

TEST(TensorflowBounds, GradientsOfCudnnAreOfTheOperandsShapes) {
  for (const std::string op : {"CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3"}) {
    const std::string graph = placeholder("x", "FLOAT", "dim { size: 5 } dim { size: 2 } dim { size: 3 }") +
                              placeholder("h", "FLOAT", "dim { size: 1 } dim { size: 2 } dim { size: 4 }") +
                              placeholder("p", "FLOAT", "dim { size: 100 }") + node("r", op, {"x", "h", "h", "p"}) +
                              node("y", "Neg", {"r:3"}) + kVersions;
    const Graph g = read(graph);
    EXPECT_EQ(to_string(g, g.value(node_named(g, "y")->inputs[0]).type), "float32[100]") << op;
  }
}

// Of 5 steps: the state is a product of numbers in [-1, 1], the cell is clipped at 3 or grows by 1 in each step.
TEST(TensorflowBounds, LayersOfLstmAsOneOp) {
  const auto layer = [](const std::string& op, const std::string& clip) {
    const std::string state = "dim { size: 2 } dim { size: 3 }";
    return integer("n", 5) + placeholder("x", "FLOAT", "dim { size: 5 } dim { size: 2 } dim { size: 4 }") +
           constant("c", "FLOAT", "float_val: 1", state) + constant("h", "FLOAT", "float_val: 0", state) +
           placeholder("w", "FLOAT", "dim { size: 7 } dim { size: 12 }") +
           node("r", op, {"n", "x", "c", "h", "w"}, {{"cell_clip", "f: " + clip}});
  };
  EXPECT_EQ(verdict_of(shifted(layer("BlockLSTM", "-1"), 1.25, "r:6"), "y"), Verdict::proved);
  EXPECT_EQ(verdict_of(shifted(layer("BlockLSTM", "-1"), 0.75, "r:6"), "y"), Verdict::possible);
  EXPECT_EQ(verdict_of(shifted(layer("BlockLSTM", "-1"), 0.25, "r:3"), "y"),
            Verdict::proved);  // a gate is not negative
  EXPECT_EQ(verdict_of(shifted(layer("BlockLSTMV2", "0"), 12.25, "r:1"), "y"), Verdict::proved);
  EXPECT_EQ(verdict_of(shifted(layer("BlockLSTMV2", "0"), 5.75, "r:1"), "y"), Verdict::possible);
  EXPECT_EQ(verdict_of(shifted(layer("BlockLSTM", "3"), 3.25, "r:1"), "y"), Verdict::proved);
  EXPECT_EQ(verdict_of(shifted(layer("BlockLSTM", "3"), 2.75, "r:1"), "y"), Verdict::possible);
}

TEST(TensorflowBounds, LettersOfDecodedTexts) {
  for (const std::string op : {"CTCBeamSearchDecoder", "CTCGreedyDecoder"}) {
    const std::string graph = placeholder("x", "FLOAT", "dim { size: 5 } dim { size: 2 } dim { size: 9 }") +
                              placeholder("l", "INT32", "dim { size: 2 }") + node("d", op, {"x", "l"}) +
                              node("r", "Cast", {"d:1"}, {type("SrcT", "INT64"), type("DstT", "FLOAT")});
    EXPECT_EQ(verdict_of(shifted(graph, 1), "y"), Verdict::proved) << op;     // from 0 on
    EXPECT_EQ(verdict_of(shifted(graph, -7), "y"), Verdict::possible) << op;  // up to 7
    EXPECT_EQ(verdict_of(shifted(graph, -8), "y"), Verdict::proved) << op;    // the last of 9 is no letter
  }
}

// In functions, where results have names: the letters of the second text, not where the first stands.
TEST(TensorflowBounds, LettersOfTextsInFunctions) {
  const std::string graph =
      placeholder("x", "FLOAT", "dim { size: 5 } dim { size: 2 } dim { size: 9 }") +
      placeholder("l", "INT32", "dim { size: 2 }") +
      node("r", "PartitionedCall", {"x", "l"}, {{"f", "func { name: \"decode\" }"}}) +
      "library { function { signature { name: \"decode\" input_arg { name: \"scores\" type: DT_FLOAT } input_arg { "
      "name: "
      "\"lengths\" type: DT_INT32 } output_arg { name: \"letters\" type: DT_FLOAT } } node_def { name: \"d\" op: "
      "\"CTCBeamSearchDecoder\" input: \"scores\" input: \"lengths\" attr { key: \"top_paths\" value { i: 2 } } } "
      "node_def "
      "{ name: \"c\" op: \"Cast\" input: \"d:decoded_values:1\" attr { key: \"SrcT\" value { type: DT_INT64 } } attr { "
      "key: "
      "\"DstT\" value { type: DT_FLOAT } } } ret { key: \"letters\" value: \"c:y:0\" } } }\n";
  EXPECT_EQ(verdict_of(shifted(graph, -7), "y"), Verdict::possible);
  EXPECT_EQ(verdict_of(shifted(graph, -8), "y"), Verdict::proved);
}

TEST(TensorflowBounds, DistancesOfTexts) {
  const auto distance = [](bool normalize) {
    const std::string two = "dim { size: 2 }";
    return placeholder("i", "INT64", "dim { size: -1 } dim { size: 2 }") +
           placeholder("v", "INT64", "dim { size: -1 }") + constant("s", "INT64", "int64_val: 3 int64_val: 10", two) +
           node("r", "EditDistance", {"i", "v", "s", "i", "v", "s"},
                {{"normalize", normalize ? "b: true" : "b: false"}});
  };
  EXPECT_EQ(verdict_of(shifted(distance(false), 0.5), "y"), Verdict::proved);
  EXPECT_EQ(verdict_of(shifted(distance(false), -9.5), "y"), Verdict::possible);
  EXPECT_EQ(verdict_of(shifted(distance(false), -10.5), "y"), Verdict::proved);
  EXPECT_EQ(verdict_of(shifted(distance(true), 0), "y"), Verdict::possible);
}

TEST(TensorflowBounds, BucketsOfCrossedColumns) {
  const auto crossed = [](std::int64_t buckets) {
    return placeholder("v", "INT64", "dim { size: -1 }") +
           node("d", "SparseCross", {"v"},
                {type("out_type", "INT64"), {"num_buckets", "i: " + std::to_string(buckets)}}) +
           node("r", "Cast", {"d:1"}, {type("SrcT", "INT64"), type("DstT", "FLOAT")});
  };
  EXPECT_EQ(verdict_of(shifted(crossed(8), 1), "y"), Verdict::proved);     // from 0 on
  EXPECT_EQ(verdict_of(shifted(crossed(8), -7), "y"), Verdict::possible);  // up to 7
  EXPECT_EQ(verdict_of(shifted(crossed(8), -8), "y"), Verdict::proved);
  EXPECT_EQ(verdict_of(shifted(crossed(0), -1e6), "y"), Verdict::possible);  // hashes of any size
}

TEST(TensorflowBounds, ElementsOfSets) {
  const std::string sets =
      constant("a", "INT32", "int_val: 3 int_val: 5", "dim { size: 1 } dim { size: 2 }") +
      constant("b", "INT32", "int_val: 4", "dim { size: 1 } dim { size: 1 }") +
      node("d", "DenseToDenseSetOperation", {"a", "b"}, {text("set_operation", "union"), type("T", "INT32")}) +
      node("r", "Cast", {"d:1"}, {type("SrcT", "INT32"), type("DstT", "FLOAT")});
  EXPECT_EQ(verdict_of(shifted(sets, -2), "y"), Verdict::proved);
  EXPECT_EQ(verdict_of(shifted(sets, -4), "y"), Verdict::possible);
  EXPECT_EQ(verdict_of(shifted(sets, -6), "y"), Verdict::proved);
}

}  // namespace
}  // namespace finity::tensorflow_test

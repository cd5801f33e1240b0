// Variables that training keeps from becoming negative, and those that it does not.
#include <gtest/gtest.h>

#include <string>

#include "formats/tensorflow/tensorflow.h"
#include "graph/initial_weight.h"

namespace finity {
namespace {

std::string constant(const std::string& name, const std::string& value) {
  return "node { name: \"" + name +
         "\" op: \"Const\" attr { key: \"dtype\" value { type: DT_FLOAT } } attr { key: \"value\" value { tensor { "
         "dtype: "
         "DT_FLOAT tensor_shape { dim { size: 2 } } float_val: " +
         value + " } } } }\n";
}

std::string node(const std::string& name, const std::string& op, const std::vector<std::string>& inputs) {
  std::string text = "node { name: \"" + name + "\" op: \"" + op + "\"";
  for (const std::string& input : inputs) text += " input: \"" + input + "\"";
  return text +
         " attr { key: \"T\" value { type: DT_FLOAT } } attr { key: \"dtype\" value { type: DT_FLOAT } } attr { "
         "key: \"shape\" value { shape { dim { size: 2 } } } } }\n";
}

// What the variable "v" may start a step with, when it starts training at `start` and `step` is part of the graph.
InitialWeight::Support support(const std::string& start, const std::string& step) {
  const std::string text = "versions { producer: 1000 }\n" + constant("start", start) + constant("share", "0.1") +
                           constant("keep", "0.9") + node("v", "VariableV2", {}) +
                           node("v/Assign", "Assign", {"v", "start"}) + node("v/read", "Identity", {"v"}) +
                           node("g", "Placeholder", {}) + node("used", "Sqrt", {"v/read"}) + step;
  std::vector<Note> notes;
  const Graph graph = read_tensorflow(text, "step.pbtxt", notes);
  for (const Value& value : graph.values()) {
    const auto* weight = dynamic_cast<const InitialWeight*>(value.constant.get());
    if (weight != nullptr && value.name == "v") return weight->support();
  }
  ADD_FAILURE() << "there is no variable v";
  return {};
}

const std::string kMeanOfSquares = node("kept", "Mul", {"keep", "v/read"}) + node("square", "Square", {"g"}) +
                                   node("added", "Mul", {"share", "square"}) + node("next", "Add", {"kept", "added"}) +
                                   node("update", "Assign", {"v", "next"});

TEST(NeverNegative, MeansOfSquaresStayAboveZero) { EXPECT_EQ(support("0", kMeanOfSquares).lo, 0); }

TEST(NeverNegative, WhatIsTrainedElsewhereMayComeBackAsAnything) { EXPECT_EQ(support("0", "").lo, -1); }

TEST(NeverNegative, MeansOfGradientsDoNot) {
  const std::string step = node("kept", "Mul", {"keep", "v/read"}) + node("added", "Mul", {"share", "g"}) +
                           node("next", "Add", {"kept", "added"}) + node("update", "Assign", {"v", "next"});
  EXPECT_EQ(support("0", step).lo, -1);
}

// Adam on rows that a batch has: the moment is shrunk, then squares times 1 - beta2 are scattered into it.
std::string sparse_step(const std::string& beta) {
  return constant("one", "1") + constant("beta", beta) + node("kept", "Mul", {"keep", "v/read"}) +
         node("shrunk", "Assign", {"v", "kept"}) + node("square", "Mul", {"g", "g"}) +
         node("rest", "Sub", {"one", "beta"}) + node("added", "Mul", {"square", "rest"}) +
         node("rows", "Placeholder", {}) + node("update", "ScatterAdd", {"shrunk", "rows", "added"});
}

TEST(NeverNegative, SquaresScatteredIntoRowsStayAboveZero) {
  EXPECT_EQ(support("0", sparse_step("0.999")).lo, 0);
  EXPECT_EQ(support("0", sparse_step("1.5")).lo, -1);
}

TEST(NeverNegative, ASecondWriteCounts) {
  EXPECT_EQ(support("0", kMeanOfSquares + node("back", "AssignSub", {"v", "share"})).lo, -1);
}

TEST(NeverNegative, WhatIsTakenFromAnotherVariableDependsOnIt) {
  const std::string other = node("w", "VariableV2", {}) + node("w/Assign", "Assign", {"w", "start"}) +
                            node("w/read", "Identity", {"w"}) + node("grow", "AssignAdd", {"w", "share"}) +
                            node("update", "AssignAdd", {"v", "w/read"});
  EXPECT_EQ(support("0", other).lo, 0);
  EXPECT_EQ(support("0", other + node("descend", "ApplyGradientDescent", {"w", "share", "g"})).lo, -1);
}

TEST(NeverNegative, SlotsOfOptimisers) {
  const auto adam = [](const std::string& m, const std::string& v) {
    return node("x", "VariableV2", {}) + node("x/Assign", "Assign", {"x", "start"}) + node("u", "VariableV2", {}) +
           node("u/Assign", "Assign", {"u", "start"}) +
           node("step", "ApplyAdam", {"x", m, v, "keep", "keep", "share", "keep", "keep", "share", "g"});
  };
  EXPECT_EQ(support("0", adam("u", "v")).lo, 0);
  EXPECT_EQ(support("0", adam("v", "u")).lo, -1);
}

TEST(NeverNegative, AReferenceThatIsHandedOnIsFollowed) {
  const std::string step = node("entered", "RefIdentity", {"v"}) + node("update", "Assign", {"entered", "g"});
  EXPECT_EQ(support("0", step).lo, -1);
}

}  // namespace
}  // namespace finity

// A TensorFlow training graph is a program: its inputs, where its variables start, its loss and its optimiser are those
// of the graph, and a search trains it.
#include "program/tensorflow_program.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/error.h"
#include "program/search_program.h"
#include "support/paths.h"
#include "tensor/convert.h"

namespace finity {
namespace {

std::string training_graph() {
  std::ifstream file(testdata_folder() + "/tensorflow/graphs/training.pbtxt");
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size()) {
    text.replace(at, from.size(), to);
  }
  return text;
}

// The program of a graph that is written down for a moment.
TensorFlowProgram program_of(const std::string& text, const Contract& contract = {}, const Bindings& bindings = {}) {
  const std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("training-" + std::to_string(::getpid()) + ".pbtxt");
  std::ofstream(path) << text;
  struct Remove {
    std::filesystem::path path;
    ~Remove() { std::filesystem::remove(path); }
  } remove{path};
  return tensorflow_program(path.string(), contract, bindings);
}

std::string error_of(const std::string& text) {
  try {
    program_of(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

const ProgramWeight& weight(const Program& program, const std::string& name) {
  return *std::ranges::find(program.weights, name, &ProgramWeight::name);
}

TEST(TensorFlowProgram, TakesInputsWeightsLossAndOptimiserFromTheGraph) {
  const TensorFlowProgram made = program_of(training_graph());
  ASSERT_TRUE(made.trains);
  const Program& program = made.program;
  EXPECT_EQ(program.loss, "Neg");
  EXPECT_EQ(program.optimiser.kind, Optimiser::Kind::sgd);
  EXPECT_DOUBLE_EQ(program.optimiser.rate, 0.25);
  std::vector<std::string> names;
  for (const ProgramInput& input : program.inputs) names.push_back(input.name);
  EXPECT_EQ(names, (std::vector<std::string>{"x", "y"}));
  ASSERT_EQ(program.weights.size(), 2U);
  EXPECT_EQ(weight(program, "W").init->kind, Draw::Kind::truncated_normal);
  EXPECT_DOUBLE_EQ(weight(program, "W").init->b, 0.5);
  EXPECT_EQ(weight(program, "b").init->kind, Draw::Kind::constant);
  EXPECT_EQ(weight(program, "b").init->a, 0);
  EXPECT_TRUE(weight(program, "b").train);
}

TEST(TensorFlowProgram, KeepsNothingOfTheBackwardPass) {
  const TensorFlowProgram made = program_of(training_graph());
  for (const NodeId id : made.program.graph->main().nodes) {
    EXPECT_FALSE(made.program.graph->node(id).name.starts_with("gradients/"));
  }
}

TEST(TensorFlowProgram, OperandsOfOptimisersAreRead) {
  const std::string text = replaced(training_graph(), "op: \"ApplyGradientDescent\" input: \"W\" input: \"rate\"",
                                    "op: \"ApplyMomentum\" input: \"W\" input: \"W\" input: \"rate\"");
  const std::string with = replaced(text, "input: \"gradients/MatMul_grad/MatMul_1\"",
                                    "input: \"gradients/MatMul_grad/MatMul_1\" input: \"rate\"");
  const TensorFlowProgram made = program_of(with);
  EXPECT_EQ(made.program.optimiser.kind, Optimiser::Kind::momentum);
  EXPECT_DOUBLE_EQ(made.program.optimiser.momentum, 0.25);
}

TEST(TensorFlowProgram, SettingsOfFtrlStandBehindTheGradient) {
  const std::string power =
      "node { name: \"power\" op: \"Const\" attr { key: \"dtype\" value { type: DT_FLOAT } } attr { key: \"value\" "
      "value { "
      "tensor { dtype: DT_FLOAT tensor_shape { } float_val: -0.75 } } } }\n";
  const std::string gradient = "input: \"gradients/MatMul_grad/MatMul_1\"";
  const std::string before = replaced(training_graph(), "op: \"ApplyGradientDescent\" input: \"W\" input: \"rate\"",
                                      "op: \"ResourceApplyFtrlV2\" input: \"W\" input: \"b\" input: \"b\"");
  const std::string rates = " input: \"rate\" input: \"rate\" input: \"rate\" input: \"rate\" input: \"power\"";
  const Optimiser made = program_of(power + replaced(before, gradient, gradient + rates)).program.optimiser;
  EXPECT_EQ(made.kind, Optimiser::Kind::ftrl);
  EXPECT_DOUBLE_EQ(made.rate, 0.25);
  EXPECT_DOUBLE_EQ(made.l1, 0.25);
  EXPECT_DOUBLE_EQ(made.l2, 0.25);
  EXPECT_DOUBLE_EQ(made.shrinkage, 0.25);
  EXPECT_DOUBLE_EQ(made.power, 0.75);
  EXPECT_DOUBLE_EQ(made.accumulator, 0);  // as b starts
}

// The training graph with classes in the place of rows of probabilities, fed as floats and cast.
std::string with_float_classes(const std::string& loss) {
  const std::string scalar = " attr { key: \"value\" value { tensor { dtype: ";
  const auto constant = [&](const std::string& name, const std::string& type, const std::string& value) {
    return "node { name: \"" + name + "\" op: \"Const\" attr { key: \"dtype\" value { type: " + type + " } }" + scalar +
           type + " tensor_shape { } " + value + " } } } }\n";
  };
  const std::string rows =
      "node { name: \"y\" op: \"Placeholder\" attr { key: \"dtype\" value { type: DT_FLOAT } } attr { key: \"shape\" "
      "value "
      "{ shape { dim { size: -1 } dim { size: 3 } } } } }";
  const std::string classes = replaced(rows, " dim { size: 3 }", "") +
                              "\nnode { name: \"classes\" op: \"Cast\" input: \"y\" attr { key: \"SrcT\" value { type: "
                              "DT_FLOAT } } attr { key: "
                              "\"DstT\" value { type: DT_INT32 } } }\n" +
                              constant("three", "DT_INT32", "int_val: 3") + constant("last", "DT_INT32", "int_val: 1") +
                              constant("on", "DT_FLOAT", "float_val: 1") + constant("off", "DT_FLOAT", "float_val: 0");
  return replaced(replaced(training_graph(), rows, classes),
                  "node { name: \"mul\" op: \"Mul\" input: \"y\" input: \"Log\"", loss);
}

// Labels that lie outside of their axis are refused by a gather, and are no row of a one-hot matrix.
TEST(TensorFlowProgram, ClassesThatAreFedAsFloatsAreDrawnInsideTheirAxis) {
  const std::string hot =
      "node { name: \"hot\" op: \"OneHot\" input: \"classes\" input: \"three\" input: \"on\" input: \"off\" }\n"
      "node { name: \"mul\" op: \"Mul\" input: \"hot\" input: \"Log\"";
  const std::string sparse =
      "node { name: \"sparse\" op: \"SparseSoftmaxCrossEntropyWithLogits\" input: \"add\" input: \"classes\" }\n"
      "node { name: \"mul\" op: \"ExpandDims\" input: \"sparse\" input: \"last\"";
  for (const std::string& loss : {hot, sparse}) {
    const TensorFlowProgram made = program_of(with_float_classes(loss));
    const ProgramInput& y = *std::ranges::find(made.program.inputs, "y", &ProgramInput::name);
    EXPECT_EQ(y.range->lo, 0);
    EXPECT_EQ(y.range->hi, 2);
    EXPECT_TRUE(y.label);
    const std::vector<double> drawn = elements<double>(y.data);
    EXPECT_EQ(std::set<double>(drawn.begin(), drawn.end()), (std::set<double>{0, 1, 2}));
    const ProgramOutcome outcome = search_program(made.program, {.seconds = 1}, nullptr);
    EXPECT_FALSE(outcome.disproves);
  }
}

TEST(TensorFlowProgram, ADeclaredRangeOfClassesIsKept) {
  Contract contract;
  add_range(contract, "y:[0,1]");
  const std::string sparse =
      "node { name: \"sparse\" op: \"SparseSoftmaxCrossEntropyWithLogits\" input: \"add\" input: \"classes\" }\n"
      "node { name: \"mul\" op: \"ExpandDims\" input: \"sparse\" input: \"last\"";
  const TensorFlowProgram made = program_of(with_float_classes(sparse), contract);
  EXPECT_EQ(std::ranges::find(made.program.inputs, "y", &ProgramInput::name)->range->hi, 1);
}

TEST(TensorFlowProgram, ARangeOfTheContractIsLegal) {
  Contract contract;
  add_range(contract, "x:[0,1]");
  const TensorFlowProgram made = program_of(training_graph(), contract);
  EXPECT_EQ(made.program.inputs[0].range->lo, 0);
  EXPECT_EQ(made.program.inputs[0].range->hi, 1);
}

TEST(TensorFlowProgram, ASearchTrainsItUntilTheLogarithmFails) {
  Contract contract;
  add_range(contract, "x:[0,50]");
  add_range(contract, "y:[0,1]");
  const TensorFlowProgram made = program_of(training_graph(), contract);
  const ProgramOutcome outcome = search_program(made.program, {.seconds = 20}, nullptr);
  EXPECT_TRUE(outcome.hit);
  EXPECT_TRUE(outcome.confirmed);
  EXPECT_FALSE(outcome.disproves);
}

TEST(TensorFlowProgram, OtherGraphsAreNone) {
  std::string text = training_graph();
  text.resize(text.find("node { name: \"descent/update_W\""));
  EXPECT_FALSE(program_of(text + "versions { producer: 27 }\n").trains);
}

TEST(TensorFlowProgram, SaysWhyAGraphCannotBeRun) {
  EXPECT_NE(error_of(replaced(training_graph(), "ApplyGradientDescent", "ApplyAddSign")).find("ApplyAddSign"),
            std::string::npos);
  EXPECT_NE(error_of(replaced(training_graph(), "gradients/", "slopes/")).find("the loss that it makes small"),
            std::string::npos);
  const std::string unranked =
      replaced(training_graph(), " attr { key: \"shape\" value { shape { dim { size: -1 } dim { size: 3 } } } }", "");
  EXPECT_NE(error_of(unranked).find("--shape y:"), std::string::npos);
}

}  // namespace
}  // namespace finity

#include "check/contract.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "check_support.h"

namespace finity {
namespace {

using ::testing::Test;

std::string failure(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

Graph one_input(const std::string& name, const std::string& type) {
  return parse_graph(
      "opset 17\ngraph g (\"" + name + "\": " + type + ") -> (y) {\n y = Identity(\"" + name + "\")\n}\n", "test");
}

TEST(Glob, StarsAndQuestionMarks) {
  EXPECT_TRUE(matches_glob("*", ""));
  EXPECT_TRUE(matches_glob("*", "anything/at.all"));
  EXPECT_TRUE(matches_glob("a*c", "abbc"));
  EXPECT_TRUE(matches_glob("a*b*c", "a__b__bc"));
  EXPECT_TRUE(matches_glob("?x", "1x"));
  EXPECT_TRUE(matches_glob("x**", "x"));
  EXPECT_FALSE(matches_glob("a*c", "abcd"));
  EXPECT_FALSE(matches_glob("?", ""));
  EXPECT_FALSE(matches_glob("X", "x"));
  EXPECT_FALSE(matches_glob("", "x"));
  EXPECT_FALSE(matches_glob("*a*a*a*a*a*a*a*a*b", std::string(200, 'a')));
}

TEST(AddRange, Syntax) {
  struct Row {
    const char* text;
    const char* pattern;
    double lo;
    double hi;
  };
  const Row rows[] = {
      {"x:[0,1]", "x", 0, 1},
      {"  x : [ -1.5 , +2e3 ] ", "x", -1.5, 2000},
      {"'*':[-50,50]", "*", -50, 50},
      {"'*:[-50,50]'", "*", -50, 50},
      {"\"a b\":[-inf,inf]", "a b", -kInf, kInf},
      {"scope/input:0:[0,max]", "scope/input:0", 0, kMostFinite},
      {"x[0]:[-max,0]", "x[0]", -kMostFinite, 0},
      {"x:[3,3]", "x", 3, 3},
  };
  for (const Row& row : rows) {
    Contract contract;
    add_range(contract, row.text);
    ASSERT_EQ(contract.inputs.size(), 1U) << row.text;
    EXPECT_EQ(contract.inputs[0].pattern, row.pattern);
    EXPECT_EQ(contract.inputs[0].lo, row.lo);
    EXPECT_EQ(contract.inputs[0].hi, row.hi);
  }
}

TEST(AddRange, MistakesAreNamed) {
  const std::pair<const char*, const char*> rows[] = {
      {"x", "there is no [LO,HI]"},       {"x:0,1", "there is no [LO,HI]"},      {"x[0,1]", "no colon before ["},
      {":[0,1]", "there is no name"},     {"x:[1,0]", "greater than the upper"}, {"x:[0]", "two ends"},
      {"x:[0,1,2]", "two ends"},          {"x:[a,1]", "'a' is not a number"},    {"x:[nan,1]", "'nan' is not a number"},
      {"x:[0,1", "there is no [LO,HI]"},  {"x:[,1]", "'' is not a number"},      {"x:[--1,1]", "'--1' is not a number"},
      {"x:[1e999,1]", "is not a number"}, {"", "there is no [LO,HI]"},
  };
  for (const auto& [text, why] : rows) {
    Contract contract;
    const std::string message = failure([&] { add_range(contract, text); });
    EXPECT_NE(message.find(why), std::string::npos) << text << ": " << message;
    EXPECT_NE(message.find("x:[0,1]"), std::string::npos) << "shows an example";
  }
}

TEST(AddOrder, BothDirections) {
  Contract contract;
  add_order(contract, "b >= a", "here");
  add_order(contract, "boxes[0]<=boxes[2]", "here");
  ASSERT_EQ(contract.orders.size(), 2U);
  EXPECT_EQ(contract.orders[0].greater, "b");
  EXPECT_EQ(contract.orders[1].greater, "boxes[2]");
  EXPECT_EQ(contract.orders[1].smaller, "boxes[0]");
  for (const char* bad : {"", "a", "a > b", ">= b", "a >=", "a >= b >= c", "a <= b >= c"}) {
    EXPECT_NE(failure([&] { add_order(contract, bad, "file:3"); }).find("file:3: relation"), std::string::npos) << bad;
  }
}

TEST(Guesses, FromDtypeAndName) {
  struct Row {
    const char* name;
    const char* type;
    const char* range;
    const char* why;
  };
  const Row rows[] = {
      {"x", "float32[2]", "[-50, 50]", "float32"},
      {"x", "float16[2]", "[-50, 50]", "float16"},
      {"x", "float64[...]", "[-50, 50]", "float64"},
      {"x", "int64[2]", "[-2147483648, 2147483647]", "int64"},
      {"sr", "int64[]", "[0, 2147483647]", "int64"},
      {"sample_rate", "float32[]", "[0, 1e+06]", "float32, a size or rate by its name"},
      {"batch", "float32[]", "[0, 1e+06]", "float32, a size or rate by its name"},
      {"batch", "float32[N, 7]", "[-50, 50]", "float32"},
      {"event_timestamp", "int64[2]", "[0, 9e+15]", "int64, a point in time by its name"},
      {"attention_mask", "int64[2]", "[0, 1]", "int64, a mask by its name"},
      {"attentionMask", "float32[2]", "[0, 1]", "float32, a mask by its name"},
      {"seq_len", "int32[2]", "[1, 1e+06]", "int32, a count by its name"},
      {"past_len", "int64[2]", "[0, 1e+06]", "int64, a count by its name"},
      {"length_penalty", "float32[2]", "[-50, 50]", "float32"},
      {"timesteps", "float32[2]", "[0, 1e+09]", "float32, a step by its name"},
      {"keep_prob", "float32[]", "[0, 1]", "float32, a probability by its name"},
      {"pixel_values", "float32[1, 3, 4, 4]", "[-255, 255]", "float32, an image by its name or shape"},
      {"x", "float32[N, 3, 4, 4]", "[-255, 255]", "float32, an image by its name or shape"},
      {"x", "float32[N, 4, 4, 1]", "[-255, 255]", "float32, an image by its name or shape"},
      {"x", "float32[N, 7, 4, 4]", "[-50, 50]", "float32"},
  };
  for (const Row& row : rows) {
    const Checked test = premises_of(one_input(row.name, row.type));
    EXPECT_EQ(to_string(test.premise(row.name).hull()), row.range) << row.name << " " << row.type;
    ASSERT_FALSE(test.premises.assumptions.empty());
    EXPECT_EQ(test.premises.assumptions[0], std::string(row.name) + ": assumed " + row.range + " (" + row.why +
                                                "; nothing declared, use --range " + row.name + ":[lo,hi])");
  }
}

// A guess must leave room for the ordinary values of such inputs.
TEST(Guesses, OrdinaryValuesAreInside) {
  struct Row {
    const char* name;
    const char* type;
    double value;
  };
  const Row rows[] = {
      {"sr", "int64[]", 48000},          {"sr", "float32[]", 16000},           {"tokens", "int64[N]", 250000},
      {"input_ids", "int32[N]", 128000}, {"labels", "int64[N]", -100},         {"offset", "int64[]", -1},
      {"orig_size", "int64[2]", 4096},   {"image_size", "float32[2]", 3840},   {"seq_lens", "int32[N]", 32768},
      {"cache_length", "int64[]", 0},    {"timestep", "int64[]", 0},           {"timestep", "float32[]", 999},
      {"time_stamp", "int64[]", 1.7e9},  {"timestamp", "int64[]", 1.7e12},     {"seed", "int64[]", 2e9},
      {"waveform", "float32[N]", 32767}, {"boxes", "float32[N, 4]", 1920},     {"position_ids", "int64[N]", 131072},
      {"temperature", "float32[]", 0.7}, {"length_penalty", "float32[]", 0.6},
  };
  for (const Row& row : rows) {
    const Checked test = premises_of(one_input(row.name, row.type));
    EXPECT_TRUE(test.premise(row.name).hull().contains(row.value)) << row.name << " " << row.type;
  }
}

// Where no value is left out there is nothing to tell.
TEST(Guesses, WholeTypesAreNoGuess) {
  for (const char* type : {"bool[2]", "uint8[2]", "int8[2]", "int16[2]", "int32[2]", "uint32[2]"}) {
    const Checked test = premises_of(one_input("x", type));
    EXPECT_TRUE(test.premises.assumptions.empty()) << type;
    ASSERT_EQ(test.premises.guesses.size(), 1U);
    EXPECT_TRUE(test.premises.guesses[0].complete) << type;
  }
}

TEST(Guesses, NothingForStrings) {
  const Checked test = premises_of(one_input("x", "string[2]"));
  EXPECT_TRUE(test.premises.assumptions.empty());
}

TEST(Guesses, IndicesFollowTheTable) {
  const char* text = R"(opset 17
    graph g (where: int64[N], input_ids: int32[N], free: int64[N]) -> (a, b, c) {
      const table: float32[10, 4] = {...}
      w = Unsqueeze(where, axis)
      const axis: int64[1] = {0}
      a = Gather(table, w)
      i = Cast(input_ids) {to = 7}
      b = Gather(table, i)
      b2 = Gather(table, i) {axis = 1}
      c = Identity(free)
    })";
  const Checked test = premises_of(parse_graph(text, "test"));
  EXPECT_EQ(to_string(test.premise("where").hull()), "[-10, 9]");
  EXPECT_EQ(to_string(test.premise("input_ids").hull()), "[0, 3]") << "the smaller of two tables";
  ASSERT_EQ(test.premises.guesses.size(), 3U);
  EXPECT_TRUE(test.premises.guesses[0].complete) << "the table takes nothing else";
  EXPECT_FALSE(test.premises.guesses[1].complete) << "ids may count from the end";
}

TEST(Declared, RangesInTheDtype) {
  struct Row {
    const char* type;
    const char* range;
    const char* expected;
  };
  const Row rows[] = {
      {"float32[2]", "x:[0,1]", "[0, 1]"},
      {"float16[2]", "x:[0,0.1]", "[0, 0.099975586]"},
      {"float32[2]", "x:[-inf,5]", "[-3.4028235e+38, 5] or -Inf"},
      {"float16[2]", "x:[-inf,inf]", "[-65504, 65504] or +Inf or -Inf"},
      {"float16[2]", "x:[-max,max]", "[-65504, 65504]"},
      {"int32[2]", "x:[0.5,3.7]", "[1, 3]"},
      {"uint8[2]", "x:[-inf,inf]", "[0, 255]"},
      {"bool[2]", "x:[0,1]", "[0, 1]"},
      {"int64[2]", "x:[-5,5]", "[-5, 5]"},
  };
  for (const Row& row : rows) {
    const Checked test = premises_of(one_input("x", row.type), ranges({row.range}));
    EXPECT_EQ(to_string(test.premise("x").hull()), row.expected) << row.type << " " << row.range;
    EXPECT_TRUE(test.premises.assumptions.empty());
    EXPECT_TRUE(test.premises.notes.empty());
    EXPECT_TRUE(test.premises.too_wide.empty());
    EXPECT_EQ(test.premise("x").identity, test.value("x"));
  }
}

TEST(Declared, WhatTheFormatCannotHoldIsRemembered) {
  const Checked test = premises_of(one_input("x", "float16[2]"), ranges({"x:[0,1e6]"}));
  EXPECT_EQ(to_string(test.premise("x").hull()), "[0, 65504]");
  ASSERT_EQ(test.premises.too_wide.size(), 1U);
  EXPECT_EQ(test.premises.too_wide[0].declared.hi, 1e6);
  const Checked integers = premises_of(one_input("x", "uint8[2]"), ranges({"x:[-5,300]"}));
  EXPECT_EQ(to_string(integers.premise("x").hull()), "[0, 255]");
  EXPECT_EQ(integers.premises.notes.size(), 1U);
}

TEST(Declared, Contradictions) {
  EXPECT_NE(failure([] { premises_of(one_input("x", "int32[2]"), ranges({"x:[0.2,0.8]"})); }).find("has no value"),
            std::string::npos);
  EXPECT_NE(failure([] { premises_of(one_input("x", "float16[2]"), ranges({"x:[1e6,1e7]"})); }).find("no finite value"),
            std::string::npos);
  EXPECT_NE(failure([] { premises_of(one_input("x", "string[2]"), ranges({"x:[0,1]"})); }).find("no real numbers"),
            std::string::npos);
}

TEST(Declared, NamesBeatPatternsAndLaterBeatsEarlier) {
  const char* text = R"(opset 17
    graph g (a: float32[2], b: float32[2], c: float32[2]) -> (s) {
      s = Sum(a, b, c)
    })";
  const Checked test =
      premises_of(parse_graph(text, "test"), ranges({"b:[2,3]", "*:[-1,1]", "*:[-9,9]", "nobody:[0,1]", "z*:[0,1]"}));
  EXPECT_EQ(to_string(test.premise("a").hull()), "[-9, 9]");
  EXPECT_EQ(to_string(test.premise("b").hull()), "[2, 3]");
  ASSERT_EQ(test.premises.unmatched.size(), 2U);
  EXPECT_EQ(test.premises.unmatched[0].text, "the model has no input or weight named 'nobody'");
  EXPECT_EQ(test.premises.unmatched[1].text, "the model has no input or weight matching 'z*'");
}

constexpr const char* kWeights = R"(opset 17
  graph g (x: float32[1, 2, 3, 3], old: float32[2] = {4, 5}) -> (y, z, s) {
    const w: float32[2] = {-1, 3}
    const zeros: float32[2] = {0, 0}
    const ones: float32[2] = {1, 1}
    const mean: float32[2] = {0.5, 1}
    const var: float32[2] = {0.25, 1}
    const eps: float32[] = {1e-5}
    const one: float32[1] = {2}
    const scales: float32[4] = {1, 1, 2, 2}
    const q: float32[2] = {0.5, 0.25}
    const zp: uint8[2] = {0, 0}
    const many: float32[2] = {...}
    y = BatchNormalization(x, w, zeros, mean, var)
    z = Resize(x, _, scales)
    t = Mul(old, ones)
    u = Add(t, eps)
    v = Add(u, one)
    d = Add(v, many)
    s = QuantizeLinear(d, q, zp) {axis = 0}
  })";

TEST(Weights, TrainedIsTheFile) {
  const Checked test = premises_of(parse_graph(kWeights, "test"));
  for (const char* name : {"w", "zeros", "ones", "old", "eps"}) {
    EXPECT_FALSE(test.premises.of[test.value(name).at()]) << name;
  }
  EXPECT_EQ(to_string(test.premise("many").hull()), "[-3.4028235e+38, 3.4028235e+38]");
  EXPECT_EQ(test.premises.missing, std::vector<ValueId>{test.value("many")});
}

TEST(Weights, Initial) {
  Contract contract;
  contract.weights = WeightMode::initial;
  const Checked test = premises_of(parse_graph(kWeights, "test"), contract);
  const std::pair<const char*, const char*> varied[] = {
      {"w", "[-5, 7]"}, {"zeros", "[-1, 1]"}, {"mean", "[0, 1.5]"}, {"var", "[0, 1.75]"}, {"old", "[3, 6]"}};
  for (const auto& [name, range] : varied) EXPECT_EQ(to_string(test.premise(name).hull()), range) << name;
  for (const char* name : {"ones", "eps", "one", "scales", "q", "zp"}) {
    EXPECT_FALSE(test.premises.of[test.value(name).at()]) << name;
  }
  EXPECT_EQ(test.premises.assumptions.back(),
            "5 weights: widened by the width of their own values (--weights initial)");
}

TEST(Weights, Any) {
  Contract contract;
  contract.weights = WeightMode::any;
  const Checked test = premises_of(parse_graph(kWeights, "test"), contract);
  for (const char* name : {"w", "zeros", "ones", "mean", "var", "old", "many"}) {
    EXPECT_EQ(to_string(test.premise(name).hull()), "[-3.4028235e+38, 3.4028235e+38]") << name;
  }
  EXPECT_FALSE(test.premises.of[test.value("eps").at()]);
}

TEST(Weights, PatternsSpeakOfWeightsUnlessTheyAreJustStars) {
  const Checked test = premises_of(parse_graph(kWeights, "test"), ranges({"*:[-2,2]", "on*:[0,9]", "old:[1,8]"}));
  EXPECT_EQ(to_string(test.premise("x").hull()), "[-2, 2]");
  EXPECT_EQ(to_string(test.premise("ones").hull()), "[0, 9]");
  EXPECT_EQ(to_string(test.premise("one").hull()), "[0, 9]");
  EXPECT_EQ(to_string(test.premise("old").hull()), "[1, 8]");
  EXPECT_FALSE(test.premises.of[test.value("w").at()]);
}

class ContractFile : public Test {
 protected:
  Contract read(const std::string& text) {
    path_ = (std::filesystem::temp_directory_path() / "finity_contract_test.toml").string();
    std::ofstream(path_) << text;
    return read_contract(path_);
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string error(const std::string& text) {
    const std::string message = failure([&] { read(text); });
    return message.starts_with(path_) ? message.substr(path_.size()) : "?" + message;
  }

  std::string path_;
};

TEST_F(ContractFile, EverythingItCanSay) {
  const Contract contract = read(R"(
weights = "initial"
relations = ["b >= a", "boxes[2] >= boxes[0]"]
[inputs.x]
range = [0, 1]
integer = true
nan = true
inf = true
[inputs."scope/*"]
values = [0, 1, 3]
[inputs.m]
mask = "one-true-per-row"
[inputs.bias]
mask = "one-zero-per-row"
axis = 2
[inputs.p]
normalised = true
axis = 1
[inputs.boxes]
range = [-inf, "max"]
columns = { 0 = [0, 10], -1 = [5, 6] }
)");
  EXPECT_EQ(contract.weights, WeightMode::initial);
  ASSERT_EQ(contract.orders.size(), 2U);
  EXPECT_EQ(contract.orders[1].greater, "boxes[2]");
  ASSERT_EQ(contract.inputs.size(), 6U);
  const InputContract& x = contract.inputs[0];
  EXPECT_TRUE(x.integer && x.allow_nan && x.allow_inf);
  EXPECT_EQ(x.hi, 1);
  EXPECT_NE(x.origin.find(".toml:4"), std::string::npos) << x.origin;
  EXPECT_EQ(contract.inputs[1].values.size(), 3U);
  EXPECT_EQ(contract.inputs[2].one_true_axis, -1);
  EXPECT_EQ(contract.inputs[3].one_zero_axis, 2);
  EXPECT_EQ(contract.inputs[4].sums_to_one_axis, 1);
  EXPECT_EQ(contract.inputs[5].hi, kMostFinite);
  EXPECT_EQ(contract.inputs[5].columns.at(-1).second, 6);
}

TEST_F(ContractFile, MistakesNameTheLine) {
  EXPECT_EQ(error("wights = 'any'\n"), ":1: unknown key 'wights' (did you mean 'weights'?)");
  EXPECT_EQ(error("weights = 'some'\n"), ":1: weights can be trained, initial or any, not 'some'");
  EXPECT_EQ(error("\n[inputs.x]\nrnage = [0, 1]\n").substr(0, 24), ":3: unknown key 'rnage' ");
  EXPECT_EQ(error("[inputs.x]\nrange = [1, 0]\n"), ":2: the lower end is greater than the upper one");
  EXPECT_EQ(error("[inputs.x]\nrange = [1]\n"), ":2: a range has two ends");
  EXPECT_EQ(error("[inputs.x]\nrange = [0, nan]\n"), ":2: an end of a range cannot be NaN");
  EXPECT_EQ(error("[inputs.x]\nmask = 'all'\n"),
            ":2: mask can be \"one-true-per-row\" or \"one-zero-per-row\", not \"all\"");
  EXPECT_EQ(error("[inputs.x]\naxis = 1\n"), ":2: an axis belongs to a mask or to normalised rows");
  EXPECT_EQ(error("[inputs.x]\ncolumns = { a = [0, 1] }\n"), ":2: 'a' is not a column number");
  EXPECT_EQ(error("relations = ['a > b']\n"), ":1: relation 'a > b' is not of the form 'b >= a' or 'x[2] >= x[0]'");
  EXPECT_EQ(error("[inputs.x]\nrange = [0, 1]\nvalues = [1]\n"), ":3: give a range or values, not both");
  EXPECT_EQ(error("[inputs.x]\nvalues = []\n"), ":2: there must be at least one value");
}

RowBound rows(const Checked& test) { return std::get<RowBound>(test.premise("x").relations.at(0)); }

TEST(Relations, MasksAndNormalisedRows) {
  Contract contract;
  contract.inputs.push_back({.pattern = "x", .one_true_axis = -1});
  Checked test = premises_of(one_input("x", "bool[3, 4]"), contract);
  ASSERT_EQ(test.premise("x").relations.size(), 1U);
  EXPECT_EQ(rows(test).of, Of::largest);
  EXPECT_EQ(rows(test).axes, 2U);
  EXPECT_EQ(rows(test).in, point(1));

  contract.inputs = {{.pattern = "x", .one_zero_axis = 0}};
  test = premises_of(one_input("x", "float32[3, 4]"), contract);
  EXPECT_EQ(to_string(test.premise("x").hull()), "[-3.4028235e+38, 0] or -Inf");
  EXPECT_EQ(rows(test).in, point(0));
  EXPECT_EQ(rows(test).axes, 1U);

  contract.inputs = {{.pattern = "x", .sums_to_one_axis = 1}};
  test = premises_of(one_input("x", "float16[3, 4]"), contract);
  EXPECT_EQ(to_string(test.premise("x").hull()), "[0, 1]");
  EXPECT_EQ(rows(test).of, Of::sum);
  EXPECT_TRUE(rows(test).in.contains(1));

  contract.inputs = {{.pattern = "x", .one_true_axis = 2}};
  EXPECT_NE(failure([&] { premises_of(one_input("x", "bool[3, 4]"), contract); }).find("has no axis 2"),
            std::string::npos);
}

TEST(Columns, AreCellsOfTheirOwn) {
  Contract contract = ranges({"x:[-1,1]"});
  contract.inputs.push_back({.pattern = "x", .columns = {{0, {5, 6}}, {-1, {7, 8}}}});
  const Checked test = premises_of(one_input("x", "float32[N, 4]"), contract);
  const AbsTensor& x = test.premise("x");
  ASSERT_EQ(x.cells.size(), 3U);
  EXPECT_EQ(x.cuts[1], (Cuts{1, 3}));
  EXPECT_EQ(to_string(x.cells[0]), "[5, 6]");
  EXPECT_EQ(to_string(x.cells[1]), "[-1, 1]");
  EXPECT_EQ(to_string(x.cells[2]), "[7, 8]");
  const Checked smashed = premises_of(one_input("x", "float32[N, 4]"), contract, 1);
  EXPECT_EQ(to_string(smashed.premise("x").hull()), "[-1, 8]");
  EXPECT_EQ(smashed.premise("x").cells.size(), 1U);
}

TEST(Orders, TightenRangesAndGiveFacts) {
  const char* text = R"(opset 17
    graph g (a: float32[N], b: float32[N], c: float32[2]) -> (s) {
      s = Sub(b, a)
    })";
  Contract contract = ranges({"a:[0,10]", "b:[-5,5]"});
  add_order(contract, "b >= a", "here");
  const Checked test = premises_of(parse_graph(text, "test"), contract);
  EXPECT_EQ(to_string(test.premise("a").hull()), "[0, 5]");
  EXPECT_EQ(to_string(test.premise("b").hull()), "[0, 5]");
  EXPECT_NE(find_below(test.premise("b").relations, Of::largest, test.value("a")), nullptr);
  EXPECT_NE(find_above(test.premise("a").relations, Of::smallest, test.value("b")), nullptr);
  for (const char* bad : {"b >= b", "b[0] >= a", "c[2] >= c[0]", "c[1] >= c[1]", "c[x] >= c[0]"}) {
    Contract wrong;
    add_order(wrong, bad, "here");
    EXPECT_NE(failure([&] { premises_of(parse_graph(text, "test"), wrong); }).find("here: "), std::string::npos) << bad;
  }
  Contract absent;
  add_order(absent, "b >= z", "here");
  const Checked without = premises_of(parse_graph(text, "test"), absent);
  ASSERT_EQ(without.premises.unmatched.size(), 1U);
  EXPECT_EQ(without.premises.unmatched[0].name, "z");
  Contract impossible = ranges({"a:[5,10]", "b:[0,1]"});
  add_order(impossible, "b >= a", "here");
  EXPECT_EQ(failure([&] { premises_of(parse_graph(text, "test"), impossible); }),
            "here: the ranges leave no values with that order");
}

TEST(Orders, ColumnsOfOneInput) {
  Contract contract = ranges({"x:[0,10]"});
  add_order(contract, "x[2] >= x[0]", "here");
  add_order(contract, "x[3] >= x[2]", "here");
  Checked test = premises_of(one_input("x", "float32[N, 4]"), contract);
  AbsTensor x = test.premise("x");
  ASSERT_EQ(x.cells.size(), 4U);
  Symbols symbols;
  x.first_symbol = 0;
  for (const Range& cell : x.cells) symbols.fresh(cell);
  apply_orders(test.premises, test.value("x"), x, symbols);
  ASSERT_EQ(x.forms.size(), 4U);
  EXPECT_EQ(x.forms[1].terms.size(), 1U);
  EXPECT_EQ(x.forms[2].terms.size(), 2U);
  EXPECT_EQ(x.forms[3].terms.size(), 3U) << "a chain";
  const Bounds difference = evaluate(subtract(x.forms[3], x.forms[0]), symbols);
  EXPECT_GE(difference.lo, -1e-12);
  EXPECT_GE(difference.hi, 20);
}

// ---- what the declarations are good for ------------------------------------

}  // namespace
}  // namespace finity

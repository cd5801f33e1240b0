#include "ops/table/signature.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "ops/table/op.h"

namespace finity {
namespace {

TEST(Signature, ParsesEveryKindOfParameter) {
  const Signature s = parse_signature(
      "(X: T, B?: T since 13, rest...: int64, more...?: value) -> (Y: seq(T), Z: optional(float16|bool)) where T: "
      "float|int8",
      "axis: int = -1; eps: float = 1e-05; mode: string = linear {linear, cubic since 11} until 17; pads: ints");
  ASSERT_EQ(s.inputs.size(), 4u);
  EXPECT_EQ(s.inputs[1].arity, Param::Arity::optional);
  EXPECT_EQ(s.inputs[2].arity, Param::Arity::some);
  EXPECT_EQ(s.inputs[3].arity, Param::Arity::any);
  EXPECT_EQ(s.inputs[3].type.kind, Type::Kind::unknown);
  EXPECT_EQ(to_string(s.inputs[0].type.dtypes), "float | int8");
  EXPECT_EQ(s.outputs[0].type.kind, Type::Kind::sequence);
  EXPECT_EQ(to_string(s.outputs[1].type.dtypes), "bool | float16");
  EXPECT_EQ(std::get<std::int64_t>(*s.attr("axis")->fallback), -1);
  EXPECT_EQ(std::get<float>(*s.attr("eps")->fallback), 1e-5f);
  EXPECT_NE(s.attr("mode")->choice("linear"), nullptr);
  EXPECT_EQ(s.attr("mode")->choice("nearest"), nullptr);
  EXPECT_FALSE(s.attr("mode")->choice("cubic")->versions.hold(10));
  EXPECT_TRUE(s.attr("mode")->choice("cubic")->versions.hold(11));
  EXPECT_TRUE(s.attr("mode")->versions.hold(17));
  EXPECT_FALSE(s.attr("mode")->versions.hold(18));
  EXPECT_FALSE(s.inputs[1].versions.hold(12));
  EXPECT_TRUE(s.inputs[1].versions.hold(13));
  EXPECT_TRUE(s.inputs[0].versions.hold(1));
  EXPECT_FALSE(s.attr("pads")->fallback.has_value());
  EXPECT_EQ(s.attr("nothing"), nullptr);
}

TEST(Signature, RejectsMalformedTexts) {
  for (const char* text : {"", "(X: T) -> (Y: T)", "(X) -> (Y: float)", "(X: float) (Y: float)",
                           "(X: float) -> (Y: floaty)", "(X: float) -> (Y: float) extra"}) {
    EXPECT_THROW(parse_signature(text, ""), Error) << text;
  }
  for (const char* attrs : {"axis int", "axis: int = x", "axis: ints = 3", "axis: int, b: int", "axis: int since x"}) {
    EXPECT_THROW(parse_signature("() -> (Y: float)", attrs), Error) << attrs;
  }
}

TEST(OpTable, EveryEntryIsCompleteAndUnique) {
  std::set<std::pair<std::string_view, std::string_view>> seen;
  static const std::set<std::string> kKinds = {"value", "int",    "float",   "string",  "tensor", "graph", "type",
                                               "ints",  "floats", "strings", "tensors", "graphs", "types"};
  for (const OpDef* op : all_ops()) {
    EXPECT_TRUE(seen.emplace(op->identity.domain, op->identity.name).second) << op->identity.name << " is listed twice";
    EXPECT_FALSE(op->identity.summary.empty()) << op->identity.name;
    EXPECT_FALSE(op->identity.summary.ends_with('.')) << op->identity.name;
    EXPECT_NE(op->meaning.infer, nullptr) << op->identity.name;
    EXPECT_GE(op->identity.since, 1) << op->identity.name;
    const Signature& signature = signature_of(*op);
    for (const AttrSpec& attr : signature.attrs)
      EXPECT_TRUE(kKinds.contains(attr.kind)) << op->identity.name << " " << attr.name;
    EXPECT_EQ(find_op(op->identity.domain, op->identity.name), op);
  }
  EXPECT_EQ(find_op("ai.onnx", "Log"), find_op("", "Log"));
  EXPECT_EQ(find_op("", "NoSuchOp"), nullptr);
}

}  // namespace
}  // namespace finity

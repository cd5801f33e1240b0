// The op table against libonnx's schema registry: nothing of the default domain is
// forgotten, and signatures admit what every schema version admits.
#include <gtest/gtest.h>
#include <onnx/defs/schema.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "ops/table/op.h"

namespace finity {
namespace {

bool left_out(const std::string& name) {
  for (const LeftOut& entry : left_out_ops()) {
    if (entry.name == name) return true;
  }
  return false;
}

// Newer than the installed libonnx: operator sets 18 to 28.
constexpr const char* kNewerOps[] = {"AffineGrid",
                                     "Attention",
                                     "BitCast",
                                     "BitwiseAnd",
                                     "BitwiseNot",
                                     "BitwiseOr",
                                     "BitwiseXor",
                                     "CausalConvWithState",
                                     "CenterCropPad",
                                     "Col2Im",
                                     "CumProd",
                                     "DeformConv",
                                     "Gelu",
                                     "GroupNormalization",
                                     "ImageDecoder",
                                     "LinearAttention",
                                     "LpPool",
                                     "Mish",
                                     "RMSNormalization",
                                     "RegexFullMatch",
                                     "RotaryEmbedding",
                                     "StringConcat",
                                     "StringSplit",
                                     "SwiGLU",
                                     "Swish",
                                     "TensorScatter"};

TEST(OpTable, CoversTheDefaultDomain) {
  std::set<std::string> names(std::begin(kNewerOps), std::end(kNewerOps));
  for (const onnx::OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas_with_history()) {
    if (schema.domain().empty()) names.insert(schema.Name());
  }
  EXPECT_GT(names.size(), 190u);
  for (const std::string& name : names) {
    const bool present = find_op("", name) != nullptr;
    EXPECT_TRUE(present || left_out(name)) << name << " is neither in the table nor left out with a reason";
    EXPECT_FALSE(present && left_out(name)) << name << " is in the table and left out";
  }
}

std::size_t required(const std::vector<onnx::OpSchema::FormalParameter>& params) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (params[i].GetOption() == onnx::OpSchema::Single) count = i + 1;
  }
  return count;
}

bool admits(const Param& param, const std::string& type) {
  if (param.type.kind == Type::Kind::unknown) return true;
  for (std::size_t code = 1; code < kDTypeCount; ++code) {
    std::string spelled(name(static_cast<DType>(code)));
    if (spelled == "float32") spelled = "float";
    if (spelled == "float64") spelled = "double";
    if (type.find("(" + spelled + ")") != std::string::npos) return param.type.dtypes[code];
  }
  return true;  // maps and the like
}

TEST(OpTable, AdmitsWhatEverySchemaVersionAdmits) {
  int checked = 0;
  for (const onnx::OpSchema& schema : onnx::OpSchemaRegistry::get_all_schemas_with_history()) {
    const OpDef* op = find_op(schema.domain(), schema.Name());
    if (op == nullptr || schema.Deprecated()) continue;
    const Signature& signature = signature_of(*op);
    ++checked;
    const std::string where = schema.Name() + "-" + std::to_string(schema.SinceVersion());
    EXPECT_LE(op->identity.since, schema.SinceVersion()) << where;
    for (std::size_t i = 0; i < schema.inputs().size(); ++i) {
      const Param* param = Signature::param(signature.inputs, i);
      ASSERT_NE(param, nullptr) << where << " has an input " << schema.inputs()[i].GetName();
      for (const std::string* type : schema.inputs()[i].GetTypes())
        EXPECT_TRUE(admits(*param, *type)) << where << " input " << param->name << " " << *type;
    }
    std::size_t ours = 0;
    for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
      const auto arity = signature.inputs[i].arity;
      if (arity == Param::Arity::one || arity == Param::Arity::some) ours = i + 1;
    }
    if (!schema.inputs().empty() && schema.inputs().back().GetOption() != onnx::OpSchema::Variadic) {
      EXPECT_LE(ours, required(schema.inputs())) << where << " requires fewer inputs";
    }
    EXPECT_LE(schema.outputs().size(), signature.outputs.size()) << where;
    for (const auto& [name, attr] : schema.attributes())
      EXPECT_NE(signature.attr(name), nullptr) << where << " attribute " << name;
  }
  EXPECT_GT(checked, 350);
}

struct Span {
  const onnx::OpSchema* schema = nullptr;
  int first = 0, last = 0;  // operator sets in which it holds
};

// The versions of each op, up to the newest operator set that libonnx knows.
std::map<std::string, std::vector<Span>> spans() {
  static const std::vector<onnx::OpSchema> kAll = onnx::OpSchemaRegistry::get_all_schemas_with_history();
  std::map<std::string, std::map<int, const onnx::OpSchema*>> versions;
  int newest = 0;
  for (const onnx::OpSchema& schema : kAll) {
    if (schema.domain().empty() && find_op("", schema.Name()) != nullptr)
      versions[schema.Name()][schema.SinceVersion()] = &schema;
    newest = std::max(newest, schema.SinceVersion());
  }
  std::map<std::string, std::vector<Span>> result;
  for (const auto& [name, history] : versions) {
    for (auto it = history.begin(); it != history.end(); ++it) {
      const int last = std::next(it) == history.end() ? newest : std::next(it)->first - 1;
      if (!it->second->Deprecated()) result[name].push_back({it->second, it->first, last});
    }
  }
  return result;
}

TEST(OpTable, AttributesSayWhichOperatorSetsHaveThem) {
  int looked = 0;
  for (const auto& [name, versions] : spans()) {
    for (const AttrSpec& spec : signature_of(*find_op("", name)).attrs) {
      const bool anywhere = std::ranges::any_of(
          versions, [&](const Span& span) { return span.schema->attributes().contains(spec.name); });
      // What no version of libonnx has came later, or was written by somebody before operator sets had numbers.
      for (const Span& span : versions) {
        const bool has = span.schema->attributes().contains(spec.name);
        const std::string where = name + "-" + std::to_string(span.first) + " attribute " + spec.name;
        EXPECT_TRUE(!anywhere || spec.versions.hold(span.first) == has) << where;
        EXPECT_TRUE((!anywhere && span.last != versions.back().last) || spec.versions.hold(span.last) == has) << where;
        ++looked;
      }
    }
  }
  EXPECT_GT(looked, 500);
}

TEST(OpTable, OperandsSayWhichOperatorSetsHaveThem) {
  int looked = 0;
  for (const auto& [name, versions] : spans()) {
    const Signature& signature = signature_of(*find_op("", name));
    for (const Span& span : versions) {
      const auto& inputs = span.schema->inputs();
      if (!inputs.empty() && inputs.back().GetOption() == onnx::OpSchema::Variadic) continue;
      if (name == "Split" && span.first == 1) continue;  // has an operand that went away and came back
      for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
        const std::string where = name + "-" + std::to_string(span.first) + " operand " + std::to_string(i);
        EXPECT_EQ(signature.inputs[i].versions.hold(span.first), i < inputs.size()) << where;
        EXPECT_EQ(signature.inputs[i].versions.hold(span.last), i < inputs.size()) << where;
        ++looked;
      }
    }
  }
  EXPECT_GT(looked, 500);
}

}  // namespace
}  // namespace finity

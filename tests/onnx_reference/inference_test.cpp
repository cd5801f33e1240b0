// Our type inference against libonnx's own, value by value, over every official
// test model it handles. Declared intermediate and output shapes are removed
// first, so that both sides have to compute them.
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <onnx/shape_inference/implementation.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "base/error.h"
#include "conformance/conformance.h"
#include "formats/onnx/onnx.h"
#include "support/paths.h"
#include "support/support.h"
#include "types/infer.h"

namespace finity {
namespace {

// Where ours deliberately differs; each with its reason.
const std::map<std::string, std::string>& exceptions() {
  static const std::map<std::string, std::string> kExceptions = {
      {"node/test_loop11",
       "libonnx believes the sizes that a loop body declares, which need not be those of every iteration"}};
  return kExceptions;
}

onnx::ModelProto stripped(const std::string& bytes) {
  onnx::ModelProto model;
  EXPECT_TRUE(model.ParseFromString(bytes));
  model.mutable_graph()->clear_value_info();
  for (onnx::ValueInfoProto& output : *model.mutable_graph()->mutable_output()) {
    if (output.type().has_tensor_type()) output.mutable_type()->mutable_tensor_type()->clear_shape();
  }
  return model;
}

// Empty when ours says at least what libonnx says.
std::string weaker(const Type& ours, const onnx::TypeProto& theirs) {
  if (!theirs.has_tensor_type()) return {};
  const onnx::TypeProto_Tensor& tensor = theirs.tensor_type();
  if (tensor.elem_type() == 0) return {};
  if (ours.kind != Type::Kind::tensor) return "is not typed as a tensor";
  if (static_cast<int>(ours.dtype) != tensor.elem_type())
    return "dtype is " + std::string(name(ours.dtype)) + ", libonnx says " + std::to_string(tensor.elem_type());
  if (!tensor.has_shape()) return {};
  if (!ours.ranked) return "has no rank, libonnx says " + std::to_string(tensor.shape().dim_size());
  if (static_cast<int>(ours.shape.size()) != tensor.shape().dim_size()) return "has another rank than libonnx says";
  for (int i = 0; i < tensor.shape().dim_size(); ++i) {
    const auto& dim = tensor.shape().dim(i);
    if (!dim.has_dim_value()) continue;
    const std::int64_t size = ours.shape[static_cast<std::size_t>(i)].size;
    if (size != dim.dim_value())
      return "dimension " + std::to_string(i) + " is " + std::to_string(size) + ", libonnx says " +
             std::to_string(dim.dim_value());
  }
  return {};
}

std::map<std::string, onnx::TypeProto> their_types(onnx::ModelProto& model) {
  std::unordered_map<std::string, onnx::TensorShapeProto> data;
  const onnx::ShapeInferenceOptions options(false, 0, true);
  onnx::shape_inference::InferShapes(model, onnx::OpSchemaRegistry::Instance(), options, &data);
  std::map<std::string, onnx::TypeProto> types;
  for (const onnx::ValueInfoProto& value : model.graph().value_info()) types[value.name()] = value.type();
  for (const onnx::ValueInfoProto& value : model.graph().output()) types[value.name()] = value.type();
  return types;
}

struct Tally {
  int models = 0;
  int values = 0;
  int refused = 0;
};

void compare_model(const std::string& test, Tally& tally) {
  onnx::ModelProto model = stripped(read_text_file(onnx_testdata_folder() + "/" + test + "/model.onnx"));
  const auto bytes = std::make_shared<const std::string>(model.SerializeAsString());
  std::map<std::string, onnx::TypeProto> theirs;
  try {
    theirs = their_types(model);
  } catch (const std::exception&) {
    ++tally.refused;
    return;
  }
  std::vector<Note> notes;
  const Graph graph = read_onnx(
      {.bytes = std::as_bytes(std::span(bytes->data(), bytes->size())), .owner = bytes, .name = test, .directory = {}},
      notes);
  const Types ours = infer_types(graph);
  ++tally.models;
  for (std::size_t i = 0; i < graph.values().size(); ++i) {
    const Value& value = graph.values()[i];
    const auto found = theirs.find(value.name);
    if (value.body != Graph::kMain || found == theirs.end()) continue;
    ++tally.values;
    EXPECT_EQ(weaker(ours.of[i], found->second), "") << test << ": value " << value.name;
  }
}

TEST(Inference, SaysAtLeastWhatLibonnxSays) {
  Tally tally;
  for (const std::string& test : official_tests(onnx_testdata_folder())) {
    if (exceptions().contains(test)) continue;
    try {
      compare_model(test, tally);
    } catch (const Error& error) {
      ADD_FAILURE() << test << ": " << error.what();
    }
  }
  EXPECT_GT(tally.models, 1000) << "libonnx refused " << tally.refused;
  EXPECT_GT(tally.values, 1500);
}

}  // namespace
}  // namespace finity

// testdata/tensorflow/*.txt: small cases per family of TensorFlow ops, in the form of op cases with ops of the domain
// `tf`. Each is written as a text GraphDef (an operand is a placeholder, or a Const where the case says const), read as
// any other file, and run by the reference. Attributes that are texts "true" and "false" are flags, "DT_..." is a type.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "base/error.h"
#include "exec/compare.h"
#include "exec/reference.h"
#include "formats/tensorflow/lowering.h"
#include "formats/tensorflow/tensorflow.h"
#include "formats/text/cases.h"
#include "formats/text/text.h"
#include "support/paths.h"
#include "support/support.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity {
namespace {

namespace fs = std::filesystem;

const std::string kFolder = testdata_folder() + "/tensorflow";

const std::map<DType, std::string> kTypes = {
    {DType::float32, "DT_FLOAT"},     {DType::float64, "DT_DOUBLE"}, {DType::int32, "DT_INT32"},
    {DType::uint8, "DT_UINT8"},       {DType::int16, "DT_INT16"},    {DType::int8, "DT_INT8"},
    {DType::int64, "DT_INT64"},       {DType::boolean, "DT_BOOL"},   {DType::float16, "DT_HALF"},
    {DType::bfloat16, "DT_BFLOAT16"}, {DType::uint16, "DT_UINT16"}};

std::string shape_text(const Dims& dims) {
  std::string text;
  for (const std::int64_t size : dims) text += " dim { size: " + std::to_string(size) + " }";
  return text;
}

// Elements as little-endian bytes, escaped.
std::string content_text(const Tensor& tensor) {
  std::string text;
  for (const std::byte byte : tensor.bytes()) {
    char escaped[8];
    std::snprintf(escaped, sizeof escaped, "\\%03o", static_cast<unsigned>(byte));
    text += escaped;
  }
  return text;
}

std::string placeholder(const std::string& name, const Tensor& tensor) {
  return "node { name: \"" + name +
         "\" op: \"Placeholder\" attr { key: \"dtype\" value { type: " + kTypes.at(tensor.dtype()) +
         " } } attr { key: \"shape\" value { shape {" + shape_text(tensor.dims()) + " } } } }\n";
}

std::string constant(const std::string& name, const Tensor& tensor) {
  const std::string type = kTypes.at(tensor.dtype());
  return "node { name: \"" + name + "\" op: \"Const\" attr { key: \"dtype\" value { type: " + type +
         " } } attr { key: \"value\" value { tensor { dtype: " + type + " tensor_shape {" + shape_text(tensor.dims()) +
         " } tensor_content: \"" + content_text(tensor) + "\" } } } }\n";
}

std::string one_text(const std::string& text) {
  if (text == "true" || text == "false") return "b: " + text;
  if (text.starts_with("DT_")) return "type: " + text;
  return "s: \"" + text + "\"";
}

std::string attr_text(const Attr& attr) {
  std::ostringstream out;
  if (const auto* integer = std::get_if<std::int64_t>(&attr)) out << "i: " << *integer;
  else if (const auto* real = std::get_if<float>(&attr)) out << "f: " << *real;
  else if (const auto* text = std::get_if<std::string>(&attr)) out << one_text(*text);
  else if (const auto* integers = std::get_if<std::vector<std::int64_t>>(&attr)) {
    out << "list {";
    for (const std::int64_t each : *integers) out << " i: " << each;
    out << " }";
  } else if (const auto* reals = std::get_if<std::vector<float>>(&attr)) {
    out << "list {";
    for (const float each : *reals) out << " f: " << each;
    out << " }";
  } else if (const auto* texts = std::get_if<std::vector<std::string>>(&attr)) {
    out << "list {";
    for (const std::string& each : *texts) out << " " << one_text(each);
    out << " }";
  } else {
    throw Error("an attribute of this kind has no text here");
  }
  return out.str();
}

// Values of the case as names of TensorFlow: "node" or "node:1".
class GraphDefText {
 public:
  explicit GraphDefText(const OpCase& test) : graph_(test.graph) {
    text_ = "versions { producer: 1000 }\n";
    for (std::size_t i = 0; i < test.inputs.size(); ++i) {
      const ValueId id = graph_.main().inputs[i];
      names_[id.at()] = "in_" + std::to_string(i);
      text_ += placeholder(names_[id.at()], test.inputs[i]);
    }
    for (const NodeId id : graph_.main().nodes) add(graph_.node(id));
    for (std::size_t i = 0; i < graph_.main().outputs.size(); ++i) add_result(i, graph_.main().outputs[i]);
  }
  const std::string& text() const { return text_; }

 private:
  const std::string& name_of(ValueId id) {
    std::string& name = names_[id.at()];
    if (name.empty() && graph_.value(id).constant) {
      name = "const_" + std::to_string(id.at());
      text_ += constant(name, graph_.value(id).constant->load());
    }
    return name;
  }

  void add(const Node& node) {
    std::string inputs;
    for (const ValueId input : node.inputs) inputs += " input: \"" + name_of(input) + "\"";
    const std::string name = "node_" + std::to_string(count_++);
    text_ += "node { name: \"" + name + "\" op: \"" + std::string(node.op_type) + "\"" + inputs;
    for (const auto& [key, value] : node.attrs) {
      const auto* sizes = key == "shape" ? std::get_if<std::vector<std::int64_t>>(&value) : nullptr;
      text_ +=
          " attr { key: \"" + key + "\" value { " +
          (sizes == nullptr ? attr_text(value) : "shape {" + shape_text(Dims(sizes->begin(), sizes->end())) + " }") +
          " } }";
    }
    text_ += " }\n";
    for (std::size_t i = 0; i < node.outputs.size(); ++i) {
      if (node.outputs[i].valid()) names_[node.outputs[i].at()] = name + (i == 0 ? "" : ":" + std::to_string(i));
    }
  }

  // Under a name of its own: one axis more.
  void add_result(std::size_t i, ValueId id) {
    const std::string axis = "axis_" + std::to_string(i);
    text_ += constant(axis, from_elements<std::int64_t>(DType::int32, Dims{}, std::vector<std::int64_t>{0}));
    text_ += "node { name: \"result_" + std::to_string(i) + "\" op: \"ExpandDims\" input: \"" + name_of(id) +
             "\" input: \"" + axis + "\" }\n";
  }

  const Graph& graph_;
  std::map<std::size_t, std::string> names_;
  std::string text_;
  int count_ = 0;
};

std::vector<Datum> run_as_tensorflow(const OpCase& test) {
  const std::string text = GraphDefText(test).text();
  std::vector<Note> notes;
  const Graph graph = read_tensorflow(text, "case.pbtxt", notes);
  for (const Note& note : notes) ADD_FAILURE() << test.name << ": " << note.text;
  Inputs inputs;
  for (std::size_t i = 0; i < test.inputs.size(); ++i) inputs["in_" + std::to_string(i)] = test.inputs[i];
  for (auto entry = inputs.begin(); entry != inputs.end();) {
    const bool used =
        std::ranges::any_of(graph.main().inputs, [&](ValueId id) { return graph.value(id).name == entry->first; });
    entry = used ? std::next(entry) : inputs.erase(entry);
  }
  const std::vector<Datum> all = run_reference(graph, inputs);
  const Types types = infer_types(graph);
  EXPECT_EQ(type_contradiction(graph, types, all), "") << test.name;
  std::vector<Datum> results(test.expected.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::string& name = graph.value(graph.main().outputs[i]).name;
    if (!name.starts_with("result_")) continue;
    const Tensor& tensor = *all[i].tensor();
    results.at(std::stoul(name.substr(7))) = tensor.reshaped(Dims(tensor.dims().begin() + 1, tensor.dims().end()));
  }
  return results;
}

void run_case(const OpCase& test, const std::string& where) {
  try {
    const std::vector<Datum> outputs = run_as_tensorflow(test);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i].tensor() == nullptr) {
        ADD_FAILURE() << where << ": result " << i << " was not computed";
        continue;
      }
      const Compared result = compare(outputs[i], test.expected[i], {test.tolerance, test.tolerance});
      EXPECT_TRUE(test.tolerance > 0 ? result.within : result.identical)
          << where << ": result " << i << " is " << print_tensor(*outputs[i].tensor()) << " " << result.why;
    }
  } catch (const Error& error) {
    ADD_FAILURE() << where << ": " << error.what();
  }
}

std::vector<std::string> families() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem());
  }
  std::ranges::sort(names);
  return names;
}

std::vector<OpCase> cases_of(const std::string& family) {
  return parse_cases(read_text_file(std::string(kFolder) + "/" + family + ".txt"), family + ".txt");
}

class TensorFlowOps : public testing::TestWithParam<std::string> {};

TEST_P(TensorFlowOps, Hold) {
  for (const OpCase& test : cases_of(GetParam()))
    run_case(test, GetParam() + ".txt:" + std::to_string(test.line) + " " + test.name);
}

INSTANTIATE_TEST_SUITE_P(Families, TensorFlowOps, testing::ValuesIn(families()),
                         [](const auto& info) { return info.param; });

// ---- ops whose results come from outside: inputs of the model, named after the node

struct Outside {
  std::string op;
  DType dtype;
};
const std::vector<Outside> kOutside = {
    {"Placeholder", DType::float32},
    {"PlaceholderV2", DType::float32},
    {"PlaceholderWithDefault", DType::float32},
    {"_Arg", DType::float32},
    {"IteratorGetNext", DType::float32},
    {"IteratorGetNextSync", DType::float32},
    {"MultiDeviceIteratorGetNextFromShard", DType::float32},
    {"FunctionBufferingResourceGetNext", DType::float32},
    {"OptionalGetValue", DType::float32},
    {"DatasetToSingleElement", DType::float32},
    {"ReduceDataset", DType::float32},
    {"PyFunc", DType::float32},
    {"PyFuncStateless", DType::float32},
    {"EagerPyFunc", DType::float32},
    {"RestoreV2", DType::float32},
    {"RestoreSlice", DType::float32},
    {"Restore", DType::float32},
    {"Unstage", DType::float32},
    {"DecodeCSV", DType::float32},
    {"DecodeRaw", DType::float32},
    {"DecodePaddedRaw", DType::float32},
    {"DecodeJpeg", DType::uint8},
    {"DecodeAndCropJpeg", DType::uint8},
    {"DecodePng", DType::uint8},
    {"DecodeBmp", DType::uint8},
    {"DecodeGif", DType::uint8},
    {"DecodeImage", DType::float32},
    {"DecodeWav", DType::float32},
    {"ParseTensor", DType::float32},
    {"ParseSingleExample", DType::float32},
    {"ParseExample", DType::float32},
    {"ParseExampleV2", DType::float32},
    {"StringToNumber", DType::float32},
    {"StringToHashBucketFast", DType::int64},
    {"StringToHashBucketStrong", DType::int64},
    {"StringToHashBucket", DType::int64},
    {"StringLength", DType::int32},
    {"StaticRegexFullMatch", DType::boolean},
    {"RegexFullMatch", DType::boolean},
    {"LookupTableFind", DType::float32},
    {"LookupTableFindV2", DType::float32},
    {"LookupTableSizeV2", DType::int64},
    {"QueueSize", DType::int32},
    {"QueueSizeV2", DType::int32},
    {"QueueDequeue", DType::float32},
    {"QueueDequeueV2", DType::float32},
    {"QueueDequeueMany", DType::float32},
    {"QueueDequeueManyV2", DType::float32},
    {"QueueDequeueUpTo", DType::float32},
    {"QueueDequeueUpToV2", DType::float32},
    {"FarthestPointSample", DType::int32},
    {"SampleDistortedBoundingBox", DType::int32},
    {"SampleDistortedBoundingBoxV2", DType::int32},
};

// A node with every attribute that names a type of results; all of them say float32.
std::string outside_node(const std::string& op) {
  std::string text = "node { name: \"from\" op: \"" + op + "\"";
  if (op.starts_with("Queue")) text += " input: \"queue\"";
  text += " input: \"many\"";
  for (const char* each : {"T", "dtype", "dt", "out_type"})
    text += " attr { key: \"" + std::string(each) + "\" value { type: DT_FLOAT } }";
  // One type, or a list of them.
  text += std::string(" attr { key: \"Tout\" value { ") +
          (op.find("PyFunc") == std::string::npos ? "type: DT_FLOAT } }" : "list { type: DT_FLOAT } } }");
  for (const char* list : {"output_types", "dtypes", "OUT_TYPE", "Tdense", "component_types"})
    text += " attr { key: \"" + std::string(list) + "\" value { list { type: DT_FLOAT } } }";
  return text + " attr { key: \"npoint\" value { i: 2 } } }\n";
}

TEST(TensorFlowTable, WhatComesFromOutsideIsAnInput) {
  const Tensor many = from_elements<std::int64_t>(DType::int32, {1, 1, 3}, std::vector<std::int64_t>{4, 4, 4});
  const Tensor axis = from_elements<std::int64_t>(DType::int32, Dims{}, std::vector<std::int64_t>{0});
  for (const Outside& each : kOutside) {
    const std::string text = "node { name: \"queue\" op: \"FIFOQueueV2\" }\n" + constant("many", many) +
                             outside_node(each.op) + constant("axis", axis) +
                             "node { name: \"y\" op: \"ExpandDims\" input: \"from\" input: \"axis\" }\n" +
                             "versions { producer: 1000 }\n";
    std::vector<Note> notes;
    const Graph graph = read_tensorflow(text, "outside.pbtxt", notes);
    EXPECT_TRUE(notes.empty()) << each.op;
    for (const ValueId input : graph.main().inputs)
      EXPECT_TRUE(graph.value(input).name.starts_with("from")) << each.op << ": " << graph.value(input).name;
    const auto found = std::ranges::find(graph.main().inputs, "from", [&](ValueId id) { return graph.value(id).name; });
    ASSERT_NE(found, graph.main().inputs.end()) << each.op;
    EXPECT_EQ(graph.value(*found).type.dtype, each.dtype) << each.op;
  }
}

// ---- ops that no case can hold, and the test that evaluates them

struct Elsewhere {
  std::string op;
  std::string test;
};
const std::vector<Elsewhere> kElsewhere = {
    {"Const", "Families/TensorFlowOps.Hold/math"},
    {"HostConst", "TensorflowOutside.ConstantsOfTheHostAreConstants"},
    {"FIFOQueue", "TensorflowOutside.QueuesSayTheShapesOfWhatTheyHold"},
    {"FIFOQueueV2", "TensorflowOutside.QueuesSayTheShapesOfWhatTheyHold"},
    {"PaddingFIFOQueue", "TensorflowOutside.QueuesSayTheShapesOfWhatTheyHold"},
    {"PaddingFIFOQueueV2", "TensorflowOutside.QueuesSayTheShapesOfWhatTheyHold"},
    {"RandomShuffleQueue", "TensorflowOutside.QueuesSayTheShapesOfWhatTheyHold"},
    {"RandomShuffleQueueV2", "TensorflowOutside.QueuesSayTheShapesOfWhatTheyHold"},
    {"PriorityQueueV2", "TensorflowOutside.QueuesSayTheShapesOfWhatTheyHold"},
    {"Variable", "TensorflowVariables.HoldWhatTheirInitialiserGives"},
    {"VariableV2", "TensorflowVariables.HoldWhatTheirInitialiserGives"},
    {"AutoReloadVariable", "TensorflowVariables.HoldWhatTheirInitialiserGives"},
    {"TemporaryVariable", "TensorflowVariables.HoldWhatTheirInitialiserGives"},
    {"VarHandleOp", "TensorflowVariables.HoldWhatTheirInitialiserGives"},
    {"Stack", "TensorflowLoops.PopWhatAnotherLoopPushed"},
    {"StackV2", "TensorflowLoops.PopWhatAnotherLoopPushed"},
    {"StackPush", "TensorflowLoops.PopWhatAnotherLoopPushed"},
    {"StackPushV2", "TensorflowLoops.PopWhatAnotherLoopPushed"},
    {"StackPop", "TensorflowLoops.PopWhatAnotherLoopPushed"},
    {"StackPopV2", "TensorflowLoops.PopWhatAnotherLoopPushed"},
    {"BlockLSTM", "TensorflowBounds.LayersOfLstmAsOneOp"},
    {"BlockLSTMV2", "TensorflowBounds.LayersOfLstmAsOneOp"},
    {"CTCBeamSearchDecoder", "TensorflowBounds.LettersOfDecodedTexts"},
    {"CTCGreedyDecoder", "TensorflowBounds.LettersOfDecodedTexts"},
    {"CudnnRNN", "TensorflowBounds.RecurrentLayersOfCudnn"},
    {"CudnnRNNV2", "TensorflowBounds.RecurrentLayersOfCudnn"},
    {"CudnnRNNV3", "TensorflowBounds.RecurrentLayersOfCudnn"},
    {"CudnnRNNBackprop", "TensorflowBounds.GradientsOfCudnnAreOfTheOperandsShapes"},
    {"CudnnRNNBackpropV2", "TensorflowBounds.GradientsOfCudnnAreOfTheOperandsShapes"},
    {"CudnnRNNBackpropV3", "TensorflowBounds.GradientsOfCudnnAreOfTheOperandsShapes"},
    {"DenseToDenseSetOperation", "TensorflowBounds.ElementsOfSets"},
    {"EditDistance", "TensorflowBounds.DistancesOfTexts"},
    {"SparseCross", "TensorflowBounds.BucketsOfCrossedColumns"},
};

std::set<std::string, std::less<>> registered_tests() {
  std::set<std::string, std::less<>> names;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int k = 0; k < suite.total_test_count(); ++k)
      names.insert(std::string(suite.name()) + "." + suite.GetTestInfo(k)->name());
  }
  return names;
}

// Every op of the table that gives something is evaluated: by a case, as something from outside, or by a test of its
// own.
TEST(TensorFlowTable, EveryOpHasACase) {
  using namespace tensorflow;
  std::set<std::string, std::less<>> tried;
  for (const std::string& family : families()) {
    for (const OpCase& test : cases_of(family)) {
      for (const Node& node : test.graph.nodes()) tried.emplace(node.op_type);
    }
  }
  for (const Outside& each : kOutside) tried.insert(each.op);
  const auto tests = registered_tests();
  for (const Elsewhere& each : kElsewhere) {
    EXPECT_TRUE(tests.contains(each.test)) << each.op << ": there is no test " << each.test;
    EXPECT_NE(find_lowering(each.op), nullptr) << each.op << " is not in the table";
    tried.insert(each.op);
  }
  for (const std::span<const Lowering> family : all_lowerings()) {
    for (const Lowering& lowering : family)
      EXPECT_TRUE(tried.contains(lowering.op) || lowering.lower == bookkeeping) << lowering.op << " has no case";
  }
}

TEST(TensorFlowTable, NoOpIsListedTwice) {
  std::set<std::string_view> seen;
  for (const auto family : tensorflow::all_lowerings()) {
    for (const tensorflow::Lowering& lowering : family)
      EXPECT_TRUE(seen.insert(lowering.op).second) << lowering.op << " is listed twice";
  }
}

// testdata/tensorflow/widespread.tsv: the ops that most graphs use, with what becomes of them: `op` is of the table of
// lowerings, `flow` is control flow, `unknown` says why it stays a named unknown.
TEST(TensorFlowTable, KnowsWidespreadOps) {
  std::istringstream lines(read_text_file(std::string(kFolder) + "/widespread.tsv"));
  std::string line;
  int count = 0, unknown = 0;
  while (std::getline(lines, line)) {
    if (line.empty() || line[0] == '#') continue;
    const std::size_t tab = line.find('\t');
    const std::string op = line.substr(0, tab), kind = line.substr(tab + 1, line.find('\t', tab + 1) - tab - 1);
    ++count;
    if (kind == "unknown") ++unknown;
    EXPECT_EQ(kind == "op", tensorflow::find_lowering(op) != nullptr) << op;
  }
  EXPECT_GE(count - unknown, 300);
}

}  // namespace
}  // namespace finity

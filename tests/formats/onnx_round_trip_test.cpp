#include <gtest/gtest.h>

#include <filesystem>

#include "formats/onnx_difference.h"
#include "formats/onnx_support.h"
#include "graph/builder.h"
#include "support/paths.h"
#include "tensor/convert.h"

namespace finity::onnx_test {
namespace {

std::string round_trip(const Graph& graph) {
  std::vector<Note> notes;
  return difference(graph, read(write_onnx(graph), notes));
}

std::string round_trip(const Message& message) { return round_trip(read(message)); }

TEST(OnnxRoundTrip, EveryOfficialModel) {
  int models = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(onnx_testdata_folder())) {
    if (entry.path().filename() != "model.onnx") continue;
    std::vector<Note> notes;
    const Graph graph = read_onnx(entry.path().string(), notes);
    EXPECT_EQ(round_trip(graph), "") << entry.path();
    ++models;
  }
  EXPECT_GE(models, 1000);
}

TEST(OnnxRoundTrip, WritesTheSameBytesTwice) {
  const Message graph = Message()
                            .text(2, "g")
                            .message(1, node("Relu", {"x"}, {"t"}, "r"))
                            .message(1, node("Neg", {"t"}, {"y"}))
                            .message(11, value_info("x"))
                            .message(12, value_info("y"))
                            .message(13, value_info("t"));
  const std::string once = write_onnx(read(model(graph)));
  std::vector<Note> notes;
  EXPECT_EQ(write_onnx(read(once, notes)), once);
}

TEST(OnnxRoundTrip, SparseInitializersStaySparse) {
  const Message values = Message().integer(1, 1).integer(2, 1).text(8, "w").real(4, 5);
  const Message sparse =
      Message().message(1, values).message(2, Message().integer(1, 1).integer(2, 7).integer(7, 2)).integer(3, 4);
  const Graph graph = read(model(Message().message(15, sparse)));
  EXPECT_TRUE(graph.value(graph.main().constants.front()).constant->sparse());
  EXPECT_EQ(round_trip(graph), "");
}

TEST(OnnxRoundTrip, MissingExternalDataAreReferredToAgain) {
  const auto entry = [](std::string_view key, std::string_view value) { return Message().text(1, key).text(2, value); };
  const Message tensor = Message()
                             .integer(1, 2)
                             .integer(2, 1)
                             .text(8, "w")
                             .message(13, entry("location", "gone"))
                             .message(13, entry("offset", "16"))
                             .message(13, entry("length", "8"))
                             .message(13, entry("checksum", "abc"))
                             .integer(14, 1);
  const Graph graph = read(model(Message().message(5, tensor)));
  EXPECT_EQ(round_trip(graph), "");
  const std::string written = write_onnx(graph);
  for (const char* part : {"gone", "16", "checksum", "abc"}) EXPECT_NE(written.find(part), std::string::npos) << part;
}

TEST(OnnxRoundTrip, DefaultsOfInputsAndShadowedNamesStay) {
  const Message loop = Message()
                           .text(2, "b")
                           .message(11, value_info("x"))
                           .message(1, node("Neg", {"x"}, {"n"}))
                           .message(12, value_info("n"));
  const Message graph =
      Message()
          .message(1, node("Op", {"x"}, {"y"}).message(5, Message().text(1, "body").integer(20, 5).message(6, loop)))
          .message(5, Message().integer(1, 2).integer(2, 1).text(8, "x").plain_list<float>(9, {1, 2}))
          .message(11, value_info("x"))
          .message(12, value_info("y"));
  EXPECT_EQ(round_trip(model(graph, 3, 8)), "");
}

TEST(OnnxRoundTrip, OldModelsKeepTheirFormatVersion) {
  const Message graph =
      Message().message(1, node("Relu", {"x"}, {"y"})).message(11, value_info("x")).message(12, value_info("y"));
  const Graph read_back = read(Message().integer(1, 1).message(7, graph));
  EXPECT_EQ(read_back.nodes()[0].version, 1);
  EXPECT_EQ(round_trip(read_back), "");
}

TEST(OnnxRoundTrip, EveryKindOfValueType) {
  const auto nested = [](int field, const Message& type) {
    return Message().message(field, Message().message(1, type));
  };
  const Message symbolic = Message().message(
      1, Message().integer(1, 1).message(2, Message().message(1, Message().text(2, "N")).message(1, Message())));
  const Message graph =
      Message()
          .message(11, value_info("a", nested(4, nested(9, symbolic))))
          .message(11, value_info("b", nested(9, symbolic)))
          .message(11, value_info("c", Message().message(5, Message().integer(1, 7).message(2, symbolic))))
          .message(11, value_info("d", Message().message(8, Message().integer(1, 1))))
          .message(11, Message().text(1, "e"));
  EXPECT_EQ(round_trip(model(graph)), "");
}

Node simple_node(GraphBuilder& builder, std::vector<ValueId> inputs, std::vector<ValueId> outputs, int version) {
  Node result;
  result.op_type = builder.intern("Relu");
  result.domain = builder.intern("");
  result.version = version;
  result.inputs = std::move(inputs);
  result.outputs = std::move(outputs);
  result.body = Graph::kMain;
  return result;
}

TEST(OnnxWriter, GivesEveryValueAUsableName) {
  GraphBuilder builder;
  builder.add_body("g");
  const ValueId x = builder.add_input(Graph::kMain, "x", Type::tensor(DType::float32));
  const ValueId same = builder.add_value(Graph::kMain, "x");
  const ValueId nameless = builder.add_value(Graph::kMain, "");
  builder.add_node(simple_node(builder, {x}, {same}, 17));
  builder.add_node(simple_node(builder, {same}, {nameless}, 17));
  builder.add_output(Graph::kMain, nameless);
  std::vector<Note> notes;
  const Graph graph = read(write_onnx(std::move(builder).build()), notes);
  EXPECT_EQ(graph.value(graph.nodes()[0].outputs[0]).name, "x_2");
  EXPECT_EQ(graph.value(graph.nodes()[1].outputs[0]).name, "value_1");
  EXPECT_EQ(graph.nodes()[1].inputs, graph.nodes()[0].outputs);
  EXPECT_EQ(graph.info().opsets.at(""), 17);
  EXPECT_EQ(graph.info().ir_version, 8);
  EXPECT_TRUE(notes.empty());
}

TEST(OnnxWriter, RaisesTheFormatVersionWhereTypesNeedIt) {
  for (const auto& [dtype, ir] : {std::pair(DType::float32, 4),
                                  {DType::float8e5m2, 9},
                                  {DType::int4, 10},
                                  {DType::float4e2m1, 11},
                                  {DType::int2, 13}}) {
    GraphBuilder builder;
    builder.info().ir_version = 4;
    builder.info().opsets[""] = 9;
    builder.add_body("g");
    builder.add_constant(Graph::kMain, "w", make_constant(from_elements<double>(dtype, {3}, {0, 1, 1})));
    const Graph original = std::move(builder).build();
    std::vector<Note> notes;
    const Graph graph = read(write_onnx(original), notes);
    EXPECT_EQ(graph.info().ir_version, ir) << name(dtype);
    EXPECT_TRUE(identical(graph.value(graph.main().constants[0]).constant->load(),
                          original.value(original.main().constants[0]).constant->load()));
  }
}

TEST(OnnxWriter, RefusesConstantsWithoutElements) {
  GraphBuilder builder;
  builder.add_body("g");
  builder.add_constant(Graph::kMain, "w",
                       std::make_shared<MissingConstant>(DType::float32, Dims{2}, "the elements are unknown"));
  try {
    write_onnx(std::move(builder).build());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "initializer 'w': the elements are unknown");
  }
}

TEST(OnnxWriter, KeepsNodesOfOtherVersionsApart) {
  GraphBuilder builder;
  builder.info().ir_version = 7;
  builder.info().opsets[""] = 13;
  builder.add_body("g");
  const ValueId x = builder.add_input(Graph::kMain, "x", Type::tensor(DType::float32));
  const ValueId y = builder.add_value(Graph::kMain, "y");
  const ValueId z = builder.add_value(Graph::kMain, "z");
  builder.add_node(simple_node(builder, {x}, {y}, 6));
  builder.add_node(simple_node(builder, {y}, {z}, 13));
  builder.add_output(Graph::kMain, z);
  std::vector<Note> notes;
  const Graph graph = read(write_onnx(std::move(builder).build()), notes);
  EXPECT_EQ(graph.info().ir_version, 8);
  EXPECT_EQ(graph.info().opsets, (std::map<std::string, int, std::less<>>{{"", 13}}));
  EXPECT_EQ(graph.nodes()[0].version, 6);
  EXPECT_EQ(graph.nodes()[1].version, 13);
  EXPECT_EQ(graph.nodes()[0].op_type, "Relu");
  EXPECT_EQ(graph.nodes()[0].where.origin, nullptr);
}

}  // namespace
}  // namespace finity::onnx_test

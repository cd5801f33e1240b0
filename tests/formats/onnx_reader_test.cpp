#include <gtest/gtest.h>

#include "formats/onnx_support.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity::onnx_test {
namespace {

Message scalar(std::string_view name, float value) {
  return Message().integer(2, 1).text(8, name).plain_list<float>(9, {value});
}

Message attribute(std::string_view name, int kind) { return Message().text(1, name).integer(20, kind); }

const Node& first_node(const Graph& graph) { return graph.node(graph.main().nodes.front()); }

std::vector<std::string> names(const Graph& graph, const std::vector<ValueId>& values) {
  std::vector<std::string> result;
  for (const ValueId id : values) result.push_back(id.valid() ? graph.value(id).name : "-");
  return result;
}

Graph read_with_note(const Message& message, const std::string& expected) {
  std::vector<Note> notes;
  Graph graph = read(message.bytes(), notes);
  EXPECT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes.empty() ? "" : notes.front().text, expected);
  return graph;
}

TEST(OnnxReader, KeepsWhatTheModelSaysOfItself) {
  const Message message =
      model(Message().text(2, "g").text(10, "graph doc").message(16, Message().text(1, "a").text(2, "b")), 10)
          .text(2, "maker")
          .text(3, "1.2")
          .text(4, "org")
          .integer(5, 7)
          .text(6, "doc")
          .message(14, Message().text(1, "k").text(2, "v"));
  const Graph graph = read(message);
  const ModelInfo& info = graph.info();
  EXPECT_EQ(info.file, "m.onnx");
  EXPECT_EQ(info.ir_version, 10);
  EXPECT_EQ(info.producer_name + info.producer_version + info.domain + info.doc, "maker1.2orgdoc");
  EXPECT_EQ(info.model_version, 7);
  EXPECT_EQ(info.metadata, (Properties{{"k", "v"}}));
  EXPECT_EQ(info.opsets.at(""), 17);
  EXPECT_EQ(graph.main().name, "g");
  EXPECT_EQ(graph.main().doc, "graph doc");
  EXPECT_EQ(graph.main().metadata, (Properties{{"a", "b"}}));
}

TEST(OnnxReader, KeepsNodesWithTheirPlace) {
  const Message relu = node("Relu", {"x"}, {"y"}, "r")
                           .text(6, "why")
                           .text(8, "v2")
                           .message(9, Message().text(1, "at").text(2, "l.py:3"));
  const Message message = model(Message().message(1, relu).message(11, value_info("x")).message(12, value_info("y")));
  const Graph graph = read(message);
  const Node& only = first_node(graph);
  EXPECT_EQ(only.op, find_op("", "Relu"));
  EXPECT_EQ(only.op_type, "Relu");
  EXPECT_EQ(only.version, 17);
  EXPECT_EQ(only.name, "r");
  EXPECT_EQ(only.where.offset, message.bytes().find(relu.bytes()));
  ASSERT_NE(only.where.origin, nullptr);
  EXPECT_EQ(only.where.origin->doc, "why");
  EXPECT_EQ(only.where.origin->overload, "v2");
  EXPECT_EQ(only.where.origin->metadata, (Properties{{"at", "l.py:3"}}));
  EXPECT_EQ(read(model(Message().message(1, node("Relu", {"x"}, {"y"})).message(11, value_info("x"))))
                .nodes()[0]
                .where.origin,
            nullptr);
}

TEST(OnnxReader, KeepsUnknownOpsByName) {
  const Message custom = Message().message(1, node("Fancy", {"x"}, {"y"}, "", "my.ops")).message(11, value_info("x"));
  const Graph graph = read(model(custom).message(8, opset("my.ops", 3)));
  EXPECT_EQ(first_node(graph).op, nullptr);
  EXPECT_EQ(first_node(graph).op_type, "Fancy");
  EXPECT_EQ(first_node(graph).domain, "my.ops");
  EXPECT_EQ(first_node(graph).version, 3);
}

TEST(OnnxReader, TakesTheDefaultDomainByEitherName) {
  const Message graph = Message().message(1, node("Relu", {"x"}, {"y"}, "", "ai.onnx")).message(11, value_info("x"));
  const Graph read_back = read(Message().integer(1, 8).message(7, graph).message(8, opset("ai.onnx", 15)));
  EXPECT_EQ(first_node(read_back).domain, "");
  EXPECT_EQ(first_node(read_back).version, 15);
  EXPECT_EQ(read_back.info().opsets, (std::map<std::string, int, std::less<>>{{"", 15}}));
}

TEST(OnnxReader, GuessesMissingOperatorSets) {
  const Message graph = Message().message(1, node("Relu", {"x"}, {"y"})).message(11, value_info("x"));
  std::vector<Note> notes;
  EXPECT_EQ(first_node(read(Message().integer(1, 2).message(7, graph).bytes(), notes)).version, 1);
  EXPECT_TRUE(notes.empty());
  const Graph guessed =
      read_with_note(Message().integer(1, 7).message(7, graph),
                     "the model does not say which operator set of the default domain it uses; taking version 14");
  EXPECT_EQ(first_node(guessed).version, 14);
  EXPECT_EQ(guessed.info().opsets.at(""), 14);
  const Message other = Message()
                            .message(1, node("Op", {"x"}, {"y"}, "", "d"))
                            .message(1, node("Op", {"y"}, {"z"}, "", "d"))
                            .message(11, value_info("x"));
  read_with_note(model(other), "the model does not say which operator set of domain 'd' it uses; taking version 1");
}

TEST(OnnxReader, OrdersNodesAndKeepsOmittedOperands) {
  const Message graph = Message()
                            .message(1, node("Clip", {"a", "", "m"}, {"b"}))
                            .message(1, node("Split", {"x"}, {"", "a"}))
                            .message(5, scalar("m", 1))
                            .message(11, value_info("x"))
                            .message(12, value_info("b"));
  const Graph read_back = read(model(graph));
  const Node& split = first_node(read_back);
  EXPECT_EQ(split.op_type, "Split");
  EXPECT_EQ(names(read_back, split.outputs), (std::vector<std::string>{"-", "a"}));
  const Node& clip = read_back.node(read_back.main().nodes[1]);
  EXPECT_EQ(names(read_back, clip.inputs), (std::vector<std::string>{"a", "-", "m"}));
}

TEST(OnnxReader, KeepsAnInitializerThatIsAnInputAsDefault) {
  const Message graph = Message()
                            .message(1, node("Relu", {"w"}, {"y"}))
                            .message(5, scalar("w", 2))
                            .message(5, scalar("unused", 3))
                            .message(11, value_info("w", tensor_type(1, {})));
  const Graph read_back = read(model(graph, 3, 7));
  const Body& main = read_back.main();
  EXPECT_EQ(names(read_back, main.inputs), (std::vector<std::string>{"w"}));
  EXPECT_EQ(names(read_back, main.constants), (std::vector<std::string>{"w", "unused"}));
  ASSERT_NE(read_back.value(main.inputs.front()).constant, nullptr);
  EXPECT_EQ(element_as_double(read_back.value(main.inputs.front()).constant->load(), 0), 2);
}

TEST(OnnxReader, LetsTheLastOfTwoInitializersOrConstantsCount) {
  const Message twice =
      Message().message(1, node("Relu", {"w"}, {"y"})).message(5, scalar("w", 2)).message(5, scalar("w", 3));
  const Graph first = read_with_note(model(twice), "initializer 'w': given twice, the last one counts");
  ASSERT_EQ(first.main().constants.size(), 1U);
  EXPECT_EQ(element_as_double(first.value(first.main().constants.front()).constant->load(), 0), 3);

  Message graph;
  for (const float value : {1.0F, 2.0F, 3.0F}) {
    graph.message(1, node("Constant", {}, {"c"}).message(5, attribute("value", 4).message(5, scalar("", value))));
  }
  const Graph second = read_with_note(model(graph.message(1, node("Relu", {"c"}, {"y"}))),
                                      "Constant 'c' and 1 more: given twice, the last one counts");
  ASSERT_EQ(second.main().nodes.size(), 2U);
  const auto& value = std::get<ConstantPtr>(*first_node(second).attrs.find("value"));
  EXPECT_EQ(element_as_double(value->load(), 0), 3);
}

TEST(OnnxReader, ReadsEveryKindOfAttribute) {
  const Message sparse = Message()
                             .message(1, Message().integer(1, 1).integer(2, 1).real(4, 5))
                             .message(2, Message().integer(1, 1).integer(2, 7).integer(7, 2))
                             .integer(3, 4);
  const Message op =
      node("Op", {}, {"y"})
          .message(5, attribute("f", 1).real(2, 1.5F))
          .message(5, attribute("i", 2).integer(3, -4))
          .message(5, attribute("s", 3).text(4, "text"))
          .message(5, attribute("t", 4).message(5, scalar("", 2)))
          .message(5, attribute("g", 5).message(6, Message().text(2, "sub")))
          .message(5, attribute("fs", 6).real(7, 1).plain_list<float>(7, {2}))
          .message(5, attribute("is", 7).integer(8, 1).packed(8, {2, 3}))
          .message(5, attribute("ss", 8).text(9, "a").text(9, "b"))
          .message(5, attribute("ts", 9).message(10, scalar("", 1)).message(10, scalar("", 2)))
          .message(5, attribute("gs", 10).message(11, Message().text(2, "p")).message(11, Message().text(2, "q")))
          .message(5, attribute("sp", 11).message(22, sparse))
          .message(5, attribute("sps", 12).message(23, sparse))
          .message(5, attribute("tp", 13).message(14, tensor_type(7, {3})))
          .message(5, attribute("tps", 14).message(15, tensor_type(7, {})));
  const Graph graph = read(model(Message().message(1, op)));
  const Attrs& attrs = first_node(graph).attrs;
  const auto get = [&]<class T>(std::string_view name, const T*) -> const T& { return std::get<T>(*attrs.find(name)); };
  EXPECT_EQ(get("f", static_cast<const float*>(nullptr)), 1.5F);
  EXPECT_EQ(get("i", static_cast<const std::int64_t*>(nullptr)), -4);
  EXPECT_EQ(get("s", static_cast<const std::string*>(nullptr)), "text");
  EXPECT_EQ(element_as_double(get("t", static_cast<const ConstantPtr*>(nullptr))->load(), 0), 2);
  EXPECT_EQ(graph.body(get("g", static_cast<const BodyId*>(nullptr))).name, "sub");
  EXPECT_EQ(get("fs", static_cast<const std::vector<float>*>(nullptr)), (std::vector<float>{1, 2}));
  EXPECT_EQ(get("is", static_cast<const std::vector<std::int64_t>*>(nullptr)), (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(get("ss", static_cast<const std::vector<std::string>*>(nullptr)), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(get("ts", static_cast<const std::vector<ConstantPtr>*>(nullptr)).size(), 2U);
  EXPECT_EQ(get("gs", static_cast<const std::vector<BodyId>*>(nullptr)).size(), 2U);
  const Constant& dense = *get("sp", static_cast<const ConstantPtr*>(nullptr));
  EXPECT_TRUE(dense.sparse());
  EXPECT_EQ(elements<double>(dense.load()), (std::vector<double>{0, 0, 5, 0}));
  EXPECT_TRUE(get("sps", static_cast<const std::vector<ConstantPtr>*>(nullptr)).front()->sparse());
  EXPECT_EQ(to_string(graph, get("tp", static_cast<const Type*>(nullptr))), "int64[3]");
  EXPECT_EQ(get("tps", static_cast<const std::vector<Type>*>(nullptr)).size(), 1U);
}

TEST(OnnxReader, GuessesTheKindOfAttributesOfTheFirstFormat) {
  const Message op = node("Op", {}, {"y"})
                         .message(5, Message().text(1, "i").integer(3, 5))
                         .message(5, Message().text(1, "fs").real(7, 1))
                         .message(5, Message().text(1, "nothing"));
  const Graph graph = read_with_note(Message().integer(1, 1).message(7, Message().message(1, op)),
                                     "attribute 'nothing': without a value, left out");
  const Attrs& attrs = first_node(graph).attrs;
  EXPECT_EQ(std::get<std::int64_t>(*attrs.find("i")), 5);
  EXPECT_EQ(std::get<std::vector<float>>(*attrs.find("fs")).size(), 1U);
  EXPECT_EQ(attrs.find("nothing"), nullptr);
}

TEST(OnnxReader, TakesZeroAndEmptyListsThatAreLeftOut) {
  const Message op =
      node("Op", {}, {"y"}).message(5, attribute("i", 2)).message(5, attribute("f", 1)).message(5, attribute("is", 7));
  const Attrs attrs = first_node(read(model(Message().message(1, op)))).attrs;
  EXPECT_EQ(std::get<std::int64_t>(*attrs.find("i")), 0);
  EXPECT_EQ(std::get<float>(*attrs.find("f")), 0);
  EXPECT_TRUE(std::get<std::vector<std::int64_t>>(*attrs.find("is")).empty());
}

TEST(OnnxReader, ReadsEveryKindOfType) {
  const Message dims = Message()
                           .message(1, Message().integer(1, 2))
                           .message(1, Message().text(2, "N"))
                           .message(1, Message())
                           .message(1, Message().integer(1, -1))
                           .message(1, Message().integer(1, std::int64_t{1} << 60));
  const Message typed = Message().message(1, Message().integer(1, 10).message(2, dims));
  const auto nested = [](int field, const Message& type) {
    return Message().message(field, Message().message(1, type));
  };
  const Message graph =
      Message()
          .message(11, value_info("a", typed))
          .message(11, value_info("b", nested(4, typed)))
          .message(11, value_info("c", nested(9, tensor_type(1, {}))))
          .message(11, value_info("d", Message().message(5, Message().integer(1, 8).message(2, tensor_type(1, {})))))
          .message(11, value_info("e", Message().message(8, Message().integer(1, 1))))
          .message(11, value_info("f", Message().message(1, Message().integer(1, 1))))
          .message(11, Message().text(1, "g"));
  const Graph read_back = read(model(graph));
  std::vector<std::string> types;
  for (const ValueId id : read_back.main().inputs) types.push_back(to_string(read_back, read_back.value(id).type));
  EXPECT_EQ(types, (std::vector<std::string>{"float16[2, N, ?, ?, ?]", "sequence(float16[2, N, ?, ?, ?])",
                                             "optional(float32[])", "map(string, float32[])", "sparse float32[...]",
                                             "float32[...]", "?"}));
  EXPECT_EQ(read_back.symbols().size(), 1U);
}

TEST(OnnxReader, JoinsWhatValueInfoAndOutputsSayOfAValue) {
  const Message half = Message().message(1, Message().message(2, Message().message(1, Message().integer(1, 4))));
  const Message graph = Message()
                            .message(1, node("Relu", {"x"}, {"y"}))
                            .message(11, value_info("x"))
                            .message(13, value_info("y", Message().message(1, Message().integer(1, 1))))
                            .message(12, value_info("y", half));
  const Graph read_back = read(model(graph));
  EXPECT_EQ(to_string(read_back, read_back.value(read_back.main().outputs.front()).type), "float32[4]");
}

TEST(OnnxReader, LetsSubgraphsUseAndHideOuterNames) {
  const Message inner =
      Message().text(2, "inner").message(1, node("Add", {"late", "x"}, {"s"})).message(12, value_info("s"));
  const Message hiding =
      Message().text(2, "hiding").message(1, node("Neg", {"x"}, {"late"})).message(12, value_info("late"));
  const Message branch = node("If", {"c"}, {"y"})
                             .message(5, attribute("then_branch", 5).message(6, inner))
                             .message(5, attribute("else_branch", 5).message(6, hiding));
  const Message graph = Message()
                            .message(1, branch)
                            .message(1, node("Relu", {"x"}, {"late"}))
                            .message(11, value_info("x"))
                            .message(11, value_info("c"));
  const Graph read_back = read(model(graph));
  ASSERT_EQ(read_back.bodies().size(), 3U);
  const Node& choice = read_back.node(read_back.main().nodes[1]);
  EXPECT_EQ(choice.op_type, "If");  // moved behind the Relu it captures
  EXPECT_EQ(names(read_back, choice.captures), (std::vector<std::string>{"x", "late"}));
  const Body& else_body = read_back.body(std::get<BodyId>(*choice.attrs.find("else_branch")));
  EXPECT_NE(else_body.outputs.front(), choice.captures[1]);
  EXPECT_EQ(read_back.value(else_body.outputs.front()).body, std::get<BodyId>(*choice.attrs.find("else_branch")));
}

TEST(OnnxReader, LetsABranchReturnAnOuterValue) {
  const Message inner = Message().message(12, value_info("x", tensor_type(7, {9})));
  const Message graph =
      Message()
          .message(1, node("If", {"c"}, {"y"}).message(5, attribute("then_branch", 5).message(6, inner)))
          .message(11, value_info("x"))
          .message(11, value_info("c"));
  const Graph read_back = read(model(graph));
  EXPECT_EQ(read_back.body(BodyId{1}).outputs.front(), read_back.main().inputs.front());
  EXPECT_EQ(to_string(read_back, read_back.value(read_back.main().inputs.front()).type), "float32[2]");
}

TEST(OnnxReader, KeepsWeightsAsViews) {
  const Message graph =
      Message()
          .message(5, Message().integer(1, 2).integer(2, 1).text(8, "w").plain_list<float>(9, {1, 2}))
          .message(5, Message().integer(1, 2).integer(2, 1).text(8, "v").plain_list<float>(4, {1, 2}));
  const auto owner = std::make_shared<const std::string>(model(graph).bytes());
  std::vector<Note> notes;
  const Graph read_back = read_onnx({std::as_bytes(std::span(*owner)), owner, "m", ""}, notes);
  for (const ValueId id : read_back.main().constants) {
    const auto raw = read_back.value(id).constant->raw();
    ASSERT_EQ(raw.size(), 8U);
    EXPECT_GE(reinterpret_cast<const char*>(raw.data()), owner->data());
    EXPECT_LE(reinterpret_cast<const char*>(raw.data()), owner->data() + owner->size());
  }
  EXPECT_GT(owner.use_count(), 1);
}

TEST(OnnxReader, NotesWhatWillBeLost) {
  const Message graph = Message().message(14, Message()).message(11, value_info("x").text(3, "doc"));
  read_with_note(
      model(graph).message(20, Message()).message(26, Message()).integer(99, 1),
      "not kept when the model is written again: training_info, quantization_annotation, device configurations, "
      "descriptions of values, fields of a newer ONNX");
  read_with_note(Message().integer(1, 99).message(7, Message()), "IR version 99 is newer than any known one (14)");
}

TEST(OnnxReader, RecognisesModelsByTheirHead) {
  const auto looks = [](const std::string& text) { return looks_like_onnx(std::as_bytes(std::span(text))); };
  EXPECT_TRUE(looks(model(Message().text(2, std::string(5000, 'x'))).bytes().substr(0, 100)));
  EXPECT_TRUE(looks(Message().integer(1, 3).text(2, "maker").text(3, "1").bytes()));
  EXPECT_FALSE(looks(""));
  EXPECT_FALSE(looks("some text"));
  EXPECT_FALSE(looks("PK\x03\x04"));
  EXPECT_FALSE(looks(Message().message(1, node("x", {}, {})).bytes()));  // GraphDef
  EXPECT_FALSE(
      looks(Message().integer(1, 1).message(2, Message().text(1, std::string(900, 'a'))).bytes()));  // SavedModel
  EXPECT_FALSE(looks(Message().integer(1, 1).message(2, Message().message(1, Message())).bytes()));
}

TEST(OnnxReader, RecognisesModelsByTheirForm) {
  const auto looks = [](const Message& message) { return looks_like_onnx(std::as_bytes(std::span(message.bytes()))); };
  const Message graph = Message().text(2, "g");
  const std::string lines = "Git info:\n\nCommit: 8f1\nBranch: heads/master\n";  // as CatBoost writes it
  EXPECT_TRUE(looks(Message().integer(1, 3).text(2, "CatBoost").text(3, lines).message(7, graph)));
  EXPECT_TRUE(looks(Message().integer(1, 3).text(2, std::string(9000, 'p')).message(7, graph)));
  EXPECT_TRUE(looks(Message().message(7, graph).text(2, lines).integer(1, 3)));         // any order
  EXPECT_TRUE(looks(Message().message(7, graph).message(8, Message().integer(2, 9))));  // no version at all
  EXPECT_TRUE(looks(Message().integer(1, 8).integer(99, 5).message(7, graph)));         // a field of the future
  EXPECT_FALSE(looks(Message().integer(1, 8).integer(2, 1).message(7, graph)));         // a tensor starts like this
  EXPECT_FALSE(looks(Message().integer(1, 8).integer(7, 1)));
  EXPECT_FALSE(looks(Message().integer(1, 5000).message(7, graph)));
  EXPECT_FALSE(looks(Message().message(7, graph).integer(99, 5)));
}

}  // namespace
}  // namespace finity::onnx_test

// Every way a file can be bad gives one line: file, place, reason.
#include <gtest/gtest.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "base/rng.h"
#include "formats/onnx_support.h"

namespace finity::onnx_test {
namespace {

Message attribute(std::string_view name, int kind) { return Message().text(1, name).integer(20, kind); }

std::string graph_error(const Message& graph) { return read_error(model(graph)); }

Message with_attribute(const Message& value) {
  return Message().message(1, node("Op", {}, {"y"}, "n").message(5, value));
}

TEST(OnnxErrors, NotAModel) {
  EXPECT_EQ(read_error(std::string()), "m.onnx: is not an ONNX model: the file is empty");
  EXPECT_EQ(read_error(std::string("hello, this is text")),
            "m.onnx: is not an ONNX model: byte 2: a field of wire type 4, which protobuf no longer uses");
  EXPECT_EQ(read_error(std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")),
            "m.onnx: is not an ONNX model: byte 0: a number that does not end");
  EXPECT_EQ(read_error(Message().integer(1, 8)), "m.onnx: is not an ONNX model: it has no graph");
  EXPECT_EQ(read_error(Message().message(1, node("x", {}, {}))),
            "m.onnx: is not an ONNX model: byte 0: field 1 is text or a message, expected a number");
  EXPECT_EQ(read_error(model(Message()).message(7, Message())), "m.onnx: byte 10: a second graph");
}

TEST(OnnxErrors, Files) {
  std::vector<Note> notes;
  const auto error = [&](const std::string& path) -> std::string {
    try {
      read_onnx(path, notes);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string folder = testing::TempDir();
  EXPECT_EQ(error(folder), folder + ": is a directory, expected a file");
  EXPECT_EQ(error(folder + "/not_there.onnx"), folder + "/not_there.onnx: cannot open: No such file or directory");
}

TEST(OnnxErrors, EveryTruncationIsAnErrorOrLessOfTheModel) {
  const Message graph =
      Message().message(1, node("Relu", {"x"}, {"y"}, "r")).message(11, value_info("x")).message(12, value_info("y"));
  const std::string whole = model(graph).bytes();
  for (std::size_t size = 0; size < whole.size() - 6; ++size) {  // the last six bytes are the operator set
    const std::string error = read_error(whole.substr(0, size));
    EXPECT_EQ(error.find("m.onnx: "), 0U) << size << ": " << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
  EXPECT_EQ(read_error(whole.substr(0, 20)), "m.onnx: byte 2: field 7 needs " + std::to_string(graph.bytes().size()) +
                                                 " bytes, only 16 are left (truncated or damaged)");
}

TEST(OnnxErrors, Names) {
  EXPECT_EQ(graph_error(Message().message(1, node("Relu", {"q"}, {"y"}, "r"))),
            "m.onnx: node 'r' (Relu): input 'q' is not defined anywhere");
  EXPECT_EQ(graph_error(Message().text(2, "g").message(12, value_info("y"))),
            "m.onnx: graph 'g': output 'y' is not defined anywhere");
  EXPECT_EQ(graph_error(Message().text(2, "g").message(12, Message())), "m.onnx: output '' of graph 'g' has no value");
  EXPECT_EQ(graph_error(Message().text(2, "g").message(11, Message())), "m.onnx: an input of graph 'g' has no name");
  EXPECT_EQ(graph_error(Message().message(11, value_info("x")).message(11, value_info("x"))),
            "m.onnx: input 'x' is given twice");
  EXPECT_EQ(graph_error(Message().message(1, node("A", {}, {"y"}, "a")).message(1, node("B", {}, {"y"}, "b"))),
            "m.onnx: node 'b' (B): value 'y' is defined twice");
  EXPECT_EQ(graph_error(Message().message(11, value_info("x")).message(1, node("A", {}, {"x"}))),
            "m.onnx: node producing 'x' (A): value 'x' is defined twice");
  EXPECT_EQ(graph_error(Message().message(1, node("A", {}, {"y", "y"}, "a"))),
            "m.onnx: node 'a' (A): value 'y' is defined twice");
  EXPECT_EQ(graph_error(Message().message(1, Message().text(3, "n"))), "m.onnx: byte 6: node 'n' has no op_type");
  EXPECT_EQ(graph_error(Message().message(5, Message().integer(2, 1).real(4, 1))),
            "m.onnx: initializer at byte 6: has no name");
  EXPECT_EQ(graph_error(Message().message(1, node("A", {"z"}, {"y"}, "a")).message(1, node("B", {"y"}, {"z"}, "b"))),
            "m.onnx: node 'a' (A): is part of a cycle");
}

TEST(OnnxErrors, Tensors) {
  const Message lying =
      Message().integer(1, 10).integer(1, 10).integer(2, 1).text(8, "w").text(9, std::string(12, 'x'));
  EXPECT_EQ(graph_error(Message().message(5, lying)),
            "m.onnx: initializer 'w': 12 bytes of data, 400 expected for float32[10,10]");
  EXPECT_EQ(graph_error(with_attribute(attribute("value", 4).message(5, lying))),
            "m.onnx: node 'n' (Op): attribute 'value': 12 bytes of data, 400 expected for float32[10,10]");
  EXPECT_EQ(graph_error(Message().message(15, Message().integer(3, 4))),
            "m.onnx: initializer at byte 6: a sparse tensor without values or indices");
}

TEST(OnnxErrors, Attributes) {
  const std::string start = "m.onnx: node 'n' (Op): ";
  EXPECT_EQ(graph_error(with_attribute(Message().integer(20, 2))), start + "has an attribute without a name");
  EXPECT_EQ(graph_error(with_attribute(attribute("a", 2).real(2, 1))),
            start + "attribute 'a': is declared as an int but holds a float");
  EXPECT_EQ(graph_error(with_attribute(attribute("a", 4))),
            start + "attribute 'a': is declared as a tensor but holds nothing");
  EXPECT_EQ(graph_error(with_attribute(attribute("a", 5).message(6, Message()))),
            start + "attribute 'a': holds an empty graph");
  EXPECT_EQ(graph_error(with_attribute(attribute("a", 77))), start + "attribute 'a': has the unknown kind 77");
  EXPECT_EQ(graph_error(with_attribute(Message().text(1, "a").integer(3, 1).real(2, 1))),
            start + "attribute 'a': has several values and does not say which one counts");
  EXPECT_EQ(graph_error(with_attribute(attribute("a", 2).text(3, "x"))),
            start + "byte 24: field 3 is text or a message, expected a number");
  const Message twice = node("Op", {}, {"y"}, "n")
                            .message(5, attribute("a", 2).integer(3, 1))
                            .message(5, attribute("a", 2).integer(3, 1));
  EXPECT_EQ(graph_error(Message().message(1, twice)), start + "attribute 'a': is given twice");
  Message many = node("Op", {}, {"y"}, "n");
  for (int i = 0; i < 2000; ++i) many.message(5, attribute(std::to_string(i), 2));
  EXPECT_EQ(graph_error(Message().message(1, many)), start + "has more than 1000 attributes");
}

TEST(OnnxErrors, Types) {
  EXPECT_EQ(graph_error(Message().message(11, value_info("x", tensor_type(99, {})))),
            "m.onnx: value 'x': has the unknown element type 99");
  Message type = tensor_type(1, {});
  for (int i = 0; i < 100; ++i) type = Message().message(4, Message().message(1, type));
  EXPECT_EQ(graph_error(Message().message(11, value_info("x", type))),
            "m.onnx: value 'x': has a type nested more than 64 deep");
  EXPECT_EQ(read_error(Message().integer(1, 8).message(7, Message()).message(8, opset("d", -1))),
            "m.onnx: byte 6: operator set 'd' has the version -1");
}

TEST(OnnxErrors, DeepSubgraphs) {
  Message graph = Message().text(2, "innermost");
  for (int i = 0; i < 100; ++i) graph = with_attribute(attribute("body", 5).message(6, graph));
  const std::string error = graph_error(graph);
  EXPECT_NE(error.find("graphs and function calls are nested more than 64 deep"), std::string::npos) << error;
  EXPECT_LT(error.size(), 600U);
}

// Damaged bytes are read, or refused with an Error; what is read can be written again.
TEST(OnnxErrors, MutatedModels) {
  const Message inner = Message().text(2, "inner").message(1, node("Neg", {"x"}, {"n"})).message(12, value_info("n"));
  const Message function = Message()
                               .text(1, "F")
                               .text(4, "a")
                               .text(5, "b")
                               .message(7, node("Exp", {"a"}, {"b"}, "e"))
                               .message(9, opset("", 9))
                               .text(10, "f");
  const Message graph =
      Message()
          .message(1, node("If", {"x"}, {"c"}).message(5, attribute("then_branch", 5).message(6, inner)))
          .message(1, node("F", {"c"}, {"y"}, "k", "f"))
          .message(5, Message().integer(1, 2).integer(2, 1).text(8, "w").plain_list<float>(9, {1, 2}))
          .message(5, Message().integer(1, 2).integer(2, 7).text(8, "v").packed(7, {1, 2}))
          .message(11, value_info("x"))
          .message(12, value_info("y"));
  const std::string whole = model(graph).message(25, function).bytes();
  Rng rng(7);
  int good = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string mutant = whole;
    for (std::uint64_t i = rng.below(4) + 1; i > 0; --i)
      mutant[rng.below(mutant.size())] = static_cast<char>(rng.bits());
    std::vector<Note> notes;
    try {
      const Graph read_back = read(mutant, notes);
      for (const ValueId id : read_back.main().constants) read_back.value(id).constant->load();
      std::vector<Note> again;
      read(write_onnx(read_back), again);
      ++good;
    } catch (const Error&) {
    }
  }
  EXPECT_GT(good, 500);    // many texts may hold anything
  EXPECT_LT(good, 19500);  // and many bytes may not
}

}  // namespace
}  // namespace finity::onnx_test

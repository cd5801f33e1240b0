// Every way the text form refuses its input, with the place and the words.
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "base/error.h"
#include "formats/text/text.h"

namespace finity {
namespace {

struct Refused {
  std::string text;
  std::string message;
};

std::string graph_error(std::string_view text) {
  try {
    parse_graph(text, "f");
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

std::string tensor_error(std::string_view text) {
  try {
    parse_tensor(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

// The statement starts at f:2:1.
std::string statement_error(const std::string& statement) {
  return graph_error("opset 17 graph g (x) -> (x) {\n" + statement + "\n}");
}

TEST(TextErrors, Words) {
  const Refused cases[] = {
      {"", "f:1:1: expected 'graph' but found the end of the text"},
      {"// only a comment", "f:1:18: expected 'graph' but found the end of the text"},
      {"hello", "f:1:1: expected 'graph' but found 'hello'"},
      {"graph g (x", "f:1:11: expected ')' but found the end of the text"},
      {"graph g () -> () {", "f:1:19: expected the name of a value but found the end of the text"},
      {"graph g () -> () {}\n}", "f:2:1: expected the end of the text but found '}'"},
      {"graph g () () {}", "f:1:12: expected '->' but found '('"},
      {"graph g () -> (_) {}", "f:1:16: expected the name of an output but found '_'"},
      {"graph g (_) -> () {}", "f:1:10: expected the name of an input but found '_'"},
      {"graph \x01", "f:1:7: unexpected character \"\\x01\""},
      {"graph \xc3\xa9", "f:1:7: unexpected character \"\\xc3\""},
      {"graph \"open\n", "f:1:7: this string is not closed on its line"},
      {"graph \"a\\\"", "f:1:7: this string is not closed on its line"},
      {"graph \"a\\q\"", "f:1:9: unknown escape: use \\\" \\\\ \\n \\t or \\xHH"},
      {"graph \"a\\x4\"", "f:1:9: unknown escape: use \\\" \\\\ \\n \\t or \\xHH"},
      {"graph 12x", "f:1:7: malformed number"},
      {"graph -x", "f:1:7: malformed number"},
      {"graph 1.5.2", "f:1:7: malformed number"},
      {"graph 1e+", "f:1:7: malformed number"},
      {"graph -infinity", "f:1:7: malformed number"},
      {"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz",
       "f:1:1: expected 'graph' but found 'abcdefghijklmnopqrstuvwxyzabcdefghijklmn...'"},
  };
  for (const Refused& refused : cases) EXPECT_EQ(graph_error(refused.text), refused.message) << refused.text;
}

TEST(TextErrors, Header) {
  const Refused cases[] = {
      {"model {size = 3}", "f:1:8: a model has no property 'size'"},
      {"model {ir_version = \"8\"}", "f:1:21: expected an integer but found a string"},
      {"model {ir_version = -1}", "f:1:21: expected an integer but found '-1'"},
      {"model {model_version = 9223372036854775808}", "f:1:24: '9223372036854775808' does not fit int64"},
      {"model {metadata = {k: \"v\"}}", "f:1:20: expected a quoted key but found 'k'"},
      {"opset 17 opset ai.onnx 18 graph", "f:1:10: the operator set '' is declared twice"},
      {"opset x", "f:1:8: expected a version but found the end of the text"},
      {"opset -1", "f:1:7: expected a version but found '-1'"},
      {"opset 3000000000", "f:1:7: the version is too large"},
  };
  for (const Refused& refused : cases) EXPECT_EQ(graph_error(refused.text), refused.message) << refused.text;
}

TEST(TextErrors, Names) {
  const Refused cases[] = {
      {"y = Relu(z)", "f:2:10: value 'z' is not defined"},
      {"y = Relu(x)\nx = Relu(y)", "f:3:1: value 'x' is defined twice"},
      {"y, y = Split(x)", "f:2:4: value 'y' is defined twice"},
      {"const x: int8[1] = {1}", "f:2:7: value 'x' is defined twice"},
      {"y = Op() {b = graph () -> (q) {}}", "f:2:28: value 'q' is not defined"},
      {"y = Op() {b = graph () -> () {q = Relu(x)}} z = Relu(q)", "f:2:54: value 'q' is not defined"},
      {"y = Relu(z)\nz = Relu(y)", "f:2:1: node producing 'y' (Relu): is part of a cycle"},
      {"z = Op() {b = graph () -> (z) {}} @ \"own\"", "f:2:1: node 'own' (Op): is part of a cycle"},
      {"_", "f:3:1: expected '=' but found '}'"},
      {"3 = Relu(x)", "f:2:1: expected the name of a value but found '3'"},
      {"const _: int8[1] = {1}", "f:2:7: expected the name of a value but found '_'"},
  };
  for (const Refused& refused : cases) EXPECT_EQ(statement_error(refused.text), refused.message) << refused.text;
  EXPECT_EQ(graph_error("graph () -> (y) {}"), "f:1:14: value 'y' is not defined");
  EXPECT_EQ(graph_error("opset 1 graph (x) -> (y: int8[1]) { y: int8[2] = Relu(x) }"),
            "f:1:23: value 'y' is declared with two different types");
}

TEST(TextErrors, Nodes) {
  const Refused cases[] = {
      {"y = (x)", "f:2:5: expected an operator but found '('"},
      {"y = \"\"(x)", "f:2:5: the operator has no name"},
      {"y = a.(x)", "f:2:5: the operator has no name"},
      {"y = \"a\".b(x)", "f:2:9: expected the quoted name of an operator but found 'b'"},
      {"y = Relu:-1(x)", "f:2:10: expected a version but found '-1'"},
      {"y = Relu(int8[1] {1})", "f:2:14: expected ')' but found '['"},
      {"y = Relu(x) {axis}", "f:2:18: expected '=' but found '}'"},
      {"y = Relu(x) {axis = 1, axis = 2}", "f:2:24: attribute 'axis' is given twice"},
      {"y = Relu(x) {axis = []}", "f:2:21: an empty list needs its kind, as in ints []"},
      {"y = Relu(x) {axis = [1, 2.5]}", "f:2:25: expected an integer but found '2.5'"},
      {"y = Relu(x) {axis = [1.0, \"a\"]}", "f:2:27: expected a number but found a string"},
      {"y = Relu(x) {axis = strings [1]}", "f:2:30: expected a string but found '1'"},
      {"y = Relu(x) {axis = [graph () -> () {}, 1]}", "f:2:41: expected a graph but found '1'"},
      {"y = Relu(x) {axis = types [int8[1]]}", "f:2:28: expected type(...) but found 'int8'"},
      {"y = Relu(x) {axis = maybe}", "f:2:21: expected a tensor such as float32[2] {1, 2} but found 'maybe'"},
      {"y = Relu(x) {axis = 1e39}", "f:2:21: the number does not fit float32"},
      {"y = Relu(x) {axis = 9223372036854775808}", "f:2:21: '9223372036854775808' does not fit int64"},
      {"y = Relu(x) {axis = {1}}", "f:2:21: these elements need a type with known sizes, as in float32[2] {1, 2}"},
      {"y = Relu(x) doc 3", "f:2:17: expected a string but found '3'"},
      {"y = Relu(x) @ 3", "f:2:15: expected the name of the node but found '3'"},
  };
  for (const Refused& refused : cases) EXPECT_EQ(statement_error(refused.text), refused.message) << refused.text;
  EXPECT_EQ(graph_error("graph (x) -> () { y = Relu(x) }"),
            "f:1:23: the version of the operator is unknown: add a line such as 'opset 17'");
}

TEST(TextErrors, Types) {
  const Refused cases[] = {
      {"y: float31[2] = Relu(x)", "f:2:4: expected a type but found 'float31'"},
      {"y: float32 = Relu(x)", "f:2:12: expected '[' but found '='"},
      {"y: float32[-1] = Relu(x)", "f:2:12: expected a size but found '-1'"},
      {"y: float32[1.5] = Relu(x)", "f:2:12: expected a size, a symbol or ? but found '1.5'"},
      {"y: float32[2, ...] = Relu(x)", "f:2:11: '...' stands alone: the rank is known or it is not"},
      {"y: map(x, int8[1]) = Relu(x)", "f:2:8: expected the type of the keys but found 'x'"},
      {"y: sequence(int8[1] = Relu(x)", "f:2:21: expected ')' but found '='"},
  };
  for (const Refused& refused : cases) EXPECT_EQ(statement_error(refused.text), refused.message) << refused.text;
}

TEST(TextErrors, Constants) {
  const Refused cases[] = {
      {"const w: float32[N] = {1}", "f:2:23: these elements need a type with known sizes, as in float32[2] {1, 2}"},
      {"const w = {...}", "f:2:11: these elements need a type with known sizes, as in float32[2] {1, 2}"},
      {"const w: ?[1] = {1}", "f:2:17: a tensor needs an element type"},
      {"const w: int8[9223372036854775807, 9] = {...}", "f:2:41: too many elements: [9223372036854775807,9]"},
      {"const w: int8[1] = {... 3}", "f:2:25: expected '}' or a reason but found '3'"},
      {"const w: int8[1]", "f:3:1: expected '=' but found '}'"},
  };
  for (const Refused& refused : cases) EXPECT_EQ(statement_error(refused.text), refused.message) << refused.text;
}

TEST(TextErrors, Tensors) {
  const Refused cases[] = {
      {"", "1:1: expected a tensor such as float32[2] {1, 2} but found the end of the text"},
      {"?[1] {1}", "1:1: a tensor needs an element type"},
      {"float32[1000000000] {1}", "1:21: expected 1000000000 elements but found 1"},
      {"float32[1] {1, 2}", "1:16: expected 1 element but found more"},
      {"float32[1] {}", "1:12: expected 1 element but found 0"},
      {"float32[1] {...}", "1:13: expected a number but found '...'"},
      {"float32[9223372036854775807, 2] {}", "1:8: too many elements: [9223372036854775807,2]"},
      {"float32[N] {1}", "1:9: expected a size but found 'N'"},
      {"float32[1] {1} 2", "1:16: expected the end of the text but found '2'"},
      {"float32[1] {\"1\"}", "1:13: expected a number but found a string"},
      {"float32[1] {1e39}", "1:13: the number does not fit float32"},
      {"float32[1] {1e999}", "1:13: the number does not fit float32"},
      {"float16[1] {70000}", "1:13: the number does not fit float16"},
      {"float8e4m3fn[1] {inf}", "1:18: float8e4m3fn has no infinity"},
      {"float4e2m1[1] {nan}", "1:16: float4e2m1 has no nan"},
      {"float8e8m0[1] {0}", "1:16: the number does not fit float8e8m0"},
      {"int8[1] {128}", "1:10: the number does not fit int8"},
      {"uint8[1] {-1}", "1:11: the number does not fit uint8"},
      {"uint4[1] {16}", "1:11: the number does not fit uint4"},
      {"int64[1] {9223372036854775808}", "1:11: the number does not fit int64"},
      {"int8[1] {1.0}", "1:10: expected an integer but found '1.0'"},
      {"bool[1] {1}", "1:10: expected true or false but found '1'"},
      {"string[1] {a}", "1:12: expected a string but found 'a'"},
      {"complex64[1] {1}", "1:15: expected '(' but found '1'"},
      {"complex64[1] {(1, 1e39)}", "1:19: the number does not fit float32"},
  };
  for (const Refused& refused : cases) EXPECT_EQ(tensor_error(refused.text), refused.message) << refused.text;
}

TEST(TextErrors, NestingIsBounded) {
  std::string graphs = "opset 1 graph () -> () {";
  std::string types = "graph (x: ";
  for (int i = 0; i < 100000; ++i) {
    graphs += "a=Op(){b=graph()->(){";
    types += "sequence(";
  }
  EXPECT_EQ(graph_error(graphs), "f:1:1362: graphs are nested deeper than 64");
  EXPECT_EQ(graph_error(types), "f:1:587: types are nested deeper than 64");
}

TEST(TextErrors, AttributesAreBounded) {
  std::string text = "opset 1 graph () -> () {() = Op() {";
  for (int i = 0; i <= 1000; ++i) text += (i == 0 ? "a" : ",a") + std::to_string(i) + "=1";
  EXPECT_EQ(graph_error(text + "}}"), "f:1:6926: more than 1000 attributes");
}

// Every prefix and every single-byte change is accepted or refused in one line; nothing else happens.
TEST(TextErrors, DamagedTextIsRefusedCleanly) {
  const std::string text =
      "model {ir_version = 8}\nopset 17\ngraph g (x: float32[N, 2], w: int8[1] = {1}) -> (y: ?[...]) doc \"d\" {\n"
      "  const c: float16[2] = sparse {1.5, nan}\n  y, _ = a.Op:3(x, _, c) {i = [1, -2], t = type(map(int8, ?)), s = "
      "\"\\x00\","
      " b = graph () -> (x) {}} @ \"n\" meta {\"k\": \"v\"} from [\"f\"]\n}\n";
  ASSERT_EQ(graph_error(text), "accepted");
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string prefix = graph_error(std::string_view(text).substr(0, i));
    EXPECT_TRUE(i + 1 == text.size() || prefix.starts_with("f:")) << i << ": " << prefix;
    for (const char c : {'\0', '"', '(', '{', '}', '.', '-', '9', 'x', '\xff'}) {
      std::string damaged = text;
      damaged[i] = c;
      const std::string result = graph_error(damaged);
      EXPECT_TRUE(result == "accepted" || result.starts_with("f:")) << result;
    }
  }
}

}  // namespace
}  // namespace finity

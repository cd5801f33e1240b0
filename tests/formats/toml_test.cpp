#include "formats/toml/toml.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace finity {
namespace {

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(Toml, KeepsOrderKindsAndLines) {
  const TomlValue root = parse_toml(
      "[check]\n"
      "select = ['FN1', 'FN2']\n"
      "limit = 3\n"
      "zeal = 0.5\n"
      "far = -inf\n"
      "deep.on = true\n"
      "[[check.accept]]\n"
      "rule = \"FN102\"\n"
      "[[check.accept]]\n"
      "rule = \"FN104\"\n",
      "finity.toml");
  const TomlValue* check = root.find("check");
  ASSERT_NE(check, nullptr);
  ASSERT_EQ(check->entries.size(), 6U);
  EXPECT_EQ(check->entries[0].name, "select");
  EXPECT_EQ(check->entries[5].name, "accept");
  EXPECT_EQ(check->find("select")->as_texts(), (std::vector<std::string>{"FN1", "FN2"}));
  EXPECT_EQ(check->find("limit")->as_integer(), 3);
  EXPECT_EQ(check->find("limit")->as_number(), 3.0);
  EXPECT_EQ(check->find("zeal")->as_number(), 0.5);
  EXPECT_TRUE(std::isinf(check->find("far")->as_number()));
  EXPECT_TRUE(check->find("deep")->as_table().find("on")->as_boolean());
  ASSERT_EQ(check->find("accept")->as_list().size(), 2U);
  EXPECT_EQ(check->find("accept")->items[1].find("rule")->where, "finity.toml:10");
  EXPECT_EQ(root.find("other"), nullptr);
}

TEST(Toml, ErrorsNameFileLineAndKey) {
  const TomlValue root = parse_toml("a = 1\nb = [1, 'x']\nc = 2020-01-01\n", "f.toml");
  EXPECT_EQ(message([&] { root.find("a")->as_text(); }), "f.toml:1: 'a' must be a string");
  EXPECT_EQ(message([&] { root.find("a")->as_list(); }), "f.toml:1: 'a' must be a list");
  EXPECT_EQ(message([&] { root.find("a")->as_boolean(); }), "f.toml:1: 'a' must be true or false");
  EXPECT_EQ(message([&] { root.find("a")->as_table(); }), "f.toml:1: 'a' must be a table");
  EXPECT_EQ(message([&] { root.find("b")->as_texts(); }), "f.toml:2: 'b' must be a list of strings");
  EXPECT_EQ(message([&] { root.find("b")->items[1].as_integer(); }), "f.toml:2: this value must be an integer");
  EXPECT_EQ(message([&] { root.find("c")->as_number(); }), "f.toml:3: 'c' must be a number");
  EXPECT_EQ(message([&] { root.only({"a", "b"}); }), "f.toml:3: unknown key 'c' (known: a, b)");
}

TEST(Toml, RefusesWhatTheParserAsserts) {
  for (const std::string& text : {std::string("[\0\0\4", 4), std::string("[a.\0]", 5), std::string("a\0b = 1", 7),
                                  std::string("\n-\u01B3"), std::string("k\u00e9 = 1")}) {
    EXPECT_THROW(parse_toml(text, "f.toml"), Error) << text;
  }
  const TomlValue good = parse_toml("\"k\u00e9\" = '\u00e9' # \u00e9\nb = \"\"\"\u00e9\\\"\n\u00e9\"\"\"\n", "f.toml");
  EXPECT_EQ(good.find("b")->as_text(), "\u00e9\"\n\u00e9");
}

TEST(Toml, BadSyntaxIsOneLine) {
  for (const char* text : {"a = ", "a = [1, \n2", "[x\n", "a = 1\na = 2\n", "\xff\xfe", "a = \"x", "= 1"}) {
    const std::string what = message([&] { parse_toml(text, "f.toml"); });
    EXPECT_TRUE(what.starts_with("f.toml:")) << what;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  }
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += '[';
  EXPECT_NE(message([&] { parse_toml("a = " + deep, "f.toml"); }), "no error");
  EXPECT_TRUE(message([&] { read_toml("no/such.toml"); }).find("no/such.toml") != std::string::npos);
}

}  // namespace
}  // namespace finity

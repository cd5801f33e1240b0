#include <gtest/gtest.h>

#include "types/infer.h"

namespace finity {
namespace {

Bindings parsed(const std::string& text) {
  Bindings bindings;
  add_binding(bindings, text);
  return bindings;
}

TEST(Bindings, AcceptsTheThreeSpellingsOfAShape) {
  for (const char* text : {"x:1,3,224,224", "x:[1,3,224,224]", "x:1x3x224x224", "x:[1, 3, 224, 224]"}) {
    EXPECT_EQ(parsed(text).inputs.at("x"), (Dims{1, 3, 224, 224})) << text;
  }
  EXPECT_EQ(parsed("x:").inputs.at("x"), Dims{});
  EXPECT_EQ(parsed("x:[]").inputs.at("x"), Dims{});
  EXPECT_EQ(parsed("scope/x:0:5").inputs.at("scope/x:0"), Dims{5});
}

TEST(Bindings, BindsSymbols) { EXPECT_EQ(parsed("batch=4").symbols.at("batch"), 4); }

TEST(Bindings, RejectsNonsenseWithTheText) {
  for (const char* text : {"x", "x:1,,3", "x:-1", "x:[1,2", ":3", "x:1,a", "=3", "n=x", "x:99999999999999999999"}) {
    try {
      parsed(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(std::string(error.what()),
                "shape '" + std::string(text) + "' is not of the form NAME:1,3,224,224 or SYMBOL=4");
    }
  }
}

}  // namespace
}  // namespace finity

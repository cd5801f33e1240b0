#include "base/suggest.h"

#include <gtest/gtest.h>

#include <vector>

namespace finity {
namespace {

TEST(Suggest, MisspeltAndAbbreviatedNames) {
  const std::vector<std::string> names = {"image", "attention_mask", "input_ids", "x"};
  const std::pair<const char*, const char*> rows[] = {
      {"img", "image"},
      {"imgae", "image"},
      {"Image", "image"},
      {"attn_mask", "attention_mask"},
      {"attention_msak", "attention_mask"},
      {"ids", "input_ids"},
      {"input_id", "input_ids"},
      {"X", "x"},
      {"tokens", ""},
      {"weights", ""},
      {"", ""},
  };
  for (const auto& [wrong, meant] : rows) EXPECT_EQ(nearest_name(wrong, names), meant) << wrong;
  EXPECT_EQ(did_you_mean("imag", names), " (did you mean 'image'?)");
  EXPECT_EQ(did_you_mean("tokens", names), "");
  EXPECT_EQ(nearest_name(std::string(100'000, 'a'), names), "");
}

TEST(Suggest, TheNearestOfSeveral) {
  const std::vector<std::string> names = {"boxes_1", "boxes_2", "boxes"};
  EXPECT_EQ(nearest_name("boxs", names), "boxes");
}

}  // namespace
}  // namespace finity

#include "formats/npz/npz.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "tensor/convert.h"

namespace finity {
namespace {

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Tensor numbers(DType dtype) {
  return from_elements<std::int64_t>(dtype, {2, 3}, std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});
}

TEST(Npz, KeepsEveryTypeNumpyHas) {
  NamedTensors tensors;
  for (const DType dtype : {DType::float16, DType::float32, DType::float64, DType::int8, DType::int64, DType::uint16,
                            DType::boolean, DType::complex64}) {
    tensors.emplace_back(std::string(name(dtype)), numbers(dtype));
  }
  tensors.emplace_back("text", Tensor::of_strings({2}, {"é", "longer"}));
  tensors.emplace_back("scalar", Tensor::scalar(2.5f));
  tensors.emplace_back("empty", Tensor(DType::float32, {0, 3}));
  const NamedTensors again = read_npz(bytes_of(write_npz(tensors)));
  ASSERT_EQ(again.size(), tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    EXPECT_EQ(again[i].first, tensors[i].first);
    EXPECT_TRUE(identical(again[i].second, tensors[i].second)) << tensors[i].first;
  }
}

TEST(Npz, WidensWhatNumpyDoesNotHave) {
  EXPECT_TRUE(identical(read_npy(bytes_of(write_npy(numbers(DType::bfloat16)))), numbers(DType::float32)));
  EXPECT_TRUE(identical(read_npy(bytes_of(write_npy(numbers(DType::int4)))), numbers(DType::int8)));
}

TEST(Npz, ReadsColumnMajorArrays) {
  std::string text =
      write_npy(from_elements<std::int64_t>(DType::int8, {2, 3}, std::vector<std::int64_t>{0, 3, 1, 4, 2, 5}));
  text.replace(text.find("False"), 5, "True ");
  EXPECT_TRUE(identical(read_npy(bytes_of(text)), numbers(DType::int8)));
}

TEST(Npz, NamesWhatIsWrong) {
  const std::string good = write_npz({{"x", numbers(DType::float32)}});
  EXPECT_THROW(read_npz(bytes_of("PK nonsense")), Error);
  for (std::size_t length = 0; length < good.size(); ++length) {
    EXPECT_THROW(read_npz(bytes_of(good.substr(0, length))), Error) << length;
  }
  std::string lying = write_npy(numbers(DType::float32));
  lying.replace(lying.find("(2,3,)"), 6, "(9,9,)");
  EXPECT_THROW(read_npy(bytes_of(lying)), Error);
}

}  // namespace
}  // namespace finity

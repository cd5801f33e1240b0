#include <gtest/gtest.h>

#include <filesystem>

#include "base/atomic_file.h"
#include "formats/onnx_support.h"
#include "tensor/convert.h"

namespace finity::onnx_test {
namespace {

Message tensor(DType dtype, const std::vector<std::int64_t>& dims, std::string_view name = {}) {
  Message result;
  for (const std::int64_t dim : dims) result.integer(1, dim);
  result.integer(2, static_cast<int>(dtype));
  if (!name.empty()) result.text(8, name);
  return result;
}

Tensor load(const Message& message) { return read_tensor_proto(std::as_bytes(std::span(message.bytes()))); }

std::string load_error(const Message& message) {
  try {
    load(message);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

std::vector<double> numbers(const Message& message) { return elements<double>(load(message)); }

TEST(OnnxTensor, ReadsRawData) {
  const Tensor value = load(tensor(DType::float32, {2}).plain_list<float>(9, {1.5F, -2}));
  EXPECT_EQ(value.dims(), (Dims{2}));
  EXPECT_EQ(elements<double>(value), (std::vector<double>{1.5, -2}));
  EXPECT_EQ(numbers(tensor(DType::int64, {}).plain_list<std::int64_t>(9, {-5})), (std::vector<double>{-5}));
  EXPECT_EQ(numbers(tensor(DType::float16, {2}).plain_list<std::uint16_t>(9, {0x3c00, 0xc000})),
            (std::vector<double>{1, -2}));
  EXPECT_EQ(numbers(tensor(DType::boolean, {3}).text(9, std::string("\0\1\7", 3))), (std::vector<double>{0, 1, 1}));
  EXPECT_EQ(load(tensor(DType::float32, {0, 3}).text(9, "")).size(), 0);
  EXPECT_EQ(load(tensor(DType::float32, {0, 3})).size(), 0);
}

TEST(OnnxTensor, ReadsElementsBelowEightBitsLowBitsFirst) {
  EXPECT_EQ(numbers(tensor(DType::int4, {3}).text(9, "\x8f\x07")), (std::vector<double>{-1, -8, 7}));
  EXPECT_EQ(numbers(tensor(DType::uint4, {3}).text(9, "\x8f\x07")), (std::vector<double>{15, 8, 7}));
  EXPECT_EQ(numbers(tensor(DType::int2, {5}).text(9, "\xe4\x03")), (std::vector<double>{0, 1, -2, -1, -1}));
  EXPECT_EQ(numbers(tensor(DType::uint2, {4}).text(9, "\xe4")), (std::vector<double>{0, 1, 2, 3}));
  EXPECT_EQ(numbers(tensor(DType::float4e2m1, {2}).text(9, "\xf2")), (std::vector<double>{1, -6}));
  EXPECT_EQ(numbers(tensor(DType::int4, {3}).packed(5, {0x8f, 0x07})), (std::vector<double>{-1, -8, 7}));
  EXPECT_EQ(numbers(tensor(DType::int2, {5}).packed(5, {0xe4, 0x03})), (std::vector<double>{0, 1, -2, -1, -1}));
}

TEST(OnnxTensor, ReadsTypedFields) {
  EXPECT_EQ(numbers(tensor(DType::float32, {2}).plain_list<float>(4, {1, 2})), (std::vector<double>{1, 2}));
  EXPECT_EQ(numbers(tensor(DType::float32, {2}).real(4, 1).real(4, 2)), (std::vector<double>{1, 2}));
  EXPECT_EQ(numbers(tensor(DType::float32, {3}).real(4, 1).plain_list<float>(4, {2, 3})),
            (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(numbers(tensor(DType::float64, {1}).plain_list<double>(10, {0.1})), (std::vector<double>{0.1}));
  EXPECT_EQ(numbers(tensor(DType::int64, {2}).packed(7, {-1, 1LL << 40})), (std::vector<double>{-1, 0x1p40}));
  EXPECT_EQ(numbers(tensor(DType::uint32, {1}).packed(11, {0xffffffff})), (std::vector<double>{4294967295.0}));
  EXPECT_EQ(numbers(tensor(DType::uint64, {1}).integer(11, -1)), (std::vector<double>{0x1p64}));
  for (const DType dtype : {DType::int32, DType::int16, DType::int8}) {
    EXPECT_EQ(numbers(tensor(dtype, {3}).integer(5, -3).packed(5, {4, 5})), (std::vector<double>{-3, 4, 5}));
  }
  EXPECT_EQ(numbers(tensor(DType::uint8, {2}).packed(5, {255, 1})), (std::vector<double>{255, 1}));
  EXPECT_EQ(numbers(tensor(DType::uint16, {1}).packed(5, {65535})), (std::vector<double>{65535}));
  EXPECT_EQ(numbers(tensor(DType::boolean, {2}).packed(5, {0, 1})), (std::vector<double>{0, 1}));
  EXPECT_EQ(numbers(tensor(DType::float16, {1}).packed(5, {0x3c00})), (std::vector<double>{1}));
  EXPECT_EQ(numbers(tensor(DType::bfloat16, {1}).packed(5, {0x3f80})), (std::vector<double>{1}));
  EXPECT_EQ(numbers(tensor(DType::float8e4m3fn, {1}).packed(5, {0x38})), (std::vector<double>{1}));
  const Tensor complex = load(tensor(DType::complex64, {1}).plain_list<float>(4, {1, 2}));
  EXPECT_EQ(elements<std::complex<double>>(complex).front(), std::complex<double>(1, 2));
  EXPECT_EQ(load(tensor(DType::string, {2}).text(6, "a").text(6, "")).strings()[0], "a");
}

TEST(OnnxTensor, RefusesDataThatDoNotFitTheDimensions) {
  EXPECT_EQ(load_error(tensor(DType::float32, {10, 10}).text(9, std::string(12, 'x'))),
            "12 bytes of data, 400 expected for float32[10,10]");
  EXPECT_EQ(load_error(tensor(DType::float32, {4}).plain_list<float>(4, {1, 2})),
            "the wrong amount of data, 4 elements expected for float32[4]");
  EXPECT_EQ(load_error(tensor(DType::int64, {3}).packed(7, {1000, 2000})),
            "2 elements of data, 3 expected for int64[3]");
  EXPECT_EQ(load_error(tensor(DType::int64, {100}).packed(7, {1, 2})),
            "the wrong amount of data, 100 elements expected for int64[100]");
  EXPECT_EQ(load_error(tensor(DType::int4, {5}).text(9, "ab")), "2 bytes of data, 3 expected for int4[5]");
  EXPECT_EQ(load_error(tensor(DType::string, {2}).text(6, "a")),
            "the wrong amount of data, 2 elements expected for string[2]");
  EXPECT_EQ(load_error(tensor(DType::float32, {4})), "no data for float32[4]");
  EXPECT_EQ(load_error(tensor(DType::float32, {2}).packed(7, {1, 2})),
            "the data are in field 7, which is not the one for float32[2]");
  EXPECT_EQ(load_error(tensor(DType::string, {1}).text(9, "a")), "strings cannot be raw data");
  EXPECT_EQ(load_error(tensor(DType::float32, {1}).integer(4, 1)),
            "byte 4: the tensor's data have the wrong wire type");
}

TEST(OnnxTensor, RefusesImpossibleDimensionsAndTypes) {
  EXPECT_EQ(load_error(tensor(DType::float32, {-1}).text(9, "")), "negative dimension in [-1]");
  EXPECT_EQ(load_error(tensor(DType::float32, {1LL << 40, 1LL << 40}).text(9, "")),
            "too many elements: [1099511627776,1099511627776]");
  EXPECT_EQ(load_error(tensor(DType::float64, {1LL << 62}).text(9, "")), "too many elements: [4611686018427387904]");
  EXPECT_EQ(load_error(Message().integer(2, 99).text(9, "")), "has the unknown element type 99");
  EXPECT_EQ(load_error(Message().text(9, "")), "has no element type");
  EXPECT_EQ(load_error(tensor(DType::float32, {1}).text(3, "")), "tensor '' is stored in segments");
}

TEST(OnnxTensor, RoundTripsEveryDtype) {
  for (int code = 1; code < kDTypeCount; ++code) {
    const auto dtype = static_cast<DType>(code);
    Tensor value;
    if (dtype == DType::string) value = Tensor::of_strings({3}, {"a", "", "ccc"});
    else if (is_complex(dtype)) value = from_elements<std::complex<double>>(dtype, {3}, {{0, 1}, {1, 0}, {2, -1}});
    else value = from_elements<double>(dtype, {3}, {0, 1, dtype == DType::boolean ? 1.0 : 0.5});
    std::string name;
    const std::string bytes = write_tensor_proto(value, "t");
    const Tensor back = read_tensor_proto(std::as_bytes(std::span(bytes)), &name);
    EXPECT_TRUE(identical(value, back)) << finity::name(dtype);
    EXPECT_EQ(name, "t");
  }
}

Message sparse(const Message& values, const Message& indices, const std::vector<std::int64_t>& dims) {
  Message result = Message().message(1, values).message(2, indices);
  for (const std::int64_t dim : dims) result.integer(3, dim);
  return result;
}

Datum load_sparse(const Message& message) {
  return read_datum_proto(std::as_bytes(std::span(message.bytes())), Type::Kind::sparse_tensor);
}

std::string sparse_error(const Message& message) {
  try {
    load_sparse(message);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(OnnxTensor, ReadsSparseTensorsInBothLayouts) {
  const Message values = tensor(DType::float32, {2}, "w").plain_list<float>(4, {5, 6});
  const Message linear = tensor(DType::int64, {2}).packed(7, {1, 5});
  const Message coordinates = tensor(DType::int64, {2, 2}).packed(7, {0, 1, 1, 2});
  for (const Message& indices : {linear, coordinates}) {
    const Datum dense = load_sparse(sparse(values, indices, {2, 3}));
    EXPECT_EQ(elements<double>(*dense.tensor()), (std::vector<double>{0, 5, 0, 0, 0, 6}));
  }
}

TEST(OnnxTensor, RefusesBadSparseIndices) {
  const Message values = tensor(DType::float32, {2}, "w").plain_list<float>(4, {5, 6});
  const auto with = [&](const Message& indices) { return sparse_error(sparse(values, indices, {2, 3})); };
  EXPECT_EQ(with(tensor(DType::int64, {2}).packed(7, {1, 6})), "sparse element 1: index 6 is outside [2,3]");
  EXPECT_EQ(with(tensor(DType::int64, {2}).packed(7, {-1, 5})), "sparse element 0: index -1 is outside [2,3]");
  EXPECT_EQ(with(tensor(DType::int64, {2}).packed(7, {5, 1})), "sparse element 1: indices do not ascend");
  EXPECT_EQ(with(tensor(DType::int64, {2}).packed(7, {5, 5})), "sparse element 1: indices do not ascend");
  EXPECT_EQ(with(tensor(DType::int64, {2, 2}).packed(7, {0, 1, 1, 3})), "sparse element 1: index 3 is outside [2,3]");
  EXPECT_EQ(with(tensor(DType::int64, {1}).packed(7, {1})), "sparse indices have shape [1], expected [2] or [2,2]");
  EXPECT_EQ(with(tensor(DType::int32, {2}).packed(5, {0, 1})), "sparse indices are int32, expected int64");
  EXPECT_EQ(sparse_error(Message().message(1, values)), "a sparse tensor without values or indices");
}

TEST(OnnxTensor, ReadsSequencesAndOptionals) {
  const Message one = tensor(DType::int64, {}).packed(7, {1});
  const Message two = tensor(DType::int64, {}).packed(7, {2});
  const Message list = Message().text(1, "s").integer(2, 1).message(3, one).message(3, two);
  std::string name;
  const Datum sequence = read_datum_proto(std::as_bytes(std::span(list.bytes())), Type::Kind::sequence, &name);
  EXPECT_EQ(name, "s");
  ASSERT_NE(sequence.sequence(), nullptr);
  ASSERT_EQ(sequence.sequence()->size(), 2U);
  EXPECT_EQ(element_as_int(*sequence.sequence()->back().tensor(), 0), 2);

  const Message filled = Message().integer(2, 3).message(5, list);
  const Datum optional = read_datum_proto(std::as_bytes(std::span(filled.bytes())), Type::Kind::optional);
  ASSERT_NE(optional.sequence(), nullptr);
  EXPECT_EQ(optional.sequence()->size(), 2U);
  const Message empty = Message().text(1, "o").integer(2, 1);
  EXPECT_FALSE(read_datum_proto(std::as_bytes(std::span(empty.bytes())), Type::Kind::optional).present());
  const Message maps = Message().integer(2, 4).message(6, Message());
  EXPECT_THROW(read_datum_proto(std::as_bytes(std::span(maps.bytes())), Type::Kind::sequence), Unsupported);
}

TEST(OnnxTensor, RefusesDeeplyNestedSequences) {
  Message list;
  for (int i = 0; i < 100; ++i) list = Message().message(5, list);
  EXPECT_THROW(read_datum_proto(std::as_bytes(std::span(list.bytes())), Type::Kind::sequence), Error);
}

class OnnxExternalData : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo& info = *testing::UnitTest::GetInstance()->current_test_info();
    root_ = std::filesystem::path(testing::TempDir()) / ("finity_" + std::string(info.name()));
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_ / "model" / "sub");
    write_file_atomically((root_ / "secret.bin").string(), "01234567");
    write_file_atomically((root_ / "model" / "w.bin").string(), std::string("skip\0\0\x80\x3f\0\0\0\x40", 12));
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  static Message external(const std::vector<std::pair<std::string, std::string>>& entries) {
    Message result = tensor(DType::float32, {2}, "w");
    for (const auto& [key, value] : entries) result.message(13, Message().text(1, key).text(2, value));
    return result.integer(14, 1);
  }
  static std::string model_with(const Message& initializer) {
    return model(Message().message(1, node("Relu", {"w"}, {"y"})).message(5, initializer).message(12, value_info("y")))
        .bytes();
  }
  std::string directory() const { return (root_ / "model").string(); }
  std::string error(const std::vector<std::pair<std::string, std::string>>& entries) const {
    return read_error(model_with(external(entries)), directory());
  }

  std::filesystem::path root_;
};

TEST_F(OnnxExternalData, HonoursOffsetAndLength) {
  std::vector<Note> notes;
  const std::string bytes = model_with(external({{"location", "w.bin"}, {"offset", "4"}, {"length", "8"}}));
  const Graph graph = read(bytes, notes, directory());
  EXPECT_TRUE(notes.empty());
  const Constant& constant = *graph.value(graph.main().constants.front()).constant;
  EXPECT_EQ(elements<double>(constant.load()), (std::vector<double>{1, 2}));
  EXPECT_EQ(constant.raw().size(), 8U);
  const Graph no_length = read(model_with(external({{"location", "w.bin"}, {"offset", "4"}})), notes, directory());
  EXPECT_TRUE(identical(no_length.value(no_length.main().constants.front()).constant->load(), constant.load()));
}

TEST_F(OnnxExternalData, KeepsTheFileAfterTheReaderIsGone) {
  std::vector<Note> notes;
  const Graph graph = read(model_with(external({{"location", "w.bin"}, {"offset", "4"}})), notes, directory());
  std::filesystem::remove_all(root_);
  EXPECT_EQ(elements<double>(graph.value(graph.main().constants.front()).constant->load()),
            (std::vector<double>{1, 2}));
}

TEST_F(OnnxExternalData, NotesMissingFilesOnce) {
  const Message first = external({{"location", "gone.bin"}});
  Message second =
      tensor(DType::float32, {2}, "v").message(13, Message().text(1, "location").text(2, "gone.bin")).integer(14, 1);
  const Message graph = Message().message(1, node("Add", {"w", "v"}, {"y"})).message(5, first).message(5, second);
  std::vector<Note> notes;
  const Graph read_back = read(model(graph).bytes(), notes, directory());
  ASSERT_EQ(notes.size(), 1U);
  EXPECT_EQ(notes.front().text, "external data file 'gone.bin' is missing: 2 tensors are unknown");
  const Constant& constant = *read_back.value(read_back.main().constants.front()).constant;
  EXPECT_EQ(constant.missing(), "external data file 'gone.bin' is missing");
  EXPECT_THROW(constant.load(), Error);
}

TEST_F(OnnxExternalData, RefusesToLeaveTheFolder) {
  const std::string tail = ": only files below the model's folder are read";
  const std::string start = "m.onnx: initializer 'w': external data '";
  EXPECT_EQ(error({{"location", "../secret.bin"}}), start + "../secret.bin' leads upwards" + tail);
  EXPECT_EQ(error({{"location", "sub/../../secret.bin"}}), start + "sub/../../secret.bin' leads upwards" + tail);
  const std::string absolute = (root_ / "secret.bin").string();
  EXPECT_EQ(error({{"location", absolute}}), start + absolute + "' is an absolute path" + tail);
  std::filesystem::create_symlink(root_ / "secret.bin", root_ / "model" / "link.bin");
  EXPECT_EQ(error({{"location", "link.bin"}}), start + "link.bin' is a link that leads outside" + tail);
  std::filesystem::create_directory_symlink(root_, root_ / "model" / "up");
  EXPECT_EQ(error({{"location", "up/secret.bin"}}), start + "up/secret.bin' is a link that leads outside" + tail);
}

TEST_F(OnnxExternalData, AllowsLinksThatStayInside) {
  std::filesystem::create_symlink("w.bin", root_ / "model" / "link.bin");
  EXPECT_EQ(error({{"location", "link.bin"}, {"offset", "4"}}), "no error");
}

TEST_F(OnnxExternalData, RefusesWrongNumbers) {
  const std::string start = "m.onnx: initializer 'w': ";
  EXPECT_EQ(error({{"location", "w.bin"}, {"offset", "8"}}),
            start + "external data 'w.bin' has 12 bytes, 8 expected at offset 8");
  EXPECT_EQ(error({{"location", "w.bin"}, {"offset", "9223372036854775807"}}),
            start + "external data 'w.bin' has 12 bytes, 8 expected at offset 9223372036854775807");
  EXPECT_EQ(error({{"location", "w.bin"}, {"offset", "-4"}}), start + "external data: offset '-4' is not a byte count");
  EXPECT_EQ(error({{"location", "w.bin"}, {"length", "99999999999999999999"}}),
            start + "external data: length '99999999999999999999' is not a byte count");
  EXPECT_EQ(error({{"location", "w.bin"}, {"length", "4"}}),
            start + "4 bytes of external data, 8 expected for float32[2]");
  EXPECT_EQ(error({{"offset", "4"}}), start + "external data without a location");
  EXPECT_EQ(error({{"location", "sub"}}), start + "external data 'sub' is not a regular file");
}

}  // namespace
}  // namespace finity::onnx_test

#include <gtest/gtest.h>

#include "base/error.h"
#include "formats/onnx/name_table.h"
#include "formats/onnx_support.h"
#include "formats/wire.h"

namespace finity::onnx_test {
namespace {

using onnx::NameTable;
using wire::Bytes;
using wire::Cursor;
using wire::Wire;
using wire::WireWriter;

Bytes bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// The message of the error that walking over all fields gives.
std::string walk_error(const std::string& text) {
  try {
    for (Cursor cursor(bytes_of(text), bytes_of(text).data()); cursor.next();) {
    }
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(OnnxCursor, ReadsEveryWireType) {
  const std::string text = Message().integer(1, -2).text(2, "abc").real(3, 1.5F).real64(4, 2.5).bytes();
  Cursor cursor(bytes_of(text), bytes_of(text).data());
  ASSERT_TRUE(cursor.next());
  EXPECT_EQ(cursor.field(), 1);
  EXPECT_EQ(cursor.integer(), -2);
  ASSERT_TRUE(cursor.next());
  EXPECT_EQ(cursor.text(), "abc");
  ASSERT_TRUE(cursor.next());
  EXPECT_EQ(cursor.real(), 1.5F);
  ASSERT_TRUE(cursor.next());
  EXPECT_EQ(cursor.wire(), Wire::fixed64);
  EXPECT_EQ(cursor.plain().size(), 8U);
  EXPECT_FALSE(cursor.next());
}

TEST(OnnxCursor, ReadsPackedAndUnpackedLists) {
  const std::string text = Message().integer(1, 300).packed(1, {-1, 0, 7}).integer(1, 8).bytes();
  std::vector<std::int64_t> numbers;
  for (Cursor cursor(bytes_of(text), bytes_of(text).data()); cursor.next();) cursor.append(numbers);
  EXPECT_EQ(numbers, (std::vector<std::int64_t>{300, -1, 0, 7, 8}));

  const std::string reals = Message().real(1, 1).plain_list<float>(1, {2, 3}).bytes();
  std::vector<float> floats;
  for (Cursor cursor(bytes_of(reals), bytes_of(reals).data()); cursor.next();) cursor.append(floats);
  EXPECT_EQ(floats, (std::vector<float>{1, 2, 3}));
}

TEST(OnnxCursor, NamesTheByteOfEveryFault) {
  EXPECT_EQ(walk_error(Message()
                           .integer(1, 1)
                           .append("\x12\x05"
                                   "ab")
                           .bytes()),
            "byte 2: field 2 needs 5 bytes, only 2 are left (truncated or damaged)");
  EXPECT_EQ(walk_error(Message().integer(1, 1).append("\x08\x80").bytes()), "byte 2: a number that does not end");
  EXPECT_EQ(walk_error("\x08" + std::string(11, '\xff')), "byte 0: a number that does not end");
  EXPECT_EQ(walk_error("\x0b"), "byte 0: a field of wire type 3, which protobuf no longer uses");
  EXPECT_EQ(walk_error(std::string("\0\0", 2)), "byte 0: no field starts here");
  EXPECT_EQ(walk_error("\x0d\x01"), "byte 0: field 1 needs 4 bytes, only 1 are left (truncated or damaged)");
}

TEST(OnnxCursor, RefusesTheWrongWireType) {
  const std::string text = Message().integer(7, 1).bytes();
  Cursor cursor(bytes_of(text), bytes_of(text).data());
  ASSERT_TRUE(cursor.next());
  EXPECT_THROW(cursor.text(), Error);
  EXPECT_THROW(cursor.real(), Error);
  EXPECT_THROW(cursor.plain(), Error);
}

TEST(OnnxCursor, RefusesAPackedListThatEndsEarly) {
  const std::string text = Message().text(1, "\x01\x80").text(2, "abc").bytes();
  Cursor cursor(bytes_of(text), bytes_of(text).data());
  std::vector<std::int64_t> numbers;
  std::vector<float> floats;
  ASSERT_TRUE(cursor.next());
  EXPECT_THROW(cursor.append(numbers), Error);
  ASSERT_TRUE(cursor.next());
  EXPECT_THROW(cursor.append(floats), Error);
}

TEST(OnnxWireWriter, WritesWhatProtobufWould) {
  WireWriter out;
  out.integer(1, 300);
  out.text_if(2, "");
  out.message(3, [&] {
    out.text(1, "x");
    out.message(2, [&] { out.real(1, 1.5F); });
  });
  EXPECT_EQ(out.take(),
            Message().integer(1, 300).message(3, Message().text(1, "x").message(2, Message().real(1, 1.5F))).bytes());
}

TEST(OnnxWireWriter, MakesRoomForTheLengthOfLongMessages) {
  for (const std::size_t size : {0U, 126U, 127U, 128U, 16383U, 16384U, 70000U}) {
    WireWriter out;
    out.message(1, [&] { out.message(2, [&] { out.text(3, std::string(size, 'x')); }); });
    const Message inner = Message().message(2, Message().text(3, std::string(size, 'x')));
    EXPECT_EQ(out.take(), Message().message(1, inner).bytes()) << size;
  }
}

TEST(OnnxNameTable, FindsEveryNameThroughGrowth) {
  std::vector<std::string> names = {"", "a", "ab", "abc", "abcd", "abcdefgh", "abcdefghi", std::string(100, 'x')};
  for (int i = 0; i < 5000; ++i) names.push_back("layer." + std::to_string(i));
  NameTable table;
  EXPECT_EQ(table.find("a"), nullptr);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto [place, fresh] = table.insert(names[i]);
    ASSERT_TRUE(fresh) << names[i];
    place->index = static_cast<std::int32_t>(i);
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    ASSERT_NE(table.find(names[i]), nullptr) << names[i];
    EXPECT_EQ(table.find(names[i])->at(), i);
    EXPECT_FALSE(table.insert(names[i]).second);
  }
  EXPECT_EQ(table.find("layer.5000"), nullptr);
}

}  // namespace
}  // namespace finity::onnx_test

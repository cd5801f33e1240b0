// The protobuf wire format, read in place and written to a string.
//
// We do not use libprotobuf here. Linking libonnx costs 30 ms at every start, its
// packaged version does not know the newer fields (4-bit types, metadata_props),
// its parser copies every weight, and it cannot tell where in the file a node is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace finity::wire {

using Bytes = std::span<const std::byte>;

enum class Wire : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

inline std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

// Walks the fields of one message. next() steps over a whole field, so a caller
// skips what it does not know by not looking at it. Every read is checked; errors
// name the byte counted from `file`, which must be the start of the same buffer.
class Cursor {
 public:
  Cursor(Bytes message, const std::byte* file)
      : at_(message.data()), end_(message.data() + message.size()), start_(at_), payload_(at_), file_(file) {}

  bool next() {
    if (at_ == end_) return false;
    start_ = at_;
    const std::uint64_t key = read_varint();
    wire_ = static_cast<Wire>(key & 7);
    if (key < 8 || key > 0xffffffff) fail("no field starts here");
    field_ = static_cast<int>(key >> 3);
    switch (wire_) {
      case Wire::varint: value_ = read_varint(); return true;
      case Wire::bytes: value_ = read_varint(); break;
      case Wire::fixed32: value_ = 4; break;
      case Wire::fixed64: value_ = 8; break;
      default: fail("a field of wire type " + std::to_string(key & 7) + ", which protobuf no longer uses");
    }
    if (value_ > left()) fail_length();
    payload_ = at_;
    at_ += value_;
    return true;
  }

  int field() const { return field_; }
  Wire wire() const { return wire_; }

  // The current field's content; throws Error when the field has another wire type.
  Bytes bytes() const {
    expect(Wire::bytes);
    return {payload_, static_cast<std::size_t>(value_)};
  }
  std::string_view text() const { return as_text(bytes()); }
  Cursor message() const { return {bytes(), file_}; }
  std::uint64_t unsigned_integer() const {
    expect(Wire::varint);
    return value_;
  }
  std::int64_t integer() const { return static_cast<std::int64_t>(unsigned_integer()); }
  float real() const;
  // The content of a field that is not a varint.
  Bytes plain() const {
    if (wire_ == Wire::varint) fail_wire(Wire::bytes);
    return {payload_, static_cast<std::size_t>(value_)};
  }

  // Appends the current field of a repeated number, packed or not.
  void append(std::vector<std::int64_t>& numbers) const;
  void append(std::vector<float>& numbers) const;

  [[noreturn]] void fail(const std::string& reason) const;

 private:
  std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
  void expect(Wire wire) const {
    if (wire_ != wire) fail_wire(wire);
  }
  std::uint64_t read_varint() {
    if (at_ != end_ && std::to_integer<unsigned>(*at_) < 0x80) return std::to_integer<std::uint64_t>(*at_++);
    return read_long_varint();
  }
  std::uint64_t read_long_varint();
  [[noreturn]] void fail_wire(Wire wanted) const;
  [[noreturn]] void fail_length() const;

  const std::byte* at_;
  const std::byte* end_;
  const std::byte* start_;    // of the current field
  const std::byte* payload_;  // of the current field, when it is not a varint
  const std::byte* file_;
  std::uint64_t value_ = 0;  // the varint, or the payload's length
  int field_ = 0;
  Wire wire_ = Wire::varint;
};

class WireWriter {
 public:
  void reserve(std::size_t bytes) { out_.reserve(bytes); }
  std::string take() { return std::move(out_); }

  void integer(int field, std::int64_t value);
  void real(int field, float value);
  void bytes(int field, Bytes value) { text(field, as_text(value)); }
  void text(int field, std::string_view value);
  // Left out when empty, as protobuf does with a string that is not set.
  void text_if(int field, std::string_view value) {
    if (!value.empty()) text(field, value);
  }
  template <class F>
  void message(int field, F&& write_content) {
    const std::size_t start = begin_message(field);
    write_content();
    end_message(start);
  }

 private:
  void key(int field, Wire wire) { varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire)); }
  void varint(std::uint64_t value);
  std::size_t begin_message(int field);
  void end_message(std::size_t start);

  std::string out_;
};

}  // namespace finity::wire

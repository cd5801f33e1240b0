#include "formats/wire.h"

#include <bit>
#include <cstring>

#include "base/error.h"

namespace finity::wire {

static_assert(std::endian::native == std::endian::little, "numbers are copied from the file as they are");

namespace {

// Reads one varint and moves `at` behind it; false when it does not end before `end` or is longer than 64 bits.
bool decode_varint(const std::byte*& at, const std::byte* end, std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 70 && at != end; shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(*at++);
    if (shift < 64) value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

std::string_view wire_name(Wire wire) {
  switch (wire) {
    case Wire::varint: return "a number";
    case Wire::fixed64: return "8 plain bytes";
    case Wire::bytes: return "text or a message";
    case Wire::fixed32: return "4 plain bytes";
  }
  return "?";
}

}  // namespace

std::uint64_t Cursor::read_long_varint() {
  std::uint64_t value = 0;
  if (!decode_varint(at_, end_, value)) fail("a number that does not end");
  return value;
}

float Cursor::real() const {
  expect(Wire::fixed32);
  float value = 0;
  std::memcpy(&value, payload_, sizeof value);
  return value;
}

void Cursor::append(std::vector<std::int64_t>& numbers) const {
  if (wire_ == Wire::varint) {
    numbers.push_back(integer());
    return;
  }
  const std::byte* at = bytes().data();
  const std::byte* end = at + bytes().size();
  std::uint64_t value = 0;
  while (at != end) {
    if (!decode_varint(at, end, value)) fail("a number that does not end");
    numbers.push_back(static_cast<std::int64_t>(value));
  }
}

void Cursor::append(std::vector<float>& numbers) const {
  if (wire_ == Wire::fixed32) {
    numbers.push_back(real());
    return;
  }
  const Bytes packed = bytes();
  if (packed.size() % sizeof(float) != 0) fail("a list of floats that does not end");
  const std::size_t old = numbers.size();
  numbers.resize(old + packed.size() / sizeof(float));
  if (!packed.empty()) std::memcpy(numbers.data() + old, packed.data(), packed.size());
}

void Cursor::fail(const std::string& reason) const {
  throw Error("byte " + std::to_string(start_ - file_) + ": " + reason);
}

void Cursor::fail_wire(Wire wanted) const {
  fail("field " + std::to_string(field_) + " is " + std::string(wire_name(wire_)) + ", expected " +
       std::string(wire_name(wanted)));
}

void Cursor::fail_length() const {
  fail("field " + std::to_string(field_) + " needs " + std::to_string(value_) + " bytes, only " +
       std::to_string(left()) + " are left (truncated or damaged)");
}

void WireWriter::varint(std::uint64_t value) {
  while (value >= 0x80) {
    out_.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  out_.push_back(static_cast<char>(value));
}

void WireWriter::integer(int field, std::int64_t value) {
  key(field, Wire::varint);
  varint(static_cast<std::uint64_t>(value));
}

void WireWriter::real(int field, float value) {
  key(field, Wire::fixed32);
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out_.append(bytes, sizeof value);
}

void WireWriter::text(int field, std::string_view value) {
  key(field, Wire::bytes);
  varint(value.size());
  out_.append(value);
}

std::size_t WireWriter::begin_message(int field) {
  key(field, Wire::bytes);
  out_.push_back(0);  // most messages are shorter than 128 bytes; end_message() makes room for the others
  return out_.size();
}

void WireWriter::end_message(std::size_t start) {
  std::uint64_t length = out_.size() - start;
  std::string digits;
  for (; length >= 0x80; length >>= 7) digits.push_back(static_cast<char>(length | 0x80));
  digits.push_back(static_cast<char>(length));
  out_.replace(start - 1, 1, digits);
}

}  // namespace finity::wire

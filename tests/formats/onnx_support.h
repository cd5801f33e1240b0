// Helpers of the ONNX tests: messages built field by field, and reading from memory.
#pragma once

#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "formats/onnx/onnx.h"
#include "graph/graph.h"

namespace finity::onnx_test {

// A protobuf message under construction: Message().integer(1, 8).text(2, "me").
class Message {
 public:
  Message& integer(int field, std::int64_t value) {
    key(field, 0);
    return varint(static_cast<std::uint64_t>(value));
  }
  Message& text(int field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_.append(value);
    return *this;
  }
  Message& message(int field, const Message& value) { return text(field, value.bytes_); }
  Message& real(int field, float value) {
    key(field, 5);
    return plain(&value, sizeof value);
  }
  Message& real64(int field, double value) {
    key(field, 1);
    return plain(&value, sizeof value);
  }
  // A packed list.
  Message& packed(int field, const std::vector<std::int64_t>& values) {
    Message list;
    for (const std::int64_t value : values) list.varint(static_cast<std::uint64_t>(value));
    return text(field, list.bytes_);
  }
  template <class T>
  Message& plain_list(int field, const std::vector<T>& values) {
    Message list;
    for (const T& value : values) list.plain(&value, sizeof value);
    return text(field, list.bytes_);
  }
  Message& append(const std::string& bytes) {
    bytes_ += bytes;
    return *this;
  }
  Message& varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  void key(int field, int wire) { varint(static_cast<std::uint64_t>(field * 8 + wire)); }
  Message& plain(const void* data, std::size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
    return *this;
  }

  std::string bytes_;
};

inline Message tensor_type(int dtype, const std::vector<std::int64_t>& dims) {
  Message shape;
  for (const std::int64_t dim : dims) shape.message(1, Message().integer(1, dim));
  return Message().message(1, Message().integer(1, dtype).message(2, shape));
}

inline Message value_info(std::string_view name, const Message& type) {
  return Message().text(1, name).message(2, type);
}
inline Message value_info(std::string_view name) { return value_info(name, tensor_type(1, {2})); }

inline Message node(std::string_view op, const std::vector<std::string>& inputs,
                    const std::vector<std::string>& outputs, std::string_view name = {}, std::string_view domain = {}) {
  Message result;
  for (const std::string& input : inputs) result.text(1, input);
  for (const std::string& output : outputs) result.text(2, output);
  if (!name.empty()) result.text(3, name);
  result.text(4, op);
  if (!domain.empty()) result.text(7, domain);
  return result;
}

inline Message opset(std::string_view domain, int version) { return Message().text(1, domain).integer(2, version); }

inline Message model(const Message& graph, int ir = 8, int version = 17) {
  return Message().integer(1, ir).message(7, graph).message(8, opset("", version));
}

inline Graph read(const std::string& bytes, std::vector<Note>& notes, const std::string& directory = {}) {
  const auto owner = std::make_shared<const std::string>(bytes);
  return read_onnx({std::as_bytes(std::span(*owner)), owner, "m.onnx", directory}, notes);
}
inline Graph read(const Message& message) {
  std::vector<Note> notes;
  return read(message.bytes(), notes);
}
// The message of the error that reading gives; "no error" when there is none.
inline std::string read_error(const std::string& bytes, const std::string& directory = {}) {
  std::vector<Note> notes;
  try {
    read(bytes, notes, directory);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
inline std::string read_error(const Message& message) { return read_error(message.bytes()); }

}  // namespace finity::onnx_test

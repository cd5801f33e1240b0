// JSON of TensorFlow.js models: a small reader, and its protobuf messages into the binary form.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "formats/tensorflow/schema.h"

namespace finity::tensorflow {

struct Json {
  using List = std::vector<Json>;
  using Object = std::vector<std::pair<std::string, Json>>;  // in file order
  // Numbers are kept as they are written.
  struct Number {
    std::string text;
  };
  std::variant<std::monostate, bool, Number, std::string, List, Object> content;

  const Json* find(std::string_view key) const;  // null when it is not an object or has no such key
  const Object* object() const { return std::get_if<Object>(&content); }
  const List* list() const { return std::get_if<List>(&content); }
  const std::string* text() const { return std::get_if<std::string>(&content); }
};

// Throws Error "byte N: reason".
Json parse_json(std::string_view text);

// A message in protobuf's JSON form. Throws Error naming the field.
std::string binary_from_json(const Json& json, const MessageDef& message);

}  // namespace finity::tensorflow

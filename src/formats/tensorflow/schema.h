// The fields of TensorFlow's messages that are read, by name: what text and JSON forms need to become the binary form.
// Fields that are not here are skipped, as protobuf does with those of newer versions.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace finity::tensorflow {

enum class FieldKind : std::uint8_t { text, integer, boolean, real32, real64, type, message, map };

struct MessageDef;

struct FieldDef {
  std::string_view name = {};
  int number = 0;
  FieldKind kind = FieldKind::text;
  const MessageDef* message = nullptr;  // of a map: the entry, with fields key and value
  bool repeated = false;
  bool plain_bytes = false;  // JSON writes it in base64
};

struct MessageDef {
  std::span<const FieldDef> fields = {};
  // Null when there is none of that name; JSON spells names in camelCase.
  const FieldDef* find(std::string_view name) const;
};

extern const MessageDef kGraphDef;
extern const MessageDef kMetaGraphDef;
extern const MessageDef kSavedModel;

// "DT_FLOAT", "DT_INT32_REF"; 0 when it is not known.
std::int64_t type_code(std::string_view name);

}  // namespace finity::tensorflow

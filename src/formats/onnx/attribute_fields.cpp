#include "formats/onnx/attribute_fields.h"

#include <array>
#include <bit>
#include <string>

#include "base/error.h"

namespace finity::onnx {

namespace {

constexpr int kKinds = 15;
// Indexed by AttrKind.
constexpr std::array<int, kKinds> kValueField = {0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 22, 23, 14, 15};
constexpr std::array<std::string_view, kKinds> kKindNames = {"nothing",
                                                             "a float",
                                                             "an int",
                                                             "a string",
                                                             "a tensor",
                                                             "a graph",
                                                             "floats",
                                                             "ints",
                                                             "strings",
                                                             "tensors",
                                                             "graphs",
                                                             "a sparse tensor",
                                                             "a list of sparse tensors",
                                                             "a type",
                                                             "types"};

std::uint32_t bit(AttrKind kind) { return std::uint32_t{1} << static_cast<unsigned>(kind); }

AttrKind kind_of_field(int field) {
  for (std::size_t kind = 1; kind < kValueField.size(); ++kind) {
    if (kValueField[kind] == field) return static_cast<AttrKind>(kind);
  }
  return AttrKind::none;
}

void read_value(const Cursor& cursor, AttrKind kind, AttributeFields& attribute) {
  attribute.present |= bit(kind);
  switch (kind) {
    case AttrKind::real: attribute.real = cursor.real(); break;
    case AttrKind::integer: attribute.integer = cursor.integer(); break;
    case AttrKind::reals:
      if (attribute.reals.empty()) attribute.reals.reserve(4);
      cursor.append(attribute.reals);
      break;
    case AttrKind::integers:
      if (attribute.integers.empty()) attribute.integers.reserve(4);
      cursor.append(attribute.integers);
      break;
    case AttrKind::text:
    case AttrKind::tensor:
    case AttrKind::graph:
    case AttrKind::sparse_tensor:
    case AttrKind::type:
      attribute.part = cursor.bytes();
      attribute.own_bytes -= cursor.bytes().size();
      break;
    default: attribute.parts.push_back(cursor.bytes()); attribute.own_bytes -= cursor.bytes().size();
  }
}

std::string holds(std::uint32_t present) {
  return std::string(kKindNames[static_cast<std::size_t>(std::countr_zero(present))]);
}

bool needs_field(AttrKind kind) {
  return kind == AttrKind::tensor || kind == AttrKind::graph || kind == AttrKind::sparse_tensor ||
         kind == AttrKind::type;
}

}  // namespace

AttributeFields scan_attribute(Bytes message, const std::byte* file) {
  AttributeFields attribute;
  attribute.own_bytes = message.size();
  for (Cursor cursor(message, file); cursor.next();) {
    switch (cursor.field()) {
      case 1: attribute.name = cursor.text(); break;
      case 13: attribute.described = true; break;
      case 20: attribute.declared = cursor.integer(); break;
      case 21: attribute.reference = cursor.text(); break;
      default: {
        const AttrKind kind = kind_of_field(cursor.field());
        if (kind == AttrKind::none) attribute.unknown = true;
        else read_value(cursor, kind, attribute);
      }
    }
  }
  return attribute;
}

AttrKind kind_of(const AttributeFields& attribute) {
  const std::uint32_t present = attribute.present;
  if (attribute.declared < 0 || attribute.declared >= kKinds) {
    throw Error("has the unknown kind " + std::to_string(attribute.declared));
  }
  if (attribute.declared == 0) {
    if (std::popcount(present) > 1) throw Error("has several values and does not say which one counts");
    return present == 0 ? AttrKind::none : static_cast<AttrKind>(std::countr_zero(present));
  }
  const auto kind = static_cast<AttrKind>(attribute.declared);
  if ((present & bit(kind)) != 0) {
    if (std::popcount(present) > 1) throw Error("has several values");
    return kind;
  }
  const std::string declared(kKindNames[static_cast<std::size_t>(kind)]);
  if (present != 0) throw Error("is declared as " + declared + " but holds " + holds(present));
  // Zero, the empty text and the empty list may be left out.
  if (needs_field(kind)) throw Error("is declared as " + declared + " but holds nothing");
  return kind;
}

int value_field(AttrKind kind) { return kValueField[static_cast<std::size_t>(kind)]; }

}  // namespace finity::onnx

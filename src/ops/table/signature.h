// The parsed form of an op's signature text, which is also its documentation:
//
//   (X: T, W: T, B?: T) -> (Y: T) where T: float
//   (data...: T) -> (out: T) where T: any
//
// A parameter's name may end in ? (optional) or ... (one or more) or ...? (any
// number). A type is a variable, a set of dtypes, seq(type), optional(type), or
// `value` (anything, unchecked). A set is a dtype name or one of
// float, float8, int, number, any, or several joined by |.
//
// Attributes: "axis: int = -1; mode: string = nearest {nearest, linear}; pads: ints". The kind `value`
// is unchecked, for the few whose kind changed between opsets.
//
// What only some operator sets have says so: "axes?: int64 since 13", "axes: ints until 12", "{none, max since 18}".
#pragma once

#include <bitset>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "graph/attrs.h"
#include "graph/type.h"
#include "tensor/dtype.h"

namespace finity {

using DTypeSet = std::bitset<kDTypeCount>;

struct ParamType {
  Type::Kind kind = Type::Kind::tensor;  // unknown stands for `value`
  std::string variable = {};             // empty when the type is a set of its own
  DTypeSet dtypes = {};                  // for a sequence or optional: of its elements
};

// The operator sets of its domain that have something; 0: still there.
struct Versions {
  int since = 1;
  int until = 0;

  bool hold(int opset) const { return opset >= since && (until == 0 || opset <= until); }
};

struct Param {
  enum class Arity : std::uint8_t { one, optional, some, any };

  std::string name = {};
  Arity arity = Arity::one;
  ParamType type = {};
  Versions versions = {};
};

// A text that an attribute may have.
struct Choice {
  std::string text = {};
  Versions versions = {};
};

struct AttrSpec {
  std::string name = {};
  std::string kind = {};  // as in kind_name(), or "value"
  std::optional<Attr> fallback = {};
  std::vector<Choice> choices = {};  // empty: any text
  Versions versions = {};

  const Choice* choice(std::string_view text) const;
};

struct Signature {
  std::vector<Param> inputs = {};
  std::vector<Param> outputs = {};
  std::vector<AttrSpec> attrs = {};

  const AttrSpec* attr(std::string_view name) const;
  // The parameter an operand belongs to; null when there are too many operands.
  static const Param* param(const std::vector<Param>& params, std::size_t index);
};

// Throws Error on a malformed text: that is a bug in the op table, and a test parses them all.
Signature parse_signature(std::string_view signature, std::string_view attrs);

std::string to_string(const DTypeSet& set);

}  // namespace finity

// Small formulas over an op's own operands, as text: what gradients, quantities of
// hazards and bodies of composites are written in.
//
//   Mul(dY, Sub(1, Pow(Tanh(X), 2)))
//   Gelu(Add(X, bias?), approximate='tanh')
//
// A name is an operand or result of the signature, or an attribute that is a number.
// Attributes of a part are numbers, lists, texts in quotes, or the op's own attribute
// of that name. A part with an operand marked ? is its first operand where that one is
// omitted.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "graph/attrs.h"

namespace finity {

class BuildCall;
class Call;

struct Expression {
  // The op's own attribute of this name, or a value.
  struct OwnAttr {
    std::string name = {};
  };
  using Given = std::variant<Attr, OwnAttr>;

  std::optional<double> number = {};
  std::string name = {};  // of an op when it is a part, else of what it stands for
  bool is_part = false;
  bool may_be_omitted = false;
  std::vector<Expression> inputs = {};
  std::vector<std::pair<std::string, Given>> attrs = {};
};

// Both throw Error when the text is malformed: a bug in the op table, found by its tests.
Expression parse_expression(std::string_view text);
// "X: expression; Y: expression"
std::vector<std::pair<std::string, Expression>> parse_named_expressions(std::string_view text);

// What an expression's words mean at a call. Null or nullopt: nothing of that name.
const Attr* own_attribute(const Call& call, std::string_view name);
std::optional<double> own_number(const Call& call, std::string_view name);
std::optional<std::size_t> operand_named(const Call& call, std::string_view name);
// The attributes of a part, with the op's own filled in.
Attrs attrs_of_part(const Call& call, const Expression& part);

// Writes an expression as nodes; returns what they compute. Invalid where it is an omitted operand.
ValueId write_expression(BuildCall& call, const Expression& expression);

}  // namespace finity

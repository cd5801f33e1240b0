#include "types/check.h"

#include <algorithm>

#include "base/error.h"

namespace finity {

namespace {

using Arity = Param::Arity;

std::size_t required_count(const std::vector<Param>& params) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (params[i].arity == Arity::one || params[i].arity == Arity::some) count = i + 1;
  }
  return count;
}

void check_count(const std::vector<Param>& params, const std::vector<ValueId>& operands, std::string_view what) {
  if (operands.size() > params.size() && Signature::param(params, operands.size() - 1) == nullptr) {
    throw Error("has " + std::to_string(operands.size()) + " " + std::string(what) + "s, at most " +
                std::to_string(params.size()) + " expected");
  }
}

}  // namespace

void check_arity(const OpDef& op, const Node& node) {
  const Signature& signature = signature_of(op);
  check_count(signature.inputs, node.inputs, "input");
  check_count(signature.outputs, node.outputs, "output");
  for (std::size_t i = 0; i < required_count(signature.inputs); ++i) {
    const Param& param = *Signature::param(signature.inputs, i);
    const bool needed = param.arity == Arity::one || param.arity == Arity::some;
    if (needed && (i >= node.inputs.size() || !node.inputs[i].valid()))
      throw Error("input " + param.name + " is missing");
  }
}

void check_attrs(const OpDef& op, const Node& node) {
  const Signature& signature = signature_of(op);
  for (const auto& [attr_name, value] : node.attrs) {
    const AttrSpec* spec = signature.attr(attr_name);
    if (spec == nullptr) continue;  // exporters add attributes of their own
    if (spec->kind != "value" && spec->kind != kind_name(value)) {
      throw Error("attribute '" + attr_name + "' is of kind " + std::string(kind_name(value)) + ", expected " +
                  spec->kind);
    }
    const auto* text = std::get_if<std::string>(&value);
    if (text != nullptr && !spec->choices.empty() && spec->choice(*text) == nullptr) {
      throw Error("attribute '" + attr_name + "' has the unknown value '" + *text + "'");
    }
  }
}

}  // namespace finity

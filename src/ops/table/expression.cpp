#include "ops/table/expression.h"

#include <cctype>
#include <charconv>

#include "base/error.h"
#include "ops/table/build_call.h"
#include "ops/table/op.h"

namespace finity {

namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  std::vector<std::pair<std::string, Expression>> named() {
    std::vector<std::pair<std::string, Expression>> result;
    while (!at_end()) {
      std::string name = word();
      expect(':');
      result.emplace_back(std::move(name), expression());
      if (!at_end()) expect(';');
    }
    return result;
  }

  Expression whole() {
    Expression result = expression();
    if (!at_end()) fail("more text than one expression");
    return result;
  }

 private:
  Expression expression() {
    Expression result;
    if (starts_number()) {
      result.number = number();
      return result;
    }
    result.name = word();
    result.may_be_omitted = accept('?');
    result.is_part = accept('(');
    while (result.is_part && !accept(')')) {
      if (!result.inputs.empty() || !result.attrs.empty()) expect(',');
      const std::size_t before = at_;
      std::string key;
      if (!starts_number() && std::islower(static_cast<unsigned char>(peek())) != 0) key = word();
      if (!key.empty() && accept('=')) {
        result.attrs.emplace_back(std::move(key), attribute());
      } else {
        at_ = before;
        result.inputs.push_back(expression());
      }
    }
    return result;
  }

  Expression::Given attribute() {
    if (accept('[')) {
      std::vector<std::int64_t> list;
      while (!accept(']')) {
        if (!list.empty()) expect(',');
        list.push_back(static_cast<std::int64_t>(number()));
      }
      return Attr(std::move(list));
    }
    if (accept('\'')) {
      const std::size_t end = text_.find('\'', at_);
      if (end == std::string_view::npos) fail("a text has no end");
      std::string letters(text_.substr(at_, end - at_));
      at_ = end + 1;
      return Attr(std::move(letters));
    }
    if (!starts_number()) return Expression::OwnAttr{word()};
    const std::size_t before = at_;
    const double value = number();
    const bool is_real = text_.substr(before, at_ - before).find('.') != std::string_view::npos;
    return is_real ? Attr(static_cast<float>(value)) : Attr(static_cast<std::int64_t>(value));
  }

  bool starts_number() {
    const char c = peek();
    return std::isdigit(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.';
  }

  double number() {
    skip_space();
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number is expected");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  // A name; an op of another domain is "domain:Name".
  std::string word() {
    skip_space();
    const std::size_t start = at_;
    const auto is_letter = [&](std::size_t i) {
      return i < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[i])) != 0 || text_[i] == '_');
    };
    while (is_letter(at_) || (at_ > start && at_ + 1 < text_.size() && text_[at_] == ':' && is_letter(at_ + 1))) ++at_;
    if (at_ == start) fail("a name is expected");
    return std::string(text_.substr(start, at_ - start));
  }

  char peek() {
    skip_space();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(std::string("'") + c + "' is expected");
  }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool at_end() { return peek() == '\0'; }

  [[noreturn]] void fail(const std::string& why) const {
    throw Error("formula \"" + std::string(text_) + "\", letter " + std::to_string(at_) + ": " + why);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Writes an expression as nodes.
class ExpressionBuilder {
 public:
  explicit ExpressionBuilder(BuildCall& call) : call_(call) {}

  ValueId build(const Expression& expression) {
    if (expression.number) return call_.scalar(*expression.number);
    if (!expression.is_part) return named(expression.name);
    std::vector<ValueId> inputs;
    bool omitted = false;
    for (const Expression& input : expression.inputs) {
      inputs.push_back(build(input));
      omitted |= input.may_be_omitted && !inputs.back().valid();
    }
    if (omitted) return inputs.front();
    return call_.add(expression.name, std::move(inputs), attrs_of_part(call_, expression));
  }

 private:
  ValueId named(const std::string& name) {
    if (const auto input = operand_named(call_, name)) return call_.in(*input);
    const Signature& signature = signature_of(call_.op());
    for (std::size_t i = 0; i < signature.outputs.size(); ++i) {
      if (signature.outputs[i].name == name) return call_.out(i);
      if ("d" + signature.outputs[i].name == name) return call_.grad(i);
    }
    if (const auto number = own_number(call_, name)) return call_.scalar(*number);
    throw Error("nothing is called '" + name + "'");
  }

  BuildCall& call_;
};

}  // namespace

Expression parse_expression(std::string_view text) { return Parser(text).whole(); }

std::vector<std::pair<std::string, Expression>> parse_named_expressions(std::string_view text) {
  return Parser(text).named();
}

const Attr* own_attribute(const Call& call, std::string_view name) {
  if (const Attr* attr = call.attrs().find(name)) return attr;
  const AttrSpec* spec = signature_of(call.op()).attr(name);
  return spec != nullptr && spec->fallback ? &*spec->fallback : nullptr;
}

std::optional<double> own_number(const Call& call, std::string_view name) {
  const Attr* attr = own_attribute(call, name);
  if (attr == nullptr) return std::nullopt;
  if (const float* real = std::get_if<float>(attr)) return static_cast<double>(*real);
  if (const auto* integer = std::get_if<std::int64_t>(attr)) return static_cast<double>(*integer);
  return std::nullopt;
}

std::optional<std::size_t> operand_named(const Call& call, std::string_view name) {
  const std::vector<Param>& inputs = signature_of(call.op()).inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].name == name) return i;
  }
  return std::nullopt;
}

Attrs attrs_of_part(const Call& call, const Expression& part) {
  Attrs result;
  for (const auto& [name, given] : part.attrs) {
    if (const Attr* value = std::get_if<Attr>(&given)) {
      result.set(name, *value);
      continue;
    }
    const std::string& own = std::get<Expression::OwnAttr>(given).name;
    const Attr* value = own_attribute(call, own);
    if (value == nullptr) throw Error("attribute '" + own + "' is missing");
    result.set(name, *value);
  }
  return result;
}

void give_gradients(BuildCall& call, std::string_view text) {
  for (const auto& [name, expression] : parse_named_expressions(text)) {
    const std::optional<std::size_t> input = operand_named(call, name);
    if (!input) throw Error("formula \"" + std::string(text) + "\": no operand is called '" + name + "'");
    if (call.wanted(*input)) call.give(*input, ExpressionBuilder(call).build(expression));
  }
}

ValueId write_expression(BuildCall& call, const Expression& expression) {
  return ExpressionBuilder(call).build(expression);
}

ValueId build_expression(BuildCall& call, std::string_view text) {
  return write_expression(call, parse_expression(text));
}

}  // namespace finity

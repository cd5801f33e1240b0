// The text forms of build_call.h: calls of ops over the names of a signature.
#include <cctype>
#include <charconv>
#include <string>

#include "base/error.h"
#include "ops/table/build_call.h"
#include "ops/table/op.h"

namespace finity {

namespace {

class ExpressionBuilder {
 public:
  ExpressionBuilder(BuildCall& call, std::string_view text) : call_(call), text_(text) {}

  // "X: expression; Y: expression"
  void gradients() {
    while (!at_end()) {
      const std::string operand = word();
      expect(':');
      const std::size_t input = input_named(operand);
      if (call_.wanted(input)) call_.give(input, expression());
      else skip_expression();
      if (!at_end()) expect(';');
    }
  }

  ValueId whole() {
    const ValueId result = expression();
    if (!at_end()) fail("more text than one expression");
    return result;
  }

 private:
  ValueId expression() {
    skip_space();
    if (starts_number()) return call_.scalar(number());
    const std::string name = word();
    if (!accept('(')) return named(name);
    std::vector<ValueId> inputs;
    Attrs attrs;
    while (!accept(')')) {
      if (!inputs.empty() || !attrs.empty()) expect(',');
      const std::size_t before = at_;
      std::string key;
      if (!starts_number() && std::islower(static_cast<unsigned char>(peek())) != 0) key = word();
      if (!key.empty() && accept('=')) {
        attrs.set(key, attribute());
      } else {
        at_ = before;
        inputs.push_back(expression());
      }
    }
    return call_.add(name, std::move(inputs), std::move(attrs));
  }

  // A number, a list of them, or the op's own attribute of that name.
  Attr attribute() {
    skip_space();
    if (accept('[')) {
      std::vector<std::int64_t> list;
      while (!accept(']')) {
        if (!list.empty()) expect(',');
        list.push_back(static_cast<std::int64_t>(number()));
      }
      return list;
    }
    if (starts_number()) {
      const std::size_t before = at_;
      const double value = number();
      const bool is_real = text_.substr(before, at_ - before).find('.') != std::string_view::npos;
      return is_real ? Attr(static_cast<float>(value)) : Attr(static_cast<std::int64_t>(value));
    }
    const std::string name = word();
    const Attr* own = own_attribute(name);
    if (own == nullptr) fail("the op has no attribute '" + name + "'");
    return *own;
  }

  const Attr* own_attribute(const std::string& name) const {
    if (const Attr* attr = call_.node().attrs.find(name)) return attr;
    const AttrSpec* spec = signature_of(*call_.node().op).attr(name);
    return spec != nullptr && spec->fallback ? &*spec->fallback : nullptr;
  }

  ValueId named(const std::string& name) {
    const Signature& signature = signature_of(*call_.node().op);
    for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
      if (signature.inputs[i].name == name) return call_.in(i);
    }
    for (std::size_t i = 0; i < signature.outputs.size(); ++i) {
      if (signature.outputs[i].name == name) return call_.out(i);
      if ("d" + signature.outputs[i].name == name) return call_.grad(i);
    }
    if (const Attr* attr = own_attribute(name)) {
      if (const float* real = std::get_if<float>(attr)) return call_.scalar(static_cast<double>(*real));
      if (const auto* integer = std::get_if<std::int64_t>(attr)) return call_.scalar(static_cast<double>(*integer));
    }
    fail("nothing is called '" + name + "'");
  }

  std::size_t input_named(const std::string& name) const {
    const Signature& signature = signature_of(*call_.node().op);
    for (std::size_t i = 0; i < signature.inputs.size(); ++i) {
      if (signature.inputs[i].name == name) return i;
    }
    fail("no operand is called '" + name + "'");
  }

  void skip_expression() {
    while (at_ < text_.size() && text_[at_] != ';') ++at_;
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

  BuildCall& call_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

void give_gradients(BuildCall& call, std::string_view text) { ExpressionBuilder(call, text).gradients(); }

ValueId build_expression(BuildCall& call, std::string_view text) { return ExpressionBuilder(call, text).whole(); }

}  // namespace finity

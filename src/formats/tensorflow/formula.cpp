// Formulas of lowerings: calls of ops of the table over the operands a, b, c, ..., attributes that are numbers, and
// numbers, which have the dtype of the first operand that is a float, else of the first.
//
//   Mul(b, Sub(1, Mul(a, a)))       Where(Greater(b, 0), a, Mul(alpha, a))       finity:Rsqrt(a)
#include <cctype>
#include <charconv>
#include <string>

#include "base/error.h"
#include "formats/tensorflow/emit.h"

namespace finity::tensorflow {

namespace {

class FormulaReader {
 public:
  FormulaReader(TfCall& call, std::string_view text) : call_(call), emit_(call), text_(text) {}

  ValueId whole() {
    const ValueId result = expression();
    skip_space();
    if (at_ != text_.size()) fail("more text than one formula");
    return result;
  }

 private:
  ValueId expression() {
    skip_space();
    const char first = at_ < text_.size() ? text_[at_] : '\0';
    if (std::isdigit(static_cast<unsigned char>(first)) != 0 || first == '-') return emit_.number(number(), dtype());
    const std::string name = word();
    if (!accept('(')) return named(name);
    std::vector<ValueId> inputs;
    while (!accept(')')) {
      if (!inputs.empty() && !accept(',')) fail("',' is expected");
      inputs.push_back(expression());
    }
    return call_.add(name, std::move(inputs));
  }

  ValueId named(const std::string& name) {
    if (name.size() == 1) return call_.in(name[0] - 'a');
    if (!call_.has_attr(name)) fail("no attribute is called '" + name + "'");
    return emit_.number(call_.real(name, 0), dtype());
  }

  DType dtype() const {
    for (std::size_t i = 0; i < call_.input_count(); ++i) {
      if (!call_.has_tensor(i)) continue;
      const DType own = call_.in_type(static_cast<int>(i)).dtype;
      if (is_float(own)) return own;
    }
    return call_.in_type(0).dtype;
  }

  double number() {
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (error != std::errc()) fail("a number is expected");
    at_ = static_cast<std::size_t>(end - text_.data());
    return value;
  }

  std::string word() {
    const std::size_t start = at_;
    const auto letter = [](char c) {
      return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':' || c == '.';
    };
    while (at_ < text_.size() && letter(text_[at_])) ++at_;
    if (at_ == start) fail("a name is expected");
    return std::string(text_.substr(start, at_ - start));
  }

  bool accept(char c) {
    skip_space();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void skip_space() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw Error("formula \"" + std::string(text_) + "\", letter " + std::to_string(at_) + ": " + why);
  }

  TfCall& call_;
  Emit emit_;
  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

ValueId Emit::formula(std::string_view text) { return FormulaReader(call_, text).whole(); }

}  // namespace finity::tensorflow

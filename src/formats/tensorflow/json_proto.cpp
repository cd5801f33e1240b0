#include "formats/tensorflow/json_proto.h"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "formats/wire.h"

namespace finity::tensorflow {

namespace {

constexpr int kDeepest = 200;

class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  Json read() {
    Json result = value(0);
    skip_space();
    if (at_ != text_.size()) fail("more text behind the end");
    return result;
  }

 private:
  [[noreturn]] void fail(const std::string& reason) const {
    throw Error("byte " + std::to_string(at_) + ": " + reason);
  }
  void skip_space() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  char peek() {
    skip_space();
    if (at_ == text_.size()) fail("the text ends too early");
    return text_[at_];
  }
  bool accept(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (accept(c)) return;
    std::string reason = "'?' was expected";
    reason[1] = c;
    fail(reason);
  }

  Json value(int depth) {
    if (depth > kDeepest) fail("nested more than " + std::to_string(kDeepest) + " deep");
    switch (peek()) {
      case '{': return {object(depth)};
      case '[': return {list(depth)};
      case '"': return {string()};
      default: return word();
    }
  }
  Json::Object object(int depth) {
    Json::Object result;
    expect('{');
    if (accept('}')) return result;
    do {
      if (peek() != '"') fail("a name was expected");
      std::string key = string();
      expect(':');
      result.emplace_back(std::move(key), value(depth + 1));
    } while (accept(','));
    expect('}');
    return result;
  }
  Json::List list(int depth) {
    Json::List result;
    expect('[');
    if (accept(']')) return result;
    do {
      result.push_back(value(depth + 1));
    } while (accept(','));
    expect(']');
    return result;
  }
  Json word() {
    const std::size_t start = at_;
    while (at_ < text_.size() && std::string_view(" \t\r\n,]}:").find(text_[at_]) == std::string_view::npos) ++at_;
    const std::string_view text = text_.substr(start, at_ - start);
    if (text == "true") return {true};
    if (text == "false") return {false};
    if (text == "null") return {};
    if (text.empty() || std::string_view("-0123456789").find(text[0]) == std::string_view::npos) {
      fail("'" + std::string(text.substr(0, 20)) + "' is no value");
    }
    return {Json::Number{std::string(text)}};
  }
  std::string string() {
    std::string result;
    ++at_;
    while (true) {
      const std::size_t plain = text_.find_first_of("\"\\", at_);
      if (plain == std::string_view::npos) fail("a text that is not closed");
      result.append(text_, at_, plain - at_);
      at_ = plain + 1;
      if (text_[plain] == '"') return result;
      escape(result);
    }
  }
  void escape(std::string& out) {
    if (at_ >= text_.size()) fail("a text that is not closed");
    const char c = text_[at_++];
    constexpr std::string_view kLetters = "bfnrt";
    constexpr std::string_view kMeanings = "\b\f\n\r\t";
    if (const std::size_t letter = kLetters.find(c); letter != std::string_view::npos) {
      out.push_back(kMeanings[letter]);
    } else if (c == 'u') {
      append_utf8(hex4(), out);
    } else {
      out.push_back(c);
    }
  }
  unsigned hex4() {
    if (text_.size() - at_ < 4) fail("a text that is not closed");
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + at_ + 4, value, 16);
    if (error != std::errc() || end != text_.data() + at_ + 4) fail("a \\u without four digits");
    at_ += 4;
    return value;
  }
  static void append_utf8(unsigned code, std::string& out) {
    if (code < 0x80) {
      out.push_back(static_cast<char>(code));
    } else if (code < 0x800) {
      out.push_back(static_cast<char>(0xc0U | code >> 6));
      out.push_back(static_cast<char>(0x80U | (code & 0x3fU)));
    } else {
      out.push_back(static_cast<char>(0xe0U | code >> 12));
      out.push_back(static_cast<char>(0x80U | (code >> 6 & 0x3fU)));
      out.push_back(static_cast<char>(0x80U | (code & 0x3fU)));
    }
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::string from_base64(std::string_view text) {
  std::string result;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    unsigned digit = 0;
    if (c >= 'A' && c <= 'Z') digit = static_cast<unsigned>(c - 'A');
    else if (c >= 'a' && c <= 'z') digit = static_cast<unsigned>(c - 'a') + 26;
    else if (c >= '0' && c <= '9') digit = static_cast<unsigned>(c - '0') + 52;
    else if (c == '+' || c == '-') digit = 62;
    else if (c == '/' || c == '_') digit = 63;
    else if (c == '=' || c == '\n' || c == '\r') continue;
    else throw Error("a text that is not base64");
    bits = bits << 6 | digit;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    result.push_back(static_cast<char>(bits >> count & 0xffU));
  }
  return result;
}

class MessageWriter {
 public:
  std::string write(const Json& json, const MessageDef& message) {
    fields(json, message);
    return out_.take();
  }

 private:
  void fields(const Json& json, const MessageDef& message) {
    const Json::Object* object = json.object();
    if (object == nullptr) throw Error("an object was expected");
    for (const auto& [name, value] : *object) {
      const FieldDef* field = message.find(name);
      if (field == nullptr || std::holds_alternative<std::monostate>(value.content)) continue;
      try {
        one_field(*field, value);
      } catch (Error& error) {
        error.in(field->name);
        throw;
      }
    }
  }

  void one_field(const FieldDef& field, const Json& value) {
    if (field.kind == FieldKind::map) {
      if (value.object() == nullptr) throw Error("an object was expected");
      for (const auto& [key, entry] : *value.object()) {
        out_.message(field.number, [&] {
          out_.text(1, key);
          one_value(field.message->fields[1], entry);
        });
      }
      return;
    }
    if (field.repeated && value.list() != nullptr) {
      for (const Json& item : *value.list()) one_value(field, item);
      return;
    }
    one_value(field, value);
  }

  void one_value(const FieldDef& field, const Json& value) {
    switch (field.kind) {
      case FieldKind::message:
      case FieldKind::map: out_.message(field.number, [&] { fields(value, *field.message); }); return;
      case FieldKind::text: text(field, value); return;
      case FieldKind::integer: out_.integer(field.number, integer(value)); return;
      case FieldKind::boolean: {
        const bool* flag = std::get_if<bool>(&value.content);
        out_.integer(field.number, flag != nullptr ? static_cast<std::int64_t>(*flag) : integer(value));
        return;
      }
      case FieldKind::type:
        out_.integer(field.number, value.text() != nullptr ? type_code(*value.text()) : integer(value));
        return;
      case FieldKind::real32: out_.real(field.number, static_cast<float>(real(value))); return;
      case FieldKind::real64: {
        const double number = real(value);
        std::byte bytes[sizeof number];
        std::memcpy(bytes, &number, sizeof number);
        out_.bytes(field.number, bytes);
        return;
      }
    }
  }

  void text(const FieldDef& field, const Json& value) {
    if (value.text() == nullptr) throw Error("a text was expected");
    out_.text(field.number, field.plain_bytes ? from_base64(*value.text()) : *value.text());
  }

  // 64-bit integers are texts in this form.
  static std::string digits(const Json& value) {
    if (const auto* number = std::get_if<Json::Number>(&value.content)) return number->text;
    if (value.text() != nullptr) return *value.text();
    throw Error("a number was expected");
  }
  static std::int64_t integer(const Json& value) {
    const std::string text = digits(value);
    std::int64_t result = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
    if (error == std::errc() && end == text.data() + text.size()) return result;
    const double number = real(value);
    if (!(std::abs(number) < 9e18) || number != std::floor(number)) throw Error("'" + text + "' is not an integer");
    return static_cast<std::int64_t>(number);
  }
  static double real(const Json& value) {
    const std::string text = digits(value);
    if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (text == "Infinity") return std::numeric_limits<double>::infinity();
    if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
    double result = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
    if (error == std::errc::result_out_of_range) return std::strtod(text.c_str(), nullptr);
    if (error != std::errc() || end != text.data() + text.size()) throw Error("'" + text + "' is not a number");
    return result;
  }

  wire::WireWriter out_;
};

}  // namespace

const Json* Json::find(std::string_view key) const {
  if (object() == nullptr) return nullptr;
  for (const auto& [name, value] : *object()) {
    if (name == key) return &value;
  }
  return nullptr;
}

Json parse_json(std::string_view text) { return JsonReader(text).read(); }

std::string binary_from_json(const Json& json, const MessageDef& message) {
  return MessageWriter().write(json, message);
}

}  // namespace finity::tensorflow

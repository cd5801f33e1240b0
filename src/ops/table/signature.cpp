#include "ops/table/signature.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <map>

#include "base/error.h"

namespace finity {

namespace {

constexpr auto kIsFloat = [](DType t) { return info(t).bits >= 16; };

DTypeSet set_where(DTypeClass kind, bool (*keep)(DType)) {
  DTypeSet result;
  for (std::size_t i = 1; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (info(dtype).kind == kind && keep(dtype)) result.set(i);
  }
  return result;
}

DTypeSet named_set(std::string_view name) {
  const auto at_least_byte = [](DType t) { return info(t).bits >= 8; };
  const auto below_16 = [](DType t) { return info(t).bits < 16; };
  const DTypeSet floats = set_where(DTypeClass::floating, kIsFloat);
  const DTypeSet ints =
      set_where(DTypeClass::signed_integer, at_least_byte) | set_where(DTypeClass::unsigned_integer, at_least_byte);
  if (name == "float") return floats;
  if (name == "float8") return set_where(DTypeClass::floating, below_16);
  if (name == "int") return ints;
  if (name == "number") return floats | ints;
  if (name == "any") return ~DTypeSet().set(0);
  if (const auto dtype = dtype_from_name(name)) return DTypeSet().set(static_cast<std::size_t>(*dtype));
  throw Error("unknown type set '" + std::string(name) + "'");
}

// Cuts the text into words and single punctuation characters, on demand.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  bool done() {
    skip_space();
    return text_.empty();
  }
  bool take(std::string_view token) {
    skip_space();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  void expect(std::string_view token) {
    if (!take(token)) throw Error("expected '" + std::string(token) + "' before '" + std::string(text_) + "'");
  }
  // Letters, digits and what numbers and names contain.
  std::string_view word() {
    skip_space();
    std::size_t length = 0;
    while (length < text_.size() && is_word(text_[length])) ++length;
    if (length == 0) throw Error("expected a name before '" + std::string(text_) + "'");
    const std::string_view result = text_.substr(0, length);
    text_.remove_prefix(length);
    return result;
  }

 private:
  static bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '+'; }
  void skip_space() {
    while (!text_.empty() && text_.front() == ' ') text_.remove_prefix(1);
  }

  std::string_view text_;
};

DTypeSet parse_set(Scanner& scan) {
  DTypeSet result = named_set(scan.word());
  while (scan.take("|")) result |= named_set(scan.word());
  return result;
}

ParamType parse_type(Scanner& scan) {
  for (const auto& [text, kind] :
       {std::pair{"seq(", Type::Kind::sequence}, std::pair{"optional(", Type::Kind::optional}}) {
    if (scan.take(text)) {
      ParamType inner = parse_type(scan);
      scan.expect(")");
      inner.kind = kind;
      return inner;
    }
  }
  const std::string_view first = scan.word();
  if (first == "value") return {.kind = Type::Kind::unknown};
  if (std::isupper(static_cast<unsigned char>(first.front())) != 0) return {.variable = std::string(first)};
  DTypeSet set = named_set(first);
  while (scan.take("|")) set |= named_set(scan.word());
  return {.dtypes = set};
}

template <class Number>
Number parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) throw Error("bad number '" + std::string(text) + "'");
  return number;
}

Versions parse_versions(Scanner& scan) {
  Versions versions;
  if (scan.take("since ")) versions.since = parse_number<int>(scan.word());
  if (scan.take("until ")) versions.until = parse_number<int>(scan.word());
  return versions;
}

Param parse_param(Scanner& scan) {
  Param param;
  param.name = scan.word();
  if (scan.take("...?")) param.arity = Param::Arity::any;
  else if (scan.take("...")) param.arity = Param::Arity::some;
  else if (scan.take("?")) param.arity = Param::Arity::optional;
  scan.expect(":");
  param.type = parse_type(scan);
  param.versions = parse_versions(scan);
  return param;
}

std::vector<Param> parse_params(Scanner& scan) {
  std::vector<Param> params;
  scan.expect("(");
  if (scan.take(")")) return params;
  do params.push_back(parse_param(scan));
  while (scan.take(","));
  scan.expect(")");
  return params;
}

void bind_variables(std::vector<Param>& params, const std::map<std::string, DTypeSet, std::less<>>& sets) {
  for (Param& param : params) {
    if (param.type.variable.empty()) continue;
    const auto found = sets.find(param.type.variable);
    if (found == sets.end()) throw Error("type variable " + param.type.variable + " has no set");
    param.type.dtypes = found->second;
  }
}

// "3", "-1", "1e-05", "0.01", "nearest"; a leading minus is its own token for the scanner.
Attr parse_fallback(Scanner& scan, std::string_view kind) {
  std::string text = scan.take("-") ? "-" : "";
  text += scan.word();
  while (kind != "string" && scan.take(".")) text += "." + std::string(scan.word());
  if (kind != "string" && text.ends_with('e') && scan.take("-")) text += "-" + std::string(scan.word());
  if (kind == "int") return parse_number<std::int64_t>(text);
  if (kind == "float") return parse_number<float>(text);
  if (kind == "string") return text;
  throw Error("attribute kind '" + std::string(kind) + "' cannot have a default");
}

AttrSpec parse_attr(Scanner& scan) {
  AttrSpec spec;
  spec.name = scan.word();
  scan.expect(":");
  spec.kind = scan.word();
  if (scan.take("=")) spec.fallback = parse_fallback(scan, spec.kind);
  if (scan.take("{")) {
    do {
      const std::string text(scan.word());
      spec.choices.push_back({text, parse_versions(scan)});
    } while (scan.take(","));
    scan.expect("}");
  }
  spec.versions = parse_versions(scan);
  return spec;
}

std::vector<AttrSpec> parse_attrs(Scanner& scan) {
  std::vector<AttrSpec> attrs;
  while (!scan.done()) {
    attrs.push_back(parse_attr(scan));
    if (!scan.take(";")) break;
  }
  if (!scan.done()) throw Error("unexpected text in attributes");
  return attrs;
}

}  // namespace

const Choice* AttrSpec::choice(std::string_view text) const {
  const auto found = std::ranges::find(choices, text, &Choice::text);
  return found == choices.end() ? nullptr : &*found;
}

const AttrSpec* Signature::attr(std::string_view name) const {
  for (const AttrSpec& spec : attrs) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

const Param* Signature::param(const std::vector<Param>& params, std::size_t index) {
  if (index < params.size()) return &params[index];
  if (params.empty()) return nullptr;
  const Param& last = params.back();
  const bool repeats = last.arity == Param::Arity::some || last.arity == Param::Arity::any;
  return repeats ? &last : nullptr;
}

Signature parse_signature(std::string_view signature, std::string_view attrs) {
  Signature result;
  Scanner scan(signature);
  result.inputs = parse_params(scan);
  scan.expect("->");
  result.outputs = parse_params(scan);
  std::map<std::string, DTypeSet, std::less<>> sets;
  if (scan.take("where")) {
    do {
      const std::string variable(scan.word());
      scan.expect(":");
      sets[variable] = parse_set(scan);
    } while (scan.take(","));
  }
  if (!scan.done()) throw Error("unexpected text in signature");
  bind_variables(result.inputs, sets);
  bind_variables(result.outputs, sets);
  Scanner attr_scan(attrs);
  result.attrs = parse_attrs(attr_scan);
  return result;
}

std::string to_string(const DTypeSet& set) {
  std::string text;
  DTypeSet rest = set;
  for (const std::string_view group : {"any", "number", "float", "int", "float8"}) {
    const DTypeSet members = named_set(group);
    if ((members & rest) != members) continue;
    text += (text.empty() ? "" : " | ") + std::string(group);
    rest &= ~members;
  }
  for (std::size_t i = 1; i < kDTypeCount; ++i) {
    if (rest[i]) text += (text.empty() ? "" : " | ") + std::string(name(static_cast<DType>(i)));
  }
  return text;
}

}  // namespace finity

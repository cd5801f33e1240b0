// The attribute half of GraphParser: literals by kind.
#include <array>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/text/graph_parser.h"
#include "formats/text/literals.h"

namespace finity::textform {

namespace {

// Far above any operator's; looking a name up in the list is linear.
constexpr std::size_t kMaxAttrs = 1000;
constexpr std::int64_t kAnyInt = std::numeric_limits<std::int64_t>::min();
constexpr std::array<std::string_view, 6> kListKinds = {"ints", "floats", "strings", "tensors", "graphs", "types"};

bool at_real(const Lexer& in) { return in.peek().kind == Token::Kind::real || in.at_word("inf") || in.at_word("nan"); }

float read_float(Lexer& in) { return static_cast<float>(read_real(in, DType::float32)); }

Type read_type_attr(Lexer& in, GraphBuilder& builder) {
  if (!in.accept_word("type")) in.fail_expected("type(...)");
  in.expect("(");
  Type type = read_type(in, builder);
  in.expect(")");
  return type;
}

template <class T, class Read>
std::vector<T> read_items(Lexer& in, Read read) {
  std::vector<T> items;
  in.list("[", "]", [&] { items.push_back(read()); });
  return items;
}

}  // namespace

void GraphParser::read_attrs(Node& node) {
  std::size_t count = 0;
  in_.list("{", "}", [&] {
    const std::size_t offset = in_.peek().offset;
    std::string name = in_.name("the name of an attribute");
    if (node.attrs.find(name) != nullptr) in_.fail(offset, "attribute '" + name + "' is given twice");
    if (count++ == kMaxAttrs) in_.fail(offset, "more than " + std::to_string(kMaxAttrs) + " attributes");
    in_.expect("=");
    node.attrs.set(std::move(name), read_attr());
  });
}

Attr GraphParser::read_attr() {
  for (const std::string_view kind : kListKinds) {
    if (in_.accept_word(kind)) return read_list_attr(kind);
  }
  if (in_.at("[")) return read_list_attr(guess_list_kind());
  if (in_.peek().kind == Token::Kind::integer) return in_.integer("an integer", kAnyInt);
  if (at_real(in_)) return read_float(in_);
  if (in_.peek().kind == Token::Kind::string) return in_.string("a string");
  if (in_.at_word("type")) return read_type_attr(in_, builder_);
  if (in_.at_word("graph")) return read_nested_graph();
  return read_constant(in_, {});
}

// By the first item; an empty list has none to tell.
std::string_view GraphParser::guess_list_kind() {
  Lexer ahead = in_;
  ahead.expect("[");
  if (ahead.at("]")) in_.fail(in_.peek().offset, "an empty list needs its kind, as in ints []");
  if (ahead.peek().kind == Token::Kind::integer) return "ints";
  if (at_real(ahead)) return "floats";
  if (ahead.peek().kind == Token::Kind::string) return "strings";
  if (ahead.at_word("graph")) return "graphs";
  return ahead.at_word("type") ? "types" : "tensors";
}

Attr GraphParser::read_list_attr(std::string_view kind) {
  if (kind == "ints") return read_items<std::int64_t>(in_, [&] { return in_.integer("an integer", kAnyInt); });
  if (kind == "floats") return read_items<float>(in_, [&] { return read_float(in_); });
  if (kind == "strings") return read_items<std::string>(in_, [&] { return in_.string("a string"); });
  if (kind == "graphs") return read_items<BodyId>(in_, [&] { return read_nested_graph(); });
  if (kind == "types") return read_items<Type>(in_, [&] { return read_type_attr(in_, builder_); });
  return read_items<ConstantPtr>(in_, [&] { return read_constant(in_, {}); });
}

BodyId GraphParser::read_nested_graph() {
  if (!in_.accept_word("graph")) in_.fail_expected("a graph");
  return read_graph();
}

}  // namespace finity::textform

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "formats/text/graph_parser.h"
#include "formats/text/lexer.h"
#include "formats/text/text.h"

namespace finity {

namespace {

using textform::Lexer;
using textform::Token;

void read_model_entry(Lexer& in, ModelInfo& info) {
  const Token key = in.peek();
  const std::string name = in.name("a property of the model");
  in.expect("=");
  if (name == "ir_version") info.ir_version = in.integer("an integer", 0);
  else if (name == "model_version") info.model_version = in.integer("an integer", INT64_MIN);
  else if (name == "producer_name") info.producer_name = in.string("a string");
  else if (name == "producer_version") info.producer_version = in.string("a string");
  else if (name == "domain") info.domain = in.string("a string");
  else if (name == "doc") info.doc = in.string("a string");
  else if (name == "metadata") info.metadata = textform::read_properties(in);
  else in.fail(key.offset, "a model has no property '" + name + "'");
}

void read_header(Lexer& in, ModelInfo& info) {
  if (in.accept_word("model")) in.list("{", "}", [&] { read_model_entry(in, info); });
  while (in.at_word("opset")) {
    const std::size_t offset = in.take().offset;
    auto [domain, version] = textform::read_opset(in);
    const auto [entry, fresh] = info.opsets.try_emplace(std::move(domain), version);
    if (!fresh) in.fail(offset, "the operator set '" + entry->first + "' is declared twice");
  }
}

}  // namespace

Graph parse_graph(std::string_view text, std::string_view file_name) {
  Lexer in(text, file_name);
  GraphBuilder builder;
  builder.info().file = file_name;
  read_header(in, builder.info());
  if (!in.accept_word("graph")) in.fail_expected("'graph'");
  textform::GraphParser(in, builder).read_graph();
  if (!in.at_end()) in.fail_expected("the end of the text");
  return textform::build_graph(in, std::move(builder));
}

bool looks_like_text(std::span<const std::byte> head) {
  std::string_view text(reinterpret_cast<const char*>(head.data()), head.size());
  const std::size_t start = std::min(text.find_first_not_of(" \t\r\n"), text.size());
  text.remove_prefix(start);
  // No binary format we know of starts with a comment.
  if (text.starts_with("//")) return true;
  const std::string_view word = text.substr(0, textform::scan_name(text, 0));
  if (word == "model" || word == "opset") return true;
  if (word != "graph") return false;
  // `graph {` is how a protocol buffer in text starts.
  const std::size_t next = text.find_first_not_of(" \t\r\n", word.size());
  return next != std::string_view::npos && text[next] != '{' && text[next] != ':';
}

}  // namespace finity

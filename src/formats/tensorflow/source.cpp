#include "formats/tensorflow/source.h"

#include <algorithm>
#include <cctype>

#include "formats/tensorflow/checkpoint.h"
#include "formats/tensorflow/schema.h"
#include "formats/tensorflow/text_proto.h"
#include "formats/tensorflow/tfjs.h"

namespace finity::tensorflow {

using wire::Cursor;
using wire::Wire;

namespace {

bool printable(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x20; });
}

bool is_op_name(std::string_view text) {
  return !text.empty() && text.size() < 200 && std::ranges::all_of(text, [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '>' || c == '.' || c == '-' || c == '/';
  });
}

// A NodeDef has a name and an op, and nothing that a node does not have.
bool is_node(Bytes message) {
  bool name = false;
  bool op = false;
  for (Cursor cursor(message, message.data()); cursor.next();) {
    if (cursor.field() > 7 || cursor.wire() != Wire::bytes) return false;
    if (cursor.field() == 1) name = printable(cursor.text());
    if (cursor.field() == 2) op = is_op_name(cursor.text());
  }
  return name && op;
}

bool is_graph(Bytes message) {
  for (Cursor cursor(message, message.data()); cursor.next();) {
    if (cursor.field() > 5) return false;
    if (cursor.field() == 1) return cursor.wire() == Wire::bytes && is_node(cursor.bytes());
  }
  return false;
}

bool is_meta_graph(Bytes message) {
  for (Cursor cursor(message, message.data()); cursor.next();) {
    if (cursor.field() > 8 || cursor.wire() != Wire::bytes) return false;
    if (cursor.field() == 2) return is_graph(cursor.bytes());
  }
  return false;
}

bool is_saved_model(Bytes message) {
  for (Cursor cursor(message, message.data()); cursor.next();) {
    if (cursor.field() == 1 && cursor.wire() != Wire::varint) return false;
    if (cursor.field() > 2) return false;
    if (cursor.field() == 2) return cursor.wire() == Wire::bytes && is_meta_graph(cursor.bytes());
  }
  return false;
}

bool holds(bool (*is)(Bytes), Bytes file) {
  try {
    return is(file);
  } catch (const Error&) {
    return false;
  }
}

// The first word of a text, behind comments, when a value or a message follows it.
std::string_view first_word(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  while (!text.empty() && (std::isspace(static_cast<unsigned char>(text[0])) != 0 || text[0] == '#')) {
    text.remove_prefix(text[0] == '#' ? std::min(text.find('\n'), text.size()) : 1);
  }
  std::size_t end = 0;
  while (end < text.size() && (std::isalpha(static_cast<unsigned char>(text[end])) != 0 || text[end] == '_')) ++end;
  std::size_t behind = end;
  while (behind < text.size() && std::isspace(static_cast<unsigned char>(text[behind])) != 0) ++behind;
  const bool field = behind < text.size() && (text[behind] == ':' || text[behind] == '{' || text[behind] == '<');
  return field ? text.substr(0, end) : std::string_view();
}

SourceKind recognise_text(std::string_view text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start != std::string_view::npos && text[start] == '{') {
    return text.find("\"modelTopology\"") != std::string_view::npos ? SourceKind::tfjs : SourceKind::none;
  }
  const std::string_view word = first_word(text);
  const auto is = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::find(words, word) != words.end();
  };
  if (is({"node", "library", "versions", "version"})) return SourceKind::text_graph_def;
  if (is({"meta_info_def", "graph_def", "saver_def", "collection_def", "signature_def"})) {
    return SourceKind::text_meta_graph;
  }
  if (is({"saved_model_schema_version", "meta_graphs"})) return SourceKind::text_saved_model;
  return SourceKind::none;
}

void read_meta_info(Cursor cursor, const std::byte* file, GraphDef& graph) {
  while (cursor.next()) {
    if (cursor.field() != 2) continue;
    for (Cursor list = cursor.message(); list.next();) {
      if (list.field() != 1) continue;
      OpSignature op = read_op_def(list.bytes(), file);
      const std::string_view name = op.name;
      graph.ops.emplace(name, std::move(op));
    }
  }
}

void read_meta_graph(Bytes message, const std::byte* file, GraphDef& graph) {
  for (Cursor cursor(message, file); cursor.next();) {
    if (cursor.field() == 1) read_meta_info(cursor.message(), file, graph);
    if (cursor.field() == 2) read_graph_def(cursor.bytes(), file, graph);
  }
}

// The graph for serving, else the first: others hold the same model for training.
void read_saved_model(Bytes message, const std::byte* file, GraphDef& graph, std::vector<Note>& notes) {
  std::vector<Bytes> graphs;
  for (Cursor cursor(message, file); cursor.next();) {
    if (cursor.field() == 2) graphs.push_back(cursor.bytes());
  }
  if (graphs.empty()) throw Error("a SavedModel without a graph");
  const auto serves = [&](Bytes meta) {
    for (Cursor cursor(meta, file); cursor.next();) {
      if (cursor.field() != 1) continue;
      for (Cursor info = cursor.message(); info.next();) {
        if (info.field() == 4 && info.text() == "serve") return true;
      }
    }
    return false;
  };
  const auto found = std::ranges::find_if(graphs, serves);
  read_meta_graph(found == graphs.end() ? graphs.front() : *found, file, graph);
  if (graphs.size() > 1) {
    notes.push_back({"SavedModel", "holds " + std::to_string(graphs.size()) + " graphs, one is read"});
  }
}

void read_binary(SourceKind kind, Bytes file, GraphDef& graph, std::vector<Note>& notes) {
  if (kind == SourceKind::graph_def) read_graph_def(file, file.data(), graph);
  if (kind == SourceKind::meta_graph) read_meta_graph(file, file.data(), graph);
  if (kind == SourceKind::saved_model) read_saved_model(file, file.data(), graph, notes);
}

}  // namespace

SourceKind recognise(Bytes file) {
  if (holds(is_graph, file)) return SourceKind::graph_def;
  if (holds(is_meta_graph, file)) return SourceKind::meta_graph;
  if (holds(is_saved_model, file)) return SourceKind::saved_model;
  return recognise_text(wire::as_text(file));
}

GraphDef read_source(Bytes file, std::shared_ptr<const void> owner, const std::string& directory,
                     std::vector<Note>& notes) {
  GraphDef graph;
  SourceKind kind = recognise(file);
  graph.owner = std::move(owner);
  const auto from_text = [&](const MessageDef& message, SourceKind binary) {
    auto text = std::make_shared<const std::string>(binary_from_text(wire::as_text(file), message));
    file = std::as_bytes(std::span(*text));
    graph.owner = std::move(text);
    kind = binary;
  };
  switch (kind) {
    case SourceKind::none: throw Error("is not a TensorFlow graph");
    case SourceKind::text_graph_def: from_text(kGraphDef, SourceKind::graph_def); break;
    case SourceKind::text_meta_graph: from_text(kMetaGraphDef, SourceKind::meta_graph); break;
    case SourceKind::text_saved_model: from_text(kSavedModel, SourceKind::saved_model); break;
    case SourceKind::tfjs: read_tfjs(wire::as_text(file), directory, graph, notes); return graph;
    default: break;
  }
  read_binary(kind, file, graph, notes);
  if (kind == SourceKind::saved_model) add_trained_weights(directory, graph, notes);
  return graph;
}

}  // namespace finity::tensorflow

#include "formats/onnx/onnx.h"

#include <algorithm>
#include <filesystem>

#include "base/mapped_file.h"
#include "formats/onnx/graph_reader.h"
#include "formats/onnx/opset_versions.h"

namespace finity {

namespace {

void report(const OnnxSource& source, const ModelInfo& info, const onnx::Losses& losses, std::vector<Note>& notes) {
  if (info.ir_version > onnx::kNewestIr) {
    notes.push_back({source.name, "IR version " + std::to_string(info.ir_version) + " is newer than any known one (" +
                                      std::to_string(onnx::kNewestIr) + ")"});
  }
  if (losses.any()) notes.push_back({source.name, std::string(kNotKept) + losses.text()});
}

Graph read_model(const OnnxSource& source, std::vector<Note>& notes) {
  onnx::Losses losses;
  const onnx::ModelFields model = onnx::scan_model(source.bytes, losses);
  GraphBuilder builder;
  builder.info() = model.info;
  builder.info().opsets.erase(std::string(onnx::kVersionDomain));  // only the wrappers around nodes need it
  builder.info().file = source.name;
  onnx::GraphReader reader(source, model, builder, losses, notes);
  reader.read(model.graph);
  report(source, model.info, losses, notes);
  return std::move(builder).build();
}

bool printable(std::string_view text) {
  return std::ranges::all_of(text, [](unsigned char c) { return c >= 0x20 && c != 0x7f; });
}

// What the outermost fields of a file say about it.
struct Outline {
  bool version = false;      // there is a plausible ir_version
  bool graph = false;        // there is a graph
  bool plain = true;         // producer and domain are one line of text each
  bool unfamiliar = false;   // a field that no known ModelProto has
  bool contradicts = false;  // a field has a form that it never has in a ModelProto
};

void add_field(const onnx::Cursor& cursor, Outline& outline) {
  const bool number = cursor.wire() == onnx::Wire::varint;
  const bool bytes = cursor.wire() == onnx::Wire::bytes;
  switch (cursor.field()) {
    case 1:
      outline.contradicts |= !number || cursor.integer() <= 0 || cursor.integer() >= 1000;
      outline.version |= number;
      return;
    case 5: outline.contradicts |= !number; return;
    case 2:
    case 3:
    case 4:
      outline.contradicts |= !bytes;
      outline.plain &= bytes && printable(cursor.text());
      return;
    case 7:
      outline.contradicts |= !bytes;
      outline.graph = true;
      return;
    case 6:
    case 8:
    case 14:
    case 20:
    case 25:
    case 26: outline.contradicts |= !bytes; return;
    default: outline.unfamiliar = true;
  }
}

}  // namespace

Graph read_onnx(const OnnxSource& source, std::vector<Note>& notes) {
  try {
    return read_model(source, notes);
  } catch (Error& error) {
    error.in(source.name);
    throw;
  }
}

Graph read_onnx(const std::string& path, std::vector<Note>& notes) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(path);
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return read_onnx({file->bytes(), file, path, folder.empty() ? "." : folder.string()}, notes);
}

// A model says its IR version first. A TensorFlow SavedModel also starts with a small number and
// a field 2, but there that is a message, not the name of a producer.
// By the form of the outermost fields, which are few: nothing inside them is read. A SavedModel starts like a model
// whose producer is not text, and has no graph.
bool looks_like_onnx(std::span<const std::byte> file) {
  onnx::Cursor cursor(file, file.data());
  Outline outline;
  try {
    while (cursor.next()) {
      add_field(cursor, outline);
      if (outline.contradicts) return false;
      if (outline.version && outline.graph) return true;
    }
  } catch (const Error&) {
    return outline.version && cursor.field() > 5 && cursor.wire() == onnx::Wire::bytes;  // the file ends within it
  }
  return outline.graph ? !outline.unfamiliar : outline.version && outline.plain;
}

}  // namespace finity

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
  if (losses.any()) notes.push_back({source.name, "not kept when the model is written again: " + losses.text()});
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
bool looks_like_onnx(std::span<const std::byte> head) {
  constexpr std::size_t kEnough = 512;
  head = head.first(std::min(head.size(), kEnough));
  onnx::Cursor cursor(head, head.data());
  bool version = false;
  try {
    while (cursor.next()) {
      if (cursor.field() == 1) version = cursor.integer() > 0 && cursor.integer() < 1000;
      else if (cursor.field() == 5) cursor.integer();
      else if (cursor.field() <= 4 && !printable(cursor.text())) return false;
      else if (cursor.field() > 5) return version && cursor.wire() == onnx::Wire::bytes;
    }
  } catch (const Error&) {
    return version && cursor.field() > 5 && cursor.wire() == onnx::Wire::bytes;  // the head ends within the field
  }
  return version;
}

}  // namespace finity

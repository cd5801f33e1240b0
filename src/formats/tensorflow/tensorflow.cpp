#include "formats/tensorflow/tensorflow.h"

#include <filesystem>

#include "base/mapped_file.h"
#include "formats/tensorflow/importer.h"
#include "formats/tensorflow/source.h"

namespace finity {

namespace {

Graph import(std::span<const std::byte> bytes, std::shared_ptr<const void> owner, const std::string& name,
             const std::string& directory, std::vector<Note>& notes) {
  try {
    const tensorflow::GraphDef graph = tensorflow::read_source(bytes, std::move(owner), directory, notes);
    if (graph.nodes.empty()) throw Error("the graph has no nodes");
    return tensorflow::Importer(graph, name, notes).run();
  } catch (Error& error) {
    error.in(name);
    throw;
  }
}

}  // namespace

bool looks_like_tensorflow(std::span<const std::byte> file) {
  return tensorflow::recognise(file) != tensorflow::SourceKind::none;
}

Graph read_tensorflow(const std::string& path, std::vector<Note>& notes) {
  const auto file = MappedFile::open(path);
  return import(file->bytes(), file, path, std::filesystem::path(path).parent_path().string(), notes);
}

Graph read_tensorflow(std::string_view bytes, const std::string& name, std::vector<Note>& notes) {
  const auto copy = std::make_shared<const std::string>(bytes);
  return import(std::as_bytes(std::span(*copy)), copy, name, {}, notes);
}

}  // namespace finity

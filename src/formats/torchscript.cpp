#include "formats/torchscript.h"

#include <algorithm>
#include <memory>
#include <string_view>

#include "base/mapped_file.h"
#include "formats/onnx/onnx.h"

namespace finity {

namespace {

ScriptReader reader_in_use = nullptr;

// Names of members are listed at the end of an archive.
std::string_view directory_of(std::span<const std::byte> file) {
  constexpr std::size_t kMost = std::size_t{8} << 20;
  const std::size_t size = std::min(file.size(), kMost);
  return {reinterpret_cast<const char*>(file.data() + file.size() - size), size};
}

bool has_member(std::span<const std::byte> file, std::string_view name) {
  return directory_of(file).find(name) != std::string_view::npos;
}

// A download that was cut off lacks the end, where the members are listed.
bool has_directory(std::span<const std::byte> file) {
  return directory_of(file).find(std::string_view("PK\x05\x06", 4)) != std::string_view::npos;
}

}  // namespace

void set_script_reader(ScriptReader reader) { reader_in_use = reader; }

bool looks_like_torchscript(std::span<const std::byte> file) {
  constexpr std::string_view kArchive = "PK\x03\x04";
  const std::string_view start(reinterpret_cast<const char*>(file.data()), std::min(file.size(), kArchive.size()));
  return start == kArchive && (has_member(file, "/data.pkl") || !has_directory(file));
}

Graph read_torchscript(const std::string& path, std::vector<Note>& notes, const Bindings& bindings) {
  const auto file = MappedFile::open(path);
  if (!has_directory(file->bytes())) throw Error(path + ": is an archive without its end: the file was cut off");
  if (!has_member(file->bytes(), "/code/")) {
    throw Error(path + ": holds PyTorch weights without their code; save the module with torch.jit.save");
  }
  if (reader_in_use == nullptr) throw Error(path + ": is TorchScript, which this program does not read");
  try {
    ScriptInOnnx script = reader_in_use(path, bindings);
    for (std::string& text : script.notes) notes.push_back({.where = "", .text = std::move(text)});
    const auto kept = std::make_shared<const std::string>(std::move(script.model));
    return read_onnx({.bytes = std::as_bytes(std::span(*kept)), .owner = kept, .name = path}, notes);
  } catch (Error& error) {
    error.in(path);
    throw;
  }
}

}  // namespace finity

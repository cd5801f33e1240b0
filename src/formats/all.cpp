// The explicit list of model formats.
#include <algorithm>
#include <filesystem>

#include "base/mapped_file.h"
#include "formats/model_format.h"
#include "formats/onnx/onnx.h"
#include "formats/tensorflow/tensorflow.h"
#include "formats/text/text.h"
#include "formats/torchscript.h"

namespace finity {

namespace {

Graph read_text(const std::string& path, std::vector<Note>& /*notes*/) {
  const auto file = MappedFile::open(path);
  return parse_graph({reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size()}, path);
}

constexpr ModelFormat kFormats[] = {
    {.name = "torchscript", .recognises = looks_like_torchscript, .read_sized = read_torchscript},
    {.name = "tensorflow", .recognises = looks_like_tensorflow, .read = read_tensorflow},
    {.name = "text", .recognises = looks_like_text, .read = read_text},
    {.name = "onnx", .recognises = looks_like_onnx, .read = read_onnx},
};

}  // namespace

std::span<const ModelFormat> model_formats() { return kFormats; }

Graph read_model(const std::string& path, std::vector<Note>& notes, const Bindings& bindings) {
  const auto file = MappedFile::open(path);
  if (file->bytes().empty()) throw Error(path + ": is empty");
  for (const ModelFormat& format : kFormats) {
    if (!format.recognises(file->bytes())) continue;
    return format.read_sized != nullptr ? format.read_sized(path, notes, bindings) : format.read(path, notes);
  }
  throw Error(path + ": is not a model in a known format (ONNX, TensorFlow, TorchScript or finity text)");
}

}  // namespace finity

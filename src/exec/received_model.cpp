#include "exec/received_model.h"

#include <span>
#include <string>
#include <vector>

#include "formats/onnx/onnx.h"

namespace finity {

std::shared_ptr<const Graph> received_model(std::string_view bytes) {
  auto kept = std::make_shared<const std::string>(bytes);
  std::vector<Note> notes;
  const OnnxSource source{.bytes = std::as_bytes(std::span(*kept)), .owner = kept, .name = "model"};
  return std::make_shared<const Graph>(read_onnx(source, notes));
}

}  // namespace finity

// What a model says that the graph has no place for. Reading goes on; one note
// lists it all, because a model written again will not have it.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>

namespace finity::onnx {

enum class Loss : std::uint8_t {
  training,
  quantization,
  devices,
  value_docs,
  tensor_docs,
  attribute_docs,
  denotations,
  opaque_types,
  unknown_fields,
};

class Losses {
 public:
  void add(Loss loss) { seen_.set(static_cast<std::size_t>(loss)); }
  bool any() const { return seen_.any(); }
  std::string text() const {
    static constexpr std::array<std::string_view, 9> kNames = {
        "training_info",           "quantization_annotation",    "device configurations", "descriptions of values",
        "descriptions of tensors", "descriptions of attributes", "denotations of types",  "opaque types",
        "fields of a newer ONNX"};
    std::string text;
    for (std::size_t i = 0; i < kNames.size(); ++i) {
      if (seen_.test(i)) text += (text.empty() ? "" : ", ") + std::string(kNames[i]);
    }
    return text;
  }

 private:
  std::bitset<9> seen_;
};

}  // namespace finity::onnx

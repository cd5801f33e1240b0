// AttrValue and TensorProto messages, decoded when someone asks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/tensorflow/graph_def.h"
#include "graph/constant.h"
#include "graph/type.h"

namespace finity::tensorflow {

// One AttrValue; what is not there is empty. Lists of one kind are used alone.
struct AttrValue {
  enum class Kind : std::uint8_t { none, text, integer, real, flag, type, shape, tensor, list, function, placeholder };
  Kind kind = Kind::none;
  std::vector<std::string_view> texts = {};
  std::vector<std::int64_t> integers = {};  // also flags and types
  std::vector<float> reals = {};
  std::vector<Bytes> messages = {};  // shapes or tensors
  std::string_view function = {};    // name of the function
  std::vector<NamedBytes> function_attrs = {};
  std::string_view placeholder = {};
  std::vector<std::string_view> functions = {};  // of a list
};

AttrValue read_attr_value(Bytes message);

// A TensorShapeProto: unknown sizes stay unknown. Throws Error on sizes that no tensor has.
Type read_shape(Bytes message, DType dtype);
// A TensorProto; elements stay where they are until they are loaded.
ConstantPtr read_tensor(Bytes message, const std::shared_ptr<const void>& owner);

}  // namespace finity::tensorflow

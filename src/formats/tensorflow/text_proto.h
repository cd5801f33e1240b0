// Text protobuf into the binary form: graph.pbtxt and the like, as TensorFlow and people write them. Unknown fields are
// skipped, whatever they hold.
#pragma once

#include <string>
#include <string_view>

#include "formats/tensorflow/schema.h"

namespace finity::tensorflow {

// Throws Error "line N: reason".
std::string binary_from_text(std::string_view text, const MessageDef& message);

}  // namespace finity::tensorflow

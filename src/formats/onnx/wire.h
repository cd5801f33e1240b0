// The shared protobuf reader and writer under the names the ONNX reader uses.
#pragma once

#include "formats/wire.h"

namespace finity::onnx {

using wire::as_text;
using wire::Bytes;
using wire::Cursor;
using wire::Wire;
using wire::WireWriter;

}  // namespace finity::onnx

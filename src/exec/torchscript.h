// TorchScript files are read by the engine on LibTorch, in its own process, which answers with an ONNX model.
#pragma once

#include <string>
#include <string_view>

#include "formats/torchscript.h"

namespace finity {

// The task by which the engine is asked for the model it was given as one in ONNX: notes are lines of the answer's
// text, the model is its only tensor. Sizes of inputs follow the name, one to a line.
inline constexpr std::string_view kScriptTask = "script";

// Throws Error when the engine is not there, or says why it cannot.
ScriptInOnnx script_in_onnx(const std::string& path, const Bindings& bindings);

}  // namespace finity

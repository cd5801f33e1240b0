// TorchScript files (torch.jit.save). They are recognised here and read by LibTorch, which is in another process:
// whoever can start that one says how.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "graph/graph.h"
#include "types/infer.h"

namespace finity {

// What a script says, in ONNX.
struct ScriptInOnnx {
  std::string model = {};  // the bytes of a file
  std::vector<std::string> notes = {};
};
// Knows sizes of inputs, by which scripts decide. Throws Error saying why the file cannot be read.
using ScriptReader = ScriptInOnnx (*)(const std::string& path, const Bindings& bindings);
void set_script_reader(ScriptReader reader);

// An archive of PyTorch, with code or with weights alone.
bool looks_like_torchscript(std::span<const std::byte> file);
// Throws Error starting with the path.
Graph read_torchscript(const std::string& path, std::vector<Note>& notes, const Bindings& bindings = {});

}  // namespace finity

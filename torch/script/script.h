// TorchScript modules as graphs of the op table: what torch.jit.save writes is loaded, frozen and inlined by LibTorch,
// and every aten op that can be said in ops of the table is. The others stay nodes that nothing is known of, under
// their own names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "types/infer.h"

namespace finity {

struct ImportedScript {
  Graph graph;
  std::vector<std::string> notes = {};  // what was assumed, and what is not known and why
};

// Sizes of inputs may be given: what the script decides by them is then decided. Throws Error when LibTorch cannot read
// the file, when its module has no forward method, or when what it changes in place cannot be said.
ImportedScript import_script(std::string_view bytes, const Bindings& bindings = {});

}  // namespace finity

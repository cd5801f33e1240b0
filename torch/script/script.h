// TorchScript modules as graphs of the op table: what torch.jit.save writes is loaded, frozen and inlined by LibTorch,
// and every aten op that can be said in ops of the table is. The others stay nodes that nothing is known of, under
// their own names.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace finity {

struct ImportedScript {
  Graph graph;
  std::vector<std::string> notes = {};  // what was assumed, and what is not known and why
};

// Throws Error when LibTorch cannot read the file, or when its module has no forward method.
ImportedScript import_script(std::string_view bytes);

}  // namespace finity

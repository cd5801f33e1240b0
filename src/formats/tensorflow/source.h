// Which kind of TensorFlow file something is, and the GraphDef inside.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "formats/tensorflow/graph_def.h"

namespace finity::tensorflow {

enum class SourceKind : std::uint8_t {
  none,
  graph_def,
  meta_graph,
  saved_model,
  text_graph_def,
  text_meta_graph,
  text_saved_model,
  tfjs
};

SourceKind recognise(Bytes file);

// `owner` keeps `file`. Throws Error with place and reason.
GraphDef read_source(Bytes file, std::shared_ptr<const void> owner, const std::string& directory,
                     std::vector<Note>& notes);

}  // namespace finity::tensorflow

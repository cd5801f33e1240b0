#include "support/support.h"

#include <fstream>
#include <sstream>
#include <stdexcept>

namespace finity {

std::string read_text_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::ostringstream content;
  content << file.rdbuf();
  return content.str();
}

std::string type_contradiction(const Graph& graph, const Types& types, const std::vector<Datum>& outputs) {
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const Tensor* tensor = outputs[i].tensor();
    const ValueId id = graph.main().outputs[i];
    if (tensor == nullptr || types[id].kind != Type::Kind::tensor) continue;
    bool conflict = false;
    merge(types[id], Type::tensor_of(tensor->dtype(), tensor->dims()), &conflict);
    if (conflict) {
      return "output " + graph.value(id).name + " was typed " + to_string(graph, types[id]) + " but is " +
             std::string(name(tensor->dtype())) + to_string(tensor->dims());
    }
  }
  return {};
}

}  // namespace finity

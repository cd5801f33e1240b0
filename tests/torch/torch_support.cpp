#include "torch/torch_support.h"

#include "base/error.h"
#include "exec/torch_worker.h"
#include "formats/onnx/onnx.h"

namespace finity {

Worker& torch_process() {
  static const auto kOptions = torch_worker();
  if (!kOptions) throw Error(std::string(kNoTorchWorker));
  static Worker worker(*kOptions);
  return worker;
}

Answer run_in_torch(const Graph& graph, const NamedData& inputs) {
  RunRequest run{.inputs = inputs};
  for (const ValueId id : graph.main().outputs) run.outputs.push_back(graph.value(id).name);
  return torch_process().run({.model = write_onnx(graph), .level = Optimisation::none, .run = std::move(run)});
}

}  // namespace finity

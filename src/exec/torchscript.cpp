#include "exec/torchscript.h"

#include <optional>
#include <sstream>

#include "base/mapped_file.h"
#include "exec/torch_worker.h"

namespace finity {

ScriptInOnnx script_in_onnx(const std::string& path, const Bindings& bindings) {
  const std::optional<WorkerOptions> options = torch_worker();
  if (!options)
    throw Error("is TorchScript, which needs the engine on LibTorch (install libtorch-dev and build again)");
  const auto file = MappedFile::open(path);
  Worker worker(*options);
  LongRequest request;
  request.model.assign(reinterpret_cast<const char*>(file->bytes().data()), file->bytes().size());
  request.task.text = kScriptTask;
  for (const auto& [name, dims] : bindings.inputs) request.task.text += "\n" + name + ":" + to_string(dims);
  const Answer answer = worker.task(request);
  if (!answer.done()) {
    const bool refused = answer.outcome == Answer::Outcome::refused || answer.outcome == Answer::Outcome::unsupported;
    throw Error(refused ? answer.text
                        : "the engine on LibTorch " + std::string(name(answer.outcome)) + ": " + answer.text);
  }
  if (answer.outputs.size() != 1 || answer.outputs[0].second.tensor() == nullptr)
    throw Error("the engine on LibTorch answers with something else than a model");
  ScriptInOnnx result;
  const auto bytes = answer.outputs[0].second.tensor()->bytes();
  result.model.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::istringstream lines(answer.words);
  for (std::string line; std::getline(lines, line);) result.notes.push_back(line);
  return result;
}

}  // namespace finity

#include "formats/onnx/test_data.h"

#include <algorithm>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/mapped_file.h"
#include "formats/onnx/onnx.h"

namespace finity {

namespace {

struct NamedDatum {
  std::string name;
  Datum datum;
};

std::optional<NamedDatum> read_one(const std::string& directory, const std::string& stem, std::size_t i,
                                   Type::Kind kind) {
  const std::string path = directory + "/" + stem + "_" + std::to_string(i) + ".pb";
  if (!std::filesystem::exists(path)) return std::nullopt;
  NamedDatum result;
  try {
    result.datum = read_datum_proto(MappedFile::open(path)->bytes(), kind, &result.name);
  } catch (Error& error) {
    error.in(path);
    throw;
  }
  return result;
}

// numpy has no bfloat16, so ONNX's own files hold such tensors as uint16: the declared type says what the bits are.
Datum as_declared(Datum datum, const Type& declared) {
  const Tensor* bits = datum.tensor();
  if (bits == nullptr || bits->dtype() != DType::uint16 || declared.dtype != DType::bfloat16) return datum;
  return Tensor::of<std::uint16_t>(DType::bfloat16, bits->dims(), bits->data<std::uint16_t>());
}

// Files number only the inputs that need a value.
std::vector<ValueId> fed_inputs(const Graph& graph) {
  std::vector<ValueId> result;
  for (const ValueId id : graph.main().inputs) {
    if (!graph.value(id).constant) result.push_back(id);
  }
  return result;
}

ValueId matching(const Graph& graph, const std::vector<ValueId>& candidates, const std::string& name, std::size_t i) {
  const auto named = [&](ValueId id) { return graph.value(id).name == name; };
  const auto found = std::ranges::find_if(candidates, named);
  if (found != candidates.end()) return *found;
  return i < candidates.size() ? candidates[i] : ValueId{};
}

}  // namespace

TestData read_test_data(const std::string& directory, const Graph& graph) {
  if (!std::filesystem::is_directory(directory)) throw Error(directory + ": is not a directory");
  TestData data;
  const std::vector<ValueId> inputs = fed_inputs(graph);
  for (std::size_t i = 0; i < graph.main().inputs.size(); ++i) {
    const Type::Kind kind = i < inputs.size() ? graph.value(inputs[i]).type.kind : Type::Kind::tensor;
    const auto read = read_one(directory, "input", i, kind);
    if (!read) continue;
    // A default value may be replaced by name.
    ValueId target = matching(graph, graph.main().inputs, read->name, graph.main().inputs.size());
    if (!target.valid()) target = matching(graph, inputs, read->name, i);
    if (target.valid()) data.inputs[graph.value(target).name] = as_declared(read->datum, graph.value(target).type);
  }
  const std::vector<ValueId>& outputs = graph.main().outputs;
  data.outputs.resize(outputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto read = read_one(directory, "output", i, graph.value(outputs[i]).type.kind);
    if (!read) continue;
    const ValueId target = matching(graph, outputs, read->name, i);
    const auto place = std::ranges::find(outputs, target) - outputs.begin();
    data.outputs[static_cast<std::size_t>(place)] = as_declared(read->datum, graph.value(target).type);
  }
  return data;
}

}  // namespace finity

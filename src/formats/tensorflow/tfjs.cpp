#include "formats/tensorflow/tfjs.h"

#include <charconv>
#include <cstring>
#include <filesystem>

#include "base/mapped_file.h"
#include "formats/tensorflow/json_proto.h"
#include "formats/tensorflow/tensor_proto.h"
#include "graph/type.h"
#include "tensor/convert.h"

namespace finity::tensorflow {

namespace {

double number(const Json* json, double fallback) {
  const auto* digits = json == nullptr ? nullptr : std::get_if<Json::Number>(&json->content);
  if (digits == nullptr) return fallback;
  double value = fallback;
  std::from_chars(digits->text.data(), digits->text.data() + digits->text.size(), value);
  return value;
}

DType dtype_named(const std::string& name) {
  if (name == "bool") return DType::boolean;
  const std::optional<DType> dtype = dtype_from_name(name);
  if (!dtype) throw Error("weights of type '" + name + "'");
  return *dtype;
}

// Numbers that are stored as uint8 or uint16, or float16, and mean scale * q + min.
class QuantisedConstant final : public Constant {
 public:
  QuantisedConstant(DType dtype, std::shared_ptr<const PlainConstant> stored, double scale, double min)
      : Constant(dtype, stored->dims()), stored_(std::move(stored)), scale_(scale), min_(min) {}
  Tensor load() const override {
    std::vector<double> values = elements<double>(stored_->load());
    for (double& x : values) x = static_cast<float>(static_cast<float>(x * static_cast<float>(scale_)) + min_);
    return from_elements<double>(dtype(), dims(), values);
  }

 private:
  std::shared_ptr<const PlainConstant> stored_;
  double scale_;
  double min_;
};

// One file after the other; several are joined in memory.
struct Shards {
  Bytes bytes = {};
  std::shared_ptr<const void> owner = {};
  std::string missing = {};
};

Shards read_shards(const Json* paths, const std::string& directory) {
  Shards result;
  std::vector<std::shared_ptr<const MappedFile>> files;
  if (paths == nullptr || paths->list() == nullptr) return {.missing = "the file names no weights"};
  for (const Json& path : *paths->list()) {
    if (path.text() == nullptr) throw Error("weightsManifest: a path that is no text");
    const std::filesystem::path relative(*path.text());
    if (relative.is_absolute() || path.text()->find("..") != std::string::npos) {
      throw Error("weightsManifest: '" + *path.text() + "' leads out of the model's folder");
    }
    const std::filesystem::path full = std::filesystem::path(directory) / relative;
    std::error_code error;
    if (directory.empty() || !std::filesystem::is_regular_file(full, error)) {
      return {.missing = "weight file '" + *path.text() + "' is missing"};
    }
    files.push_back(MappedFile::open(full.string()));
  }
  if (files.size() == 1) return {.bytes = files.front()->bytes(), .owner = files.front()};
  auto joined = std::make_shared<std::vector<std::byte>>();
  for (const auto& file : files) joined->insert(joined->end(), file->bytes().begin(), file->bytes().end());
  return {.bytes = *joined, .owner = joined};
}

Dims dims_of(const Json& weight) {
  Dims dims;
  const Json* shape = weight.find("shape");
  if (shape == nullptr || shape->list() == nullptr) throw Error("weights without a shape");
  for (const Json& size : *shape->list()) {
    const double value = number(&size, -1);
    if (!(value >= 0 && value < 1e15)) throw Error("weights with a bad shape");
    dims.push_back(static_cast<std::int64_t>(value));
  }
  element_count(dims);
  return dims;
}

class WeightReader {
 public:
  WeightReader(Shards shards, GraphDef& graph) : shards_(std::move(shards)), graph_(graph) {}

  void read(const Json& weight) {
    const Json* name = weight.find("name");
    const Json* type = weight.find("dtype");
    if (name == nullptr || name->text() == nullptr || type == nullptr || type->text() == nullptr) {
      throw Error("weightsManifest: weights without a name or a type");
    }
    try {
      graph_.weights[*name->text()] = constant(weight, *type->text());
    } catch (Error& error) {
      error.in("weights '" + *name->text() + "'");
      throw;
    }
  }

 private:
  ConstantPtr constant(const Json& weight, const std::string& type) {
    if (type == "string") {
      // Each element has its own length: what follows cannot be found without reading them.
      return strings(dims_of(weight));
    }
    const DType dtype = dtype_named(type);
    const Json* quantisation = weight.find("quantization");
    DType stored = dtype;
    if (quantisation != nullptr) {
      const Json* as = quantisation->find("dtype");
      if (as == nullptr || as->text() == nullptr) throw Error("a quantisation without a type");
      stored = dtype_named(*as->text());
    }
    Dims dims = dims_of(weight);
    if (!shards_.missing.empty()) return std::make_shared<const MissingConstant>(dtype, dims, shards_.missing);
    const std::int64_t size = saturated_product(element_count(dims), info(stored).memory_bytes);
    const Bytes bytes = take(size);
    auto plain = std::make_shared<const PlainConstant>(stored, std::move(dims), bytes, shards_.owner);
    if (quantisation == nullptr) return plain;
    return std::make_shared<const QuantisedConstant>(dtype, std::move(plain), number(quantisation->find("scale"), 1),
                                                     number(quantisation->find("min"), 0));
  }

  ConstantPtr strings(const Dims& dims) {
    std::vector<std::string> texts;
    const std::int64_t count = element_count(dims);
    for (std::int64_t i = 0; i < count && shards_.missing.empty(); ++i) {
      std::uint32_t length = 0;
      std::memcpy(&length, take(4).data(), 4);
      texts.emplace_back(wire::as_text(take(length)));
    }
    if (!shards_.missing.empty()) return std::make_shared<const MissingConstant>(DType::string, dims, shards_.missing);
    return make_constant(Tensor::of_strings(dims, std::move(texts)));
  }

  Bytes take(std::int64_t size) {
    if (size < 0 || static_cast<std::uint64_t>(size) > shards_.bytes.size() - at_) {
      throw Error("the weight files end too early");
    }
    const Bytes result = shards_.bytes.subspan(at_, static_cast<std::size_t>(size));
    at_ += static_cast<std::size_t>(size);
    return result;
  }

  Shards shards_;
  GraphDef& graph_;
  std::size_t at_ = 0;
};

}  // namespace

void read_tfjs(std::string_view text, const std::string& directory, GraphDef& graph, std::vector<Note>& notes) {
  const Json json = parse_json(text);
  const Json* topology = json.find("modelTopology");
  if (topology == nullptr || topology->find("node") == nullptr) {
    throw Unsupported("is a TensorFlow.js model without a graph (a layers model); convert it to a graph model");
  }
  auto binary = std::make_shared<const std::string>(binary_from_json(*topology, kGraphDef));
  graph.owner = binary;
  const Bytes bytes = std::as_bytes(std::span(*binary));
  read_graph_def(bytes, bytes.data(), graph);
  graph.weights_in_functions = true;
  const Json* manifest = json.find("weightsManifest");
  if (manifest == nullptr || manifest->list() == nullptr) return;
  for (const Json& group : *manifest->list()) {
    Shards shards = read_shards(group.find("paths"), directory);
    if (!shards.missing.empty()) notes.push_back({"weights", shards.missing});
    WeightReader reader(std::move(shards), graph);
    const Json* weights = group.find("weights");
    if (weights == nullptr || weights->list() == nullptr) continue;
    for (const Json& weight : *weights->list()) reader.read(weight);
  }
}

}  // namespace finity::tensorflow

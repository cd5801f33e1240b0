// onnxruntime-worker LIBRARY: runs models in the ONNX Runtime of that shared library, for finity (exec/protocol.h).
// The library comes as it is, for instance inside the npm package onnxruntime-node.
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/error.h"
#include "exec/serve.h"
#include "onnxruntime/api.h"

namespace finity {
namespace {

using ort::Api;

int optimisation_code(Optimisation level) {
  constexpr int kCodes[] = {0, 1, 2, 99};
  return kCodes[static_cast<std::size_t>(level)];
}

// Two elements to a byte in the library, one in ours.
bool is_packed(DType dtype) { return dtype == DType::int4 || dtype == DType::uint4; }

void check_dtype(DType dtype) {
  if (dtype > DType::int4) throw Unsupported("elements of type " + std::string(name(dtype)) + " cannot be handed over");
}

std::vector<std::byte> packed(std::span<const std::byte> elements) {
  std::vector<std::byte> result((elements.size() + 1) / 2);
  for (std::size_t i = 0; i < elements.size(); ++i) {
    result[i / 2] |= (elements[i] & std::byte{0xf}) << (i % 2 == 0 ? 0 : 4);
  }
  return result;
}

void unpack(const std::byte* source, DType dtype, std::span<std::byte> elements) {
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const std::byte nibble = (source[i / 2] >> (i % 2 == 0 ? 0 : 4)) & std::byte{0xf};
    const bool negative = dtype == DType::int4 && (nibble & std::byte{8}) != std::byte{0};
    elements[i] = negative ? nibble | std::byte{0xf0} : nibble;
  }
}

class OnnxRuntime final : public Engine {
 public:
  explicit OnnxRuntime(const std::string& library) : api_(library) {
    api_.must(ort::create_env, 4, "finity", &env_);
    api_.must(ort::create_cpu_memory_info, 1, 0, &memory_);
    api_.must(ort::default_allocator, &allocator_);
  }

  Hello hello() const override { return {.engine = "onnxruntime", .version = api_.version()}; }
  void load(std::string_view model, Optimisation level) override;
  NamedData run(const RunRequest& request, const std::function<void(Stage)>& stage) override;

 private:
  // What goes into the library must live as long as the run.
  struct Given {
    std::deque<Tensor> tensors = {};
    std::deque<std::vector<std::byte>> bytes = {};
  };
  struct ReleaseValue {
    const Api* api;
    void operator()(ort::Value* value) const { api->call(ort::release_value, value); }
  };
  struct ReleaseSession {
    const Api* api;
    void operator()(ort::Session* session) const { api->call(ort::release_session, session); }
  };
  using ValuePtr = std::unique_ptr<ort::Value, ReleaseValue>;

  ValuePtr own(ort::Value* value) const { return {value, ReleaseValue{&api_}}; }
  ValuePtr give(const Datum& datum, Given& given) const;
  ValuePtr give_tensor(const Tensor& tensor, Given& given) const;
  ValuePtr give_strings(const Tensor& tensor) const;
  ValuePtr give_sequence(const Sequence& items, Given& given) const;
  Datum take(const ort::Value* value) const;
  Tensor take_tensor(const ort::Value* value) const;
  void take_strings(const ort::Value* value, Tensor& tensor) const;

  Api api_;
  ort::Env* env_ = nullptr;  // these three live as long as the process
  ort::MemoryInfo* memory_ = nullptr;
  ort::Allocator* allocator_ = nullptr;
  std::unique_ptr<ort::Session, ReleaseSession> session_ = {nullptr, {nullptr}};
};

void OnnxRuntime::load(std::string_view model, Optimisation level) {
  session_.reset();
  ort::SessionOptions* options = nullptr;
  api_.must(ort::create_session_options, &options);
  const auto owned = api_.owned(options, ort::release_session_options);
  api_.must(ort::set_log_severity, options, 4);
  api_.must(ort::set_optimisation, options, optimisation_code(level));
  api_.must(ort::set_threads_within_op, options, 1);
  api_.must(ort::set_threads_between_ops, options, 1);
  ort::Session* session = nullptr;
  api_.must(ort::create_session, env_, model.data(), model.size(), options, &session);
  session_ = {session, ReleaseSession{&api_}};
}

NamedData OnnxRuntime::run(const RunRequest& request, const std::function<void(Stage)>& stage) {
  if (session_ == nullptr) throw Error("no model is loaded");
  Given given;
  std::vector<ValuePtr> inputs, outputs;
  std::vector<const char*> input_names, output_names;
  std::vector<const ort::Value*> input_values;
  for (const auto& [name, datum] : request.inputs) {
    inputs.push_back(give(datum, given));
    input_names.push_back(name.c_str());
    input_values.push_back(inputs.back().get());
  }
  for (const std::string& name : request.outputs) output_names.push_back(name.c_str());
  std::vector<ort::Value*> results(request.outputs.size(), nullptr);
  api_.must(ort::run, session_.get(), nullptr, input_names.data(), input_values.data(), input_values.size(),
            output_names.data(), output_names.size(), results.data());
  for (ort::Value* value : results) outputs.push_back(own(value));
  stage(Stage::read);
  NamedData data;
  for (std::size_t i = 0; i < results.size(); ++i) data.emplace_back(request.outputs[i], take(results[i]));
  return data;
}

OnnxRuntime::ValuePtr OnnxRuntime::give(const Datum& datum, Given& given) const {
  if (const Sequence* items = datum.sequence()) return give_sequence(*items, given);
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr) throw Unsupported("an input that is absent cannot be handed over");
  return tensor->dtype() == DType::string ? give_strings(*tensor) : give_tensor(*tensor, given);
}

OnnxRuntime::ValuePtr OnnxRuntime::give_tensor(const Tensor& tensor, Given& given) const {
  check_dtype(tensor.dtype());
  std::span<std::byte> bytes;
  if (is_packed(tensor.dtype())) bytes = given.bytes.emplace_back(packed(tensor.bytes()));
  else bytes = given.tensors.emplace_back(tensor).mutable_bytes();
  static std::byte nothing{};  // the library wants a pointer for no elements, too
  ort::Value* value = nullptr;
  api_.must(ort::create_tensor_of, memory_, bytes.empty() ? &nothing : bytes.data(), bytes.size(), tensor.dims().data(),
            tensor.rank(), static_cast<int>(tensor.dtype()), &value);
  return own(value);
}

OnnxRuntime::ValuePtr OnnxRuntime::give_strings(const Tensor& tensor) const {
  ort::Value* value = nullptr;
  api_.must(ort::create_tensor, allocator_, tensor.dims().data(), tensor.rank(), static_cast<int>(DType::string),
            &value);
  ValuePtr owned = own(value);
  std::vector<const char*> texts;
  for (const std::string& text : tensor.strings()) texts.push_back(text.c_str());
  if (!texts.empty()) api_.must(ort::fill_strings, value, texts.data(), texts.size());
  return owned;
}

OnnxRuntime::ValuePtr OnnxRuntime::give_sequence(const Sequence& items, Given& given) const {
  std::vector<ValuePtr> owned;
  std::vector<const ort::Value*> values;
  for (const Datum& item : items) {
    owned.push_back(give(item, given));
    values.push_back(owned.back().get());
  }
  ort::Value* value = nullptr;
  api_.must(ort::create_collection, values.data(), values.size(), ort::kSequence, &value);
  return own(value);
}

Datum OnnxRuntime::take(const ort::Value* value) const {
  if (value == nullptr) return {};
  int kind = 0;
  api_.must(ort::value_type, value, &kind);
  if (kind == ort::kTensor) return take_tensor(value);
  if (kind != ort::kSequence) throw Unsupported("an output of kind " + std::to_string(kind) + " cannot be read");
  std::size_t count = 0;
  api_.must(ort::item_count, value, &count);
  Sequence items;
  for (std::size_t i = 0; i < count; ++i) {
    ort::Value* item = nullptr;
    api_.must(ort::get_item, value, static_cast<int>(i), allocator_, &item);
    items.push_back(take(own(item).get()));
  }
  return Datum::sequence(std::move(items));
}

Tensor OnnxRuntime::take_tensor(const ort::Value* value) const {
  ort::TensorInfo* info = nullptr;
  api_.must(ort::tensor_info, value, &info);
  const auto owned = api_.owned(info, ort::release_tensor_info);
  int code = 0;
  std::size_t rank = 0;
  api_.must(ort::element_type, info, &code);
  api_.must(ort::rank, info, &rank);
  Dims dims(rank);
  api_.must(ort::dimensions, info, dims.data(), rank);
  const auto dtype = static_cast<DType>(code);
  check_dtype(dtype);
  Tensor tensor(dtype, std::move(dims));
  if (tensor.empty()) return tensor;
  if (dtype == DType::string) {
    take_strings(value, tensor);
    return tensor;
  }
  void* data = nullptr;
  api_.must(ort::tensor_data, const_cast<ort::Value*>(value), &data);
  const std::span<std::byte> bytes = tensor.mutable_bytes();
  if (is_packed(dtype)) unpack(static_cast<const std::byte*>(data), dtype, bytes);
  else std::memcpy(bytes.data(), data, bytes.size());
  return tensor;
}

void OnnxRuntime::take_strings(const ort::Value* value, Tensor& tensor) const {
  std::size_t length = 0;
  api_.must(ort::strings_length, value, &length);
  std::string all(length, '\0');
  std::vector<std::size_t> starts(static_cast<std::size_t>(tensor.size()));
  api_.must(ort::strings_content, value, all.data(), length, starts.data(), starts.size());
  const std::span<std::string> texts = tensor.mutable_strings();
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::size_t end = i + 1 < starts.size() ? starts[i + 1] : length;
    texts[i] = all.substr(starts[i], end - starts[i]);
  }
}

}  // namespace
}  // namespace finity

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: onnxruntime-worker LIBRARY\n", stderr);
    return 2;
  }
  return finity::serve([&] { return std::make_unique<finity::OnnxRuntime>(argv[1]); });
}

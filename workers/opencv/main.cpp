// finity-opencv: runs models in OpenCV's DNN module, for finity (exec/protocol.h). Models come through OpenCV's own
// ONNX importer. A cv::Mat has at least two axes and holds float32 here, so a result of another rank or an integer
// one is given back as the model declares it when no element changes by that; else as OpenCV left it.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/dnn.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "exec/received_model.h"
#include "exec/serve.h"
#include "formats/onnx/onnx.h"
#include "graph/builder.h"
#include "ops/table/op.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity {
namespace {

// The importer reads newer models as if nothing had changed; it was written when this one was the newest.
constexpr int kNewest = 17;

// OpenCV says in many ways that it lacks something; what it asserts is not among them.
bool says_it_lacks(const cv::Exception& error) {
  if (error.code == cv::Error::StsNotImplemented) return true;
  const std::string& text = error.err;
  return std::ranges::any_of(
      std::initializer_list<const char*>{"not implemented", "Not implemented", "nsupported", "not supported",
                                         "Can't create layer", "Unknown layer type"},
      [&](const char* words) { return text.find(words) != std::string::npos; });
}

std::string one_line(const cv::Exception& error) {
  std::string text = error.err;
  std::ranges::replace(text, '\n', ' ');
  return error.func.empty() ? text : text + " (" + error.func + ")";
}

[[noreturn]] void fail(const cv::Exception& error) {
  if (says_it_lacks(error)) throw Unsupported(one_line(error));
  throw Error(one_line(error));
}

template <class F>
void with_opencv_errors(F&& f) {
  try {
    f();
  } catch (const cv::Exception& error) {
    fail(error);
  }
}

// What the importer does not take, in whatever words, the library does not support.
cv::dnn::Net imported(std::string_view model) {
  try {
    cv::dnn::Net net = cv::dnn::readNetFromONNX(model.data(), model.size());
    if (net.empty()) throw Unsupported("OpenCV finds no layers in the model");
    return net;
  } catch (const cv::Exception& error) {
    throw Unsupported(one_line(error));
  }
}

cv::Mat to_mat(const std::string& name, const Datum& datum) {
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr) throw Unsupported("input '" + name + "' is not a tensor");
  if (tensor->dtype() != DType::float32) throw Unsupported("input '" + name + "': OpenCV DNN computes in float32 only");
  if (tensor->empty()) throw Unsupported("input '" + name + "': OpenCV has no tensors without elements");
  std::vector<int> sizes;
  for (const std::int64_t size : tensor->dims()) sizes.push_back(static_cast<int>(size));
  while (sizes.size() < 2) sizes.push_back(1);
  cv::Mat mat(static_cast<int>(sizes.size()), sizes.data(), CV_32F);
  std::memcpy(mat.data, tensor->bytes().data(), tensor->bytes().size());
  return mat;
}

DType dtype_of(const cv::Mat& mat) {
  switch (mat.depth()) {
    case CV_32F: return DType::float32;
    case CV_64F: return DType::float64;
    case CV_16F: return DType::float16;
    case CV_32S: return DType::int32;
    case CV_8S: return DType::int8;
    case CV_8U: return DType::uint8;
    default: throw Unsupported("a result of OpenCV's type " + std::to_string(mat.depth()) + " cannot be read");
  }
}

Tensor to_tensor(const cv::Mat& given) {
  if (given.channels() != 1) throw Unsupported("a result with channels inside its elements cannot be read");
  const cv::Mat mat = given.isContinuous() ? given : given.clone();
  Dims dims;
  for (int i = 0; i < mat.dims; ++i) dims.push_back(mat.size[i]);
  Tensor result(dtype_of(mat), std::move(dims));
  if (!result.empty()) std::memcpy(result.mutable_bytes().data(), mat.data, result.mutable_bytes().size());
  return result;
}

// float32, or integers that may come as such.
void require_carried(const Graph& graph, const Types& types) {
  for (const ValueId id : graph.main().outputs) {
    const DType dtype = types[id].is_tensor() ? types[id].dtype : DType::undefined;
    if (dtype == DType::float32 || dtype == DType::boolean || is_int(dtype)) continue;
    throw Unsupported("output '" + graph.value(id).name + "': OpenCV DNN computes in float32 only");
  }
}

// The kernel of a convolution whose constant weights tell it; empty when the attribute is there.
std::vector<std::int64_t> implied_kernel(const Graph& graph, const Node& node) {
  const bool convolves =
      node.op != nullptr && (node.op->identity.name == "Conv" || node.op->identity.name == "ConvTranspose");
  if (!convolves || node.attrs.find("kernel_shape") != nullptr) return {};
  const ConstantPtr weights = node.inputs.size() > 1 ? graph.value(node.inputs[1]).constant : nullptr;
  if (weights == nullptr || weights->dims().size() < 3) return {};
  return {weights->dims().begin() + 2, weights->dims().end()};
}

// The importer wants outputs with shapes and kernels as attributes: the model again with both; empty when it has them.
std::string with_what_is_implied(const Graph& graph, const Types& types) {
  const auto lacks = [&](ValueId id) { return !graph.value(id).type.is_tensor() || !graph.value(id).type.ranked; };
  bool changed = std::ranges::any_of(graph.main().outputs, lacks);
  GraphBuilder builder(graph);
  for (const ValueId id : graph.main().outputs) {
    if (!types[id].is_tensor() || !types[id].ranked) throw Unsupported("OpenCV wants outputs of known rank");
    if (lacks(id)) builder.value(id).type = types[id];
  }
  for (const NodeId id : graph.main().nodes) {
    std::vector<std::int64_t> kernel = implied_kernel(graph, graph.node(id));
    if (kernel.empty()) continue;
    builder.node(id).attrs.set("kernel_shape", std::move(kernel));
    changed = true;
  }
  return changed ? write_onnx(std::move(builder).build()) : std::string();
}

bool all_whole(const Tensor& tensor) {
  return tensor.dtype() != DType::float32 ||
         std::ranges::all_of(tensor.data<float>(), [](float x) { return x == std::trunc(x) && std::abs(x) < 0x1p24F; });
}

// As declared, where OpenCV could not have said it so itself.
Tensor as_declared(Tensor tensor, const Type& type) {
  const std::optional<Dims> dims = type.is_tensor() && type.ranked ? type.dims() : std::nullopt;
  if (dims && dims->size() < 2 && element_count(*dims) == tensor.size()) {
    tensor = tensor.reshaped(*dims);
  }
  const bool integer = type.is_tensor() && (is_int(type.dtype) || type.dtype == DType::boolean);
  if (integer && tensor.dtype() != type.dtype && all_whole(tensor))
    tensor = from_elements<double>(type.dtype, tensor.dims(), elements<double>(tensor));
  return tensor;
}

class OpenCv final : public Engine {
 public:
  OpenCv() {
    cv::setNumThreads(1);
    cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
  }

  Hello hello() const override { return {.engine = "opencv", .version = CV_VERSION}; }

  void load(std::string_view model, Optimisation level) override {
    net_ = {};
    graph_.reset();
    given_.clear();
    auto graph = received_model(model);
    if (const auto opset = graph->info().opsets.find("");
        opset != graph->info().opsets.end() && opset->second > kNewest)
      throw Unsupported("OpenCV 4.6 knows operator sets up to " + std::to_string(kNewest));
    types_ = infer_types(*graph);
    require_carried(*graph, types_);
    const std::string full = with_what_is_implied(*graph, types_);
    if (!full.empty()) model = full;
    given_ = model;
    net_ = imported(model);
    net_.setPreferableBackend(cv::dnn::DNN_BACKEND_OPENCV);
    net_.setPreferableTarget(cv::dnn::DNN_TARGET_CPU);
    net_.enableFusion(level != Optimisation::none);
    graph_ = std::move(graph);
  }

  // "trace": the model as the importer was given it.
  TaskResult task(const TaskRequest& request, const std::function<bool(const std::string&)>& tell) override {
    if (request.text != "trace") return Engine::task(request, tell);
    if (graph_ == nullptr) throw Error("no model is loaded");
    return {.text = given_};
  }

  NamedData run(const RunRequest& request, const std::function<void(Stage)>& stage) override {
    if (graph_ == nullptr) throw Error("no model is loaded");
    require_inputs(request.inputs);
    std::vector<cv::Mat> results;
    with_opencv_errors([&] {
      for (const auto& [name, datum] : request.inputs) net_.setInput(to_mat(name, datum), name);
      net_.forward(results, request.outputs);
    });
    stage(Stage::read);
    NamedData data;
    for (std::size_t i = 0; i < results.size(); ++i) {
      data.emplace_back(request.outputs[i], as_declared(to_tensor(results[i]), type_of(request.outputs[i])));
    }
    return data;
  }

 private:
  // The net would take those of the last run.
  void require_inputs(const NamedData& inputs) const {
    for (const ValueId id : graph_->main().inputs) {
      const Value& value = graph_->value(id);
      const auto is_it = [&](const auto& entry) { return entry.first == value.name; };
      if (!value.constant && std::ranges::none_of(inputs, is_it)) throw Error("input '" + value.name + "' is missing");
    }
  }

  const Type& type_of(const std::string& name) const {
    for (const ValueId id : graph_->main().outputs) {
      if (graph_->value(id).name == name) return types_[id];
    }
    throw Error("the model has no output named '" + name + "'");
  }

  cv::dnn::Net net_;
  std::string given_;
  std::shared_ptr<const Graph> graph_;
  Types types_;
};

}  // namespace
}  // namespace finity

int main() {
  return finity::serve([] { return std::make_unique<finity::OpenCv>(); });
}

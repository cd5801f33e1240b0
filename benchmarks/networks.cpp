// Networks of the usual shapes with weights of full size.
#include <cmath>
#include <utility>

#include "formats/onnx/onnx.h"
#include "graph/builder.h"
#include "models.h"
#include "ops/table/op.h"

namespace finity {

namespace {

class Network {
 public:
  Network() {
    builder_.info().ir_version = 8;
    builder_.info().opsets[""] = 17;
    builder_.add_body("main");
  }

  ValueId input(std::string name, const Dims& dims, DType dtype = DType::float32) {
    return builder_.add_input(Graph::kMain, std::move(name), Type::tensor_of(dtype, dims));
  }

  // Uniform in [-spread, spread], around `center`.
  ValueId weight(const Dims& dims, double spread, double center = 0) {
    Tensor tensor(DType::float32, dims);
    for (float& x : tensor.mutable_data<float>()) {
      state_ = state_ * 6364136223846793005U + 1442695040888963407U;
      const double unit = static_cast<double>(state_ >> 40) / static_cast<double>(1U << 24);
      x = static_cast<float>(center + spread * (2 * unit - 1));
    }
    return constant(std::move(tensor));
  }

  ValueId constant(Tensor tensor) {
    return builder_.add_constant(Graph::kMain, "w" + std::to_string(count_++), make_constant(std::move(tensor)));
  }
  ValueId ints(std::vector<std::int64_t> values) { return constant(Tensor::vector_of(values)); }

  ValueId op(std::string_view type, std::vector<ValueId> inputs, Attrs attrs = {}) {
    const std::string name = std::string(type) + "_" + std::to_string(count_++);
    Node node{.op = find_op("", type),
              .op_type = builder_.intern(type),
              .domain = builder_.intern(""),
              .version = 17,
              .name = name,
              .inputs = std::move(inputs),
              .attrs = std::move(attrs),
              .body = Graph::kMain};
    const ValueId out = builder_.add_value(Graph::kMain, name + "_out", {});
    node.outputs = {out};
    builder_.add_node(std::move(node));
    return out;
  }

  std::string finish(ValueId output) {
    builder_.add_output(Graph::kMain, output);
    return write_onnx(std::move(builder_).build());
  }

 private:
  GraphBuilder builder_;
  std::uint64_t state_ = 1;
  int count_ = 0;
};

Attrs attrs(std::vector<std::pair<std::string, Attr>> list) {
  Attrs result;
  for (auto& [name, value] : list) result.set(std::move(name), std::move(value));
  return result;
}

using Ints = std::vector<std::int64_t>;

ValueId dense(Network& net, ValueId x, std::int64_t from, std::int64_t to) {
  const double spread = 0.02 * std::sqrt(3.0);
  return net.op("Add", {net.op("MatMul", {x, net.weight({from, to}, spread)}), net.weight({to}, 0.1)});
}

ValueId normalised(Network& net, ValueId x, std::int64_t width) {
  return net.op("LayerNormalization", {x, net.weight({width}, 0.1, 1), net.weight({width}, 0.1)},
                attrs({{"axis", std::int64_t{-1}}, {"epsilon", 1e-12F}}));
}

ValueId heads(Network& net, ValueId x, std::int64_t width, const Ints& perm) {
  const ValueId split = net.op("Reshape", {x, net.ints({1, 128, width / 64, 64})});
  return net.op("Transpose", {split}, attrs({{"perm", perm}}));
}

ValueId attention(Network& net, ValueId x, std::int64_t width) {
  const ValueId q = heads(net, dense(net, x, width, width), width, {0, 2, 1, 3});
  const ValueId k = heads(net, dense(net, x, width, width), width, {0, 2, 3, 1});
  const ValueId v = heads(net, dense(net, x, width, width), width, {0, 2, 1, 3});
  const ValueId scores = net.op("Div", {net.op("MatMul", {q, k}), net.weight({}, 0, 8)});
  const ValueId weights = net.op("Softmax", {scores}, attrs({{"axis", std::int64_t{-1}}}));
  const ValueId mixed = net.op("Transpose", {net.op("MatMul", {weights, v})}, attrs({{"perm", Ints{0, 2, 1, 3}}}));
  return dense(net, net.op("Reshape", {mixed, net.ints({1, 128, width})}), width, width);
}

ValueId gelu(Network& net, ValueId x) {
  const ValueId erf = net.op("Erf", {net.op("Div", {x, net.weight({}, 0, 1.4142135)})});
  return net.op("Mul", {net.op("Mul", {x, net.op("Add", {erf, net.weight({}, 0, 1)})}), net.weight({}, 0, 0.5)});
}

ValueId convolution(Network& net, ValueId x, std::int64_t from, std::int64_t to, std::int64_t kernel,
                    std::int64_t stride) {
  const double spread = std::sqrt(6.0 / static_cast<double>(from * kernel * kernel));
  const std::int64_t pad = kernel / 2;
  const ValueId y = net.op("Conv", {x, net.weight({to, from, kernel, kernel}, spread)},
                           attrs({{"kernel_shape", Ints{kernel, kernel}},
                                  {"pads", Ints{pad, pad, pad, pad}},
                                  {"strides", Ints{stride, stride}}}));
  return net.op("BatchNormalization",
                {y, net.weight({to}, 0.1, 1), net.weight({to}, 0.1), net.weight({to}, 0.1), net.weight({to}, 0.2, 1)});
}

ValueId bottleneck(Network& net, ValueId x, std::int64_t from, std::int64_t width, std::int64_t stride) {
  const ValueId a = net.op("Relu", {convolution(net, x, from, width, 1, 1)});
  const ValueId b = net.op("Relu", {convolution(net, a, width, width, 3, stride)});
  const ValueId c = convolution(net, b, width, 4 * width, 1, 1);
  const ValueId shortcut = from == 4 * width ? x : convolution(net, x, from, 4 * width, 1, stride);
  return net.op("Relu", {net.op("Add", {c, shortcut})});
}

}  // namespace

std::string bert_model(std::int64_t layers, std::int64_t width) {
  Network net;
  const ValueId ids = net.input("input_ids", {1, 128}, DType::int64);
  ValueId x = net.op("Gather", {net.weight({30522, width}, 0.06), ids});
  x = normalised(net, net.op("Add", {x, net.weight({1, 128, width}, 0.06)}), width);
  for (std::int64_t i = 0; i < layers; ++i) {
    x = normalised(net, net.op("Add", {x, attention(net, x, width)}), width);
    const ValueId hidden = gelu(net, dense(net, x, width, 4 * width));
    x = normalised(net, net.op("Add", {x, dense(net, hidden, 4 * width, width)}), width);
  }
  return net.finish(x);
}

std::string resnet_model() {
  Network net;
  ValueId x = net.op("Relu", {convolution(net, net.input("image", {1, 3, 224, 224}), 3, 64, 7, 2)});
  x = net.op("MaxPool", {x},
             attrs({{"kernel_shape", Ints{3, 3}}, {"pads", Ints{1, 1, 1, 1}}, {"strides", Ints{2, 2}}}));
  std::int64_t from = 64;
  const std::vector<std::pair<std::int64_t, int>> stages = {{64, 3}, {128, 4}, {256, 6}, {512, 3}};
  for (const auto& [width, blocks] : stages) {
    for (int i = 0; i < blocks; ++i) {
      x = bottleneck(net, x, from, width, i == 0 && width > 64 ? 2 : 1);
      from = 4 * width;
    }
  }
  x = net.op("Flatten", {net.op("GlobalAveragePool", {x})});
  return net.finish(dense(net, x, 2048, 1000));
}

}  // namespace finity

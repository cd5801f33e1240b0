#include "models.h"

#include "formats/onnx/onnx.h"
#include "graph/builder.h"
#include "ops/table/op.h"

namespace finity {

namespace {

GraphBuilder start() {
  GraphBuilder builder;
  builder.info().ir_version = 8;
  builder.info().producer_name = "finity";
  builder.info().opsets[""] = 17;
  builder.add_body("main");
  return builder;
}

Node node(GraphBuilder& builder, std::string_view op, std::string name) {
  return {.op = find_op("", op),
          .op_type = builder.intern(op),
          .domain = builder.intern(""),
          .version = 17,
          .name = std::move(name),
          .body = Graph::kMain};
}

}  // namespace

std::string chain_model(std::int64_t nodes) {
  GraphBuilder builder = start();
  ValueId current = builder.add_input(Graph::kMain, "input", Type::tensor_of(DType::float32, Dims{1, 64}));
  const ConstantPtr weight = make_constant(Tensor(DType::float32, {64}));
  for (std::int64_t i = 0; i < nodes; ++i) {
    const std::string scope = "/encoder/layer." + std::to_string(i / 16) + "/" + std::to_string(i % 16);
    Node next = node(builder, i % 2 == 0 ? "Add" : "Relu", scope + "/op");
    next.inputs = {current};
    if (i % 2 == 0) next.inputs.push_back(builder.add_constant(Graph::kMain, scope + ".weight", weight));
    current = builder.add_value(Graph::kMain, scope + "/op_output_0", Type::tensor_of(DType::float32, Dims{1, 64}));
    next.outputs = {current};
    builder.add_node(std::move(next));
  }
  builder.add_output(Graph::kMain, current);
  return write_onnx(std::move(builder).build());
}

std::string heavy_model(std::int64_t weight_bytes) {
  GraphBuilder builder = start();
  const std::int64_t columns = 4096;
  const std::int64_t rows = weight_bytes / 4 / columns;
  const ValueId input = builder.add_input(Graph::kMain, "input", Type::tensor_of(DType::float32, Dims{1, rows}));
  const ValueId weight =
      builder.add_constant(Graph::kMain, "weight", make_constant(Tensor(DType::float32, {rows, columns})));
  Node product = node(builder, "MatMul", "product");
  product.inputs = {input, weight};
  product.outputs = {builder.add_value(Graph::kMain, "output", Type::tensor_of(DType::float32, Dims{1, columns}))};
  const ValueId output = product.outputs.front();
  builder.add_node(std::move(product));
  builder.add_output(Graph::kMain, output);
  return write_onnx(std::move(builder).build());
}

}  // namespace finity

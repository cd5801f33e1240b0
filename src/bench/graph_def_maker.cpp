#include "bench/graph_def_maker.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "bench/graph_def_gradients.h"

namespace finity {

namespace {

using Attributes = GraphDefMaker::Attributes;

std::string digits(double x) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, x);
  return {text, end.ptr};
}

std::string shape_text(const Dims& dims) {
  std::string text;
  for (const std::int64_t size : dims) text += " dim { size: " + std::to_string(size) + " }";
  return "{" + text + " }";
}

std::string type_text(std::string_view dtype) { return "type: DT_" + std::string(dtype); }

std::string int_list(const std::vector<std::int64_t>& numbers) {
  std::string text = "list {";
  for (const std::int64_t number : numbers) text += " i: " + std::to_string(number);
  return text + " }";
}

Attributes constant_attributes(std::string_view dtype, const Dims& dims, const std::string& elements) {
  const std::string type = "DT_" + std::string(dtype);
  return {{"dtype", type_text(dtype)},
          {"value", "tensor { dtype: " + type + " tensor_shape " + shape_text(dims) + elements + " }"}};
}

const Attributes kFloat = {{"T", "type: DT_FLOAT"}};

Attributes window_attributes(const std::vector<std::int64_t>& strides, std::string_view padding) {
  return {{"T", "type: DT_FLOAT"},
          {"strides", int_list(strides)},
          {"padding", "s: \"" + std::string(padding) + "\""},
          {"data_format", "s: \"NHWC\""}};
}

}  // namespace

std::string GraphDefMaker::fresh(const std::string& name) {
  std::string unique = name;
  for (int i = 1; std::ranges::find(taken_, unique) != taken_.end(); ++i) unique = name + "_" + std::to_string(i);
  taken_.push_back(unique);
  return unique;
}

std::string GraphDefMaker::node(const std::string& op, const Names& inputs, const std::string& name,
                                const Attributes& attributes) {
  std::string unique = fresh(name.empty() ? op : name);
  text_ += "node { name: \"" + unique + "\" op: \"" + op + "\"";
  for (const std::string& input : inputs) text_ += " input: \"" + input + "\"";
  for (const Attribute& attribute : attributes) {
    text_ += " attr { key: \"" + attribute.key + "\" value { " + attribute.value + " } }";
  }
  text_ += " }\n";
  added_.push_back({.name = unique, .op = op, .inputs = inputs, .attributes = attributes});
  return unique;
}

std::string GraphDefMaker::op(const std::string& op, const Names& inputs, const std::string& name) {
  return node(op, inputs, name, kFloat);
}

std::string GraphDefMaker::placeholder(const std::string& name, const Dims& dims) {
  return node("Placeholder", {}, name, {{"dtype", type_text("FLOAT")}, {"shape", "shape " + shape_text(dims)}});
}

std::string GraphDefMaker::number(double x, const std::string& name) {
  return node("Const", {}, name, constant_attributes("FLOAT", {}, " float_val: " + digits(x)));
}

std::string GraphDefMaker::numbers(const std::vector<double>& all, const Dims& dims, const std::string& name) {
  std::string elements;
  for (const double x : all) elements += " float_val: " + digits(x);
  return node("Const", {}, name, constant_attributes("FLOAT", dims, elements));
}

std::string GraphDefMaker::whole(const std::vector<std::int64_t>& all, const std::string& name) {
  std::string elements;
  for (const std::int64_t x : all) elements += " int_val: " + std::to_string(x);
  const Dims dims = {static_cast<std::int64_t>(all.size())};
  std::string made = node("Const", {}, name, constant_attributes("INT32", dims, elements));
  added_.back().numbers = all;
  return made;
}

std::string GraphDefMaker::whole_number(std::int64_t x, const std::string& name) {
  return node("Const", {}, name, constant_attributes("INT32", {}, " int_val: " + std::to_string(x)));
}

std::string GraphDefMaker::variable(const std::string& name, const Dims& dims, const Draw& init) {
  std::string start = name + "/initial_value";
  const auto drawn = [&](const std::string& op, double factor, double offset) {
    const std::string shape = whole({dims.begin(), dims.end()}, start + "/shape");
    const std::string draw =
        node(op, {shape}, start + "/draw", {{"dtype", type_text("FLOAT")}, {"T", "type: DT_INT32"}});
    const std::string scaled = this->op("Mul", {draw, number(factor, start + "/scale")}, start + "/mul");
    return this->op("Add", {scaled, number(offset, start + "/offset")}, start);
  };
  if (init.kind == Draw::Kind::truncated_normal) start = drawn("TruncatedNormal", init.b, init.a);
  else if (init.kind == Draw::Kind::normal) start = drawn("RandomStandardNormal", init.b, init.a);
  else if (init.kind == Draw::Kind::uniform) start = drawn("RandomUniform", init.b - init.a, init.a);
  else if (init.kind == Draw::Kind::zeros || init.kind == Draw::Kind::constant) {
    const std::string element = " float_val: " + digits(init.kind == Draw::Kind::zeros ? 0 : init.a);
    start = node("Const", {}, start, constant_attributes("FLOAT", dims, element));
  } else throw Error("a variable of a TensorFlow graph does not begin like that");
  const std::string holder =
      node("VariableV2", {}, name, {{"dtype", type_text("FLOAT")}, {"shape", "shape " + shape_text(dims)}});
  op("Assign", {holder, start}, name + "/Assign");
  return op("Identity", {holder}, name + "/read");
}

std::string GraphDefMaker::sum(const std::string& x, const std::vector<std::int64_t>& axes, bool keep) {
  return node("Sum", {x, whole(axes)}, "",
              {{"T", "type: DT_FLOAT"}, {"Tidx", "type: DT_INT32"}, {"keep_dims", keep ? "b: true" : "b: false"}});
}

std::string GraphDefMaker::mean(const std::string& x, const std::vector<std::int64_t>& axes) {
  return node("Mean", {x, whole(axes)}, "",
              {{"T", "type: DT_FLOAT"}, {"Tidx", "type: DT_INT32"}, {"keep_dims", "b: false"}});
}

std::string GraphDefMaker::dense(const std::string& x, std::int64_t in, std::int64_t out, const std::string& scope,
                                 const Init& init) {
  const std::string weight = variable(scope + "/weights", {in, out}, init.weight);
  const std::string product = op("MatMul", {x, weight}, scope + "/MatMul");
  if (!init.bias) return product;
  return op("Add", {product, variable(scope + "/biases", {out}, *init.bias)}, scope + "/add");
}

std::string GraphDefMaker::conv(const std::string& x, const Dims& kernel, std::int64_t stride, const std::string& scope,
                                const Init& init) {
  const std::string weight = variable(scope + "/weights", kernel, init.weight);
  const std::string product =
      node("Conv2D", {x, weight}, scope + "/Conv2D", window_attributes({1, stride, stride, 1}, "SAME"));
  return op("BiasAdd", {product, variable(scope + "/biases", {kernel.back()}, *init.bias)}, scope + "/BiasAdd");
}

std::string GraphDefMaker::max_pool(const std::string& x) {
  Attributes attributes = window_attributes({1, 2, 2, 1}, "SAME");
  attributes.push_back({"ksize", int_list({1, 2, 2, 1})});
  return node("MaxPool", {x}, "", attributes);
}

std::string GraphDefMaker::reshape(const std::string& x, const std::vector<std::int64_t>& dims) {
  return node("Reshape", {x, whole(dims)}, "", {{"T", "type: DT_FLOAT"}, {"Tshape", "type: DT_INT32"}});
}

std::string GraphDefMaker::cast(const std::string& x, std::string_view from, std::string_view to) {
  return node("Cast", {x}, "", {{"SrcT", type_text(from)}, {"DstT", type_text(to)}});
}

std::string GraphDefMaker::dropout(const std::string& x, const std::string& keep, const std::string& scope) {
  const std::string shape = node("Shape", {x}, scope + "/Shape", kFloat);
  const std::string draw = node("RandomUniform", {shape}, scope + "/random_uniform",
                                {{"dtype", type_text("FLOAT")}, {"T", "type: DT_INT32"}});
  const std::string mask = op("Floor", {op("Add", {keep, draw}, scope + "/add")}, scope + "/Floor");
  return op("Mul", {op("RealDiv", {x, keep}, scope + "/div"), mask}, scope + "/mul");
}

std::string GraphDefMaker::finish() && {
  constexpr double kRate = 0.01;
  add_training_step(*this, std::string(added_.back().name), kRate);
  return std::move(text_) + "versions { producer: 27 }\n";
}

}  // namespace finity

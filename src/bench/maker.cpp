#include "bench/maker.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "formats/text/text.h"

namespace finity {

std::optional<LegalRange> support_of(const Draw& init, const Dims& dims) {
  constexpr double kDeviations = 4;
  const auto around_zero = [](double most) { return LegalRange{-most, most}; };
  const auto in = static_cast<double>(dims.front()), out = static_cast<double>(dims.back());
  switch (init.kind) {
    case Draw::Kind::truncated_normal: return around_zero(2 * init.b);
    case Draw::Kind::normal: return around_zero(kDeviations * init.b);
    case Draw::Kind::uniform: return LegalRange{init.a, init.b};
    case Draw::Kind::xavier_uniform: return around_zero(std::sqrt(6 / (in + out)));
    case Draw::Kind::linear_default: return around_zero(1 / std::sqrt(static_cast<double>(init.fan_in)));
    default: return std::nullopt;
  }
}

void Maker::add_input(const std::string& name, std::string_view dtype, const Dims& dims) {
  std::string text = name + ": " + std::string(dtype) + "[";
  for (std::size_t i = 0; i < dims.size(); ++i) text += (i > 0 ? ", " : "") + std::to_string(dims[i]);
  inputs_ += (inputs_.empty() ? "" : ", ") + text + "]";
}

Dims Maker::with_batch(const Dims& sizes) const {
  Dims dims = {batch()};
  dims.insert(dims.end(), sizes.begin(), sizes.end());
  return dims;
}

std::string Maker::images(const std::string& name, const Dims& sizes, double lo, double hi) {
  add_input(name, "float32", with_batch(sizes));
  const ProgramInput input = {.name = name, .range = LegalRange{lo, hi}, .change = true};
  recipe_.feeds.push_back({.input = input, .source = Feed::Source::images});
  return name;
}

std::string Maker::one_hot_labels(const std::string& name, int classes) {
  add_input(name, "float32", with_batch({classes}));
  const ProgramInput input = {.name = name, .range = LegalRange{0, 1}, .change = false, .label = true};
  recipe_.feeds.push_back({.input = input, .source = Feed::Source::labels, .one_hot = classes, .whole = true});
  return name;
}

std::string Maker::class_labels(const std::string& name) {
  add_input(name, "int64", with_batch({}));
  const ProgramInput input = {.name = name, .range = LegalRange{0, 9}, .change = false, .label = true};
  recipe_.feeds.push_back({.input = input, .source = Feed::Source::labels, .whole = true});
  return name;
}

std::string Maker::table(const std::string& name, Tensor rows, LegalRange legal, bool change) {
  Dims dims = rows.dims();
  dims.front() = batch();
  add_input(name, info(rows.dtype()).name, dims);
  const bool whole = !is_float(rows.dtype());
  const ProgramInput input = {
      .name = name, .data = std::move(rows), .range = legal, .change = change, .label = !change};
  recipe_.feeds.push_back({.input = input, .whole = whole});
  return name;
}

std::string Maker::one_hot_table(const std::string& name, const std::vector<std::int64_t>& classes, int count) {
  add_input(name, "float32", with_batch({count}));
  const ProgramInput input = {
      .name = name, .data = Tensor::vector_of(classes), .range = LegalRange{0, 1}, .change = false, .label = true};
  recipe_.feeds.push_back({.input = input, .one_hot = count, .whole = true});
  return name;
}

std::string Maker::mask(const std::string& name, const Dims& sizes, double keep) {
  draw(name, with_batch(sizes), {.kind = Draw::Kind::bernoulli, .a = keep}, {0, 1}, true);
  recipe_.feeds.back().input.change = false;
  recipe_.feeds.back().whole = true;
  return name;
}

std::string Maker::draw(const std::string& name, const Dims& dims, const Draw& how, LegalRange legal, bool every_step) {
  add_input(name, "float32", dims);
  const ProgramInput input = {.name = name, .draw = how, .each_step = every_step, .range = legal, .change = true};
  recipe_.feeds.push_back({.input = input});
  return name;
}

std::string Maker::weight(const std::string& name, const Dims& dims, const Draw& init) {
  add_input(name, "float32", dims);
  const std::optional<LegalRange> start = support_of(init, dims);
  const double reach = start ? std::max(reach_, start->hi) : reach_;
  recipe_.weights.push_back(
      {.weight = {.name = name, .init = init, .range = start, .loss = trained_on_}, .reach = reach});
  return name;
}

void Maker::updated_by(const std::string& weight, const std::string& value) {
  const auto named = [&](const TrainedWeight& trained) { return trained.weight.name == weight; };
  const auto found = std::ranges::find_if(recipe_.weights, named);
  if (found == recipe_.weights.end()) throw Error("there is no weight named '" + weight + "'");
  found->weight.update = value;
}

std::string Maker::node(std::string_view op, const std::vector<std::string>& operands, std::string_view attributes,
                        std::string name) {
  if (name.empty()) name = "v" + std::to_string(++nodes_);
  lines_ += "  " + name + " = " + std::string(op) + "(";
  for (std::size_t i = 0; i < operands.size(); ++i) lines_ += (i > 0 ? ", " : "") + operands[i];
  lines_ += ")" + (attributes.empty() ? "" : " {" + std::string(attributes) + "}") + "\n";
  return name;
}

std::string Maker::number(double x) { return constant(Tensor::scalar(static_cast<float>(x))); }

std::string Maker::whole_numbers(const std::vector<std::int64_t>& numbers) {
  return constant(Tensor::vector_of(numbers));
}

std::string Maker::constant(const Tensor& tensor) {
  const std::string text = print_tensor(tensor);
  const std::size_t brace = text.find('{');
  const std::string name = "k" + std::to_string(++constants_);
  lines_ += "  const " + name + ": " + text.substr(0, brace - 1) + " = " + text.substr(brace) + "\n";
  return name;
}

std::string Maker::dense(const std::string& x, std::int64_t in, std::int64_t out, const std::string& name,
                         const Init& init) {
  const std::string product = node("MatMul", {x, weight(name + "_w", {in, out}, init.weight)});
  return init.bias ? node("Add", {product, weight(name + "_b", {out}, *init.bias)}) : product;
}

std::string Maker::dense_again(const std::string& x, const std::string& name) {
  return node("Add", {node("MatMul", {x, name + "_w"}), name + "_b"});
}

std::string Maker::conv(const std::string& x, const Dims& kernel, bool same, const std::string& name, const Init& init,
                        std::int64_t stride) {
  std::vector<std::string> operands = {x, weight(name + "_w", kernel, init.weight)};
  if (init.bias) operands.push_back(weight(name + "_b", {kernel.front()}, *init.bias));
  const std::string step = std::to_string(stride);
  const std::string pads = same ? "auto_pad = \"SAME_UPPER\"" : "auto_pad = \"VALID\"";
  return node("Conv", operands, pads + ", strides = [" + step + ", " + step + "]");
}

std::string Maker::max_pool(const std::string& x) {
  return node("MaxPool", {x}, "kernel_shape = [2, 2], strides = [2, 2]");
}

std::string Maker::dropout(const std::string& x, const std::string& name, const Dims& sizes, double keep) {
  return node("Mul", {node("Mul", {x, mask(name, sizes, keep)}), number(1 / keep)});
}

void Maker::output(const std::string& value, const std::string& name) {
  node("Identity", {value}, "", name);
  outputs_ += ", " + name;
}

Recipe Maker::finish() && {
  recipe_.model = "opset 21\ngraph program (" + inputs_ + ") -> (" + outputs_ + ") {\n" + lines_ + "}\n";
  return std::move(recipe_);
}

}  // namespace finity

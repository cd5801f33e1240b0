#include "muffin/net.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity::muffin {

namespace {

GraphWriter empty_writer() {
  GraphBuilder builder;
  builder.add_body("model");
  builder.info().ir_version = 8;
  builder.info().opsets[""] = GraphWriter::kOpset;
  builder.info().producer_name = "finity";
  const Graph graph = std::move(builder).build();
  return GraphWriter(graph, infer_types(graph));
}

constexpr double kWide = 10;

}  // namespace

Net::Net(Weights weights) : weights_(weights), writer_(empty_writer()) {}

ValueId Net::input(const std::string& name, DType dtype, const Dims& dims) {
  return writer_.add_input(name, Type::tensor_of(dtype, dims));
}

ValueId Net::add(std::string_view op, std::vector<ValueId> inputs, std::vector<Attribute> attrs) {
  return add_several(op, std::move(inputs), std::move(attrs), 1).front();
}

std::vector<ValueId> Net::add_several(std::string_view op, std::vector<ValueId> inputs, std::vector<Attribute> attrs,
                                      std::size_t outputs) {
  Attrs all;
  for (auto& [name, value] : attrs) all.set(name, std::move(value));
  std::vector<ValueId> made = writer_.add(op, std::move(inputs), std::move(all), outputs);
  for (const ValueId id : made) most_elements_ = std::max(most_elements_, element_count(dims(id)));
  return made;
}

Dims Net::dims(ValueId id) const {
  const std::optional<Dims> dims = writer_.type(id).dims();
  if (!dims) throw Error("a size is not known");
  return *dims;
}

ValueId Net::keep_weight(const Dims& dims, double low, double high) {
  const std::int64_t count = element_count(dims);
  weight_elements_ += count;
  if (weights_ == Weights::none) return input("w", DType::float32, dims);
  std::vector<float> values(static_cast<std::size_t>(count));
  for (float& x : values) x = static_cast<float>(rng_.uniform(low, high));
  if (!change_.empty() && !dims.empty()) changed(values, static_cast<std::size_t>(dims.back()), high);
  made_.push_back(writer_.constant(Tensor::of<float>(DType::float32, dims, values)));
  return made_.back();
}

// What LEMON does to weights: a neuron is a column.
void Net::changed(std::vector<float>& values, std::size_t columns, double size) {
  const std::size_t one = rng_.below(columns), other = rng_.below(columns);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::size_t column = i % columns;
    if (change_ == "fuzz") values[i] += static_cast<float>(0.3 * size * rng_.normal());
    else if (change_ == "shuffle") std::swap(values[i], values[rng_.below(i + 1)]);
    else if (change_ == "block" && column == one) values[i] = 0;
    else if (change_ == "inverse" && column == one) values[i] = -values[i];
    else if (change_ == "switch" && column == one) std::swap(values[i], values[i - one + other]);
  }
}

ValueId Net::weight(const Dims& dims, std::int64_t fan_in) {
  const double most =
      weights_ == Weights::wide ? kWide : std::sqrt(3.0 / static_cast<double>(std::max<std::int64_t>(fan_in, 1)));
  return keep_weight(dims, -most, most);
}

ValueId Net::weight_between(const Dims& dims, double low, double high) { return keep_weight(dims, low, high); }

ValueId Net::number(double x) { return writer_.constant(Tensor::scalar(static_cast<float>(x))); }
ValueId Net::ints(const Ints& values) { return writer_.constant(Tensor::vector_of(values)); }

ValueId Net::filled(const Dims& dims, double x) {
  const std::vector<float> values(static_cast<std::size_t>(element_count(dims)), static_cast<float>(x));
  return writer_.constant(Tensor::of<float>(DType::float32, dims, values));
}

ValueId Net::move_axis(ValueId x, std::int64_t from, std::int64_t to) {
  if (from == to) return x;
  Ints perm;
  for (std::int64_t i = 0; i < rank(x); ++i) {
    if (i != from) perm.push_back(i);
  }
  perm.insert(perm.begin() + to, from);
  return transpose(x, perm);
}

ValueId Net::slice(ValueId x, std::int64_t axis, std::int64_t begin, std::int64_t end) {
  return add("Slice", {x, ints({begin}), ints({end}), ints({axis})});
}

ValueId Net::gather(ValueId x, const Dims& dims, const Ints& indices, std::int64_t axis) {
  const ValueId where = writer_.constant(Tensor::of<std::int64_t>(DType::int64, dims, indices));
  return add("Gather", {x, where}, {{"axis", axis}});
}

ValueId Net::reversed(ValueId x, std::int64_t axis) {
  Ints indices(static_cast<std::size_t>(dims(x)[static_cast<std::size_t>(axis)]));
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<std::int64_t>(indices.size() - 1 - i);
  return gather(x, {static_cast<std::int64_t>(indices.size())}, indices, axis);
}

ValueId Net::concat(const std::vector<ValueId>& parts, std::int64_t axis) {
  return parts.size() == 1 ? parts.front() : add("Concat", parts, {{"axis", axis}});
}

ValueId Net::sum(ValueId x, const Ints& axes, bool keep) {
  return add("ReduceSum", {x, ints(axes)}, {{"keepdims", std::int64_t{keep ? 1 : 0}}});
}

ValueId Net::activation(ValueId x, const std::string& name) {
  if (name.empty() || name == "linear") return x;
  if (name == "softmax") return add("Softmax", {x}, {{"axis", rank(x) - 1}});
  for (const auto& [keras, op] : {std::pair<std::string_view, std::string_view>{"relu", "Relu"},
                                  {"sigmoid", "Sigmoid"},
                                  {"softplus", "Softplus"},
                                  {"tanh", "Tanh"},
                                  {"selu", "Selu"},
                                  {"elu", "Elu"}}) {
    if (name == keras) return add(op, {x});
  }
  throw Error("there is no activation '" + name + "'");
}

}  // namespace finity::muffin

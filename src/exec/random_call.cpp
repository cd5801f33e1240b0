#include "exec/random_call.h"

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "base/rng.h"
#include "graph/builder.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr int kVersions[] = {1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 23, 24, 27};

class Maker {
 public:
  Maker(const OpDef& op, std::uint64_t seed) : op_(op), signature_(signature_of(op)), rng_(seed) {}

  RandomCall make(int detail) {
    usual_rank_ = small(4);
    usual_size_ = 1 + small(3);
    RandomCall call;
    GraphBuilder builder;
    const BodyId body = builder.add_body("g");
    Node node;
    node.op = &op_;
    node.op_type = builder.intern(op_.identity.name);
    node.domain = builder.intern(op_.identity.domain);
    node.version = kVersions[rng_.below(std::size(kVersions))];
    builder.info().opsets[std::string(op_.identity.domain)] = node.version;
    builder.info().ir_version = 10;
    node.body = body;
    add_inputs(builder, node, call.inputs, detail);
    add_attrs(node);
    const std::size_t outputs = signature_.outputs.size() + (repeats(signature_.outputs) ? rng_.below(3) : 0);
    for (std::size_t i = 0; i < outputs; ++i) {
      node.outputs.push_back(builder.add_value(body, "out" + std::to_string(i)));
      builder.add_output(body, node.outputs.back());
    }
    builder.add_node(std::move(node));
    call.graph = std::move(builder).build();
    return call;
  }

 private:
  std::int64_t small(std::int64_t limit) {
    return static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(limit) + 1));
  }
  bool chance(int percent) { return rng_.below(100) < static_cast<std::uint64_t>(percent); }
  static bool repeats(const std::vector<Param>& params) {
    return !params.empty() && (params.back().arity == Param::Arity::some || params.back().arity == Param::Arity::any);
  }

  DType dtype_for(const ParamType& type) {
    if (!type.variable.empty() && dtypes_.contains(type.variable)) return dtypes_[type.variable];
    std::vector<DType> choices;
    for (std::size_t i = 1; i < kDTypeCount; ++i) {
      if (type.kind == Type::Kind::unknown || type.dtypes[i]) choices.push_back(static_cast<DType>(i));
    }
    const DType chosen = choices[rng_.below(choices.size())];
    if (!type.variable.empty()) dtypes_[type.variable] = chosen;
    return chosen;
  }

  std::int64_t number() {
    if (chance(3))
      return chance(50) ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
    if (chance(2)) return std::int64_t{1} << 44;
    return ordinary();
  }
  std::int64_t ordinary() { return small(5) - (chance(30) ? 3 : 0); }
  double real() {
    if (chance(5)) return std::numeric_limits<double>::quiet_NaN();
    if (chance(5)) return chance(50) ? INFINITY : -INFINITY;
    if (chance(5)) return 1e30;
    return chance(50) ? static_cast<double>(small(4)) - 1 : rng_.uniform(-2, 3);
  }

  Dims dims() {
    if (chance(25)) return {small(5)};  // a list of sizes, axes or the like
    if (chance(10)) return {};
    const std::int64_t rank = chance(80) ? usual_rank_ : small(5);
    Dims result;
    for (std::int64_t i = 0; i < rank; ++i) result.push_back(chance(70) ? usual_size_ : small(4));
    return result;
  }

  Tensor tensor(DType dtype) {
    const Dims shape = dims();
    const auto count = static_cast<std::size_t>(element_count(shape));
    if (dtype == DType::string) {
      std::vector<std::string> texts;
      while (texts.size() < count) texts.push_back(std::string(rng_.below(3), 'a'));
      return Tensor::of_strings(shape, std::move(texts));
    }
    if (is_float(dtype) || is_complex(dtype)) {
      std::vector<double> values(count);
      for (double& value : values) value = real();
      return from_elements<double>(dtype, shape, values);
    }
    std::vector<std::int64_t> values(count);
    // Extremes of narrow types would be sizes that fit into memory and fill it.
    for (std::int64_t& value : values) value = dtype == DType::int64 ? number() : ordinary();
    return from_elements<std::int64_t>(dtype, shape, values);
  }

  Type known_part(const Tensor& tensor, int detail) {
    Type type = Type::tensor_of(tensor.dtype(), tensor.dims());
    if (detail == 3) return Type::tensor(tensor.dtype());
    for (Dim& dim : type.shape) {
      if (detail == 2) dim = {};
    }
    return type;
  }

  void add_inputs(GraphBuilder& builder, Node& node, Inputs& inputs, int detail) {
    const BodyId body = node.body;
    const std::size_t extra = repeats(signature_.inputs) ? rng_.below(3) : 0;
    for (std::size_t i = 0; i < signature_.inputs.size() + extra; ++i) {
      const Param& param = *Signature::param(signature_.inputs, i);
      const bool optional = param.arity == Param::Arity::optional || param.arity == Param::Arity::any;
      if (optional && chance(40)) {
        node.inputs.emplace_back();
        continue;
      }
      const Tensor value = tensor(dtype_for(param.type));
      const std::string name = "in" + std::to_string(i);
      if (detail == 0) {
        node.inputs.push_back(builder.add_constant(body, name, make_constant(value)));
      } else {
        node.inputs.push_back(builder.add_input(body, name, known_part(value, detail)));
        inputs[name] = value;
      }
    }
    while (!node.inputs.empty() && !node.inputs.back().valid()) node.inputs.pop_back();
  }

  std::string text(const AttrSpec& spec) {
    return spec.choices.empty() ? std::string(rng_.below(3), 'i') : spec.choices[rng_.below(spec.choices.size())].text;
  }
  template <class T, class F>
  std::vector<T> list(F item) {
    std::vector<T> result(rng_.below(5));
    for (T& entry : result) entry = item();
    return result;
  }

  void add_attrs(Node& node) {
    for (const AttrSpec& spec : signature_.attrs) {
      if (chance(50)) continue;
      const auto real_number = [&] { return static_cast<float>(real()); };
      if (spec.kind == "int") node.attrs.set(spec.name, number());
      else if (spec.kind == "float") node.attrs.set(spec.name, real_number());
      else if (spec.kind == "string") node.attrs.set(spec.name, text(spec));
      else if (spec.kind == "ints") node.attrs.set(spec.name, list<std::int64_t>([&] { return number(); }));
      else if (spec.kind == "floats") node.attrs.set(spec.name, list<float>(real_number));
      else if (spec.kind == "strings") node.attrs.set(spec.name, list<std::string>([&] { return text(spec); }));
      else if (spec.kind == "tensor")
        node.attrs.set(spec.name, make_constant(tensor(dtype_for({.kind = Type::Kind::unknown}))));
    }
  }

  const OpDef& op_;
  const Signature& signature_;
  Rng rng_;
  std::map<std::string, DType, std::less<>> dtypes_;
  std::int64_t usual_rank_ = 0;
  std::int64_t usual_size_ = 0;
};

bool has_subgraph(const OpDef& op) {
  for (const AttrSpec& spec : signature_of(op).attrs) {
    if (spec.kind == "graph" || spec.kind == "graphs") return true;
  }
  return false;
}

}  // namespace

std::vector<const OpDef*> callable_ops() {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : all_ops()) {
    if (op->meaning.eval != nullptr && !has_subgraph(*op)) ops.push_back(op);
  }
  return ops;
}

RandomCall random_call(const OpDef& op, std::uint64_t seed, int detail) { return Maker(op, seed).make(detail); }

}  // namespace finity

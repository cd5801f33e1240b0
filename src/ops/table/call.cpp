#include "ops/table/call.h"

#include "base/error.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// The node's attribute, else the signature's default, else null.
const Attr* lookup(const Call& call, std::string_view name) {
  if (const Attr* attr = call.attrs().find(name)) return attr;
  if (call.description().op == nullptr) return nullptr;
  const AttrSpec* spec = signature_of(call.op()).attr(name);
  return spec != nullptr && spec->fallback ? &*spec->fallback : nullptr;
}

template <class T>
const T* typed(std::string_view name, const Attr* attr) {
  if (attr == nullptr) return nullptr;
  if (const T* value = std::get_if<T>(attr)) return value;
  throw Error("attribute '" + std::string(name) + "' is of kind " + std::string(kind_name(*attr)));
}

template <class T>
const T& required(const Call& call, std::string_view name) {
  if (const T* value = typed<T>(name, lookup(call, name))) return *value;
  throw Error("attribute '" + std::string(name) + "' is missing");
}

template <class T, class F>
T own_or(const Call& call, std::string_view name, F fallback) {
  const T* value = typed<T>(name, call.attrs().find(name));
  return value != nullptr ? *value : T(fallback);
}

}  // namespace

const Attrs& Call::attrs() const {
  static const Attrs kNone;
  return what_.attrs != nullptr ? *what_.attrs : kNone;
}

const Graph& Call::bodies() const {
  if (what_.bodies == nullptr) throw Error("its bodies are not given");
  return *what_.bodies;
}

std::int64_t Call::integer(std::string_view name) const { return required<std::int64_t>(*this, name); }
std::int64_t Call::integer(std::string_view name, std::int64_t fallback) const {
  return own_or<std::int64_t>(*this, name, fallback);
}
double Call::real(std::string_view name) const { return static_cast<double>(required<float>(*this, name)); }
double Call::real(std::string_view name, double fallback) const {
  const float* value = typed<float>(name, attrs().find(name));
  return value != nullptr ? static_cast<double>(*value) : fallback;
}
std::string Call::text(std::string_view name) const { return required<std::string>(*this, name); }
std::string Call::text(std::string_view name, std::string_view fallback) const {
  return own_or<std::string>(*this, name, fallback);
}
std::vector<std::int64_t> Call::integers(std::string_view name) const {
  return own_or<std::vector<std::int64_t>>(*this, name, std::vector<std::int64_t>());
}
std::vector<double> Call::reals(std::string_view name) const {
  const auto floats = own_or<std::vector<float>>(*this, name, std::vector<float>());
  return {floats.begin(), floats.end()};
}
std::vector<std::string> Call::texts(std::string_view name) const {
  return own_or<std::vector<std::string>>(*this, name, std::vector<std::string>());
}
ConstantPtr Call::constant(std::string_view name) const { return own_or<ConstantPtr>(*this, name, nullptr); }
BodyId Call::body(std::string_view name) const { return required<BodyId>(*this, name); }
const Type* Call::type(std::string_view name) const { return typed<Type>(name, attrs().find(name)); }

InferCall::InferCall(OpCall what, std::vector<Operand> in, InferBody infer_body)
    : Call(std::move(what)),
      in_(std::move(in)),
      out_(output_count()),
      out_values_(output_count()),
      infer_body_(std::move(infer_body)) {}

std::vector<Type> InferCall::infer_body(BodyId body, std::span<const Type> inputs) {
  if (!infer_body_) throw Unsupported("has a subgraph");
  return infer_body_(body, inputs);
}

const Type& InferCall::in(std::size_t i) const {
  static const Type kUnknown;
  return i < in_.size() ? in_[i].type : kUnknown;
}

const Tensor* InferCall::value(std::size_t i) const { return i < in_.size() ? in_[i].value : nullptr; }

std::optional<Shape> InferCall::shape_value(std::size_t i) const {
  if (i >= in_.size()) return std::nullopt;
  if (in_[i].shape_value != nullptr) return *in_[i].shape_value;
  if (const auto known = ints(i)) {
    Shape result;
    // A negative element is not a size.
    for (const std::int64_t element : *known) {
      result.push_back(element >= 0 ? Dim::of(element) : Dim::between(element, element));
    }
    return result;
  }
  const Type& type = in(i);
  if (type.ranked && type.shape.empty()) return Shape(1);
  if (type.ranked && type.shape.size() == 1 && type.shape[0].known() && type.shape[0].size <= 1024) {
    return Shape(static_cast<std::size_t>(type.shape[0].size));
  }
  return std::nullopt;
}

std::optional<std::vector<std::int64_t>> InferCall::ints(std::size_t i) const {
  const Tensor* tensor = value(i);
  if (tensor == nullptr || !is_int(tensor->dtype())) return std::nullopt;
  return elements<std::int64_t>(*tensor);
}

void InferCall::set_shape(std::size_t i, Shape shape) {
  if (i >= out_.size()) return;
  out_[i].kind = Type::Kind::tensor;
  out_[i].ranked = true;
  out_[i].shape = std::move(shape);
}

void InferCall::set_dtype(std::size_t i, DType dtype) {
  if (i >= out_.size()) return;
  out_[i].kind = Type::Kind::tensor;
  out_[i].dtype = dtype;
}

void InferCall::set_type(std::size_t i, Type type) {
  if (i < out_.size()) out_[i] = std::move(type);
}

void InferCall::set_shape_value(std::size_t i, Shape value) {
  if (i < out_values_.size()) out_values_[i] = std::move(value);
}

EvalCall::EvalCall(OpCall what, std::span<const Datum> in, Rng& rng, RunBody run_body)
    : Call(std::move(what)), in_(in), out_(output_count()), rng_(rng), run_body_(std::move(run_body)) {}

std::vector<Datum> EvalCall::run_body(BodyId body, std::span<const Datum> inputs) {
  if (!run_body_) throw Unsupported("has a subgraph");
  return run_body_(body, inputs);
}

const Datum& EvalCall::datum(std::size_t i) const {
  static const Datum kAbsent;
  return i < in_.size() ? in_[i] : kAbsent;
}

const Tensor& EvalCall::in(std::size_t i) const {
  const Tensor* tensor = datum(i).tensor();
  if (tensor == nullptr) throw Error("input " + std::to_string(i) + " is not a tensor");
  return *tensor;
}

void EvalCall::out(std::size_t i, Datum datum) {
  if (i < out_.size()) out_[i] = std::move(datum);
}

}  // namespace finity

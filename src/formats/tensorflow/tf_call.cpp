#include <algorithm>

#include "formats/tensorflow/importer.h"
#include "formats/tensorflow/lowering.h"
#include "tensor/convert.h"

namespace finity::tensorflow {

TfCall::TfCall(Importer& importer, const NodeDef& node, std::vector<TfValue> inputs, std::size_t outputs)
    : importer_(importer), node_(node), inputs_(std::move(inputs)), output_count_(outputs) {}

// ---- attributes

std::optional<AttrValue> TfCall::find(std::string_view name) const { return importer_.attr(node_, name); }

bool TfCall::has_attr(std::string_view name) const { return find(name).has_value(); }

std::int64_t TfCall::integer(std::string_view name) const {
  const std::optional<AttrValue> value = find(name);
  if (!value || value->integers.empty()) throw Error("attribute '" + std::string(name) + "' is missing");
  return value->integers.front();
}

std::int64_t TfCall::integer(std::string_view name, std::int64_t fallback) const {
  const std::optional<AttrValue> value = find(name);
  return value && !value->integers.empty() ? value->integers.front() : fallback;
}

double TfCall::real(std::string_view name, double fallback) const {
  const std::optional<AttrValue> value = find(name);
  return value && !value->reals.empty() ? static_cast<double>(value->reals.front()) : fallback;
}

bool TfCall::flag(std::string_view name, bool fallback) const { return integer(name, fallback ? 1 : 0) != 0; }

std::string TfCall::text(std::string_view name, std::string_view fallback) const {
  const std::optional<AttrValue> value = find(name);
  return std::string(value && !value->texts.empty() ? value->texts.front() : fallback);
}

std::vector<std::int64_t> TfCall::integers(std::string_view name) const {
  const std::optional<AttrValue> value = find(name);
  return value ? value->integers : std::vector<std::int64_t>();
}

std::vector<double> TfCall::reals(std::string_view name) const {
  const std::optional<AttrValue> value = find(name);
  return value ? std::vector<double>(value->reals.begin(), value->reals.end()) : std::vector<double>();
}

std::vector<std::string> TfCall::texts(std::string_view name) const {
  const std::optional<AttrValue> value = find(name);
  return value ? std::vector<std::string>(value->texts.begin(), value->texts.end()) : std::vector<std::string>();
}

DType TfCall::dtype(std::string_view name) const { return dtype_from_tf(integer(name, 0)); }

std::vector<DType> TfCall::dtypes(std::string_view name) const {
  std::vector<DType> result;
  for (const std::int64_t code : integers(name)) result.push_back(dtype_from_tf(code));
  return result;
}

Type TfCall::shape(std::string_view name, DType dtype) const {
  const std::optional<AttrValue> value = find(name);
  if (!value || value->kind != AttrValue::Kind::shape) return Type::tensor(dtype);
  return read_shape(value->messages.front(), dtype);
}

std::vector<Type> TfCall::shapes(std::string_view name) const {
  std::vector<Type> result;
  const std::optional<AttrValue> value = find(name);
  if (!value || value->kind != AttrValue::Kind::list) return result;
  for (const Bytes message : value->messages) result.push_back(read_shape(message, DType::undefined));
  return result;
}

ConstantPtr TfCall::tensor(std::string_view name) const {
  const std::optional<AttrValue> value = find(name);
  if (!value || value->kind != AttrValue::Kind::tensor) return nullptr;
  return read_tensor(value->messages.front(), importer_.owner());
}

std::optional<Bytes> TfCall::tensor_message(std::string_view name) const {
  const std::optional<AttrValue> value = find(name);
  if (!value || value->kind != AttrValue::Kind::tensor) return std::nullopt;
  return value->messages.front();
}

std::string TfCall::function(std::string_view name) const {
  const std::optional<AttrValue> value = find(name);
  return value ? std::string(value->function) : std::string();
}

// ---- operands

ValueId TfCall::in(int i) const {
  const auto count = static_cast<int>(inputs_.size());
  const int at = i < 0 ? count + i : i;
  if (at < 0 || at >= count) throw Error("input " + std::to_string(i) + " is missing");
  const ValueId id = inputs_[static_cast<std::size_t>(at)].id;
  if (!id.valid()) throw Unsupported("input " + std::to_string(at) + " is not a tensor");
  return id;
}

TfValue TfCall::value(std::size_t i) const { return i < inputs_.size() ? inputs_[i] : TfValue{}; }

std::vector<ValueId> TfCall::tensors(std::size_t first, std::size_t count) const {
  std::vector<ValueId> result;
  for (std::size_t i = 0; i < count; ++i) result.push_back(in(static_cast<int>(first + i)));
  return result;
}

const Type& TfCall::type(ValueId id) const { return importer_.writer().type(id); }

DType TfCall::dtype_of(ValueId id) const {
  const Type& type = this->type(id);
  if (!type.is_tensor() || type.dtype == DType::undefined)
    throw Unsupported("the element type of an input is not known");
  return type.dtype;
}

std::int64_t TfCall::rank(ValueId id) const {
  const Type& type = this->type(id);
  if (!type.ranked) throw Unsupported("the rank of an input is not known");
  return static_cast<std::int64_t>(type.shape.size());
}

std::optional<Dims> TfCall::dims(ValueId id) const { return type(id).dims(); }

const Tensor* TfCall::known(ValueId id) const { return importer_.writer().known(id); }

std::optional<std::vector<std::int64_t>> TfCall::known_ints(ValueId id) const {
  const Tensor* tensor = known(id);
  if (tensor == nullptr || (!is_int(tensor->dtype()) && tensor->dtype() != DType::boolean)) return std::nullopt;
  return elements<std::int64_t>(*tensor);
}

std::vector<std::int64_t> TfCall::need_ints(int i, std::string_view what) const {
  std::optional<std::vector<std::int64_t>> result = known_ints(in(i));
  if (!result) throw Unsupported(std::string(what) + " is not known");
  return *std::move(result);
}

// ---- writing

ValueId TfCall::add(std::string_view op, std::vector<ValueId> inputs, AttrList attrs) {
  return add_all(op, std::move(inputs), 1, attrs).front();
}

std::vector<ValueId> TfCall::add_all(std::string_view op, std::vector<ValueId> inputs, std::size_t outputs,
                                     AttrList attrs) {
  Attrs all;
  for (const auto& [name, value] : attrs) all.set(std::string(name), value);
  return importer_.writer().add(op, std::move(inputs), std::move(all), outputs);
}

ValueId TfCall::constant(Tensor tensor) {
  return importer_.writer().constant(make_constant(std::move(tensor)), importer_.writer().node_name() + "/constant");
}

ValueId TfCall::scalar(double number, DType dtype) { return importer_.writer().scalar(number, dtype); }

ValueId TfCall::ints(std::vector<std::int64_t> numbers) { return importer_.writer().ints(numbers); }

ValueId TfCall::integer_scalar(std::int64_t number) {
  return importer_.writer().constant(make_constant(Tensor::scalar(number)), "finity/integer");
}

ValueId TfCall::cast(ValueId value, DType dtype) {
  if (type(value).dtype == dtype) return value;
  return add("Cast", {value}, {{"to", static_cast<std::int64_t>(dtype)}});
}

ValueId TfCall::transpose(ValueId value, std::vector<std::int64_t> permutation) {
  return add("Transpose", {value}, {{"perm", std::move(permutation)}});
}

ValueId TfCall::reshape(ValueId value, ValueId shape) {
  // Zero is a size here, not "as before".
  return add("Reshape", {value, as_int64(shape)}, {{"allowzero", std::int64_t{1}}});
}

ValueId TfCall::reshape(ValueId value, std::vector<std::int64_t> shape) {
  return reshape(value, ints(std::move(shape)));
}

ValueId TfCall::as_vector(ValueId scalar) { return reshape(as_int64(scalar), std::vector<std::int64_t>{1}); }
ValueId TfCall::as_scalar(ValueId vector) { return reshape(vector, std::vector<std::int64_t>{}); }

ValueId TfCall::outside(std::size_t output, const Type& type) { return importer_.outside(node_, output, type); }

std::vector<ValueId> TfCall::unknown(const std::vector<Type>& types) {
  std::vector<ValueId> inputs;
  for (const TfValue& input : inputs_) {
    if (input.id.valid()) inputs.push_back(input.id);
  }
  return importer_.writer().add_unknown(node_.op, std::move(inputs), types);
}

// ---- results

void TfCall::give(std::size_t output, TfValue value) {
  if (results_.size() <= output) results_.resize(output + 1);
  results_[output] = value;
}

void TfCall::give_all(const std::vector<ValueId>& ids) {
  for (std::size_t i = 0; i < ids.size(); ++i) give(i, ids[i]);
}

Type TfCall::declared(std::size_t output) const {
  const std::optional<AttrValue> value = find("_output_shapes");
  if (!value || output >= value->messages.size()) return {};
  return read_shape(value->messages[output], DType::undefined);
}

void bookkeeping(TfCall& /*call*/) {}

}  // namespace finity::tensorflow

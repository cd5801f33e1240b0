#include "fuzz/drawing.h"

#include <algorithm>
#include <map>
#include <string_view>

#include "fuzz/drawing_class.h"
#include "tensor/convert.h"

namespace finity::fuzz {

namespace {

constexpr DType kUsual[] = {DType::float32, DType::float32, DType::float32, DType::float32, DType::float32,
                            DType::float32, DType::float64, DType::int32,   DType::int64,   DType::boolean,
                            DType::uint8,   DType::int8,    DType::float16};

bool repeats(const std::vector<Param>& params) {
  return !params.empty() && (params.back().arity == Param::Arity::some || params.back().arity == Param::Arity::any);
}

// Ops over windows and channels: batch, channels, space.
bool has_space(const Signature& signature, const OpDef& op) {
  constexpr std::string_view kSpatial[] = {"GlobalMaxPool",
                                           "GlobalAveragePool",
                                           "GlobalLpPool",
                                           "BatchNormalization",
                                           "InstanceNormalization",
                                           "LRN",
                                           "GroupNormalization",
                                           "DepthToSpace",
                                           "SpaceToDepth",
                                           "Upsample",
                                           "MeanVarianceNormalization"};
  return signature.attr("kernel_shape") != nullptr ||
         std::ranges::find(kSpatial, op.identity.name) != std::end(kSpatial);
}

}  // namespace

Drawing::Drawing(Grower& grower, const OpDef& op) : g_(grower), op_(op), signature_(signature_of(op)) {
  d_.step.op = op.identity.name;
  d_.step.domain = op.identity.domain;
}

std::int64_t Drawing::size() {
  constexpr std::int64_t kSizes[] = {1, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9};
  if (g_.chance(1)) return g_.chance(40) ? 0 : g_.between(15, 17);
  return kSizes[g_.rng().below(std::size(kSizes))];
}

Dims Drawing::first_dims() {
  std::int64_t rank = g_.between(1, 4);
  if (has_space(signature_, op_)) rank = g_.chance(3) ? g_.between(1, 2) : g_.chance(65) ? 4 : g_.chance(70) ? 3 : 5;
  if (op_.identity.name == "Gemm") rank = 2;
  if (op_.identity.name == "LSTM" || op_.identity.name == "GRU" || op_.identity.name == "RNN") rank = 3;
  if (g_.chance(2)) rank = 0;
  Dims dims;
  // Square shapes hide and reveal mistakes that others do not.
  const std::int64_t square = g_.chance(30) ? size() : -1;
  for (std::int64_t i = 0; i < rank; ++i) dims.push_back(square >= 0 && (rank < 4 || i > 1) ? square : size());
  if (rank >= 4) dims[0] = g_.between(1, 2);
  if (rank >= 5) dims[1] = g_.between(1, 3);
  return dims;
}

DType Drawing::dtype_of(const ParamType& type) {
  if (!type.variable.empty() && dtypes_.contains(type.variable)) return dtypes_[type.variable];
  const bool any = type.kind == Type::Kind::unknown;
  DType chosen = DType::undefined;
  for (int i = 0; i < 8 && chosen == DType::undefined; ++i) {
    const DType usual = kUsual[g_.rng().below(std::size(kUsual))];
    if (any || type.dtypes[static_cast<std::size_t>(usual)]) chosen = usual;
  }
  for (std::size_t i = 1; chosen == DType::undefined && i < kDTypeCount; ++i) {
    if (any || type.dtypes[i]) chosen = static_cast<DType>(i);
  }
  if (!type.variable.empty()) dtypes_[type.variable] = chosen;
  return chosen;
}

// What only is computed with or moved may be any number; what says how large a result is must not be.
Tensor Drawing::draw(DType dtype, Dims dims) {
  constexpr std::string_view kAnyNumber[] = {
      "ArgMax",    "ArgMin", "TopK",          "Concat",      "Pad",
      "CumSum",    "Unique", "MatMulInteger", "ConvInteger", "DequantizeLinear",
      "Transpose", "Gather", "Resize",        "MaxPool",     "DynamicQuantizeLinear"};
  const bool any = op_.traits.elementwise || op_.traits.elements != ElementSource::computed ||
                   op_.identity.name.starts_with("Reduce") || op_.identity.name.starts_with("QLinear") ||
                   std::ranges::find(kAnyNumber, op_.identity.name) != std::end(kAnyNumber);
  const bool ends = any && !is_float(dtype) && op_.identity.name != "Pow" && g_.draws_ends();
  return ends ? g_.draw(dtype, std::move(dims), ValueClass::ends) : g_.draw(dtype, std::move(dims));
}

std::string Drawing::give(Tensor tensor, int constant_percent) {
  std::string name = g_.new_name(g_.chance(constant_percent) ? "c" : "x");
  if (name.front() == 'c') d_.constants.insert(name);
  d_.given[name] = std::move(tensor);
  return name;
}

std::string Drawing::give_ints(const std::vector<std::int64_t>& values) { return give(Tensor::vector_of(values), 85); }

std::string Drawing::give_float(Dims dims, ValueClass values) {
  return give(g_.draw(x_type_, std::move(dims), values), 70);
}

// An operand of the same kind that exists already, so that graphs are more than trees.
std::string Drawing::existing(DType dtype, const Dims& dims) {
  std::vector<std::string> fitting;
  for (const std::string& name : g_.names()) {
    const Tensor& tensor = g_.value(name);
    if (tensor.dtype() == dtype && (tensor.dims() == dims || (tensor.size() == 1 && g_.chance(10))))
      fitting.push_back(name);
  }
  return fitting.empty() ? std::string() : fitting[g_.rng().below(fitting.size())];
}

void Drawing::generic_operands() {
  const std::size_t extra = repeats(signature_.inputs) ? g_.rng().below(3) : 0;
  for (std::size_t i = 1; i < signature_.inputs.size() + extra; ++i) {
    const Param& param = *Signature::param(signature_.inputs, i);
    const bool optional = param.arity == Param::Arity::optional || param.arity == Param::Arity::any;
    if (optional && g_.chance(50)) {
      d_.step.inputs.emplace_back();
      continue;
    }
    const DType dtype = dtype_of(param.type);
    if (dtype == DType::string || param.type.kind == Type::Kind::sequence) return;
    if (const std::string old = g_.chance(35) ? existing(dtype, x_) : std::string(); !old.empty()) {
      d_.step.inputs.push_back(old);
      continue;
    }
    const bool index = dtype == DType::int64 && x_type_ != DType::int64;
    Dims dims = index && g_.chance(50) ? Dims{g_.between(0, 3)} : broadcastable(x_);
    Tensor tensor = draw(dtype, std::move(dims));
    d_.step.inputs.push_back(give(std::move(tensor), 50));
  }
  while (!d_.step.inputs.empty() && d_.step.inputs.back().empty()) d_.step.inputs.pop_back();
}

void Drawing::add_outputs() {
  std::size_t count = 0;
  for (const Param& param : signature_.outputs) {
    const bool optional = param.arity == Param::Arity::optional || param.arity == Param::Arity::any;
    if (optional && count > 0 && g_.chance(60)) break;
    ++count;
  }
  if (repeats(signature_.outputs)) count = many_outputs_;
  if (op_.identity.name == "BatchNormalization" || op_.identity.name == "Dropout") count = 1;
  d_.step.outputs.assign(std::max<std::size_t>(count, 1), "y");
}

std::optional<Drawn> Drawing::draw(const std::string& first) {
  if (signature_.inputs.empty()) {
    draw_attrs();
    add_outputs();
    return std::move(d_);
  }
  const Param& param = signature_.inputs.front();
  // A logarithm or a root as an integer has no meaning, nor a fraction of an integer product.
  floats_only_ = op_.identity.name.starts_with("ReduceLog") || op_.identity.name == "ReduceL2" ||
                 op_.identity.name == "Gemm" || (op_.identity.name == "Pad" && g_.opset() < 13);
  in_float_ = op_.identity.name == "HardSwish";  // whether its 1/6 is a float in doubles is not said
  if (param.type.kind == Type::Kind::sequence || param.type.kind == Type::Kind::optional) return std::nullopt;
  if (first.empty()) {
    x_type_ = dtype_of(param.type);
    if (x_type_ == DType::string || is_complex(x_type_)) return std::nullopt;
    if (floats_only_ && !is_float(x_type_)) return std::nullopt;
    if (in_float_ && x_type_ == DType::float64) x_type_ = DType::float32;
    if (in_float_ && !param.type.variable.empty()) dtypes_[param.type.variable] = x_type_;
    x_ = first_dims();
    d_.step.inputs.push_back(give(draw(x_type_, x_), 5));
  } else {
    const Tensor& tensor = g_.value(first);
    x_type_ = tensor.dtype();
    const bool any = param.type.kind == Type::Kind::unknown;
    if (!any && !param.type.dtypes[static_cast<std::size_t>(x_type_)]) return std::nullopt;
    if ((floats_only_ && !is_float(x_type_)) || (in_float_ && x_type_ == DType::float64)) return std::nullopt;
    if (!param.type.variable.empty()) dtypes_[param.type.variable] = x_type_;
    x_ = tensor.dims();
    d_.step.inputs.push_back(first);
  }
  draw_attrs();
  if (!special_operands()) generic_operands();
  add_outputs();
  return std::move(d_);
}

std::optional<Drawn> draw_step(Grower& grower, const OpDef& op, const std::string& first) {
  return Drawing(grower, op).draw(first);
}

}  // namespace finity::fuzz

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

// Batch, channels and mostly two axes of space.
std::int64_t image_rank(Grower& g) { return g.chance(3) ? g.between(1, 2) : g.chance(65) ? 4 : g.chance(70) ? 3 : 5; }

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
  switch (op_.drawing.first) {
    case FirstOperand::matrix: rank = 2; break;
    case FirstOperand::sequence: rank = 3; break;
    case FirstOperand::image: rank = image_rank(g_); break;
    case FirstOperand::any:
      if (signature_.attr("kernel_shape") != nullptr) rank = image_rank(g_);
      break;
  }
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
Tensor Drawing::draw_operand(DType dtype, Dims dims) {
  const Ends ends = op_.drawing.ends;
  const bool moved_or_single = op_.traits.elementwise || op_.traits.elements != ElementSource::computed;
  const bool may = ends == Ends::given || (ends == Ends::as_traits && moved_or_single);
  const bool draws = may && !is_float(dtype) && g_.draws_ends();
  return draws ? g_.draw(dtype, std::move(dims), ValueClass::ends) : g_.draw(dtype, std::move(dims));
}

void Drawing::add(Tensor tensor, int constant_percent) {
  std::string name = g_.new_name(g_.chance(constant_percent) ? "c" : "x");
  if (name.front() == 'c') d_.constants.insert(name);
  d_.given[name] = std::move(tensor);
  d_.step.inputs.push_back(std::move(name));
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

void Drawing::operands_by_signature() {
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
    add(draw_operand(dtype, std::move(dims)), 50);
  }
}

void Drawing::add_outputs() {
  std::size_t count = 0;
  for (const Param& param : signature_.outputs) {
    const bool optional = param.arity == Param::Arity::optional || param.arity == Param::Arity::any;
    if (optional && count > 0 && g_.chance(60)) break;
    ++count;
  }
  if (repeats(signature_.outputs)) count = many_outputs_;
  if (op_.drawing.results > 0) count = op_.drawing.results;
  d_.step.outputs.assign(std::max<std::size_t>(count, 1), "y");
}

bool Drawing::has_meaning(DType dtype) const {
  return op_.drawing.means == nullptr || op_.drawing.means(dtype, g_.opset());
}

// What exists already when it is named, else something new. False when the op does not take it.
bool Drawing::add_first(const Param& param, const std::string& first) {
  if (param.type.kind == Type::Kind::sequence || param.type.kind == Type::Kind::optional) return false;
  const bool any = param.type.kind == Type::Kind::unknown;
  if (first.empty()) {
    x_type_ = dtype_of(param.type);
    if (x_type_ == DType::string || is_complex(x_type_) || !has_meaning(x_type_)) return false;
    x_ = first_dims();
    add(draw_operand(x_type_, x_), 5);
    return true;
  }
  const Tensor& tensor = g_.value(first);
  x_type_ = tensor.dtype();
  if ((!any && !param.type.dtypes[static_cast<std::size_t>(x_type_)]) || !has_meaning(x_type_)) return false;
  if (!param.type.variable.empty()) dtypes_[param.type.variable] = x_type_;
  x_ = tensor.dims();
  d_.step.inputs.push_back(first);
  return true;
}

std::optional<Drawn> Drawing::drawn(const std::string& first) {
  if (!signature_.inputs.empty() && !add_first(signature_.inputs.front(), first)) return std::nullopt;
  draw_attrs();
  const bool added = op_.drawing.operands != nullptr && op_.drawing.operands(*this);
  if (!added) operands_by_signature();
  while (!d_.step.inputs.empty() && d_.step.inputs.back().empty()) d_.step.inputs.pop_back();
  add_outputs();
  return std::move(d_);
}

std::optional<Drawn> draw_step(Grower& grower, const OpDef& op, const std::string& first) {
  return Drawing(grower, op).drawn(first);
}

}  // namespace finity::fuzz

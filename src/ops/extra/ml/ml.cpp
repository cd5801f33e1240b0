// ai.onnx.ml: preparation of features. Labels and categories are in ml_labels.cpp,
// models in ml_linear.cpp, ml_svm.cpp and ml_trees.cpp.
#include <cmath>
#include <string>

#include "base/error.h"
#include "ops/extra/ml/ml_range.h"
#include "ops/extra/ml/ml_scores.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// The attribute's value for a column: it has one value for all, or one per column.
template <class T>
T of_column(const std::vector<T>& values, std::size_t element, const Dims& dims, std::string_view attr) {
  if (values.size() == 1) return values.front();
  const std::int64_t columns = dims.empty() ? 1 : dims.back();
  if (static_cast<std::int64_t>(values.size()) != columns) {
    throw Error("attribute '" + std::string(attr) + "' has " + std::to_string(values.size()) + " values for " +
                std::to_string(columns) + " columns");
  }
  return values[element % values.size()];
}

// ---- Scaler ------------------------------------------------------------------

template <class C>
Tensor scaled(const Tensor& x, const std::vector<double>& offset, const std::vector<double>& scale) {
  std::vector<C> values = elements<C>(x);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] -= static_cast<C>(of_column(offset, i, x.dims(), "offset"));
    values[i] *= static_cast<C>(of_column(scale, i, x.dims(), "scale"));
  }
  return from_elements<C>(DType::float32, x.dims(), values);
}

void eval_scaler(EvalCall& call) {
  std::vector<double> offset = call.reals("offset");
  std::vector<double> scale = call.reals("scale");
  if (offset.empty()) offset = {0.0};
  if (scale.empty()) scale = {1.0};
  const Tensor& x = call.in(0);
  call.out(0, x.dtype() == DType::float64 ? scaled<double>(x, offset, scale) : scaled<float>(x, offset, scale));
}

// ---- Imputer -----------------------------------------------------------------

template <class C>
Tensor imputed(const Tensor& x, C missing, const std::vector<C>& replacements, std::string_view attr) {
  if (replacements.empty()) throw Error("attribute '" + std::string(attr) + "' is missing");
  std::vector<C> values = elements<C>(x);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool both_nan = values[i] != values[i] && missing != missing;
    if (values[i] == missing || both_nan) values[i] = of_column(replacements, i, x.dims(), attr);
  }
  return from_elements<C>(x.dtype(), x.dims(), values);
}

void eval_imputer(EvalCall& call) {
  const Tensor& x = call.in(0);
  if (is_float(x.dtype())) {
    call.out(0, imputed<double>(x, call.real("replaced_value_float"), call.reals("imputed_value_floats"),
                                "imputed_value_floats"));
  } else {
    call.out(0, imputed<std::int64_t>(x, call.integer("replaced_value_int64"), call.integers("imputed_value_int64s"),
                                      "imputed_value_int64s"));
  }
}

// ---- Normalizer --------------------------------------------------------------

float norm_of(std::span<const float> row, const std::string& norm) {
  float result = norm == "MAX" ? -INFINITY : 0.0F;
  for (const float x : row) {
    if (norm == "MAX") result = std::fmax(result, x);
    else result += norm == "L1" ? std::fabs(x) : x * x;
  }
  return result;
}

void eval_normalizer(EvalCall& call) {
  const Tensor& x = call.in(0);
  const FeatureRows rows(x);
  const std::string norm = call.text("norm");
  std::vector<float> values = elements<float>(x);
  const auto width = static_cast<std::size_t>(rows.columns);
  for (std::size_t first = 0; first < values.size(); first += width) {
    const std::span<float> row = std::span(values).subspan(first, width);
    const float divisor = norm_of(row, norm);
    if (divisor == 0) continue;
    for (float& value : row) {
      value = norm == "L2" ? std::copysign(std::sqrt(value * value / divisor), value) : value / divisor;
    }
  }
  call.out(0, from_elements<float>(DType::float32, x.dims(), values));
}

// ---- Binarizer ---------------------------------------------------------------

void eval_binarizer(EvalCall& call) {
  const double threshold = call.real("threshold");
  std::vector<double> values = elements<double>(call.in(0));
  for (double& value : values) value = value > threshold ? 1.0 : 0.0;
  call.out(0, from_elements<double>(call.in(0).dtype(), call.in(0).dims(), values));
}

// ---- ArrayFeatureExtractor ---------------------------------------------------

void infer_array_feature_extractor(InferCall& call) {
  require_min_rank(call, 0, 1);
  if (!call.ranked(0)) return;
  Shape shape = call.shape(0);
  shape.back() = call.ranked(1) ? product(call.shape(1)) : Dim{};
  if (shape.size() == 1) shape.insert(shape.begin(), Dim::of(1));
  call.set_shape(0, std::move(shape));
}

void eval_array_feature_extractor(EvalCall& call) {
  const Tensor& x = call.in(0);
  if (x.rank() == 0) throw Error("X is a scalar");
  const std::vector<std::int64_t> indices = elements<std::int64_t>(call.in(1));
  for (const std::int64_t index : indices) {
    if (index < 0 || index >= x.dims().back()) throw Error("index " + std::to_string(index) + " is out of range");
  }
  Dims dims = x.dims();
  dims.back() = static_cast<std::int64_t>(indices.size());
  std::vector<std::int64_t> positions;
  for (std::int64_t first = 0; first < x.size(); first += x.dims().back()) {
    for (const std::int64_t index : indices) positions.push_back(first + index);
  }
  if (dims.size() == 1) dims.insert(dims.begin(), 1);
  call.out(0, gather_elements(x, std::move(dims), positions));
}

// ---- FeatureVectorizer -------------------------------------------------------

// Columns of the output that each input fills; nullopt where an input's own size is not known.
std::vector<Dim> input_widths(const Call& call, const std::vector<Dim>& own) {
  const std::vector<std::int64_t> given = call.integers("inputdimensions");
  if (given.empty()) return own;
  if (given.size() != own.size()) throw Error("attribute 'inputdimensions' does not fit the number of inputs");
  std::vector<Dim> widths;
  for (const std::int64_t width : given) {
    if (width < 0) throw Error("attribute 'inputdimensions' holds " + std::to_string(width));
    widths.push_back(Dim::of(width));
  }
  return widths;
}

Dim total(const std::vector<Dim>& widths) {
  std::int64_t sum = 0;
  for (const Dim& width : widths) {
    if (!width.known()) return {};
    if (__builtin_add_overflow(sum, width.size, &sum)) throw Error("too many columns");
  }
  return Dim::of(sum);
}

void infer_feature_vectorizer(InferCall& call) {
  std::vector<Dim> own;
  Dim rows = row_count(call);
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    own.push_back(call.ranked(i) && call.rank(i) > 0 ? call.shape(i).back() : Dim{});
  }
  call.set_shape(0, {rows, total(input_widths(call, own))});
}

void eval_feature_vectorizer(EvalCall& call) {
  std::vector<FeatureRows> inputs;
  std::vector<Dim> own;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    inputs.emplace_back(call.in(i));
    own.push_back(Dim::of(inputs.back().columns));
    if (inputs.back().rows != inputs.front().rows) throw Error("the inputs differ in their number of rows");
  }
  const std::vector<Dim> widths = input_widths(call, own);
  const Tensor shape(DType::float32, {inputs.front().rows, total(widths).size});
  std::vector<double> values;
  values.reserve(static_cast<std::size_t>(shape.size()));
  for (std::int64_t r = 0; r < inputs.front().rows; ++r) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const std::span<const double> row = inputs[i].row(r);
      for (std::size_t c = 0; c < static_cast<std::size_t>(widths[i].size); ++c) {
        values.push_back(c < row.size() ? row[c] : 0.0);
      }
    }
  }
  call.out(0, from_elements<double>(DType::float32, shape.dims(), values));
}

constexpr std::string_view kToFloat = "(X: float32|float64|int32|int64) -> (Y: float32)";
constexpr std::string_view kSameNumber = "(X: T) -> (Y: T) where T: float32|float64|int32|int64";

const OpDef kOps[] = {
    {.identity = {.name = "Scaler",
                  .domain = kMlDomain,
                  .summary = "(x - offset) * scale, per column or for all",
                  .signature = kToFloat,
                  .attrs = "offset: floats; scale: floats"},
     .meaning = {.infer = infer_same_shape,
                 .eval = eval_scaler,
                 .freedom = "in float32 step by step, in double for float64"},
     .analysis = {.range = range_scaler}},
    {.identity = {.name = "Imputer",
                  .domain = kMlDomain,
                  .summary = "replaces one value, often NaN, by another",
                  .signature = kSameNumber,
                  .attrs = "imputed_value_floats: floats; imputed_value_int64s: ints; replaced_value_float: float = 0; "
                           "replaced_value_int64: int = 0"},
     .meaning = {.infer = infer_same_shape, .eval = eval_imputer},
     .analysis = {.range = range_imputer}},
    {.identity = {.name = "Normalizer",
                  .domain = kMlDomain,
                  .summary = "each row divided by its largest element or its norm",
                  .signature = kToFloat,
                  .attrs = "norm: string = MAX {MAX, L1, L2}"},
     .meaning = {.infer = infer_same_shape,
                 .eval = eval_normalizer,
                 .freedom = "L1 sums absolute values, L2 keeps signs, as in the runtimes; sums in order in float32"},
     .analysis = {.range = range_normalizer}},
    {.identity = {.name = "Binarizer",
                  .domain = kMlDomain,
                  .summary = "1 where the element is greater than the threshold, else 0",
                  .signature = kSameNumber,
                  .attrs = "threshold: float = 0"},
     .meaning = {.infer = infer_same_shape, .eval = eval_binarizer},
     .analysis = {.range = range_bool}},
    {.identity = {.name = "ArrayFeatureExtractor",
                  .domain = kMlDomain,
                  .summary = "selects columns",
                  .signature = "(X: T, Y: int64) -> (Z: T) where T: float32|float64|int32|int64|string"},
     .meaning = {.infer = infer_array_feature_extractor,
                 .eval = eval_array_feature_extractor,
                 .freedom = "a vector gives a matrix of one row, as in the runtimes"},
     .analysis = {.range = range_shuffled}},
    {.identity = {.name = "FeatureVectorizer",
                  .domain = kMlDomain,
                  .summary = "columns of several inputs side by side",
                  .signature = "(X...: T) -> (Y: float32) where T: float32|float64|int32|int64",
                  .attrs = "inputdimensions: ints"},
     .meaning = {.infer = infer_feature_vectorizer, .eval = eval_feature_vectorizer},
     .analysis = {.range = range_feature_vectorizer}},
};

}  // namespace

std::span<const OpDef> ml_ops() { return kOps; }

}  // namespace finity

// ai.onnx.ml: labels and categories. Each op looks its elements up in a list of
// keys and puts what belongs to the key in their place.
#include <bit>
#include <string>
#include <unordered_map>

#include "base/error.h"
#include "ops/extra/ml/ml_range.h"
#include "ops/extra/ml/ml_scores.h"
#include "ops/shared/pieces.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// Numbers as bits under which equal ones are equal: every NaN alike, and -0 like 0.
std::vector<std::uint64_t> comparable(const Tensor& tensor) {
  std::vector<std::uint64_t> result;
  if (is_float(tensor.dtype())) {
    for (const double x : elements<double>(tensor)) {
      result.push_back(x != x ? ~std::uint64_t{0} : std::bit_cast<std::uint64_t>(x + 0.0));
    }
  } else {
    for (const std::int64_t x : elements<std::int64_t>(tensor)) result.push_back(static_cast<std::uint64_t>(x));
  }
  return result;
}

// The position in `keys` of each element, -1 where it is not there; of equal keys the last counts.
template <class Key>
std::vector<std::int64_t> look_up(std::span<const Key> keys, std::span<const Key> wanted) {
  std::unordered_map<Key, std::int64_t> places;
  for (std::size_t i = 0; i < keys.size(); ++i) places[keys[i]] = static_cast<std::int64_t>(i);
  std::vector<std::int64_t> result;
  for (const Key& key : wanted) {
    const auto found = places.find(key);
    result.push_back(found == places.end() ? -1 : found->second);
  }
  return result;
}

std::vector<std::int64_t> positions_in(const Tensor& keys, const Tensor& wanted) {
  if ((keys.dtype() == DType::string) != (wanted.dtype() == DType::string) ||
      is_float(keys.dtype()) != is_float(wanted.dtype())) {
    throw Error("X is " + std::string(name(wanted.dtype())) + ", the keys are " + std::string(name(keys.dtype())));
  }
  if (keys.dtype() == DType::string) return look_up<std::string>(keys.strings(), wanted.strings());
  return look_up<std::uint64_t>(comparable(keys), comparable(wanted));
}

Tensor string_vector(std::vector<std::string> values) {
  const auto count = static_cast<std::int64_t>(values.size());
  return Tensor::of_strings({count}, std::move(values));
}

Tensor float_vector(const std::vector<double>& values) {
  return from_elements<double>(DType::float32, {static_cast<std::int64_t>(values.size())}, values);
}

// ---- LabelEncoder, CategoryMapper --------------------------------------------

struct Mapping {
  Tensor keys;
  Tensor values;
  Tensor fallback;  // one element
};

Tensor index_vector(std::size_t count) {
  std::vector<std::int64_t> indices(count);
  for (std::size_t i = 0; i < count; ++i) indices[i] = static_cast<std::int64_t>(i);
  return Tensor::vector_of(indices);
}

// Between strings and integers, in the direction the input asks for.
Mapping between(const Call& call, const Tensor& strings, const Tensor& ints, bool from_strings) {
  if (from_strings) {
    return {strings, ints, Tensor::vector_of(std::vector<std::int64_t>{call.integer("default_int64")})};
  }
  return {ints, strings, string_vector({call.text("default_string")})};
}

// keys_* or values_*: whichever of the four is there.
Tensor list_attr(const Call& call, const std::string& prefix) {
  if (const ConstantPtr tensor = call.constant(prefix + "tensor")) return tensor->load();
  if (call.has_attr(prefix + "strings")) return string_vector(call.texts(prefix + "strings"));
  if (call.has_attr(prefix + "int64s")) return Tensor::vector_of(call.integers(prefix + "int64s"));
  if (call.has_attr(prefix + "floats")) return float_vector(call.reals(prefix + "floats"));
  throw Error("has none of the attributes '" + prefix + "*'");
}

Tensor fallback_for(const Call& call, DType dtype) {
  if (const ConstantPtr tensor = call.constant("default_tensor")) {
    if (tensor->dtype() != dtype || element_count(tensor->dims()) != 1)
      throw Error("default_tensor does not fit the values");
    return tensor->load().reshaped({1});
  }
  if (dtype == DType::string) return string_vector({call.text("default_string")});
  if (is_float(dtype)) return from_elements<double>(dtype, {1}, std::vector<double>{call.real("default_float", -0.0)});
  return from_elements<std::int64_t>(dtype, {1}, std::vector<std::int64_t>{call.integer("default_int64")});
}

Mapping label_mapping(const Call& call, DType input) {
  if (call.version() < 2) {
    const Tensor strings = string_vector(call.texts("classes_strings"));
    return between(call, strings, index_vector(static_cast<std::size_t>(strings.size())), input == DType::string);
  }
  Mapping mapping{list_attr(call, "keys_"), list_attr(call, "values_"), {}};
  mapping.fallback = fallback_for(call, mapping.values.dtype());
  return mapping;
}

Mapping category_mapping(const Call& call, DType input) {
  return between(call, string_vector(call.texts("cats_strings")), Tensor::vector_of(call.integers("cats_int64s")),
                 input == DType::string);
}

template <Mapping (*MappingOf)(const Call&, DType)>
void infer_mapped(InferCall& call) {
  if (call.in(0).dtype != DType::undefined) call.set_dtype(0, MappingOf(call, call.in(0).dtype).values.dtype());
  infer_same_shape(call);
}

template <Mapping (*MappingOf)(const Call&, DType)>
void eval_mapped(EvalCall& call) {
  const Tensor& x = call.in(0);
  const Mapping mapping = MappingOf(call, x.dtype());
  if (mapping.keys.size() != mapping.values.size()) {
    throw Error("there are " + std::to_string(mapping.keys.size()) + " keys and " +
                std::to_string(mapping.values.size()) + " values");
  }
  std::vector<std::int64_t> positions = positions_in(mapping.keys, x);
  for (std::int64_t& position : positions) {
    if (position < 0) position = mapping.values.size();
  }
  const Tensor both[] = {mapping.values.reshaped({mapping.values.size()}), mapping.fallback};
  call.out(0, gather_elements(concatenated(both, 0), x.dims(), positions));
}

template <Mapping (*MappingOf)(const Call&, DType)>
void range_mapped(RangeCall& call) {
  const Mapping mapping = MappingOf(call, call.in_dtype(0));
  call.out(0, join(range_of_labels(mapping.values), range_of_labels(mapping.fallback)));
}

// ---- OneHotEncoder -----------------------------------------------------------

// A file may give both lists.
std::int64_t category_count(const Call& call, DType dtype) {
  const std::size_t count =
      dtype == DType::string ? call.texts("cats_strings").size() : call.integers("cats_int64s").size();
  return static_cast<std::int64_t>(count);
}

void infer_one_hot_encoder(InferCall& call) {
  if (!call.ranked(0)) return;
  Shape shape = call.shape(0);
  const DType dtype = call.in(0).dtype;
  shape.push_back(dtype == DType::undefined ? Dim{} : Dim::of(category_count(call, dtype)));
  call.set_shape(0, std::move(shape));
}

void eval_one_hot_encoder(EvalCall& call) {
  const Tensor& x = call.in(0);
  std::vector<std::int64_t> positions;
  if (x.dtype() == DType::string) {
    positions = look_up<std::string>(call.texts("cats_strings"), x.strings());
  } else {
    positions = look_up<std::int64_t>(call.integers("cats_int64s"), elements<std::int64_t>(x));
  }
  const std::int64_t categories = category_count(call, x.dtype());
  Dims dims = x.dims();
  dims.push_back(categories);
  Tensor result(DType::float32, std::move(dims));
  const std::span<float> cells = result.mutable_data<float>();
  for (std::size_t i = 0; i < positions.size(); ++i) {
    if (positions[i] >= 0)
      cells[i * static_cast<std::size_t>(categories) + static_cast<std::size_t>(positions[i])] = 1.0F;
    else if (call.integer("zeros") == 0) throw Error("element " + std::to_string(i) + " is of an unknown category");
  }
  call.out(0, std::move(result));
}

// ---- ZipMap, DictVectorizer ----------------------------------------------------

bool has_string_labels(const Call& call, std::string_view strings) { return !call.texts(strings).empty(); }

void infer_zip_map(InferCall& call) {
  Type map;
  map.kind = Type::Kind::map;
  map.dtype = has_string_labels(call, "classlabels_strings") ? DType::string : DType::int64;
  map.element = std::make_shared<const Type>(Type::tensor(DType::float32, {}));
  call.set_type(0, Type::sequence(std::move(map)));
}

void eval_zip_map(EvalCall& call) {
  const Tensor& x = call.in(0);
  if (x.rank() < 1 || x.rank() > 2) throw Error("input X has rank " + std::to_string(x.rank()) + ", expected 1 or 2");
  const std::int64_t columns = x.dims().back();
  const std::size_t labels = has_string_labels(call, "classlabels_strings")
                                 ? call.texts("classlabels_strings").size()
                                 : call.integers("classlabels_int64s").size();
  if (static_cast<std::size_t>(columns) != labels) {
    throw Error("X has " + std::to_string(columns) + " columns for " + std::to_string(labels) + " labels");
  }
  const std::vector<double> values = elements<double>(x);
  Sequence rows;
  for (std::size_t at = 0; at < values.size() && columns > 0; at += labels) {
    const std::span<const double> row(values.data() + at, labels);
    rows.emplace_back(from_elements<double>(x.dtype(), {columns}, std::vector<double>(row.begin(), row.end())));
  }
  call.out(0, Datum::sequence(std::move(rows)));
}

void range_zip_map(RangeCall& call) {
  AbsTensor values;
  values.dtype = call.in_dtype(0);
  values.cells = {call.hull(0)};
  call.out(0, std::move(values));
}

void infer_dict_vectorizer(InferCall& call) {
  const bool strings = has_string_labels(call, "string_vocabulary");
  const std::size_t words = strings ? call.texts("string_vocabulary").size() : call.integers("int64_vocabulary").size();
  call.set_shape(0, {Dim::of(1), Dim::of(static_cast<std::int64_t>(words))});
  // The numbers are what the map holds.
  const Type& map = call.in(0);
  if (map.kind == Type::Kind::map && map.element) call.set_dtype(0, map.element->dtype);
}

// A word of the vocabulary that the map does not have is 0.
void range_dict_vectorizer(RangeCall& call) {
  const bool numbers = is_float(call.out_dtype(0)) || is_int(call.out_dtype(0));
  if (numbers && call.in_dtype(0) == call.out_dtype(0)) call.out(0, join(call.hull(0), point(0)));
  else call.top(0);
}

const OpDef kOps[] = {
    {.identity = {.name = "ZipMap",
                  .domain = kMlDomain,
                  .summary = "each row as a map from the labels to its elements",
                  .signature = "(X: float32) -> (Z: value)",
                  .attrs = "classlabels_int64s: ints; classlabels_strings: strings"},
     .meaning = {.infer = infer_zip_map,
                 .eval = eval_zip_map,
                 .freedom = "a map is given by its values, in the order of the labels"},
     .analysis = {.range = range_zip_map}},
    {.identity = {.name = "DictVectorizer",
                  .domain = kMlDomain,
                  .summary = "what a map holds for each word of a vocabulary, else 0",
                  .signature = "(X: value) -> (Y: T) where T: string|int64|float32|float64",
                  .attrs = "int64_vocabulary: ints; string_vocabulary: strings"},
     .meaning = {.infer = infer_dict_vectorizer},
     .analysis = {.range = range_dict_vectorizer}},
    {.identity =
         {.name = "LabelEncoder",
          .domain = kMlDomain,
          .summary = "replaces each key by its value",
          .signature = "(X: T1) -> (Y: T2) where T1: string|int64|int32|int16|float32|float64, "
                       "T2: string|int64|int32|int16|float32|float64",
          .attrs = "classes_strings: strings; default_float: float; default_int64: int = -1; "
                   "default_string: string = _Unused; default_tensor: tensor; keys_floats: floats; keys_int64s: ints; "
                   "keys_strings: strings; keys_tensor: tensor; values_floats: floats; values_int64s: ints; "
                   "values_strings: strings; values_tensor: tensor"},
     .meaning = {.infer = infer_mapped<label_mapping>, .eval = eval_mapped<label_mapping>},
     .analysis = {.range = range_mapped<label_mapping>}},
    {.identity =
         {.name = "CategoryMapper",
          .domain = kMlDomain,
          .summary = "strings to integers or back, by a list of pairs",
          .signature = "(X: T1) -> (Y: T2) where T1: string|int64, T2: string|int64",
          .attrs =
              "cats_int64s: ints; cats_strings: strings; default_int64: int = -1; default_string: string = _Unused"},
     .meaning = {.infer = infer_mapped<category_mapping>, .eval = eval_mapped<category_mapping>},
     .analysis = {.range = range_mapped<category_mapping>}},
    {.identity = {.name = "OneHotEncoder",
                  .domain = kMlDomain,
                  .summary = "each element as a row that is 1 at its category and 0 elsewhere",
                  .signature = "(X: string|int64|int32|float32|float64) -> (Y: float32)",
                  .attrs = "cats_int64s: ints; cats_strings: strings; zeros: int = 1",
                  .tf = "OneHot"},
     .meaning = {.infer = infer_one_hot_encoder, .eval = eval_one_hot_encoder},
     .analysis = {.range = range_one_hot_encoder}},
};

}  // namespace

std::span<const OpDef> ml_label_ops() { return kOps; }

}  // namespace finity

#include "formats/tensorflow/schema.h"

#include <iterator>
#include <string>

namespace finity::tensorflow {

namespace {

using K = FieldKind;

extern const MessageDef kAttrValue;

constexpr FieldDef kDimFields[] = {{"size", 1, K::integer}, {"name", 2}};
const MessageDef kDim{kDimFields};
const FieldDef kShapeFields[] = {{"dim", 2, K::message, &kDim, true}, {"unknown_rank", 3, K::boolean}};
const MessageDef kShape{kShapeFields};

const FieldDef kTensorFields[] = {{"dtype", 1, K::type},
                                  {"tensor_shape", 2, K::message, &kShape},
                                  {.name = "tensor_content", .number = 4, .plain_bytes = true},
                                  {"half_val", 13, K::integer, nullptr, true},
                                  {"float_val", 5, K::real32, nullptr, true},
                                  {"double_val", 6, K::real64, nullptr, true},
                                  {"int_val", 7, K::integer, nullptr, true},
                                  {.name = "string_val", .number = 8, .repeated = true, .plain_bytes = true},
                                  {"scomplex_val", 9, K::real32, nullptr, true},
                                  {"int64_val", 10, K::integer, nullptr, true},
                                  {"bool_val", 11, K::boolean, nullptr, true},
                                  {"dcomplex_val", 12, K::real64, nullptr, true},
                                  {"uint32_val", 16, K::integer, nullptr, true},
                                  {"uint64_val", 17, K::integer, nullptr, true}};
const MessageDef kTensor{kTensorFields};

const FieldDef kAttrEntryFields[] = {{"key", 1}, {"value", 2, K::message, &kAttrValue}};
const MessageDef kAttrEntry{kAttrEntryFields};
const FieldDef kFunctionNameFields[] = {{"name", 1}, {"attr", 2, K::map, &kAttrEntry, true}};
const MessageDef kFunctionName{kFunctionNameFields};

const FieldDef kListFields[] = {{.name = "s", .number = 2, .repeated = true, .plain_bytes = true},
                                {"i", 3, K::integer, nullptr, true},
                                {"f", 4, K::real32, nullptr, true},
                                {"b", 5, K::boolean, nullptr, true},
                                {"type", 6, K::type, nullptr, true},
                                {"shape", 7, K::message, &kShape, true},
                                {"tensor", 8, K::message, &kTensor, true},
                                {"func", 9, K::message, &kFunctionName, true}};
const MessageDef kList{kListFields};

const FieldDef kAttrValueFields[] = {{.name = "s", .number = 2, .plain_bytes = true},
                                     {"i", 3, K::integer},
                                     {"f", 4, K::real32},
                                     {"b", 5, K::boolean},
                                     {"type", 6, K::type},
                                     {"shape", 7, K::message, &kShape},
                                     {"tensor", 8, K::message, &kTensor},
                                     {"list", 1, K::message, &kList},
                                     {"func", 10, K::message, &kFunctionName},
                                     {"placeholder", 9}};
const MessageDef kAttrValue{kAttrValueFields};

const FieldDef kNodeFields[] = {{"name", 1},
                                {"op", 2},
                                {"input", 3, K::text, nullptr, true},
                                {"device", 4},
                                {"attr", 5, K::map, &kAttrEntry, true}};
const MessageDef kNode{kNodeFields};

constexpr FieldDef kArgFields[] = {
    {"name", 1},        {"description", 2},    {"type", 3, K::type},      {"type_attr", 4},
    {"number_attr", 5}, {"type_list_attr", 6}, {"is_ref", 16, K::boolean}};
const MessageDef kArg{kArgFields};
const FieldDef kOpFields[] = {{"name", 1},
                              {"input_arg", 2, K::message, &kArg, true},
                              {"output_arg", 3, K::message, &kArg, true},
                              {"control_output", 20, K::text, nullptr, true}};
const MessageDef kOp{kOpFields};
constexpr FieldDef kTextEntryFields[] = {{"key", 1}, {"value", 2}};
const MessageDef kTextEntry{kTextEntryFields};
const FieldDef kFunctionFields[] = {{"signature", 1, K::message, &kOp},
                                    {"attr", 5, K::map, &kAttrEntry, true},
                                    {"node_def", 3, K::message, &kNode, true},
                                    {"ret", 4, K::map, &kTextEntry, true}};
const MessageDef kFunction{kFunctionFields};
const FieldDef kLibraryFields[] = {{"function", 1, K::message, &kFunction, true}};
const MessageDef kLibrary{kLibraryFields};
constexpr FieldDef kVersionFields[] = {{"producer", 1, K::integer}, {"min_consumer", 2, K::integer}};
const MessageDef kVersions{kVersionFields};

const FieldDef kGraphFields[] = {{"node", 1, K::message, &kNode, true},
                                 {"versions", 4, K::message, &kVersions},
                                 {"version", 3, K::integer},
                                 {"library", 2, K::message, &kLibrary}};

const FieldDef kOpListFields[] = {{"op", 1, K::message, &kOp, true}};
const MessageDef kOpList{kOpListFields};
const FieldDef kMetaInfoFields[] = {{"meta_graph_version", 1},
                                    {"stripped_op_list", 2, K::message, &kOpList},
                                    {"tags", 4, K::text, nullptr, true},
                                    {"tensorflow_version", 5}};
const MessageDef kMetaInfo{kMetaInfoFields};
const FieldDef kTensorInfoFields[] = {{"name", 1}, {"dtype", 2, K::type}, {"tensor_shape", 3, K::message, &kShape}};
const MessageDef kTensorInfo{kTensorInfoFields};
const FieldDef kTensorInfoEntryFields[] = {{"key", 1}, {"value", 2, K::message, &kTensorInfo}};
const MessageDef kTensorInfoEntry{kTensorInfoEntryFields};
const FieldDef kSignatureFields[] = {{"inputs", 1, K::map, &kTensorInfoEntry, true},
                                     {"outputs", 2, K::map, &kTensorInfoEntry, true},
                                     {"method_name", 3}};
const MessageDef kSignature{kSignatureFields};
const FieldDef kSignatureEntryFields[] = {{"key", 1}, {"value", 2, K::message, &kSignature}};
const MessageDef kSignatureEntry{kSignatureEntryFields};

const FieldDef kMetaGraphFields[] = {{"meta_info_def", 1, K::message, &kMetaInfo},
                                     {"graph_def", 2, K::message, &kGraphDef},
                                     {"signature_def", 5, K::map, &kSignatureEntry, true}};
const FieldDef kSavedModelFields[] = {{"saved_model_schema_version", 1, K::integer},
                                      {"meta_graphs", 2, K::message, &kMetaGraphDef, true}};

// "tensorShape" is "tensor_shape".
bool same_name(std::string_view field, std::string_view spelled) {
  if (field == spelled) return true;
  std::size_t at = 0;
  for (std::size_t i = 0; i < field.size(); ++i, ++at) {
    if (at >= spelled.size()) return false;
    if (field[i] == '_' && i + 1 < field.size()) {
      ++i;
      const char upper = field[i] >= 'a' && field[i] <= 'z' ? static_cast<char>(field[i] - 'a' + 'A') : field[i];
      if (spelled[at] != upper) return false;
    } else if (spelled[at] != field[i]) {
      return false;
    }
  }
  return at == spelled.size();
}

}  // namespace

const MessageDef kGraphDef{kGraphFields};
const MessageDef kMetaGraphDef{kMetaGraphFields};
const MessageDef kSavedModel{kSavedModelFields};

const FieldDef* MessageDef::find(std::string_view name) const {
  for (const FieldDef& field : fields) {
    if (field.name == name) return &field;
  }
  for (const FieldDef& field : fields) {
    if (same_name(field.name, name)) return &field;
  }
  return nullptr;
}

std::int64_t type_code(std::string_view name) {
  constexpr std::string_view kNames[] = {
      "INVALID",    "FLOAT", "DOUBLE",   "INT32",   "UINT8",  "INT16",    "INT8",        "STRING",       "COMPLEX64",
      "INT64",      "BOOL",  "QINT8",    "QUINT8",  "QINT32", "BFLOAT16", "QINT16",      "QUINT16",      "UINT16",
      "COMPLEX128", "HALF",  "RESOURCE", "VARIANT", "UINT32", "UINT64",   "FLOAT8_E5M2", "FLOAT8_E4M3FN"};
  if (!name.starts_with("DT_")) return 0;
  name.remove_prefix(3);
  const bool reference = name.ends_with("_REF");
  if (reference) name.remove_suffix(4);
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (kNames[i] == name) return static_cast<std::int64_t>(i) + (reference ? 100 : 0);
  }
  return 0;
}

}  // namespace finity::tensorflow

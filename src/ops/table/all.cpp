// The explicit list of families: no static registration, so a static library
// cannot lose an op and the order is the same everywhere.
#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "ops/table/composite.h"
#include "ops/table/families.h"
#include "ops/table/op.h"

namespace finity {

namespace {

// clang-format off: one family per line
constexpr std::span<const OpDef> (*kFamilies[])() = {
    unary_ops,
    special_ops,
    gradient_ops,
    window_gradient_ops,
    activation_ops,
    binary_ops,
    division_ops,
    compare_ops,
    cast_ops,
    variadic_ops,
    reduce_ops,
    axis_ops,
    softmax_ops,
    loss_ops,
    norm_ops,
    channel_norm_ops,
    dropout_ops,
    linear_ops,
    einsum_ops,
    quantize_ops,
    quantized_linear_ops,
    qlinear_ops,
    conv_ops,
    deform_conv_ops,
    conv_transpose_ops,
    pool_ops,
    roi_ops,
    layout_ops,
    concat_ops,
    slice_ops,
    pad_ops,
    rearrange_ops,
    select_ops,
    index_ops,
    scatter_ops,
    stitch_ops,
    shape_ops,
    constant_ops,
    resize_ops,
    grid_ops,
    recurrent_ops,
    attention_ops,
    microsoft_ops,
    microsoft_norm_ops,
    microsoft_linear_ops,
    microsoft_block_ops,
    microsoft_attention_ops,
    microsoft_cache_ops,
    microsoft_recurrent_ops,
    microsoft_search_ops,
    flow_ops,
    scan_ops,
    sequence_ops,
    array_ops,
    string_ops,
    tfidf_ops,
    signal_ops,
    random_ops,
    detection_ops,
    training_ops,
    ml_ops,
    ml_label_ops,
    ml_linear_ops,
    ml_svm_ops,
    ml_tree_ops,
    legacy_ops,
};
// clang-format on

std::string key(std::string_view domain, std::string_view name) {
  if (domain == "ai.onnx") domain = "";
  return std::string(domain) + ":" + std::string(name);
}

// What a body says of an op that says nothing else.
OpDef completed(OpDef op) {
  if (op.meaning.infer == nullptr) op.meaning.infer = infer_body;
  if (op.meaning.eval == nullptr) op.meaning.eval = eval_body;
  if (op.analysis.range == nullptr) op.analysis.range = range_body;
  const Signature signature = parse_signature(op.identity.signature, op.identity.attrs);
  const auto is_real = [](const Param& output) { return output.type.dtypes[static_cast<std::size_t>(DType::float32)]; };
  if (op.analysis.vjp == nullptr && std::ranges::any_of(signature.outputs, is_real)) op.analysis.vjp = body_gradient;
  return op;
}

struct Table {
  std::vector<const OpDef*> ops;
  std::unordered_map<std::string, const OpDef*> by_key;

  Table() {
    for (const auto family : kFamilies) {
      for (const OpDef& literal : family()) {
        const OpDef* op = &literal;
        if (literal.meaning.body != nullptr) op = &composites_.emplace_back(completed(literal));
        ops.push_back(op);
        by_key.emplace(key(op->identity.domain, op->identity.name), op);
      }
    }
  }

 private:
  std::deque<OpDef> composites_;
};

const Table& table() {
  static const Table kTable;
  return kTable;
}

}  // namespace

std::span<const OpDef* const> all_ops() { return table().ops; }

const OpDef* find_op(std::string_view domain, std::string_view name) {
  const auto found = table().by_key.find(key(domain, name));
  return found == table().by_key.end() ? nullptr : found->second;
}

NotFinite not_finite_of(const OpDef& op) {
  if (op.meaning.not_finite != NotFinite::by_kind) return op.meaning.not_finite;
  switch (op.traits.elements) {
    case ElementSource::moved:
    case ElementSource::converted:
    case ElementSource::joined:
    case ElementSource::chosen: return NotFinite::said;
    default: return op.traits.elementwise ? NotFinite::said : NotFinite::open;
  }
}

const Signature& signature_of(const OpDef& op) {
  static std::mutex guard;
  static std::unordered_map<const OpDef*, std::unique_ptr<const Signature>> parsed;
  const std::lock_guard lock(guard);
  std::unique_ptr<const Signature>& entry = parsed[&op];
  if (!entry) {
    try {
      entry = std::make_unique<const Signature>(parse_signature(op.identity.signature, op.identity.attrs));
    } catch (Error& error) {
      error.in("op table entry " + std::string(op.identity.name));
      throw;
    }
  }
  return *entry;
}

}  // namespace finity

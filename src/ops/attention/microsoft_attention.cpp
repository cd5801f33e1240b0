// ONNX Runtime's attention with merged projection weights (Attention) and with
// separate or packed queries, keys and values (MultiHeadAttention).
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "ops/attention/attention_range.h"
#include "ops/attention/heads.h"
#include "ops/attention/microsoft_attention_gradient.h"
#include "ops/attention/score_mask.h"
#include "ops/linear/dot.h"
#include "ops/linear/matmul.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr std::string_view kMicrosoft = "com.microsoft";

Dim sum(const Dim& a, const Dim& b) { return a.known() && b.known() ? Dim::of(a.size + b.size) : Dim{}; }
Dim quotient(const Dim& a, std::int64_t b) { return a.known() && b > 0 ? Dim::of(a.size / b) : Dim{}; }

template <class A>
struct Operands {
  Heads<A> query, key, value;
};

// Columns [first, first + heads * size) of rows [batch * length, width] as heads.
template <class A>
Heads<A> columns_as_heads(const std::vector<A>& rows, std::int64_t width, std::int64_t first, Heads<A> form) {
  form.values.resize(static_cast<std::size_t>(form.batch * form.heads * form.length * form.size));
  for (std::int64_t b = 0; b < form.batch; ++b) {
    for (std::int64_t h = 0; h < form.heads; ++h) {
      for (std::int64_t i = 0; i < form.length; ++i) {
        const auto from = rows.begin() + ((b * form.length + i) * width + first + h * form.size);
        std::copy_n(from, form.size, form.values.begin() + static_cast<std::ptrdiff_t>(form.row(b, h, i)));
      }
    }
  }
  return form;
}

// What the two ops share once the heads are there. Masked keys get a large negative score, not -inf: a query whose
// keys are all masked by the padding still gives a mean of the values.
template <class A>
class Attending {
 public:
  Attending(EvalCall& call, std::size_t mask, std::size_t bias) : call_(call), mask_input_(mask), bias_input_(bias) {}

  // `past` keys come before those of this call.
  Attended<A> run(const Operands<A>& in, std::int64_t past, int keep) {
    check_heads(in.query, in.key, in.value);
    const ScoreDims dims{in.query.batch, in.query.heads, in.query.length, in.key.length};
    if (call_.has_input(mask_input_)) mask_.emplace(call_.in(mask_input_), dims, "the mask");
    if (call_.has_input(bias_input_)) bias_.emplace(call_.in(bias_input_), dims, "attention_bias");
    const double filter = call_.real("mask_filter_value");
    const bool causal = call_.integer("unidirectional") != 0;
    AttentionRule rule;
    rule.scale = call_.real("scale");
    if (rule.scale == 0) rule.scale = 1.0 / std::sqrt(static_cast<double>(in.query.size));
    rule.scale_roots = false;
    rule.keep = keep;
    rule.bias = [&, filter, causal, past](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
      double result = mask_ && mask_->hides(b, i, j) ? filter : 0.0;
      if (causal && j > past + i) result = std::numeric_limits<float>::lowest();
      return bias_ ? result + bias_->at(b, h, i, j) : result;
    };
    return attend(in.query, in.key, in.value, rule);
  }

 private:
  EvalCall& call_;
  std::size_t mask_input_, bias_input_;
  std::optional<PaddingMask> mask_;
  std::optional<ScoreBias> bias_;
};

constexpr std::string_view kWideArithmetic =
    "all arithmetic in float32 (float64 for float64), rounded once; masked scores are lowered, not excluded";

// ---- Attention ---------------------------------------------------------------------

// Widths of the projected queries (and keys) and values, from the attribute or the weights.
struct ProjectedWidths {
  Dim key, value;
};
ProjectedWidths projected_widths(const Call& call, const Dim& columns) {
  const std::vector<std::int64_t> given = call.integers("qkv_hidden_sizes");
  if (given.empty()) return {quotient(columns, 3), quotient(columns, 3)};
  if (given.size() != 3 || given[0] != given[1]) throw Error("attribute 'qkv_hidden_sizes' is not of the form q, q, v");
  constexpr std::int64_t kMost = std::int64_t{1} << 40;  // sums of a few stay far from overflow
  if (given[0] <= 0 || given[2] <= 0 || std::max(given[0], given[2]) > kMost) {
    throw Error("attribute 'qkv_hidden_sizes' has sizes that are not possible");
  }
  return {Dim::of(given[0]), Dim::of(given[2])};
}

void infer_attention(InferCall& call) {
  require_rank(call, 0, 3);
  require_rank(call, 1, 2);
  if (!call.ranked(0)) return;
  const Dim columns = call.ranked(1) ? call.shape(1)[1] : Dim{};
  const ProjectedWidths widths = projected_widths(call, columns);
  const Dim &batch = call.shape(0)[0], &length = call.shape(0)[1];
  const std::int64_t heads = call.integer("num_heads");
  call.set_shape(0, {batch, length, widths.value});
  Dim total = length;
  if (call.has_input(4)) total = call.ranked(4) && call.rank(4) == 5 ? sum(call.shape(4)[3], length) : Dim{};
  call.set_shape(1, {Dim::of(2), batch, Dim::of(heads), total, quotient(widths.key, heads)});
}

// input * weights + bias, split into heads.
template <class A>
Operands<A> project(const EvalCall& call) {
  const Tensor& input = call.in(0);
  const Tensor& weights = call.in(1);
  require_rank(input, "input", 3);
  require_rank(weights, "weights", 2);
  const std::int64_t batch = input.dim(0), length = input.dim(1), width = weights.dim(1);
  const std::int64_t heads = call.integer("num_heads");
  const ProjectedWidths widths = projected_widths(call, Dim::of(width));
  const bool split = heads > 0 && widths.key.size % heads == 0 && widths.value.size % heads == 0;
  if (input.dim(2) != weights.dim(0) || 2 * widths.key.size + widths.value.size != width || !split) {
    throw Error("input " + to_string(input.dims()) + ", weights " + to_string(weights.dims()) + " and " +
                std::to_string(heads) + " heads do not fit together");
  }
  std::vector<A> rows(result_count(Dims{batch, length, width}));
  if (call.has_input(2)) {
    const std::vector<A> bias = elements<A>(call.in(2));
    if (call.in(2).dims() != Dims{width}) throw Error("bias has shape " + to_string(call.in(2).dims()));
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = bias[i % bias.size()];
  }
  const std::vector<A> left = elements<A>(input), right = elements<A>(weights);
  add_product(rows.data(), left.data(), right.data(), batch * length, input.dim(2), width);
  const Heads<A> form{batch, heads, length, widths.key.size / heads, {}};
  const Heads<A> value_form{batch, heads, length, widths.value.size / heads, {}};
  return {columns_as_heads(rows, width, 0, form), columns_as_heads(rows, width, widths.key.size, form),
          columns_as_heads(rows, width, 2 * widths.key.size, value_form)};
}

// One half of [2, batch, heads, length, size]: the keys or the values.
template <class A>
Heads<A> past_half(const Tensor& past, std::int64_t half) {
  require_rank(past, "past", 5);
  if (past.dim(0) != 2) throw Error("past has shape " + to_string(past.dims()) + ", expected 2 first");
  const std::vector<A> values = elements<A>(past);
  const auto size = static_cast<std::ptrdiff_t>(values.size() / 2);
  return {past.dim(1), past.dim(2), past.dim(3), past.dim(4),
          std::vector<A>(values.begin() + half * size, values.begin() + (half + 1) * size)};
}

void refuse_shared_buffers(const Call& call, std::size_t length_input) {
  if (call.has_input(length_input)) throw Unsupported("past and present that share a buffer");
}

template <class A>
void eval_attention_in(EvalCall& call) {
  Operands<A> in = project<A>(call);
  std::int64_t past = 0;
  if (call.has_input(4)) {
    in.key = appended(past_half<A>(call.in(4), 0), in.key);
    in.value = appended(past_half<A>(call.in(4), 1), in.value);
    past = call.in(4).dim(3);
  }
  const DType dtype = call.in(0).dtype();
  call.out(0, packed_tensor(Attending<A>(call, 3, 5).run(in, past, -1).output, dtype));
  if (!call.has_output(1)) return;
  if (in.key.size != in.value.size) throw Error("present needs keys and values of one size");
  std::vector<A> present = std::move(in.key.values);
  present.insert(present.end(), in.value.values.begin(), in.value.values.end());
  call.out(1, from_elements<A>(dtype, {2, in.key.batch, in.key.heads, in.key.length, in.key.size}, present));
}

void eval_attention(EvalCall& call) {
  refuse_shared_buffers(call, 6);
  if (call.integer("past_present_share_buffer") != 0) throw Unsupported("past and present that share a buffer");
  if (call.integer("do_rotary") != 0) throw Unsupported("rotary positions inside Attention");
  with_float_sum_type(call.in(0).dtype(), [&]<class A>() { eval_attention_in<A>(call); });
}

// ---- MultiHeadAttention ----------------------------------------------------------------

// Where queries, keys and values come from, told by the ranks.
enum class Packing : std::uint8_t { separate, key_value, query_key_value, transposed };

Packing packing_of(std::size_t query_rank, bool has_key, std::size_t key_rank) {
  if (query_rank == 5 && !has_key) return Packing::query_key_value;
  if (query_rank == 3 && has_key && key_rank == 3) return Packing::separate;
  if (query_rank == 3 && has_key && key_rank == 4) return Packing::transposed;
  if (query_rank == 3 && has_key && key_rank == 5) return Packing::key_value;
  throw Error("query of rank " + std::to_string(query_rank) +
              (has_key ? " and key of rank " + std::to_string(key_rank) : " without key") + " do not fit together");
}

struct HeadSizes {
  Dim value_width, key_length, key_size, value_size;
};
HeadSizes head_sizes(const InferCall& call, Packing packing, std::int64_t heads) {
  const Shape& source = call.shape(packing == Packing::query_key_value ? 0 : 1);
  const bool has_value = call.has_input(2) && call.ranked(2);
  const auto times_heads = [&](const Dim& size) { return product(std::vector<Dim>{Dim::of(heads), size}); };
  switch (packing) {
    case Packing::query_key_value:
    case Packing::key_value: return {times_heads(source[4]), source[1], source[4], source[4]};
    case Packing::transposed: {
      const Dim size = has_value && call.rank(2) == 4 ? call.shape(2)[3] : Dim{};
      return {times_heads(size), source[2], source[3], size};
    }
    case Packing::separate: break;
  }
  const Dim width = has_value && call.rank(2) == 3 ? call.shape(2)[2] : Dim{};
  return {width, source[1], quotient(source[2], heads), quotient(width, heads)};
}

void infer_multi_head(InferCall& call) {
  if (!call.ranked(0) || (call.has_input(1) && !call.ranked(1))) return;
  const Packing packing = packing_of(call.rank(0), call.has_input(1), call.has_input(1) ? call.rank(1) : 0);
  const std::int64_t heads = call.integer("num_heads");
  const HeadSizes sizes = head_sizes(call, packing, heads);
  const Dim &batch = call.shape(0)[0], &queries = call.shape(0)[1];
  Dim total = sizes.key_length;
  if (call.has_input(6)) total = call.ranked(6) && call.rank(6) == 4 ? sum(call.shape(6)[2], total) : Dim{};
  call.set_shape(0, {batch, queries, sizes.value_width});
  call.set_shape(1, {batch, Dim::of(heads), total, sizes.key_size});
  call.set_shape(2, {batch, Dim::of(heads), total, sizes.value_size});
  call.set_shape(3, {batch, Dim::of(heads), queries, total});
  call.set_dtype(3, call.in(0).dtype);
}

// Part `part` of [batch, length, heads, parts, size].
template <class A>
Heads<A> unpacked_part(const Tensor& packed, std::int64_t parts, std::int64_t part, std::int64_t heads) {
  if (packed.dim(2) != heads || packed.dim(3) != parts) {
    throw Error("packed operand has shape " + to_string(packed.dims()) + ", expected [batch, length, " +
                std::to_string(heads) + ", " + std::to_string(parts) + ", size]");
  }
  Heads<A> result{packed.dim(0), heads, packed.dim(1), packed.dim(4), {}};
  const std::vector<A> rows = elements<A>(packed);
  result.values.resize(rows.size() / static_cast<std::size_t>(parts));
  for (std::int64_t b = 0; b < result.batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < result.length; ++i) {
        const auto from = rows.begin() + (((b * result.length + i) * heads + h) * parts + part) * result.size;
        std::copy_n(from, result.size, result.values.begin() + static_cast<std::ptrdiff_t>(result.row(b, h, i)));
      }
    }
  }
  return result;
}

template <class A>
Operands<A> operands_of(const EvalCall& call, Packing packing, std::int64_t heads) {
  if (packing == Packing::query_key_value) {
    return {unpacked_part<A>(call.in(0), 3, 0, heads), unpacked_part<A>(call.in(0), 3, 1, heads),
            unpacked_part<A>(call.in(0), 3, 2, heads)};
  }
  Heads<A> query = heads_of<A>(call.in(0), heads, "query");
  if (packing == Packing::key_value) {
    return {std::move(query), unpacked_part<A>(call.in(1), 2, 0, heads), unpacked_part<A>(call.in(1), 2, 1, heads)};
  }
  require_rank(call.in(2), "value", call.in(1).rank());
  return {std::move(query), heads_of<A>(call.in(1), heads, "key"), heads_of<A>(call.in(2), heads, "value")};
}

// bias[first + h * size + d] is added to every row of head h.
template <class A>
void add_head_bias(Heads<A>& heads, const std::vector<A>& bias, std::int64_t first) {
  for (std::int64_t b = 0; b < heads.batch; ++b) {
    for (std::int64_t h = 0; h < heads.heads; ++h) {
      for (std::int64_t i = 0; i < heads.length; ++i) {
        A* row = heads.values.data() + heads.row(b, h, i);
        for (std::int64_t d = 0; d < heads.size; ++d)
          row[d] += bias[static_cast<std::size_t>(first + h * heads.size + d)];
      }
    }
  }
}

// The projection's bias. Keys and values that come from a cache have theirs already.
template <class A>
void add_biases(const EvalCall& call, Operands<A>& in, Packing packing) {
  if (!call.has_input(3)) return;
  const std::int64_t key = in.query.heads * in.query.size, value = in.value.heads * in.value.size;
  if (call.in(3).dims() != Dims{2 * key + value}) throw Error("bias has shape " + to_string(call.in(3).dims()));
  const std::vector<A> bias = elements<A>(call.in(3));
  add_head_bias(in.query, bias, 0);
  if (packing == Packing::transposed) return;
  add_head_bias(in.key, bias, key);
  add_head_bias(in.value, bias, 2 * key);
}

template <class A>
void eval_multi_head_in(EvalCall& call) {
  const std::int64_t heads = call.integer("num_heads");
  const Packing packing = packing_of(call.in(0).rank(), call.has_input(1), call.has_input(1) ? call.in(1).rank() : 0);
  Operands<A> in = operands_of<A>(call, packing, heads);
  check_heads(in.query, in.key, in.value);
  add_biases(call, in, packing);
  std::int64_t past = 0;
  if (call.has_input(6) != call.has_input(7)) throw Error("past_key and past_value must be given together");
  if (call.has_input(6)) {
    require_rank(call.in(6), "past_key", 4);
    require_rank(call.in(7), "past_value", 4);
    past = call.in(6).dim(2);
    in.key = appended(heads_of<A>(call.in(6), 0, "past_key"), in.key);
    in.value = appended(heads_of<A>(call.in(7), 0, "past_value"), in.value);
  }
  const DType dtype = call.in(0).dtype();
  const Attended<A> result = Attending<A>(call, 4, 5).run(in, past, call.has_output(3) ? 2 : -1);
  call.out(0, packed_tensor(result.output, dtype));
  call.out(1, tensor_of(in.key, dtype));
  call.out(2, tensor_of(in.value, dtype));
  if (!call.has_output(3)) return;
  call.out(3, from_elements<A>(dtype, {in.query.batch, heads, in.query.length, in.key.length}, result.scores));
}

void eval_multi_head(EvalCall& call) {
  refuse_shared_buffers(call, 8);
  if (call.has_input(9)) throw Unsupported("beam search by cache_indirection");
  with_float_sum_type(call.in(0).dtype(), [&]<class A>() { eval_multi_head_in<A>(call); });
}

const OpDef kOps[] = {
    {.identity = {.name = "Attention",
                  .domain = kMicrosoft,
                  .summary = "multi-head self-attention with merged projection weights",
                  .signature = "(input: T, weights: T, bias?: T, mask_index?: int32, past?: T, attention_bias?: T, "
                               "past_sequence_length?: int32) -> (output: T, present?: T) where T: float",
                  .attrs = "do_rotary: int = 0; mask_filter_value: float = -10000; num_heads: int; "
                           "past_present_share_buffer: int = 0; qkv_hidden_sizes: ints; rotary_embedding_dim: int = 0; "
                           "scale: float = 0; unidirectional: int = 0"},
     .meaning = {.infer = infer_attention, .eval = eval_attention, .freedom = kWideArithmetic},
     .analysis = {.range = range_microsoft_attention,
                  .vjp = microsoft_attention_gradient,
                  .hazards = microsoft_attention_hazards(),
                  .overflow = "FN204"}},
    {.identity = {.name = "MultiHeadAttention",
                  .domain = kMicrosoft,
                  .summary = "multi-head attention over projected queries, keys and values",
                  .signature =
                      "(query: T, key?: T, value?: T, bias?: T, key_padding_mask?: int32, attention_bias?: T, "
                      "past_key?: T, past_value?: T, past_sequence_length?: int32, cache_indirection?: int32) -> "
                      "(output: T, present_key?: T, present_value?: T, qk?: float) where T: float",
                  .attrs =
                      "mask_filter_value: float = -10000; num_heads: int; scale: float = 0; unidirectional: int = 0"},
     .meaning = {.infer = infer_multi_head, .eval = eval_multi_head, .freedom = kWideArithmetic},
     .analysis =
         {.range = range_multi_head, .vjp = multi_head_gradient, .hazards = multi_head_hazards(), .overflow = "FN204"}},
};

}  // namespace

std::span<const OpDef> microsoft_attention_ops() { return kOps; }

}  // namespace finity

// Attention over heads and what goes with it: rotary positions, linear attention.
#include <cmath>

#include "ops/attention/attention_attrs.h"
#include "ops/attention/attention_gradient.h"
#include "ops/attention/attention_range.h"
#include "ops/attention/heads.h"
#include "ops/attention/rotary.h"
#include "ops/elementwise/elementwise.h"
#include "ops/table/draw_call.h"
#include "ops/table/families.h"
#include "ops/table/quantities.h"
#include "tensor/convert.h"

namespace finity {

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// ---- Attention ---------------------------------------------------------------

struct HeadDims {
  Dim batch, heads, length, size;
};

HeadDims head_dims(const InferCall& call, std::size_t input, std::string_view heads_attr) {
  const Shape& shape = call.shape(input);
  if (shape.size() == 4) return {shape[0], shape[1], shape[2], shape[3]};
  require_rank(call, input, 3);
  const std::int64_t heads = stated_heads(call, heads_attr);
  const Dim size = shape[2].known() ? Dim::of(shape[2].size / heads) : Dim{};
  return {shape[0], Dim::of(heads), shape[1], size};
}

Dim sum(const Dim& a, const Dim& b) { return a.known() && b.known() ? Dim::of(a.size + b.size) : Dim{}; }

void infer_attention(InferCall& call) {
  if (!call.ranked(0) || !call.ranked(1) || !call.ranked(2)) return;
  const HeadDims query = head_dims(call, 0, "q_num_heads");
  const HeadDims key = head_dims(call, 1, "kv_num_heads");
  const HeadDims value = head_dims(call, 2, "kv_num_heads");
  Dim total = key.length;
  if (call.has_input(4)) total = call.ranked(4) && call.rank(4) == 4 ? sum(call.shape(4)[2], key.length) : Dim{};
  if (call.rank(0) == 4) call.set_shape(0, {query.batch, query.heads, query.length, value.size});
  else call.set_shape(0, {query.batch, query.length, product(std::vector<Dim>{query.heads, value.size})});
  call.set_shape(1, {key.batch, key.heads, total, key.size});
  call.set_shape(2, {value.batch, value.heads, total, value.size});
  call.set_shape(3, {query.batch, query.heads, query.length, total});
}

// The additive mask as seen at (batch, head, query, key): broadcast from the right, forbidden beyond its last key.
class Mask {
 public:
  Mask(const Tensor& mask, const Dims& scores)
      : bool_(mask.dtype() == DType::boolean), values_(elements<double>(mask)) {
    Dims dims = mask.dims();
    if (dims.empty() || dims.size() > 4) throw Error("attn_mask has shape " + to_string(dims));
    dims.insert(dims.begin(), 4 - dims.size(), 1);
    for (std::size_t axis = 0; axis < 4; ++axis) {
      const bool fits = dims[axis] == scores[axis] || (axis == 3 ? dims[axis] < scores[axis] : dims[axis] == 1);
      if (!fits)
        throw Error("attn_mask of shape " + to_string(mask.dims()) + " does not fit scores " + to_string(scores));
    }
    keys_ = dims[3];
    strides_ = strides_of(dims);
    // The last axis is not repeated: a mask for one key is padded like any other short one.
    for (std::size_t axis = 0; axis < 3; ++axis) {
      if (dims[axis] == 1) strides_[axis] = 0;
    }
  }

  double at(std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) const {
    if (j >= keys_) return -kInf;
    const auto position =
        static_cast<std::size_t>(b * strides_[0] + h * strides_[1] + i * strides_[2] + j * strides_[3]);
    const double value = values_[position];
    if (!bool_) return value;
    return value != 0 ? 0.0 : -kInf;
  }

 private:
  bool bool_;
  std::vector<double> values_;
  std::vector<std::int64_t> strides_;
  std::int64_t keys_ = 0;
};

// Which keys a query may see: causality and windows count from the query's absolute position.
struct Frontier {
  Reach reach = {};
  std::vector<std::int64_t> offset = {};   // per batch: keys before the first query
  std::vector<std::int64_t> padding = {};  // per batch: keys that are not padding; empty: all

  bool allows(std::int64_t b, std::int64_t i, std::int64_t j) const {
    const std::int64_t position = offset[static_cast<std::size_t>(b)] + i;
    if (reach.causal && j > position) return false;
    if (reach.left >= 0 && j < position - reach.left) return false;
    if (reach.right >= 0 && j > position + reach.right) return false;
    return padding.empty() || j < padding[static_cast<std::size_t>(b)];
  }
};

Frontier frontier_of(const EvalCall& call, std::int64_t batch, std::int64_t queries) {
  Frontier frontier{.reach = attention_reach(call)};
  const std::int64_t past = call.has_input(4) ? call.in(4).dims().at(2) : 0;
  frontier.offset.assign(static_cast<std::size_t>(batch), past);
  if (!call.has_input(6)) return frontier;
  frontier.padding = elements<std::int64_t>(call.in(6));
  if (static_cast<std::int64_t>(frontier.padding.size()) != batch)
    throw Error("nonpad_kv_seqlen has not one entry per batch");
  for (std::size_t b = 0; b < frontier.offset.size() && !call.has_input(4); ++b) {
    frontier.offset[b] = frontier.padding[b] - queries;
  }
  return frontier;
}

template <class A>
void eval_attention_in(EvalCall& call) {
  const DType dtype = call.in(0).dtype();
  const bool packed = call.in(0).rank() == 3;
  const Heads<A> query = heads_of<A>(call.in(0), packed ? stated_heads(call, "q_num_heads") : 0, "Q");
  Heads<A> key = heads_of<A>(call.in(1), packed ? stated_heads(call, "kv_num_heads") : 0, "K");
  Heads<A> value = heads_of<A>(call.in(2), packed ? stated_heads(call, "kv_num_heads") : 0, "V");
  if (call.has_input(4) != call.has_input(5)) throw Error("past_key and past_value must be given together");
  if (call.has_input(4)) {
    require_rank(call.in(4), "past_key", 4);
    require_rank(call.in(5), "past_value", 4);
    key = appended(heads_of<A>(call.in(4), 0, "past_key"), key);
    value = appended(heads_of<A>(call.in(5), 0, "past_value"), value);
  }
  check_heads(query, key, value);
  const Dims score_dims{query.batch, query.heads, query.length, key.length};
  const Frontier frontier = frontier_of(call, query.batch, query.length);
  std::optional<Mask> mask;
  if (call.has_input(3)) mask.emplace(call.in(3), score_dims);
  AttentionRule rule;
  rule.scale = score_scale(call).value_or(1.0 / std::sqrt(static_cast<double>(query.size)));
  rule.softcap = call.real("softcap");
  rule.softmax_type = softmax_precision(call);
  if (call.has_output(3)) rule.keep = kept_scores(call);
  rule.bias = [&](std::int64_t b, std::int64_t h, std::int64_t i, std::int64_t j) {
    if (!frontier.allows(b, i, j)) return -kInf;
    return mask ? mask->at(b, h, i, j) : 0.0;
  };
  const Attended<A> result = attend(query, key, value, rule);
  call.out(0, packed ? packed_tensor(result.output, dtype) : tensor_of(result.output, dtype));
  call.out(1, tensor_of(key, call.in(1).dtype()));
  call.out(2, tensor_of(value, call.in(2).dtype()));
  if (call.has_output(3)) call.out(3, from_elements<A>(dtype, score_dims, result.scores));
}

void eval_attention(EvalCall& call) {
  with_float_sum_type(call.in(0).dtype(), [&]<class A>() { eval_attention_in<A>(call); });
}

// ---- RotaryEmbedding ----------------------------------------------------------

// With position_ids the caches are tables [positions, pairs], without them [batch, length, pairs].
template <class A>
void rotate_tokens(const EvalCall& call, Heads<A>& x, std::int64_t width) {
  const Tensor& cos = call.in(1);
  const RotaryTables<A> tables(cos, call.in(2));
  if (2 * tables.pairs() != width) {
    throw Error("cos_cache has shape " + to_string(cos.dims()) + ", expected a last dimension of " +
                std::to_string(width / 2));
  }
  std::vector<std::int64_t> ids;
  if (call.has_input(3)) {
    require_rank(cos, "cos_cache", 2);
    ids = elements<std::int64_t>(call.in(3));
    if (call.in(3).dims() != Dims{x.batch, x.length}) {
      throw Error("position_ids has shape " + to_string(call.in(3).dims()));
    }
  } else if (cos.dims() != Dims{x.batch, x.length, tables.pairs()}) {
    throw Error("cos_cache has shape " + to_string(cos.dims()) + " without position_ids, expected " +
                to_string(Dims{x.batch, x.length, tables.pairs()}));
  }
  rotate_heads(x, tables, call.integer("interleaved") != 0, [&](std::int64_t b, std::int64_t i) {
    const std::int64_t token = b * x.length + i;
    return ids.empty() ? token : ids[static_cast<std::size_t>(token)];
  });
}

void eval_rotary(EvalCall& call) {
  const Tensor& x = call.in(0);
  with_float_sum_type(x.dtype(), [&]<class A>() {
    Heads<A> heads = heads_of<A>(x, x.rank() == 3 ? stated_heads(call, "num_heads") : 0, "X");
    std::int64_t width = call.integer("rotary_embedding_dim");
    if (width == 0) width = heads.size;
    if (width < 0 || width > heads.size || width % 2 != 0) {
      throw Error("rotary_embedding_dim " + std::to_string(width) + " does not fit heads of size " +
                  std::to_string(heads.size));
    }
    rotate_tokens(call, heads, width);
    call.out(0, x.rank() == 3 ? packed_tensor(heads, x.dtype()) : tensor_of(heads, x.dtype()));
  });
}

// ---- LinearAttention ------------------------------------------------------------

void infer_linear_attention(InferCall& call) {
  if (!call.ranked(0) || !call.ranked(1) || !call.ranked(2)) return;
  for (const std::size_t i : {0, 1, 2}) require_rank(call, i, 3);
  const HeadDims query = head_dims(call, 0, "q_num_heads");
  const HeadDims key = head_dims(call, 1, "kv_num_heads");
  const HeadDims value = head_dims(call, 2, "kv_num_heads");
  call.set_shape(0, {query.batch, query.length, product(std::vector<Dim>{query.heads, value.size})});
  call.set_shape(1, {key.batch, key.heads, key.size, value.size});
  call.set_dtype(1, call.has_input(3) ? call.in(3).dtype : call.in(0).dtype);
}

// The recurrent state of one key head: a matrix [key size, value size] that decays and takes up outer products.
template <class A>
class State {
 public:
  State(A* matrix, std::int64_t keys, std::int64_t values) : matrix_(matrix), keys_(keys), values_(values) {}

  // decay is per key dimension, or one for all.
  void decay(const A* gate, bool per_key) {
    for (std::int64_t k = 0; k < keys_; ++k) {
      const A factor = std::exp(gate[per_key ? k : 0]);
      for (std::int64_t v = 0; v < values_; ++v) at(k, v) *= factor;
    }
  }
  void take_up(const A* key, const A* value, const A* beta) {
    for (std::int64_t v = 0; v < values_; ++v) {
      A update = value[v];
      if (beta != nullptr) update = *beta * (value[v] - recalled(key, v));
      for (std::int64_t k = 0; k < keys_; ++k) at(k, v) += key[k] * update;
    }
  }
  A recalled(const A* query, std::int64_t v) const {
    return pairwise_sum<A>(keys_, [&](std::int64_t k) { return matrix_[k * values_ + v] * query[k]; });
  }

 private:
  A& at(std::int64_t k, std::int64_t v) { return matrix_[k * values_ + v]; }

  A* matrix_;
  std::int64_t keys_;
  std::int64_t values_;
};

template <class A>
struct Gates {
  Heads<A> decay, beta;
  bool decays = false, updates = false, per_key = false;
};

template <class A>
Gates<A> gates_of(const EvalCall& call, const Heads<A>& key) {
  const std::string rule = call.text("update_rule");
  Gates<A> gates;
  gates.decays = rule == "gated" || rule == "gated_delta";
  gates.updates = rule == "delta" || rule == "gated_delta";
  const auto gate_input = [&](std::size_t i, bool used, std::string_view name) -> const Tensor* {
    if (call.has_input(i) != used) {
      throw Error("update_rule '" + rule + "' " + (used ? "needs " : "takes no ") + std::string(name));
    }
    if (used) require_rank(call.in(i), name, 3);
    return used ? &call.in(i) : nullptr;
  };
  const Tensor* decay = gate_input(4, gates.decays, "decay");
  const Tensor* beta = gate_input(5, gates.updates, "beta");
  if (decay != nullptr) {
    gates.decay = heads_of<A>(*decay, key.heads, "decay");
    gates.per_key = gates.decay.size == key.size && key.size > 1;
    if (gates.decay.size != key.size && gates.decay.size != 1) throw Error("decay has the wrong size");
  }
  if (beta != nullptr) {
    gates.beta = heads_of<A>(*beta, beta->dim(2) == 1 ? 1 : key.heads, "beta");
    if (gates.beta.size != 1) throw Error("beta has the wrong size");
  }
  for (const Tensor* gate : {decay, beta}) {
    if (gate != nullptr && (gate->dim(0) != key.batch || gate->dim(1) != key.length)) {
      throw Error("a gate of shape " + to_string(gate->dims()) + " does not fit the keys");
    }
  }
  return gates;
}

template <class A>
void eval_linear_attention_in(EvalCall& call) {
  for (const std::size_t i : {0, 1, 2}) require_rank(call.in(i), "query, key or value", 3);
  const Heads<A> query = heads_of<A>(call.in(0), stated_heads(call, "q_num_heads"), "query");
  const Heads<A> key = heads_of<A>(call.in(1), stated_heads(call, "kv_num_heads"), "key");
  const Heads<A> value = heads_of<A>(call.in(2), stated_heads(call, "kv_num_heads"), "value");
  check_heads(query, key, value);
  if (query.length != key.length) throw Error("query and key differ in length");
  const Gates<A> gates = gates_of(call, key);
  const Dims state_dims{key.batch, key.heads, key.size, value.size};
  std::vector<A> states(static_cast<std::size_t>(element_count(state_dims)));
  if (call.has_input(3)) {
    if (call.in(3).dims() != state_dims) throw Error("past_state has shape " + to_string(call.in(3).dims()));
    states = elements<A>(call.in(3));
  }
  const double given = call.real("scale");
  const A scale = static_cast<A>(given != 0 ? given : 1.0 / std::sqrt(static_cast<double>(query.size)));
  Heads<A> output{query.batch, query.heads, query.length, value.size, {}};
  output.values.resize(static_cast<std::size_t>(query.batch * query.heads * query.length * value.size));
  const std::int64_t share = query.heads / key.heads;
  for (std::int64_t b = 0; b < key.batch; ++b) {
    for (std::int64_t h = 0; h < key.heads; ++h) {
      State<A> state(states.data() + (b * key.heads + h) * key.size * value.size, key.size, value.size);
      for (std::int64_t t = 0; t < key.length; ++t) {
        if (gates.decays) state.decay(gates.decay.values.data() + gates.decay.row(b, h, t), gates.per_key);
        const A* beta = nullptr;
        if (gates.updates) beta = gates.beta.values.data() + gates.beta.row(b, gates.beta.heads == 1 ? 0 : h, t);
        state.take_up(key.values.data() + key.row(b, h, t), value.values.data() + value.row(b, h, t), beta);
        for (std::int64_t q = h * share; q < (h + 1) * share; ++q) {
          for (std::int64_t v = 0; v < value.size; ++v) {
            output.values[output.row(b, q, t) + static_cast<std::size_t>(v)] =
                scale * state.recalled(query.values.data() + query.row(b, q, t), v);
          }
        }
      }
    }
  }
  call.out(0, packed_tensor(output, call.in(0).dtype()));
  call.out(1, from_elements<A>(call.has_input(3) ? call.in(3).dtype() : call.in(0).dtype(), state_dims, states));
}

void eval_linear_attention(EvalCall& call) {
  with_float_sum_type(call.in(0).dtype(), [&]<class A>() { eval_linear_attention_in<A>(call); });
}

constexpr std::string_view kWideArithmetic = "all arithmetic in float32 (float64 for float64), rounded once";

// Queries, keys and values by heads, with or without a mask.
bool draw_attention(DrawCall& call) {
  if (call.rank() != 4 || element_count(call.dims()) == 0) return false;
  for (const char* name : {"q_num_heads", "kv_num_heads", "left_window_size", "right_window_size",
                           "qk_matmul_output_mode", "softmax_precision", "softcap"})
    call.drop(name);
  if (call.chance(60)) call.drop("scale");
  // Several heads of queries may share keys and values.
  const std::int64_t keys = call.between(1, 5), shared = call.length(1) % 2 == 0 && call.chance(30) ? 2 : 1;
  call.add_floats({call.length(0), call.length(1) / shared, keys, call.length(3)});
  call.add_floats({call.length(0), call.length(1) / shared, keys, call.between(1, 4)});
  if (!call.chance(40)) return true;
  const Dims mask = call.chance(50) ? Dims{call.length(2), keys} : Dims{call.length(0), 1, call.length(2), keys};
  call.add(call.draw(call.chance(40) ? DType::boolean : call.dtype(), mask), 40);
  return true;
}

// Positions of a cache of cosines and sines.
bool draw_rotary(DrawCall& call) {
  if (call.rank() != 4 || call.length(3) % 2 != 0 || element_count(call.dims()) == 0) return false;
  for (const char* name : {"num_heads", "rotary_embedding_dim"}) call.drop(name);
  call.attrs().set("interleaved", call.between(0, 1));
  const std::int64_t cached = call.between(1, 5);
  for (int i = 0; i < 2; ++i) call.add_floats({cached, call.length(3) / 2});
  DrawCall::Ints places(static_cast<std::size_t>(call.length(0) * call.length(2)));
  for (std::int64_t& place : places) place = call.between(0, cached - 1);
  call.add(from_elements<std::int64_t>(DType::int64, {call.length(0), call.length(2)}, places), 60);
  return true;
}

const OpDef kOps[] = {
    {.identity =
         {.name = "Attention",
          .since = 23,
          .summary = "scaled dot-product attention over heads, with masks, caches and windows",
          .signature =
              "(Q: T1, K: T1, V: T2, attn_mask?: U, past_key?: T1, past_value?: T2, nonpad_kv_seqlen?: int64) -> "
              "(Y: T1, present_key?: T1, present_value?: T2, qk_matmul_output?: T1) "
              "where T1: float, T2: float, U: number|bool",
          .attrs = "is_causal: int = 0; kv_num_heads: int; left_window_size: int = -1; q_num_heads: int; "
                   "qk_matmul_output_mode: int = 0; right_window_size: int = -1; scale: float; softcap: float = 0; "
                   "softmax_precision: int"},
     .meaning = {.infer = infer_attention, .eval = eval_attention, .freedom = kWideArithmetic},
     .analysis = {.range = range_attention,
                  .vjp = attention_gradient,
                  .hazards = attention_hazards(),
                  .overflow = "FN204",
                  .grants = {.ways = {Way::scales_last}, .measured_on = kOnnxRuntime}},
     .drawing = {.operands = draw_attention, .first = FirstOperand::image}},
    {.identity = {.name = "RotaryEmbedding",
                  .since = 23,
                  .summary = "rotates pairs of features by angles that depend on the position",
                  .signature = "(X: T, cos_cache: T, sin_cache: T, position_ids?: int64) -> (Y: T) where T: float",
                  .attrs = "interleaved: int = 0; num_heads: int; rotary_embedding_dim: int = 0"},
     .meaning = {.infer = infer_same_shape, .eval = eval_rotary, .freedom = kWideArithmetic},
     .analysis = {.range = range_rotary, .vjp = rotary_gradient, .overflow = "FN204"},
     .drawing = {.operands = draw_rotary, .first = FirstOperand::image}},
    {.identity = {.name = "LinearAttention",
                  .since = 27,
                  .summary = "attention as a recurrence over a matrix state, with optional decay and delta rule",
                  .signature = "(query: T, key: T, value: T, past_state?: S, decay?: T, beta?: T) -> "
                               "(output: T, present_state: S) where T: float, S: float",
                  .attrs = "chunk_size: int = 64; kv_num_heads: int; q_num_heads: int; scale: float = 0; "
                           "update_rule: string = gated_delta {linear, gated, delta, gated_delta}"},
     .meaning = {.infer = infer_linear_attention,
                 .eval = eval_linear_attention,
                 .freedom = "token by token; all arithmetic in float32, rounded once"},
     .analysis = {.range = range_linear_attention, .vjp = linear_attention_gradient, .overflow = "FN204"}},
};

}  // namespace

std::span<const OpDef> attention_ops() { return kOps; }

}  // namespace finity

#include "ops/attention/microsoft_attention_gradient.h"

#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <vector>

#include "base/error.h"
#include "ops/attention/head_nodes.h"
#include "ops/movement/move_gradient.h"
#include "ops/table/build_call.h"

namespace finity {

namespace {

// All [batch, heads, length, size].
struct Heads {
  ValueId query = {};
  ValueId key = {};
  ValueId value = {};
};

struct Attended {
  ValueId output = {};  // [batch, length, heads * size]
  ValueId scores = {};  // before the softmax
};

// Operands that both ops have, at places of their own.
struct Places {
  std::size_t mask = 0;
  std::size_t bias = 0;
};

class ScoreDefinition {
 public:
  ScoreDefinition(BuildCall& call, const Heads& heads, const Places& places)
      : call_(call), heads_(heads), places_(places) {}

  // `past` is the number of keys before those of this call, invalid for none.
  Attended attended(ValueId past) {
    double scale = call_.real("scale");
    if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(size_of_axis(call_, heads_.query, 3)));
    const ValueId keys = transpose(call_, heads_.key, {0, 1, 3, 2});
    ValueId scores = call_.product(call_.add("MatMul", {heads_.query, keys}), call_.scalar(scale));
    const ValueId lowered = lowered_scores(past);
    if (lowered.valid()) scores = call_.sum(scores, lowered);
    if (call_.has_input(places_.bias)) scores = call_.sum(scores, call_.in(places_.bias));
    const ValueId weights = call_.add("Softmax", {scores}, with_attr("axis", std::int64_t{-1}));
    return {.output = packed_heads(call_, call_.add("MatMul", {weights, heads_.value})), .scores = scores};
  }

 private:
  ValueId counted(ValueId heads) { return counted_to(call_, length_of(call_, heads)); }

  // Masked keys get a large negative score, not -inf.
  ValueId lowered_scores(ValueId past) {
    ValueId result;
    const ValueId zero = call_.scalar(0);
    if (call_.has_input(places_.mask)) {
      const ValueId hidden = hidden_keys();
      if (hidden.valid()) result = call_.add("Where", {hidden, call_.scalar(call_.real("mask_filter_value")), zero});
    }
    if (call_.integer("unidirectional") == 0) return result;
    ValueId position = call_.add("Unsqueeze", {counted(heads_.query), call_.ints({1})});
    if (past.valid()) position = call_.sum(position, past);
    const ValueId later = call_.add("Greater", {counted(heads_.key), position});
    const ValueId lowest = call_.scalar(static_cast<double>(std::numeric_limits<float>::lowest()));
    return call_.add("Where", {later, lowest, result.valid() ? result : zero});
  }

  // True where the padding mask hides a key, broadcast to the scores; invalid when it hides none.
  ValueId hidden_keys() {
    const ValueId mask = call_.in(places_.mask);
    const std::size_t rank = call_.rank(mask);
    const Shape& sizes = call_.type(mask).shape;
    const auto not_positive = [&](std::vector<std::int64_t> axes) {
      const ValueId none = call_.scalar(0, call_.type(mask).dtype);
      return call_.add("Unsqueeze", {call_.add("LessOrEqual", {mask, none}), call_.ints(std::move(axes))});
    };
    if (rank == 2 && sizes[1].size == 1 && size_of_axis(call_, heads_.key, 2) != 1) return {};
    if (rank == 2) return not_positive({1, 2});
    if (rank == 3) return not_positive({1});
    if (rank == 1 && sizes[0].known() && sizes[0].size == size_of_axis(call_, heads_.key, 0)) {
      const ValueId ends = reshape_to(call_, call_.cast(mask, DType::int64), {-1, 1, 1, 1});
      return call_.add("GreaterOrEqual", {counted(heads_.key), ends});
    }
    throw Unsupported("the gradient of attention with this form of mask is not modelled");
  }

  BuildCall& call_;
  const Heads& heads_;
  Places places_;
};

ValueId split_heads(BuildCall& call, ValueId packed) { return split_heads(call, packed, call.integer("num_heads")); }

ValueId appended(BuildCall& call, ValueId past, ValueId fresh) {
  return call.add("Concat", {past, fresh}, with_attr("axis", std::int64_t{2}));
}

// The parts of the last axis that belong to queries, keys and values.
std::vector<ValueId> three_parts(BuildCall& call, ValueId value, std::int64_t key_width, std::int64_t value_width) {
  return call.add_all("Split", {value, call.ints({key_width, key_width, value_width})}, 3,
                      with_attr("axis", std::int64_t{-1}));
}

std::int64_t last_size(const BuildCall& call, ValueId value) {
  const Type& type = call.type(value);
  if (!type.ranked || type.shape.empty() || !type.shape.back().known()) {
    throw Unsupported("the gradient of attention needs sizes that are not known");
  }
  return type.shape.back().size;
}

}  // namespace

void microsoft_attention_gradient(BuildCall& call) {
  if (call.integer("do_rotary") != 0 || call.has_input(6)) {
    throw Unsupported("the gradient of attention with rotary positions or shared buffers is not modelled");
  }
  ValueId projected = call.add("MatMul", {call.in(0), call.in(1)});
  if (call.has_input(2)) projected = call.sum(projected, call.in(2));
  const std::vector<std::int64_t> given = call.integers("qkv_hidden_sizes");
  const std::int64_t third = last_size(call, call.in(1)) / 3;
  const std::vector<ValueId> parts =
      given.size() == 3 ? three_parts(call, projected, given[0], given[2]) : three_parts(call, projected, third, third);
  Heads heads{split_heads(call, parts[0]), split_heads(call, parts[1]), split_heads(call, parts[2])};
  ValueId past;
  if (call.has_input(4)) {
    const auto half = [&](double which) { return call.add("Gather", {call.in(4), call.scalar(which, DType::int64)}); };
    past = length_of(call, half(0));
    heads.key = appended(call, half(0), heads.key);
    heads.value = appended(call, half(1), heads.value);
  }
  std::vector<ValueId> results = {ScoreDefinition(call, heads, {.mask = 3, .bias = 5}).attended(past).output};
  if (call.has_output(1)) {
    const ValueId halves[] = {call.add("Unsqueeze", {heads.key, call.ints({0})}),
                              call.add("Unsqueeze", {heads.value, call.ints({0})})};
    results.push_back(call.add("Concat", {halves[0], halves[1]}, with_attr("axis", std::int64_t{0})));
  }
  call.give_through(results);
}

void multi_head_gradient(BuildCall& call) {
  if (call.has_input(8) || call.has_input(9) || !call.has_input(1) || !call.has_input(2)) {
    throw Unsupported("the gradient of attention over packed operands or shared buffers is not modelled");
  }
  const std::size_t key_rank = call.rank(call.in(1));
  if (key_rank != 3 && key_rank != 4) throw Unsupported("the gradient of attention over packed keys is not modelled");
  ValueId query = call.in(0), key = call.in(1), value = call.in(2);
  if (call.has_input(3)) {
    const std::int64_t key_width = last_size(call, query);
    const std::int64_t value_width = last_size(call, call.in(3)) - 2 * key_width;
    const std::vector<ValueId> biases = three_parts(call, call.in(3), key_width, value_width);
    query = call.sum(query, biases[0]);
    // Keys and values that come as heads have theirs already.
    if (key_rank == 3) key = call.sum(key, biases[1]);
    if (key_rank == 3) value = call.sum(value, biases[2]);
  }
  Heads heads{split_heads(call, query), key, value};
  if (key_rank == 3) heads = {heads.query, split_heads(call, key), split_heads(call, value)};
  ValueId past;
  if (call.has_input(6)) {
    past = length_of(call, call.in(6));
    heads.key = appended(call, call.in(6), heads.key);
    heads.value = appended(call, call.in(7), heads.value);
  }
  const Attended attended = ScoreDefinition(call, heads, {.mask = 4, .bias = 5}).attended(past);
  call.give_through(std::vector{attended.output, heads.key, heads.value, attended.scores});
}

namespace {

// The op of the default domain, which takes the caches first and a position for each row.
ValueId rotated_in_default_domain(BuildCall& call) {
  const std::optional<Dims> x = call.dims(call.in(0)), cache = call.dims(call.in(2));
  if (!x || !cache) throw Unsupported("the gradient of rotary positions needs sizes that are not known");
  const bool packed = x->size() == 3;
  std::int64_t heads = call.integer("num_heads");
  if (packed && heads == 0) heads = x->at(2) / (2 * cache->at(1));
  ValueId positions = call.in(1);
  if (call.rank(positions) == 1) {
    std::vector<std::int64_t> offsets(static_cast<std::size_t>(x->at(packed ? 1 : 2)));
    std::iota(offsets.begin(), offsets.end(), 0);
    positions = call.add("Expand", {call.sum(positions, call.ints(offsets)),
                                    call.ints({x->front(), static_cast<std::int64_t>(offsets.size())})});
  }
  Attrs attrs;
  attrs.set("interleaved", call.integer("interleaved"));
  attrs.set("num_heads", heads);
  attrs.set("rotary_embedding_dim", call.integer("rotary_embedding_dim"));
  return call.add("RotaryEmbedding", {call.in(0), call.in(2), call.in(3), positions}, std::move(attrs));
}

}  // namespace

// Rotated back. Caches that want a gradient too need the definition.
void microsoft_rotary_gradient(BuildCall& call) {
  if (call.wanted(2) || call.wanted(3)) return call.give_through(std::vector{rotated_in_default_domain(call)});
  std::vector<ValueId> inputs = call.inputs();
  inputs[0] = call.grad(0);
  inputs[3] = call.add("Neg", {inputs[3]});
  call.give(0, call.writer().repeat(call.description(), std::move(inputs), call.attrs()).front());
}

}  // namespace finity

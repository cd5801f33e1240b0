#include <cmath>
#include <vector>

#include "ops/attention/attention_attrs.h"
#include "ops/attention/attention_gradient.h"
#include "ops/attention/head_nodes.h"
#include "ops/movement/move_gradient.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// Operands of LinearAttention.
enum Operand : std::size_t { query, key, value, past_state, decay, beta };

// The recurrence as a Scan over the tokens. Its state is [batch, heads, key size, value size].
class Recurrence {
 public:
  explicit Recurrence(BuildCall& call)
      : call_(call),
        dtype_(call.in_type(query).dtype),
        query_heads_(stated_heads(call, "q_num_heads")),
        heads_(stated_heads(call, "kv_num_heads")),
        key_size_(size_of_axis(call, call.in(key), 2) / heads_),
        value_size_(size_of_axis(call, call.in(value), 2) / heads_) {}

  std::vector<ValueId> results() {
    std::vector<ValueId> inputs = {first_state(), tokens(query, query_heads_, -1), tokens(key, heads_, -1),
                                   tokens(value, heads_, -1)};
    if (call_.has_input(decay)) inputs.push_back(tokens(decay, heads_, -1));
    // One for all heads, or one each.
    if (call_.has_input(beta)) inputs.push_back(tokens(beta, -1, 1));
    const auto scanned = static_cast<std::int64_t>(inputs.size()) - 1;
    Attrs attrs = with_attr("body", step(inputs));
    attrs.set("num_scan_inputs", scanned);
    attrs.set("scan_input_axes", std::vector<std::int64_t>(static_cast<std::size_t>(scanned), 1));
    attrs.set("scan_output_axes", std::vector<std::int64_t>{1});
    const std::vector<ValueId> found = call_.add_all("Scan", std::move(inputs), 2, std::move(attrs));
    const DType kept = call_.in_type(call_.has_input(past_state) ? past_state : query).dtype;
    return {reshape_to(call_, found[1], {0, 0, -1}), call_.cast(found[0], kept)};
  }

 private:
  // [batch, length, heads, size]
  ValueId tokens(std::size_t operand, std::int64_t heads, std::int64_t size) {
    return reshape_to(call_, call_.in(operand), {0, 0, heads, size});
  }

  ValueId first_state() {
    if (call_.has_input(past_state)) return call_.cast(call_.in(past_state), dtype_);
    const ValueId batch = call_.add("Gather", {shape_vector(call_, call_.in(query)), call_.ints({0})});
    const ValueId shape =
        call_.add("Concat", {batch, call_.ints({heads_, key_size_, value_size_})}, with_attr("axis", std::int64_t{0}));
    const double zero[] = {0};
    return call_.add("ConstantOfShape", {shape},
                     with_attr("value", make_constant(from_elements<double>(dtype_, {1}, zero))));
  }

  ValueId unsqueezed(ValueId x, std::int64_t axis) { return call_.add("Unsqueeze", {x, call_.ints({axis})}); }

  // What the state has stored for a key or query of each head: the sum over the key's features.
  ValueId recalled(ValueId state, ValueId by) {
    return call_.add("ReduceSum", {call_.product(state, unsqueezed(by, -1)), call_.ints({2})},
                     with_attr("keepdims", std::int64_t{0}));
  }

  BodyId step(const std::vector<ValueId>& inputs) {
    const BodyId body = call_.writer().begin_body();
    std::vector<ValueId> in;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      Shape shape = call_.type(inputs[i]).shape;
      if (i > 0) shape.erase(shape.begin() + 1);
      in.push_back(call_.writer().add_body_input(Type::tensor(dtype_, std::move(shape))));
    }
    ValueId state = in[0], update = in[3];
    std::size_t next = 4;
    if (call_.has_input(decay)) state = call_.product(state, unsqueezed(call_.add("Exp", {in[next++]}), -1));
    if (call_.has_input(beta)) update = call_.product(in[next], call_.difference(update, recalled(state, in[2])));
    state = call_.sum(state, call_.product(unsqueezed(in[2], -1), unsqueezed(update, 2)));
    const double given = call_.real("scale");
    const double scale = given != 0 ? given : 1 / std::sqrt(static_cast<double>(key_size_));
    const ValueId output =
        call_.product(recalled(repeated_heads(call_, state, query_heads_), in[1]), call_.scalar(scale, dtype_));
    call_.writer().end_body({state, output});
    return body;
  }

  BuildCall& call_;
  DType dtype_;
  std::int64_t query_heads_, heads_, key_size_, value_size_;
};

}  // namespace

void linear_attention_gradient(BuildCall& call) { call.give_through(Recurrence(call).results()); }

}  // namespace finity

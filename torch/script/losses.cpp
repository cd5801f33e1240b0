// Losses, as PyTorch computes them: guards that it has are kept.
#include "base/error.h"
#include "torch/script/call.h"
#include "torch/script/common.h"

namespace finity {

namespace {

constexpr std::int64_t kNone = 0, kMean = 1;

std::string reduction(const ScriptCall& call) {
  const std::int64_t kind = call.integer("reduction", kMean);
  return kind == kNone ? "none" : kind == kMean ? "mean" : "sum";
}

void reduce_loss(ScriptCall& call, ValueId each) {
  const std::string over = reduction(call);
  if (over == "none") call.give(each);
  else call.give(call.add(over == "mean" ? "ReduceMean" : "ReduceSum", {each}, {{"keepdims", std::int64_t{0}}}));
}

template <OpName Op>
void class_loss(ScriptCall& call) {
  if (call.real("label_smoothing", 0) != 0) throw Unsupported("smooths labels");
  const ValueId target = call.tensor("target");
  if (!is_int(call.dtype(target))) throw Unsupported("takes probabilities as labels");
  const std::string over = reduction(call);
  call.give(call.add(Op.letters, {call.tensor("self"), target, call.optional_tensor("weight")},
                     {{"reduction", over}, {"ignore_index", call.integer("ignore_index", -100)}}));
}

void squared_error(ScriptCall& call) {
  const auto [a, b] = call.alike("self", "target");
  const ValueId apart = call.add("Sub", {a, b});
  reduce_loss(call, call.add("Mul", {apart, apart}));
}

void absolute_error(ScriptCall& call) {
  const auto [a, b] = call.alike("self", "target");
  reduce_loss(call, call.add("Abs", {call.add("Sub", {a, b})}));
}

// z < beta: z * z / 2 (over beta), else z - beta / 2 (times delta for Huber's)
template <bool Huber>
void smooth_error(ScriptCall& call) {
  const auto [a, b] = call.alike("self", "target");
  const double beta = Huber ? call.real("delta", 1) : call.real("beta", 1);
  const ValueId size = call.add("Abs", {call.add("Sub", {a, b})});
  if (beta == 0 && !Huber) return reduce_loss(call, size);
  const auto like = [&](double x) { return call.number_like(x, size); };
  ValueId near = call.add("Mul", {call.add("Mul", {like(0.5), size}), size});
  ValueId far = call.add("Sub", {size, like(0.5 * beta)});
  if (Huber) far = call.add("Mul", {like(beta), far});
  else near = call.add("Div", {near, like(beta)});
  const ValueId small = call.add(Huber ? "LessOrEqual" : "Less", {size, like(beta)});
  reduce_loss(call, call.add("Where", {small, near, far}));
}

// The logarithm, at least -100, also of 0.
ValueId bounded_log(ScriptCall& call, ValueId x) {
  const ValueId zero = call.number_like(0, x), one = call.number_like(1, x), least = call.number_like(-100, x);
  const ValueId none = call.add("Equal", {x, zero});
  const ValueId log = call.add("Log", {call.add("Where", {none, one, x})});
  return call.add("Where", {none, least, call.add("Max", {log, least})});
}

// The same of 1 - x.
ValueId bounded_log_of_rest(ScriptCall& call, ValueId x) {
  const ValueId zero = call.number_like(0, x), one = call.number_like(1, x), least = call.number_like(-100, x);
  const ValueId none = call.add("Equal", {x, one});
  const ValueId log = call.add("Log1p", {call.add("Neg", {call.add("Where", {none, zero, x})})}, {}, kOwn);
  return call.add("Where", {none, least, call.add("Max", {log, least})});
}

// (target - 1) * log(1 - x) - target * log(x)
void cross_entropy_of_two(ScriptCall& call) {
  const auto [x, target] = call.alike("self", "target");
  const ValueId one = call.number_like(1, x);
  const ValueId no = call.add("Mul", {call.add("Sub", {target, one}), bounded_log_of_rest(call, x)});
  ValueId loss = call.add("Sub", {no, call.add("Mul", {target, bounded_log(call, x)})});
  if (call.has("weight")) loss = call.add("Mul", {loss, call.cast(call.tensor("weight"), call.dtype(x))});
  reduce_loss(call, loss);
}

// (1 - target) * x + weight * softplus(-x)
void cross_entropy_of_scores(ScriptCall& call) {
  const auto [x, target] = call.alike("self", "target");
  const ValueId one = call.number_like(1, x);
  ValueId yes = call.add("Softplus", {call.add("Neg", {x})});
  if (call.has("pos_weight")) {
    const ValueId more = call.add("Sub", {call.cast(call.tensor("pos_weight"), call.dtype(x)), one});
    yes = call.add("Mul", {call.add("Add", {call.add("Mul", {more, target}), one}), yes});
  }
  ValueId loss = call.add("Add", {call.add("Mul", {call.add("Sub", {one, target}), x}), yes});
  if (call.has("weight")) loss = call.add("Mul", {loss, call.cast(call.tensor("weight"), call.dtype(x))});
  reduce_loss(call, loss);
}

// target * (log(target) - x), where 0 * log(0) is 0
void divergence(ScriptCall& call) {
  const auto [x, target] = call.alike("self", "target");
  if (call.flag("log_target")) {
    return reduce_loss(call, call.add("Mul", {call.add("Exp", {target}), call.add("Sub", {target, x})}));
  }
  const ValueId zero = call.number_like(0, x), none = call.add("Equal", {target, zero});
  const ValueId log = call.add("Log", {call.add("Where", {none, call.number_like(1, x), target})});
  const ValueId own = call.add("Where", {none, zero, call.add("Mul", {target, log})});
  reduce_loss(call, call.add("Sub", {own, call.add("Mul", {target, x})}));
}

// log(1 + exp(-target * x)), with the exponential
void soft_margin(ScriptCall& call) {
  const auto [x, target] = call.alike("self", "target");
  const ValueId power = call.add("Exp", {call.add("Mul", {call.add("Neg", {target}), x})});
  reduce_loss(call, call.add("Log", {call.add("Add", {power, call.number_like(1, x)})}));
}

// max(0, margin - target * (first - second))
void ranking(ScriptCall& call) {
  const std::vector<ValueId> ids =
      call.alike({call.argument("input1"), call.argument("input2"), call.argument("target")});
  const ValueId apart = call.add("Mul", {call.add("Neg", {ids[2]}), call.add("Sub", {ids[0], ids[1]})});
  const ValueId shifted = call.add("Add", {apart, call.number_like(call.real("margin", 0), apart)});
  reduce_loss(call, call.add("Max", {shifted, call.number_like(0, shifted)}));
}

// x where the target is 1, max(0, margin - x) where it is -1, both elsewhere
void hinge_of_embeddings(ScriptCall& call) {
  const auto [x, target] = call.alike("self", "target");
  const ValueId zero = call.number_like(0, x), one = call.number_like(1, x);
  const ValueId away = call.add("Sub", {call.number_like(call.real("margin", 1), x), x});
  const ValueId is_one = call.add("Equal", {target, one}),
                is_minus = call.add("Equal", {target, call.number_like(-1, x)});
  const ValueId margin = call.add("Where", {is_one, zero, call.add("Max", {away, zero})});
  reduce_loss(call, call.add("Add", {margin, call.add("Where", {is_minus, zero, x})}));
}

constexpr ScriptLowering kEntries[] = {
    {"nll_loss", class_loss<"NegativeLogLikelihoodLoss">},
    {"nll_loss_nd", class_loss<"NegativeLogLikelihoodLoss">},
    {"nll_loss2d", class_loss<"NegativeLogLikelihoodLoss">},
    {"cross_entropy_loss", class_loss<"SoftmaxCrossEntropyLoss">},
    {"mse_loss", squared_error},
    {"l1_loss", absolute_error},
    {"smooth_l1_loss", smooth_error<false>},
    {"huber_loss", smooth_error<true>},
    {"binary_cross_entropy", cross_entropy_of_two},
    {"binary_cross_entropy_with_logits", cross_entropy_of_scores},
    {"kl_div", divergence},
    {"soft_margin_loss", soft_margin},
    {"margin_ranking_loss", ranking},
    {"hinge_embedding_loss", hinge_of_embeddings},
};

}  // namespace

std::span<const ScriptLowering> script_losses() { return kEntries; }

}  // namespace finity

#include "report/advice.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "ops/table/op.h"
#include "ops/table/rule_group.h"
#include "report/words.h"

namespace finity {

namespace {

constexpr int kFar = 8;  // nodes that only move or cast values, in a row

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, name) != names.end();
}

// Nodes that hand on the same numbers; a Dropout does at inference.
bool moves(const Node& node) {
  if (node.op == nullptr) return false;
  const ElementSource source = node.op->traits.elements;
  return source == ElementSource::moved || source == ElementSource::converted || node.op_type == "Dropout";
}

bool converts(const Node& node) { return node.op != nullptr && node.op->traits.elements == ElementSource::converted; }

bool is_narrow(DType dtype) {
  return is_float(dtype) && max_finite(dtype) < max_finite(DType::float64) &&
         unit_roundoff(dtype) > unit_roundoff(DType::float32);
}

// Far above what rounds away, far below ordinary numbers.
std::string epsilon(DType dtype) {
  if (dtype == DType::float64) return "1e-12";
  return dtype == DType::float16 ? "1e-4" : "1e-6";
}

// Masks as well as -Inf does, and can be added to scores.
std::string mask_number(DType dtype) { return dtype == DType::float16 ? "-1e4" : "-1e9"; }

// The largest round number whose exponential the format holds.
std::string exp_limit(DType dtype) {
  switch (dtype) {
    case DType::float16: return "11";
    case DType::float64: return "700";
    default: return "88";
  }
}

// The operand that must not be zero, of an op that divides by it; null: there is none.
const Hazard* zero_hazard(const Node& node) {
  if (node.op == nullptr) return nullptr;
  for (const Hazard& hazard : node.op->analysis.hazards) {
    if (is_one_of(hazard.rule, {"FN101", "FN114"}) && hazard.quantity == nullptr) return &hazard;
  }
  return nullptr;
}

bool holds_word(std::string text, std::initializer_list<std::string_view> words) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::ranges::any_of(words, [&](std::string_view word) { return text.find(word) != std::string::npos; });
}

}  // namespace

DType Advisor::dtype_of(ValueId id) const { return id.valid() ? checked_.types[id].dtype : DType::undefined; }

bool Advisor::is_main_input(ValueId id) const {
  return std::ranges::find(graph().main().inputs, id) != graph().main().inputs.end();
}

// The node that computed the numbers, behind those that only hand them on.
const Node* Advisor::maker(ValueId id, bool through_casts) const {
  for (int steps = 0; id.valid() && steps < kFar; ++steps) {
    const NodeId producer = graph().value(id).producer;
    if (!producer.valid()) return nullptr;
    const Node& node = graph().node(producer);
    const bool goes_on = moves(node) && (through_casts || !converts(node)) && !node.inputs.empty();
    if (!goes_on) return &node;
    id = node.inputs.front();
  }
  return nullptr;
}

std::string Advisor::op_behind(ValueId id) const {
  const Node* node = maker(id);
  return node == nullptr ? "" : std::string(node->op_type);
}

// Made from a shape, as far as data movement goes.
bool Advisor::is_size(ValueId id) const {
  const Node* node = maker(id);
  const auto joins = [](const Node& n) { return n.op != nullptr && n.op->traits.elements == ElementSource::joined; };
  while (node != nullptr && joins(*node) && !node->inputs.empty()) node = maker(node->inputs.front());
  return node != nullptr && node->op != nullptr && node->op->traits.shape_only;
}

// Is the value used by such an op, perhaps after a cast or reshape? Stores the result of that op.
bool Advisor::uses(ValueId id, std::string_view op, ValueId* result) {
  if (users_.empty()) users_ = users_of(graph());
  std::vector<ValueId> open = {id};
  for (std::size_t at = 0; at < open.size() && at < kFar; ++at) {
    for (const NodeId user : users_[open[at].at()]) {
      if (!user.valid()) continue;
      const Node& node = graph().node(user);
      if (node.outputs.empty() || !node.outputs.front().valid()) continue;
      if (node.op_type == op) {
        if (result != nullptr) *result = node.outputs.front();
        return true;
      }
      if (moves(node)) open.push_back(node.outputs.front());
    }
  }
  return false;
}

std::string Advisor::declare(ValueId input, std::string_view where) const {
  const std::string& name = graph().value(input).name;
  if (graph().value(input).constant) {
    return "declare what callers give instead of the default of '" + name + "': --range '" + name + ":[lo,hi]'; else ";
  }
  return "if '" + name + "' is never " + std::string(where) + ", declare what it holds: --range '" + name +
         ":[lo,hi]'; else ";
}

// Divisors, reciprocals, moduli: how zero is kept away depends on what the number is.
std::string Advisor::on_divisor(const Finding& finding) {
  const ValueId value = finding.value;
  const DType dtype = dtype_of(value);
  const std::string eps = epsilon(dtype);
  const Node* node = maker(value);
  const std::string op = node == nullptr ? "" : std::string(node->op_type);
  // What is 0 and nothing else need not be a count: a sum of nothing is, too.
  const bool numbered = finding.seen.integer && finding.seen.lo < finding.seen.hi;
  const bool counts = numbered || (node != nullptr && node->op != nullptr && node->op->traits.shape_only);
  const bool positive = finding.seen.has_finite() && finding.seen.lo >= 0;
  if (is_main_input(value)) return declare(value, "0") + "replace zeros before the division";
  if (checked_.analysis.ranges[value.at()].exact) {
    return "the divisor is the same for every input: correct the constant it comes from, or leave out where it is 0";
  }
  if (counts) {
    const bool size = !finding.path.empty() && is_size(finding.path.front());
    return std::string("this counts something and can be 0: divide by Max(n, 1)") +
           (size ? ", or give the sizes with --shape" : "");
  }
  if (op == "ReduceSum" && node != nullptr && op_behind(node->inputs.front()) == "Exp") {
    return "subtract the row's maximum before Exp, or use Softmax: then the sum is at least 1";
  }
  if (is_one_of(op, {"ReduceL1", "ReduceL2", "Sqrt", "LpPool"}) && positive) {
    return "a norm, a deviation, a root is 0 where what it is taken of vanishes: divide by Max(d, " + eps +
           "), or add " + eps + " before the root";
  }
  if (is_one_of(op, {"ReduceSum", "ReduceMean", "ReduceMax"}) && positive) {
    return "this is 0 when all summands are: divide by Max(d, " + eps + "), or by Max(n, 1) if it is a count";
  }
  if (is_one_of(op, {"Softmax", "Sigmoid", "Exp"})) {
    return "it is positive on paper but rounds to 0: subtract logarithms instead of dividing, or divide by Max(d, " +
           eps + ")";
  }
  if (positive) return "keep the divisor away from zero: Max(d, " + eps + "), or add " + eps;
  return "the divisor can have either sign, so an added epsilon only moves the zero: use Where(Abs(d) < " + eps + ", " +
         eps + ", d)";
}

// The quotient is too large because the divisor can be tiny.
std::string Advisor::on_tiny_divisor(const Finding& finding) const {
  const Node& node = graph().node(finding.node);
  const Hazard* hazard = zero_hazard(node);
  const std::size_t at = hazard == nullptr ? node.inputs.size() : hazard->operand;
  if (at >= node.inputs.size() || !node.inputs[at].valid()) return "";
  const DType dtype = dtype_of(node.inputs[at]);
  const Range divisor = checked_.analysis.ranges[node.inputs[at].at()].hull();
  const double least = divisor.least_magnitude();
  const std::string bound =
      divisor.may_be_negative() ? "keep it away from zero" : "bound it from below, Max(d, " + epsilon(dtype) + ")";
  if (!(least > 0) || !(least < 1)) return "the divisor can be tiny: " + bound;
  return "the divisor can be as small as " + number_text(least, dtype) + ": " + bound +
         ", or use a larger epsilon in it";
}

std::string Advisor::on_logarithm(const Finding& finding) {
  const Node* node = maker(finding.value);
  const std::string op = node == nullptr ? "" : std::string(node->op_type);
  const std::string eps = epsilon(dtype_of(finding.value));
  if (op == "Softmax") return "use LogSoftmax instead of Log(Softmax(x)): it never rounds to Log(0)";
  if (op == "Sigmoid") return "Log(Sigmoid(x)) is -Softplus(-x), which never rounds to Log(0)";
  if (op == "Sub" && node != nullptr && node->inputs.size() == 2) {
    const std::string from = op_behind(node->inputs[1]);
    if (from == "Sigmoid") return "Log(1 - Sigmoid(x)) is -Softplus(x), which never rounds to Log(0)";
    if (from == "Softmax") return "1 - p rounds to 0 where p is nearly 1: clamp it, Log(Max(1 - p, " + eps + "))";
  }
  if (op == "Div" && op_behind(node->inputs[0]) == "Exp" && op_behind(node->inputs[1]) == "ReduceSum") {
    return "this is the logarithm of a softmax: use LogSoftmax, which never rounds to Log(0)";
  }
  if (op == "Div") return "subtract logarithms, Log(a) - Log(b), each of a clamped operand: Log(Max(a, " + eps + "))";
  if (node != nullptr && node->op != nullptr && node->op->traits.random) {
    return "a uniform random number can be exactly 0: Clip(u, " + eps + ", 1) before the logarithm";
  }
  const std::string clamp = "clamp the operand: Log(Max(x, " + eps + "))";
  return is_main_input(finding.value) ? declare(finding.value, "0 or negative") + clamp : clamp;
}

std::string Advisor::on_root(const Finding& finding) {
  const std::string op = op_behind(finding.value);
  const Node* node = maker(finding.value);
  if (op == "Sub" && is_one_of(op_behind(node->inputs[0]), {"ReduceMean", "ReduceSumSquare", "ReduceSum", "Div"})) {
    return "a difference rounds below zero: compute a variance as the mean of (x - mean)^2 instead of "
           "E[x^2] - E[x]^2, or clamp it, Sqrt(Max(x, 0))";
  }
  if (op == "Sub") return "a difference can round below zero: clamp it, Sqrt(Max(x, 0))";
  const std::string clamp = "clamp the operand: Sqrt(Max(x, 0))";
  return is_main_input(finding.value) ? declare(finding.value, "negative") + clamp : clamp;
}

// What the exponential is for shows in what uses it.
std::string Advisor::on_exponential(const Finding& finding) {
  if (!finding.node.valid()) return "";
  const Node& node = graph().node(finding.node);
  if (node.op_type == "Softplus") {
    return "keep this node in float32, or export for operator set 22: in those before, ONNX Runtime computes it as "
           "Log(Exp(x) + 1) in this format";
  }
  if (node.op_type != "Exp" || !node.outputs.front().valid() || !node.inputs.front().valid()) return "";
  const ValueId result = node.outputs.front();
  const Node* shift = maker(node.inputs.front());
  if (shift != nullptr && shift->op_type == "Sub" && op_behind(shift->inputs[1]) == "ReduceMax") {
    return "the maximum is subtracted already, but of a row of -Inf it is -Inf itself: subtract "
           "Where(IsInf(m), 0, m) instead";
  }
  ValueId sum;
  if (uses(result, "ReduceSum", &sum)) {
    if (uses(sum, "Log")) return "subtract the maximum first, or use ReduceLogSumExp (or LogSoftmax)";
    return "subtract the row's maximum first, or use Softmax";
  }
  if (uses(result, "Add", &sum)) {
    if (uses(sum, "Log")) return "use Softplus instead of Log(1 + Exp(x))";
    if (uses(sum, "Div") || uses(sum, "Reciprocal")) return "use Sigmoid instead of 1 / (1 + Exp(-x))";
  }
  const std::string limit = exp_limit(dtype_of(result));
  const bool log_scale = holds_word(graph().value(node.inputs.front()).name + " " + node.name,
                                    {"logvar", "log_var", "log_std", "logstd", "log_sigma", "logsigma", "log_scale"});
  return std::string(log_scale ? "clamp the log-variance" : "clamp the exponent (a log-variance, say)") +
         ": Exp(Min(x, " + limit + ")) stays finite; tighter if it is multiplied afterwards";
}

std::string Advisor::on_overflow(const Finding& finding, const Rule& rule) {
  const DType dtype = dtype_of(finding.value);
  const std::string scale = rule.code == "FN204"   ? "scale one operand down and the result up again"
                            : rule.code == "FN205" ? "scale the operand before the reduction"
                                                   : "scale or clip the operands";
  // Nothing large comes out: what is added up on the way is.
  const bool inside =
      rule.code == "FN205" && finding.seen.has_finite() && finding.seen.magnitude() < max_finite(dtype) / 4;
  if (inside && is_narrow(dtype)) {
    return "the sum on the way exceeds " + number_text(max_finite(dtype), dtype) + " when it is kept in " +
           std::string(name(dtype)) +
           ": keep this node in float32, or say --accumulate float32 if the runtime adds in float32";
  }
  if (checked_.converted && is_narrow(dtype)) return "keep this node in float32, or " + scale;
  if (is_narrow(dtype)) return "cast to float32 around this node, or " + scale;
  const auto assumed = [&](ValueId id) { return is_main_input(id) && !graph().value(id).constant; };
  const auto input = std::ranges::find_if(finding.path, assumed);
  if (input == finding.path.end()) return scale;
  return "if '" + graph().value(*input).name + "' is smaller in practice, declare it: --range '" +
         graph().value(*input).name + ":[lo,hi]'; else " + scale;
}

std::string Advisor::on_constant(const Finding& finding, const Rule& rule) const {
  const DType target = finding.value.valid() ? dtype_of(finding.value) : DType::undefined;
  if (rule.code == "FN402" && finding.seen.has_finite() && finding.seen.lo < finding.seen.hi) {
    return "infinities among ordinary numbers are mostly damage: export from a healthy checkpoint; where one is meant "
           "as a bound or mask, use a large finite number";
  }
  if (rule.code == "FN402") return "use a large finite number such as " + mask_number(target) + " or its negative";
  const bool masks = finding.seen.has_finite() && finding.seen.is_point() && finding.seen.lo < 0;
  if (rule.code != "FN403" || !masks || !is_float(target)) return "";
  return "use a number that the format holds: " + mask_number(target) +
         " masks as well; or keep the constant and what reads it in float32";
}

// Which input masks, and what would have to be known of it, shows at the start of the path.
Advice Advisor::on_masked_softmax(const Finding& finding) const {
  const ValueId scores = finding.value;
  const DType dtype = dtype_of(scores);
  Advice advice;
  advice.fix = "mask with a large finite number such as " + mask_number(dtype) + " instead of -Inf";
  if (finding.path.empty() || !is_main_input(finding.path.front())) return advice;
  const ValueId mask = finding.path.front();
  const Type& type = checked_.types[mask];
  if (type.ranked && type.shape.empty()) return advice;
  const bool additive = is_float(type.dtype) && checked_.analysis.ranges[mask.at()].hull().ninf;
  // Where large values mask, or several masks together, no declaration about one of them helps.
  if (!additive && finding.from_end >= 0) return advice;
  const std::string& name = graph().value(mask).name;
  const bool bare = std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
  advice.fix += "; or, if no row of '" + name + "' is masked completely, say so in a file (--contract FILE.toml):";
  advice.contract = {"[inputs." + (bare ? name : quoted_list({name}).substr(1, quoted_list({name}).size() - 2)) + "]",
                     additive ? "mask = \"one-zero-per-row\"" : "mask = \"one-true-per-row\""};
  return advice;
}

// Rules whose repair is one and the same everywhere, with numbers that the format can tell apart.
std::string Advisor::on_domain(const Finding& finding, const Rule& rule) const {
  const DType dtype = dtype_of(finding.value);
  const std::string near_one = dtype == DType::float16    ? "0.999"
                               : dtype == DType::bfloat16 ? "0.99"
                               : dtype == DType::float64  ? "0.999999999999"
                                                          : "0.999999";
  if (rule.code == "FN103") return "keep x above -1: Max(x, -" + near_one + ")";
  if (rule.code == "FN105")
    return "add " + epsilon(dtype) + " before the root, or clamp the operand: Max(x, " + epsilon(dtype) + ")";
  if (rule.code == "FN106")
    return "keep the base positive, Max(x, " + epsilon(dtype) + ") or Abs(x), or use a constant whole exponent";
  if (rule.code == "FN109") return "clip the operand: Clip(x, -" + near_one + ", " + near_one + ")";
  if (rule.code == "FN307") return "keep the scale positive: Max(scale, " + epsilon(dtype) + ")";
  return "";
}

// Nodes of the backward pass are not in the user's model: the forward operation is what can be changed.
Advice Advisor::on_derivative(const Finding& finding) const {
  const Node& forward = graph().node(graph().node(finding.node).gradient_of);
  if (is_one_of(finding.rule, {"FN203", "FN204", "FN205", "FN207"})) {
    return {.fix = "the derivative of " + describe(graph(), forward) +
                   " can be too large for the format: scale the loss down, bound what reaches that node, or declare "
                   "narrower ranges (--range)"};
  }
  return {.fix = "keep the operand of " + describe(graph(), forward) +
                 " away from where its derivative is not finite: add an epsilon before the operation (inside a root or "
                 "norm), and where a Where chooses, replace the operand before it too"};
}

Advice Advisor::on(const Finding& finding, const Rule& rule) {
  const std::string_view code = rule.code;
  const bool has_value = finding.value.valid();
  if (!has_value) return {};
  if (finding.node.valid() && graph().node(finding.node).gradient_of.valid()) return on_derivative(finding);
  if (code == "FN301") return on_masked_softmax(finding);
  if (is_one_of(code, {"FN101", "FN114"})) return {.fix = on_divisor(finding)};
  if (code == "FN208" && finding.node.valid()) return {.fix = on_tiny_divisor(finding)};
  if (code == "FN102") return {.fix = on_logarithm(finding)};
  if (code == "FN104") return {.fix = on_root(finding)};
  if (code == "FN201") return {.fix = on_exponential(finding)};
  if (is_one_of(code, {"FN203", "FN204", "FN205", "FN207"})) return {.fix = on_overflow(finding, rule)};
  if (code == "FN302" && finding.node.valid() && graph().node(finding.node).op_type == "Cast") {
    return {.fix = "clip the operand to the range of the target format: beyond it there is only NaN"};
  }
  if (code == "FN304" && !is_narrow(dtype_of(finding.value))) return {.fix = "use an epsilon of at least 1e-5"};
  if (code == "FN305" && graph().value(finding.value).constant) {
    return {.fix = "repair the stored variance: it must not be negative"};
  }
  if (code == "FN305") {
    const std::string clamp = "clamp the variance: Max(variance, 0)";
    return {.fix = is_main_input(finding.value) ? declare(finding.value, "negative") + clamp : clamp};
  }
  if (group_of(code) == RuleGroup::constant) return {.fix = on_constant(finding, rule)};
  if (code == "FN306") {
    return {.fix =
                "if it is never empty, give the sizes with --shape; else select a default for the empty case, or "
                "divide a sum by Max(count, 1)"};
  }
  const bool of_operand = finding.operand >= 0 && (group_of(code) == RuleGroup::domain || code == "FN307");
  if (!of_operand || !is_main_input(finding.value)) return {.fix = on_domain(finding, rule)};
  const std::string fix = on_domain(finding, rule);
  return {.fix =
              declare(finding.value, "outside what the operator takes") + (fix.empty() ? std::string(rule.fix) : fix)};
}

}  // namespace finity

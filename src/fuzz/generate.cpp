#include "fuzz/generate.h"

#include <algorithm>

#include "base/error.h"
#include "fuzz/backward.h"
#include "fuzz/beyond.h"
#include "fuzz/laws.h"
#include "fuzz/schedule.h"
#include "fuzz/spoil.h"
#include "types/graph_writer.h"
#include "types/infer.h"

namespace finity::fuzz {

namespace {

// Every so many samples ops are drawn that no library was seen to run, too: what was tried of them was not everything.
constexpr std::uint64_t kControl = 5;
// Every so many samples are a path whose turn it is.
constexpr std::uint64_t kScheduled = 8;
// So many of a hundred legal samples get operands that are not finite.
constexpr std::uint64_t kNotFinite = 6;

int draw_opset(Rng& rng, int newest) {
  std::vector<int> opsets = {11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 18, 19, 19, 20, 21, 21, 22, 23, 24, 10, 9};
  std::erase_if(opsets, [&](int opset) { return opset > newest; });
  return opsets.empty() ? newest : opsets[rng.below(opsets.size())];
}

bool has_subgraph(const OpDef& op) {
  return std::ranges::any_of(signature_of(op).attrs,
                             [](const AttrSpec& spec) { return spec.kind == "graph" || spec.kind == "graphs"; });
}

const OpDef& any(const std::vector<const OpDef*>& ops, Rng& rng) { return *ops[rng.below(ops.size())]; }

// Mostly what chains are often made of; the rest of the table comes in too.
const OpDef& usual(const std::vector<const OpDef*>& ops, Rng& rng) {
  std::uint64_t all = 0;
  for (const OpDef* op : ops) all += static_cast<std::uint64_t>(op->drawing.often);
  if (all == 0 || rng.below(100) >= 70) return any(ops, rng);
  std::uint64_t place = rng.below(all);
  const auto here = [&](const OpDef* op) {
    const auto often = static_cast<std::uint64_t>(op->drawing.often);
    if (place < often) return true;
    place -= often;
    return false;
  };
  return **std::ranges::find_if(ops, here);
}

// Chains with skips: mostly the newest result goes on, sometimes an older one.
Sample draw_chain(const std::vector<const OpDef*>& ops, Rng& rng, int opset, int steps) {
  Grower grower(rng, opset, "chain");
  std::string last;
  for (int i = 0; i < 4 * steps && static_cast<int>(grower.sample().steps.size()) < steps; ++i) {
    std::string first = last;
    if (!grower.names().empty() && grower.chance(15)) first = grower.names()[rng.below(grower.names().size())];
    const std::vector<std::string> made = grower.add(usual(ops, rng), first);
    if (!made.empty()) last = made.front();
  }
  return std::move(grower).finish();
}

// The ops whose turn it is, each on the result of the one before where that is legal.
Sample draw_path(std::vector<const OpDef*> ops, Rng& rng, int opset, std::uint64_t seed, std::uint64_t number) {
  Rng order(seed);
  for (std::size_t i = ops.size(); i > 1; --i) std::swap(ops[i - 1], ops[order.below(i)]);
  Grower grower(rng, opset, "path");
  std::string last;
  for (const std::size_t place : path_in_turn(ops.size(), number)) {
    std::vector<std::string> made;
    if (place < ops.size()) made = grower.add(*ops[place], last);
    if (place < ops.size() && made.empty() && !last.empty()) made = grower.add(*ops[place]);
    last = made.empty() ? std::string() : made.front();
  }
  return std::move(grower).finish();
}

// The pair of an op's attributes whose turn it is: all pairs come, one after the other.
std::vector<std::string> pair_in_turn(const OpDef& op, std::uint64_t turn) {
  const std::vector<AttrSpec>& attrs = signature_of(op).attrs;
  const std::uint64_t count = attrs.size();
  if (count < 2) return {};
  std::uint64_t place = turn % (count * (count - 1) / 2);
  std::size_t first = 0;
  for (; place >= count - 1 - first; ++first) place -= count - 1 - first;
  return {std::string(attrs[first].name), std::string(attrs[first + 1 + place].name)};
}

Generated draw_single(const OpDef& op, Rng& rng, int opset, bool invalid, std::uint64_t turn) {
  Grower grower(rng, opset, "sweep " + std::string(op.identity.name));
  grower.allow_ends();
  if (rng.below(2) == 0) grower.aim(pair_in_turn(op, turn));
  grower.add(op);
  if (invalid && grower.refused() && grower.chance(10)) {
    Generated result{.sample = *grower.refused(), .legal = false};
    result.sample.origin = "refused " + std::string(op.identity.name);
    return result;
  }
  Sample sample = std::move(grower).finish();
  if (invalid && rng.below(100) < 8) {
    if (std::optional<Sample> changed = spoilt(sample, rng)) return {.sample = std::move(*changed), .legal = false};
  }
  return {.sample = std::move(sample)};
}

// A chain with its backward pass; the chain alone where that is not known.
Sample draw_backward(const std::vector<const OpDef*>& ops, Rng& rng) {
  const Sample forward = draw_chain(ops, rng, GraphWriter::kOpset, 1 + static_cast<int>(rng.below(4)));
  if (forward.steps.empty()) return forward;
  try {
    const std::optional<Backward> backward = with_backward(forward);
    return backward ? backward->sample : forward;
  } catch (const Error&) {
    return forward;
  }
}

// Steps that the reference runs one by one may contradict each other as a whole: an optional is a tensor when it runs.
bool is_typed(const Sample& sample) {
  try {
    infer_types(graph(sample));
    return true;
  } catch (const Error&) {
    return false;
  }
}

// Without those that none of the campaign's libraries was seen to run.
std::vector<const OpDef*> that_run(std::vector<const OpDef*> ops, const GenerateOptions& options, bool control) {
  if (!control && !options.runs.empty())
    std::erase_if(ops, [&](const OpDef* op) { return !std::ranges::binary_search(options.runs, op->identity.name); });
  return ops;
}

bool holds_one_of(const Sample& sample, const std::vector<std::string>& ops) {
  return ops.empty() || std::ranges::any_of(sample.steps, [&](const Step& step) {
           return std::ranges::find(ops, step.op) != ops.end();
         });
}

}  // namespace

std::vector<const OpDef*> sample_ops(const GenerateOptions& options) {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : all_ops()) {
    if (op->drawing.never || !op->identity.domain.empty() || op->traits.random || op->meaning.eval == nullptr ||
        has_subgraph(*op))
      continue;
    const Signature& signature = signature_of(*op);
    const Type::Kind gives = signature.outputs.front().type.kind;
    if (signature.inputs.empty() || gives == Type::Kind::sequence || gives == Type::Kind::optional) continue;
    if (!options.ops.empty() && std::ranges::find(options.ops, op->identity.name) == options.ops.end()) continue;
    ops.push_back(op);
  }
  return ops;
}

Generated generate(std::uint64_t seed, std::uint64_t index, const GenerateOptions& options) {
  Rng rng(seed * 0x9e3779b97f4a7c15 + index);
  const bool scheduled = options.in_turn && index % kScheduled == 1, control = !scheduled && index % kControl == 0;
  const std::vector<const OpDef*> all = that_run(sample_ops({}), options, control);
  const std::vector<const OpDef*> chosen = options.ops.empty() ? all : sample_ops(options);
  if (chosen.empty()) return {};
  const bool with_backward = options.newest_opset >= GraphWriter::kOpset;
  Generated result;
  for (std::uint64_t i = 0; i < 20 && result.sample.steps.empty(); ++i) {
    const int opset = draw_opset(rng, options.newest_opset);
    const std::uint64_t kind = rng.below(100);
    if (i == 0 && scheduled) result.sample = draw_path(all, rng, opset, seed, index / kScheduled);
    else if (kind < 35 || (!options.ops.empty() && kind < 42)) {
      // An op that came later than the operator set is drawn in the first that has it.
      const OpDef& op = *chosen[(index / 3 + i) % chosen.size()];
      const int since = std::max(op.identity.since, op.drawing.since);
      result = draw_single(op, rng, since <= options.newest_opset ? std::max(opset, since) : opset, options.invalid,
                           (index / 3 + i) / chosen.size());
    } else if (kind < 60) result.sample = draw_pattern(rng, opset);
    else if (kind < 70 && with_backward) result.sample = draw_backward(all, rng);
    else if (kind < 87) result.sample = draw_chain(all, rng, opset, 2 + static_cast<int>(rng.below(2)));
    else result.sample = draw_chain(all, rng, opset, 4 + static_cast<int>(rng.below(6)));
    if (!holds_one_of(result.sample, options.ops) || (result.legal && !is_typed(result.sample))) result = {};
  }
  if (result.legal && !result.sample.steps.empty() && rng.below(100) < kNotFinite) {
    if (std::optional<Sample> changed = with_not_finite(result.sample, rng)) result.sample = std::move(*changed);
  }
  if (result.legal && !result.sample.steps.empty() && rng.below(100) < 20) {
    if (std::optional<Changed> changed = apply_law(result.sample, rng)) {
      result.before = std::move(result.sample);
      result.sample = std::move(changed->sample);
      result.law = changed->law;
      result.sample.origin += ", " + result.law;
    }
  }
  return result;
}

}  // namespace finity::fuzz

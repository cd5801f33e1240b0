// What an input is taken to be when nothing is declared. The table stands in
// docs/contracts.md; every guess is printed, so that the user can correct it.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "check/contract.h"
#include "ops/op.h"

namespace finity {

namespace {

// Elements stay what they are: an index may go through these on its way to the table it indexes.
constexpr std::array<std::string_view, 8> kCarriers = {"Cast",    "Identity",  "Reshape", "Unsqueeze",
                                                       "Squeeze", "Transpose", "Flatten", "Expand"};

// "attentionMask_1" -> "attention mask 1 "
std::string words_of(std::string_view name) {
  std::string words = " ";
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto c = static_cast<unsigned char>(name[i]);
    const bool hump = std::isupper(c) != 0 && i > 0 && std::islower(static_cast<unsigned char>(name[i - 1])) != 0;
    if (hump && words.back() != ' ') words += ' ';
    if (std::isalnum(c) != 0) words += static_cast<char>(std::tolower(c));
    else if (words.back() != ' ') words += ' ';
  }
  return words + ' ';
}

// One of the words is, begins with ("prob*") one of the stems.
template <std::size_t N>
bool has_word(const std::string& words, const std::array<std::string_view, N>& stems) {
  return std::ranges::any_of(stems, [&](std::string_view stem) {
    const bool prefix = stem.ends_with('*');
    const std::string wanted = ' ' + std::string(prefix ? stem.substr(0, stem.size() - 1) : stem) + (prefix ? "" : " ");
    return words.find(wanted) != std::string::npos;
  });
}

constexpr std::array<std::string_view, 8> kIdWords = {"id",     "ids",      "inputids", "token",
                                                      "tokens", "tokenids", "index",    "indices"};
constexpr std::array<std::string_view, 10> kCountWords = {"len",   "lens",   "length", "lengths",   "seqlen",
                                                          "count", "counts", "step",   "timestep*", "steps"};
constexpr std::array<std::string_view, 4> kShareWords = {"prob*", "keep*", "dropout*", "keepprob"};
constexpr std::array<std::string_view, 6> kImageWords = {"image*", "img*", "pixel*", "picture*", "photo*", "frame*"};

bool is_mask(const std::string& words) { return words.find("mask") != std::string::npos; }

bool looks_like_image(const std::string& words, const Type& type) {
  if (has_word(words, kImageWords)) return true;
  if (!type.ranked || type.shape.size() != 4) return false;
  const auto colours = [](const Dim& dim) { return dim.size == 1 || dim.size == 3; };
  return colours(type.shape[1]) || colours(type.shape[3]);
}

Guess guess_integer(const std::string& words, DType dtype, std::int64_t indexed_size) {
  const std::string type(name(dtype));
  const bool small = info(dtype).bits <= 8;
  if (indexed_size > 0) {
    const bool negative = !has_word(words, kIdWords) && is_signed_int(dtype);
    const auto size = static_cast<double>(indexed_size);
    return {from_bounds(dtype, negative ? -size : 0.0, size - 1),
            type + ", indexes an axis of size " + std::to_string(indexed_size)};
  }
  if (is_mask(words)) return {from_bounds(dtype, 0, 1), type + ", a mask by its name"};
  if (small) return {any_finite(dtype), type};
  const double max = max_finite(dtype);
  if (has_word(words, kCountWords)) return {from_bounds(dtype, 1, std::min(1e6, max)), type + ", a count by its name"};
  return {from_bounds(dtype, 0, std::min(1000.0, max)), type};
}

Guess guess_float(const std::string& words, const Type& type, DType dtype) {
  const std::string text(name(dtype));
  const double max = max_finite(dtype);
  const auto within = [&](double lo, double hi) { return from_bounds(dtype, std::max(lo, -max), std::min(hi, max)); };
  if (is_mask(words)) return {within(0, 1), text + ", a mask by its name"};
  if (has_word(words, kShareWords)) return {within(0, 1), text + ", a probability by its name"};
  if (has_word(words, kCountWords)) return {within(1, 1e6), text + ", a count by its name"};
  if (looks_like_image(words, type)) return {within(-255, 255), text + ", an image by its name or shape"};
  return {within(-50, 50), text};
}

const Type& leaf(const Type& type) { return type.element ? leaf(*type.element) : type; }

// The axis that operand `operand` of the node indexes, as a size; -1 when it indexes none or the size is unknown.
std::int64_t indexed_by(const Node& node, std::size_t operand, const Types& types) {
  if (node.op == nullptr || node.inputs.empty() || !node.inputs[0].valid()) return -1;
  const Signature& signature = signature_of(*node.op);
  const bool indexes = operand > 0 && operand < signature.inputs.size() && signature.inputs[0].name == "data" &&
                       signature.inputs[operand].name == "indices";
  const AttrSpec* axis_spec = signature.attr("axis");
  if (!indexes || axis_spec == nullptr) return -1;
  const Type& data = types[node.inputs[0]];
  const Attr* attr = node.attrs.find("axis");
  const auto* given = attr == nullptr ? nullptr : std::get_if<std::int64_t>(attr);
  std::int64_t axis = given == nullptr ? 0 : *given;
  const auto rank = static_cast<std::int64_t>(data.shape.size());
  if (axis < 0) axis += rank;
  if (!data.ranked || axis < 0 || axis >= rank) return -1;
  return data.shape[static_cast<std::size_t>(axis)].size;
}

}  // namespace

std::vector<std::int64_t> indexed_sizes(const Graph& graph, const Types& types) {
  std::vector<std::int64_t> sizes(graph.values().size(), -1);
  std::vector<ValueId> root(graph.values().size());  // the main input whose elements a value carries
  for (const ValueId id : graph.main().inputs) {
    const Type& type = types[id];
    if (type.is_tensor() && is_int(type.dtype)) root[id.at()] = id;
  }
  for (const Body& body : graph.bodies()) {
    for (const NodeId node_id : body.nodes) {
      const Node& node = graph.node(node_id);
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId used = node.inputs[i];
        if (!used.valid() || !root[used.at()].valid()) continue;
        const std::int64_t size = indexed_by(node, i, types);
        std::int64_t& known = sizes[root[used.at()].at()];
        if (size > 0) known = known < 0 ? size : std::min(known, size);
        const bool carries =
            i == 0 && node.domain.empty() && std::ranges::find(kCarriers, node.op_type) != kCarriers.end();
        if (carries && !node.outputs.empty() && node.outputs[0].valid()) root[node.outputs[0].at()] = root[used.at()];
      }
    }
  }
  return sizes;
}

Guess guess_range(std::string_view name, const Type& type, std::int64_t indexed_size) {
  const Type& element = leaf(type);
  const DType dtype = element.dtype;
  const std::string words = words_of(name);
  if (dtype == DType::boolean) return {from_bounds(dtype, 0, 1), "bool"};
  if (is_int(dtype)) return guess_integer(words, dtype, indexed_size);
  if (is_float(dtype)) return guess_float(words, element, dtype);
  return {top(dtype), dtype == DType::undefined ? "unknown type" : std::string(finity::name(dtype))};
}

}  // namespace finity

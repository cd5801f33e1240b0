// What an input is taken to be when nothing is declared. The table stands in
// docs/contracts.md; every guess is printed, so that the user can correct it.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "check/class_counts.h"
#include "check/contract.h"
#include "ops/table/op.h"

namespace finity {

namespace {

// Elements stay what they are: an index may go through these on its way to the table it indexes.
bool carries(const Node& node) {
  const ElementSource source = node.op == nullptr ? ElementSource::computed : node.op->traits.elements;
  return source == ElementSource::moved || source == ElementSource::converted;
}

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

// What the name is about stands last: a length_penalty is no length. Numbers behind it do not count.
std::string last_word_of(const std::string& words) {
  std::string last = " ";
  for (std::size_t at = 0; (at = words.find_first_not_of(' ', at)) != std::string::npos;) {
    const std::size_t end = words.find(' ', at);
    if (std::isdigit(static_cast<unsigned char>(words[at])) == 0) last = ' ' + words.substr(at, end - at) + ' ';
    at = end;
  }
  return last;
}

constexpr std::array<std::string_view, 9> kIdWords = {"id",       "ids",   "inputids", "token",    "tokens",
                                                      "tokenids", "index", "indices",  "position*"};
constexpr std::array<std::string_view, 9> kCountWords = {"len",     "lens",  "length", "lengths", "seqlen",
                                                         "seqlens", "count", "counts", "num"};
constexpr std::array<std::string_view, 4> kStepWords = {"step", "steps", "timestep*", "iteration*"};
// Nothing may be there yet.
constexpr std::array<std::string_view, 6> kStartWords = {"past", "cache*", "prefix", "start*", "offset*", "prev*"};
constexpr std::array<std::string_view, 14> kSizeWords = {"size", "sizes", "shape", "height", "width",
                                                         "dim",  "dims",  "sr",    "rate",   "samplerate",
                                                         "fs",   "hz",    "seed",  "batch"};
constexpr std::array<std::string_view, 4> kDateWords = {"timestamp*", "date*", "epoch*", "unixtime"};
constexpr std::array<std::string_view, 4> kShareWords = {"prob*", "keep*", "dropout*", "keepprob"};
constexpr std::array<std::string_view, 6> kImageWords = {"image*", "img*", "pixel*", "picture*", "photo*", "frame*"};
constexpr std::array<std::string_view, 6> kSoundWords = {"audio*", "wave*", "pcm*", "speech*", "sound*", "samples"};
constexpr std::array<std::string_view, 5> kPlaceWords = {"box*", "bbox*", "coord*", "point*", "roi*"};

bool is_mask(const std::string& words) { return words.find("mask") != std::string::npos; }

bool looks_like_image(const std::string& words, const Type& type) {
  if (has_word(words, kImageWords)) return true;
  if (!type.ranked || type.shape.size() != 4) return false;
  const auto colours = [](const Dim& dim) { return dim.size == 1 || dim.size == 3; };
  return colours(type.shape[1]) || colours(type.shape[3]);
}

struct NamedKind {
  double lo = 0;
  double hi = 0;
  const char* what = nullptr;
};

// What a name alone says of a number, integer or float; nothing: `what` is null.
NamedKind kind_by_name(const std::string& words) {
  if (is_mask(words)) return {0, 1, "a mask"};
  const std::string last = last_word_of(words);
  if (has_word(last, kCountWords) || words.starts_with(" num "))
    return {has_word(words, kStartWords) ? 0.0 : 1.0, 1e6, "a count"};
  if (has_word(last, kStepWords)) return {0, 1e9, "a step"};
  if (has_word(last, kDateWords)) return {0, 9e15, "a point in time"};  // in microseconds at most
  return {};
}

Guess guess_integer(const std::string& words, DType dtype, std::int64_t indexed_size) {
  const std::string type(name(dtype));
  if (indexed_size > 0) {
    // The table refuses everything else; only that ids are not counted from the end is a guess.
    const bool negative = !has_word(words, kIdWords) && is_signed_int(dtype);
    const auto size = static_cast<double>(indexed_size);
    return {from_bounds(dtype, negative ? -size : 0.0, size - 1),
            type + ", indexes an axis of size " + std::to_string(indexed_size), negative || !is_signed_int(dtype)};
  }
  const double max = max_finite(dtype);
  const bool small = info(dtype).bits <= 8;
  const NamedKind kind = kind_by_name(words);
  if (kind.what != nullptr && (!small || is_mask(words))) {
    return {from_bounds(dtype, kind.lo, std::min(kind.hi, max)), type + ", " + kind.what + " by its name"};
  }
  constexpr double kMost = 2147483647;  // of int32: who counts further says so
  const bool natural = has_word(words, kIdWords) || has_word(last_word_of(words), kSizeWords);
  if (info(dtype).bits < 64 && !natural) return {any_finite(dtype), type, true};
  return {from_bounds(dtype, natural ? 0.0 : std::max(-kMost - 1, lowest_finite(dtype)), std::min(kMost, max)), type};
}

// What is called a batch and has more axes than one, or nobody knows how many, is what a batch holds.
bool is_size(const std::string& words, const Type& type) {
  const std::string last = last_word_of(words);
  if (last == " batch ") return type.ranked && type.shape.size() <= 1;
  return has_word(last, kSizeWords);
}

Guess guess_float(const std::string& words, const Type& type, DType dtype) {
  const std::string text(name(dtype));
  const double max = max_finite(dtype);
  const auto guess = [&](double lo, double hi, const std::string& what) {
    return Guess{from_bounds(dtype, std::max(lo, -max), std::min(hi, max)), text + (what.empty() ? "" : ", " + what)};
  };
  if (has_word(words, kShareWords)) return guess(0, 1, "a probability by its name");
  if (const NamedKind kind = kind_by_name(words); kind.what != nullptr) {
    return guess(kind.lo, kind.hi, std::string(kind.what) + " by its name");
  }
  if (is_size(words, type)) return guess(0, 1e6, "a size or rate by its name");
  if (looks_like_image(words, type)) return guess(-255, 255, "an image by its name or shape");
  if (has_word(words, kSoundWords)) return guess(-32768, 32768, "sound by its name");
  if (has_word(words, kPlaceWords)) return guess(-1e5, 1e5, "coordinates by its name");
  return guess(-50, 50, "");
}

const Type& leaf(const Type& type) { return type.element ? leaf(*type.element) : type; }

// The size of the axis that an attribute names; -1 when it is not known.
std::int64_t axis_size(const Node& node, const Type& type, std::int64_t usual) {
  const Attr* attr = node.attrs.find("axis");
  const auto* given = attr == nullptr ? nullptr : std::get_if<std::int64_t>(attr);
  std::int64_t axis = given == nullptr ? usual : *given;
  const auto rank = static_cast<std::int64_t>(type.shape.size());
  if (axis < 0) axis += rank;
  if (!type.ranked || axis < 0 || axis >= rank) return -1;
  return type.shape[static_cast<std::size_t>(axis)].size;
}

// Losses: the scores have an axis of classes behind the batch.
std::int64_t classes_of_labels(const Node& node, std::size_t operand, const Signature& signature, const Types& types) {
  const bool labels = operand == 1 && signature.inputs.size() > 1 &&
                      (signature.inputs[1].name == "labels" || signature.inputs[1].name == "target");
  const Type& scores = types[node.inputs[0]];
  return labels && scores.ranked && scores.shape.size() > 1 ? scores.shape[1].size : -1;
}

// The axis that operand `operand` of the node indexes, as a size; -1 when it indexes none or the size is unknown.
std::int64_t indexed_by(const Node& node, std::size_t operand, const Types& types, bool classes) {
  if (node.op == nullptr || node.inputs.empty() || !node.inputs[0].valid()) return -1;
  const Signature& signature = signature_of(*node.op);
  // Rows with a single one: the classes are an axis of the result.
  const bool spreads = operand == 0 && !signature.inputs.empty() && signature.inputs[0].name == "indices";
  if (classes && spreads && signature.attr("axis") != nullptr) return axis_size(node, types[node.outputs[0]], -1);
  if (classes) {
    if (const std::int64_t size = classes_of_labels(node, operand, signature, types); size > 0) return size;
  }
  const bool indexes = operand > 0 && operand < signature.inputs.size() && signature.inputs[0].name == "data" &&
                       signature.inputs[operand].name == "indices";
  if (!indexes || signature.attr("axis") == nullptr) return -1;
  return axis_size(node, types[node.inputs[0]], 0);
}

// Does the result hold elements of this operand?
bool hands_on(const Node& node, std::size_t operand, bool classes) {
  if (operand == 0) return carries(node);
  return classes && node.op != nullptr && node.op->traits.elements == ElementSource::chosen;
}

std::vector<std::int64_t> sizes_of_axes(const Graph& graph, const Types& types, bool classes) {
  std::vector<std::int64_t> sizes(graph.values().size(), -1);
  std::vector<ValueId> root(graph.values().size());  // the main input whose elements a value carries
  for (const ValueId id : graph.main().inputs) {
    const Type& type = types[id];
    if (type.is_tensor() && (is_int(type.dtype) || (classes && is_float(type.dtype)))) root[id.at()] = id;
  }
  for (const Body& body : graph.bodies()) {
    for (const NodeId node_id : body.nodes) {
      const Node& node = graph.node(node_id);
      for (std::size_t i = 0; i < node.inputs.size(); ++i) {
        const ValueId used = node.inputs[i];
        if (!used.valid() || !root[used.at()].valid()) continue;
        const std::int64_t size = indexed_by(node, i, types, classes);
        std::int64_t& known = sizes[root[used.at()].at()];
        if (size > 0) known = known < 0 ? size : std::min(known, size);
        if (!hands_on(node, i, classes)) continue;
        for (const ValueId result : node.outputs) {
          if (result.valid()) root[result.at()] = root[used.at()];
        }
      }
    }
  }
  return sizes;
}

}  // namespace

std::vector<std::int64_t> indexed_sizes(const Graph& graph, const Types& types) {
  return sizes_of_axes(graph, types, false);
}

std::vector<std::int64_t> class_counts(const Graph& graph, const Types& types) {
  return sizes_of_axes(graph, types, true);
}

Guess guess_range(std::string_view name, const Type& type, std::int64_t indexed_size) {
  const Type& element = leaf(type);
  const DType dtype = element.dtype;
  const std::string words = words_of(name);
  if (dtype == DType::boolean) return {from_bounds(dtype, 0, 1), "bool", true};
  if (is_int(dtype)) return guess_integer(words, dtype, indexed_size);
  if (is_float(dtype)) return guess_float(words, element, dtype);
  return {top(dtype), dtype == DType::undefined ? "unknown type" : std::string(finity::name(dtype))};
}

}  // namespace finity

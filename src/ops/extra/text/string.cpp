// Ops on string tensors: joining, splitting, cleaning, matching.
#include <algorithm>
#include <string>
#include <unordered_set>

#include "base/error.h"
#include "ops/elementwise/elementwise.h"
#include "ops/extra/text/regex.h"
#include "ops/extra/text/utf8.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"

namespace finity {

namespace {

std::span<const std::string> strings_in(const EvalCall& call, std::size_t input) {
  const Tensor& tensor = call.in(input);
  if (tensor.dtype() != DType::string) throw Error("input " + std::to_string(input) + " is not a string tensor");
  return tensor.strings();
}

// ---- StringConcat ------------------------------------------------------------

void eval_string_concat(EvalCall& call) {
  const std::span<const std::string> left = strings_in(call, 0);
  const std::span<const std::string> right = strings_in(call, 1);
  BroadcastPairs pairs = broadcast_pairs(call.in(0).dims(), call.in(1).dims());
  std::vector<std::string> result;
  result.reserve(pairs.a.size());
  for (std::size_t i = 0; i < pairs.a.size(); ++i) {
    result.push_back(left[static_cast<std::size_t>(pairs.a[i])] + right[static_cast<std::size_t>(pairs.b[i])]);
  }
  call.out(0, Tensor::of_strings(std::move(pairs.dims), std::move(result)));
}

// ---- StringNormalizer --------------------------------------------------------

std::string change_case(const std::string& text, char32_t (*change)(char32_t)) {
  std::u32string points = decode_utf8(text);
  for (char32_t& point : points) point = change(point);
  return encode_utf8(points);
}

void infer_string_normalizer(InferCall& call) {
  if (!call.ranked(0)) return;
  Shape shape = call.shape(0);
  const bool matrix = shape.size() == 2 && (!shape[0].known() || shape[0].size == 1);
  if (shape.size() != 1 && !matrix) throw Error("X must have the shape [C] or [1, C]");
  if (matrix) shape[0] = Dim::of(1);
  const bool kept = call.texts("stopwords").empty() && shape.back().size > 0;
  if (!kept) shape.back() = {};
  call.set_shape(0, std::move(shape));
}

void eval_string_normalizer(EvalCall& call) {
  const std::span<const std::string> words = strings_in(call, 0);
  const Dims& dims = call.in(0).dims();
  if (dims.size() != 1 && (dims.size() != 2 || dims[0] != 1)) throw Error("X must have the shape [C] or [1, C]");
  const bool sensitive = call.integer("is_case_sensitive") != 0;
  const auto key = [&](const std::string& word) { return sensitive ? word : change_case(word, lower_case); };
  std::unordered_set<std::string> stopwords;
  for (const std::string& word : call.texts("stopwords")) stopwords.insert(key(word));

  const std::string action = call.text("case_change_action");
  std::vector<std::string> kept;
  for (const std::string& word : words) {
    if (!stopwords.empty() && stopwords.contains(key(word))) continue;
    if (action == "NONE") kept.push_back(word);
    else kept.push_back(change_case(word, action == "LOWER" ? lower_case : upper_case));
  }
  if (kept.empty()) kept.emplace_back();
  Dims result = dims;
  result.back() = static_cast<std::int64_t>(kept.size());
  call.out(0, Tensor::of_strings(std::move(result), std::move(kept)));
}

// ---- StringSplit -------------------------------------------------------------

constexpr std::string_view kBlanks = " \t\n\v\f\r";

// Runs of blanks separate, and none are kept at the ends.
std::vector<std::string> split_at_blanks(std::string_view text, std::int64_t most) {
  std::vector<std::string> pieces;
  text = text.substr(0, text.find_last_not_of(kBlanks) + 1);
  for (;;) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    if (text.empty()) return pieces;
    const bool last = most >= 0 && static_cast<std::int64_t>(pieces.size()) == most;
    const std::size_t end = last ? text.size() : std::min(text.find_first_of(kBlanks), text.size());
    pieces.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

std::vector<std::string> split_at(std::string_view text, std::string_view delimiter, std::int64_t most) {
  std::vector<std::string> pieces;
  for (;;) {
    const bool last = most >= 0 && static_cast<std::int64_t>(pieces.size()) == most;
    const std::size_t end = last ? std::string_view::npos : text.find(delimiter);
    pieces.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + delimiter.size());
  }
}

void infer_string_split(InferCall& call) {
  if (!call.ranked(0)) return;
  Shape pieces = call.shape(0);
  pieces.emplace_back();
  call.set_shape(0, std::move(pieces));
  call.set_shape(1, call.shape(0));
}

void eval_string_split(EvalCall& call) {
  const std::string delimiter = call.text("delimiter", "");
  const std::int64_t most = call.integer("maxsplit", -1);
  std::vector<std::vector<std::string>> pieces;
  std::vector<std::int64_t> counts;
  std::int64_t longest = 0;
  for (const std::string& text : strings_in(call, 0)) {
    pieces.push_back(delimiter.empty() ? split_at_blanks(text, most) : split_at(text, delimiter, most));
    counts.push_back(static_cast<std::int64_t>(pieces.back().size()));
    longest = std::max(longest, counts.back());
  }
  Dims dims = call.in(0).dims();
  dims.push_back(longest);
  Tensor padded(DType::string, std::move(dims));
  const std::span<std::string> target = padded.mutable_strings();
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    std::ranges::move(pieces[i], target.begin() + static_cast<std::ptrdiff_t>(i) * longest);
  }
  call.out(0, std::move(padded));
  call.out(1, Tensor::of<std::int64_t>(DType::int64, call.in(0).dims(), counts));
}

// ---- RegexFullMatch ----------------------------------------------------------

void eval_regex_full_match(EvalCall& call) {
  const Regex regex(call.text("pattern"));
  std::vector<std::int64_t> matches;
  for (const std::string& text : strings_in(call, 0)) matches.push_back(regex.matches_all_of(text) ? 1 : 0);
  call.out(0, from_elements<std::int64_t>(DType::boolean, call.in(0).dims(), matches));
}

// The number of pieces; of strings nothing is known.
void range_string_split(RangeCall& call) {
  const std::int64_t most = call.integer("maxsplit", -1);
  call.top(0);
  call.out(1,
           Range{.lo = 0, .hi = most >= 0 ? static_cast<double>(most) + 1 : max_finite(DType::int64), .integer = true});
}

const OpDef kOps[] = {
    {.identity = {.name = "StringConcat",
                  .since = 20,
                  .summary = "strings joined element by element",
                  .signature = "(X: string, Y: string) -> (Z: string)",
                  .tf = "StringJoin"},
     .meaning = {.infer = infer_broadcast, .eval = eval_string_concat},
     .analysis = {.range = range_top}},
    {.identity =
         {.name = "StringNormalizer",
          .since = 10,
          .summary = "drops stop words and changes the case of the rest",
          .signature = "(X: string) -> (Y: string)",
          .attrs =
              "case_change_action: string = NONE {LOWER, UPPER, NONE}; is_case_sensitive: int = 0; locale: string; "
              "stopwords: strings"},
     .meaning = {.infer = infer_string_normalizer,
                 .eval = eval_string_normalizer,
                 .freedom =
                     "the locale is ignored; Latin, Greek, Cyrillic and Armenian letters change case, one to one"},
     .analysis = {.range = range_top}},
    {.identity = {.name = "StringSplit",
                  .since = 20,
                  .summary = "each string cut at a delimiter, or at blanks, padded with empty strings",
                  .signature = "(X: string) -> (Y: string, Z: int64)",
                  .attrs = "delimiter: string; maxsplit: int",
                  .tf = "StringSplitV2"},
     .meaning = {.infer = infer_string_split, .eval = eval_string_split},
     .analysis = {.range = range_string_split}},
    {.identity = {.name = "RegexFullMatch",
                  .since = 20,
                  .summary = "whether a regular expression matches the whole of each string",
                  .signature = "(X: string) -> (Y: bool)",
                  .attrs = "pattern: string",
                  .tf = "RegexFullMatch"},
     .meaning = {.infer = infer_same_shape,
                 .eval = eval_regex_full_match,
                 .freedom = "patterns up to 10,000 bytes, in RE2's syntax without \\p and \\C"},
     .analysis = {.range = range_bool}},
};

}  // namespace

std::span<const OpDef> string_ops() { return kOps; }

}  // namespace finity

// TfIdfVectorizer: counts n-grams of a given pool in rows of tokens.
#include <algorithm>
#include <map>
#include <string>

#include "base/error.h"
#include "ops/linear/dot_range.h"
#include "ops/table/families.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// Columns of the output.
std::int64_t column_count(const Call& call) {
  const std::vector<std::int64_t> columns = call.integers("ngram_indexes");
  if (columns.empty()) throw Error("attribute 'ngram_indexes' is empty");
  const auto [least, most] = std::ranges::minmax(columns);
  if (least < 0 || most >= Tensor::kMaxBytes) throw Error("attribute 'ngram_indexes' holds a bad index");
  return most + 1;
}

void infer_tfidf(InferCall& call) {
  if (!call.ranked(0)) return;
  Shape shape = call.shape(0);
  if (shape.size() > 2) throw Error("X has rank " + std::to_string(shape.size()) + ", expected 1 or 2");
  if (shape.empty()) shape.emplace_back();
  shape.back() = Dim::of(column_count(call));
  call.set_shape(0, std::move(shape));
}

struct GramRange {
  std::int64_t shortest = 1;
  std::int64_t longest = 1;
  std::int64_t skips = 0;
};

GramRange gram_range(const Call& call) {
  const GramRange range{call.integer("min_gram_length"), call.integer("max_gram_length"),
                        call.integer("max_skip_count")};
  if (range.shortest < 1 || range.longest < range.shortest || range.skips < 0) {
    throw Error("min_gram_length, max_gram_length and max_skip_count do not fit");
  }
  return range;
}

template <class Token>
using Pool = std::map<std::vector<Token>, std::size_t>;  // n-gram -> its number in the pool

// The pool lists all 1-grams, then all 2-grams ...; ngram_counts says where each kind starts.
template <class Token>
Pool<Token> read_pool(const Call& call, const std::vector<Token>& tokens, const GramRange& range) {
  const std::vector<std::int64_t> starts = call.integers("ngram_counts");
  const std::size_t columns = call.integers("ngram_indexes").size();
  const auto total = static_cast<std::int64_t>(tokens.size());
  Pool<Token> pool;
  std::size_t gram = 0;
  for (std::size_t kind = 0; kind < starts.size(); ++kind) {
    const auto length = static_cast<std::int64_t>(kind) + 1;
    const std::int64_t end = kind + 1 < starts.size() ? starts[kind + 1] : total;
    if (starts[kind] < 0 || end < starts[kind] || end > total || (end - starts[kind]) % length != 0) {
      throw Error("attribute 'ngram_counts' does not fit the pool");
    }
    for (std::int64_t at = starts[kind]; at < end; at += length, ++gram) {
      if (gram >= columns) throw Error("attribute 'ngram_indexes' is too short for the pool");
      if (length < range.shortest || length > range.longest) continue;
      const auto first = tokens.begin() + static_cast<std::ptrdiff_t>(at);
      pool[std::vector<Token>(first, first + static_cast<std::ptrdiff_t>(length))] = gram;
    }
  }
  return pool;
}

// Adds the n-grams of one row; a skip of s takes every (s+1)th token. Single tokens do not depend on the skip.
template <class Token>
void count_grams(const Pool<Token>& pool, std::span<const Token> row, std::size_t length, std::int64_t skips,
                 std::vector<float>& counts) {
  const std::size_t farthest = length == 1 ? 1 : std::min(static_cast<std::size_t>(skips), row.size()) + 1;
  std::vector<Token> gram(length);
  for (std::size_t step = 1; step <= farthest && (length - 1) * step < row.size(); ++step) {
    for (std::size_t start = 0; start + (length - 1) * step < row.size(); ++start) {
      for (std::size_t i = 0; i < length; ++i) gram[i] = row[start + i * step];
      const auto found = pool.find(gram);
      if (found != pool.end()) counts[found->second] += 1.0F;
    }
  }
}

// Where each n-gram of the pool goes, and what its count is multiplied with.
struct Weighting {
  std::vector<std::int64_t> columns;
  std::vector<double> weights;
  bool once = false;

  explicit Weighting(const Call& call) : columns(call.integers("ngram_indexes")), once(call.text("mode") == "IDF") {
    if (call.text("mode") != "TF") weights = call.reals("weights");
    if (weights.empty()) weights.assign(columns.size(), 1.0);
    if (weights.size() < columns.size()) throw Error("attribute 'weights' is too short");
  }
  void add(const std::vector<float>& counts, std::span<float> row) const {
    for (std::size_t gram = 0; gram < counts.size(); ++gram) {
      const float count = once ? std::min(counts[gram], 1.0F) : counts[gram];
      row[static_cast<std::size_t>(columns[gram])] += count * static_cast<float>(weights[gram]);
    }
  }
};

template <class Token>
void vectorize(EvalCall& call, std::span<const Token> tokens, const std::vector<Token>& pool_tokens) {
  const GramRange range = gram_range(call);
  const Pool<Token> pool = read_pool(call, pool_tokens, range);
  const Weighting weighting(call);
  Dims dims = call.in(0).dims();
  if (dims.size() > 2) throw Error("X has shape " + to_string(dims) + ", expected rank 1 or 2");
  const auto rows = static_cast<std::size_t>(dims.size() == 2 ? dims[0] : 1);
  const std::size_t row_size = rows == 0 ? 0 : tokens.size() / rows;
  if (dims.empty()) dims.emplace_back();
  dims.back() = column_count(call);
  const auto width = static_cast<std::size_t>(dims.back());
  Tensor result(DType::float32, std::move(dims));
  const auto kinds = static_cast<std::int64_t>(call.integers("ngram_counts").size());
  for (std::size_t r = 0; r < rows; ++r) {
    std::vector<float> counts(weighting.columns.size(), 0.0F);
    for (std::int64_t length = range.shortest; length <= std::min(range.longest, kinds); ++length) {
      count_grams(pool, tokens.subspan(r * row_size, row_size), static_cast<std::size_t>(length), range.skips, counts);
    }
    weighting.add(counts, result.mutable_data<float>().subspan(r * width, width));
  }
  call.out(0, std::move(result));
}

void eval_tfidf(EvalCall& call) {
  if (call.in(0).dtype() == DType::string) {
    vectorize<std::string>(call, call.in(0).strings(), call.texts("pool_strings"));
  } else {
    const std::vector<std::int64_t> tokens = elements<std::int64_t>(call.in(0));
    vectorize<std::int64_t>(call, tokens, call.integers("pool_int64s"));
  }
}

// Occurrences of an n-gram in a row of `length` tokens: at most one for every start and step.
double most_occurrences(const RangeCall& call) {
  const AbsTensor& x = call.in(0);
  const std::int64_t length = x.ranked && x.rank() > 0 ? x.sizes.back() : -1;
  if (length < 0) return kManyElements;
  const double steps = std::min(static_cast<double>(gram_range(call).skips), static_cast<double>(length)) + 1;
  return static_cast<double>(length) * steps;
}

void range_tfidf(RangeCall& call) {
  const Weighting weighting(call);
  const double most = weighting.once ? 1 : most_occurrences(call);
  // Several n-grams may go to one column.
  std::map<std::int64_t, DotSum> columns;
  for (std::size_t gram = 0; gram < weighting.columns.size(); ++gram) {
    add_products(columns[weighting.columns[gram]], {.lo = 0, .hi = most}, point(weighting.weights[gram]), 1, 1);
  }
  DotSum all;
  for (const auto& [column, sum] : columns) all = join(all, sum);
  call.out(0, rounded(call, DType::float32, all, static_cast<double>(weighting.columns.size()) + 1));
}

const OpDef kOps[] = {
    {.identity =
         {.name = "TfIdfVectorizer",
          .since = 9,
          .summary = "how often each n-gram of a pool occurs in a row of tokens",
          .signature = "(X: string|int32|int64) -> (Y: float32)",
          .attrs =
              "max_gram_length: int; max_skip_count: int; min_gram_length: int; mode: string {TF, IDF, TFIDF}; "
              "ngram_counts: ints; ngram_indexes: ints; pool_int64s: ints; pool_strings: strings; weights: floats"},
     .meaning = {.infer = infer_tfidf, .eval = eval_tfidf},
     .analysis = {.range = range_tfidf}},
};

}  // namespace

std::span<const OpDef> tfidf_ops() { return kOps; }

}  // namespace finity

// Every elementwise op of one float operand, against its own evaluation on all 65,536
// numbers of float16 and bfloat16: soundness on intervals, truth of the hazards,
// tightness on points, monotonicity. The ops come from the table.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "one_node.h"
#include "ops/elementwise/cast.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {
namespace {

constexpr int kIntervals = 400;
constexpr DType kFormats[] = {DType::float16, DType::bfloat16};
constexpr int kNewest = 26;

bool is_elementwise_of_one(const OpDef& op, DType dtype) {
  const Signature& signature = signature_of(op);
  if (op.meaning.eval == nullptr || !op.traits.elementwise || op.traits.random || signature.inputs.empty())
    return false;
  for (std::size_t i = 1; i < signature.inputs.size(); ++i) {
    if (signature.inputs[i].arity != Param::Arity::optional) return false;
  }
  const Param& first = signature.inputs.front();
  return first.arity == Param::Arity::one && first.type.dtypes[static_cast<std::size_t>(dtype)];
}

// A library that rounds after each step overflows on the way where the reference, which rounds once, does not.
const std::set<std::string_view> kStepwise = {"Affine", "ParametricSoftplus"};
// Bits say nothing about bounds.
const std::set<std::string_view> kUnbounded = {"BitCast"};

// ---- attributes ------------------------------------------------------------

// Values for the attributes of an op: the defaults, then odd ones for all the numbers and choices it takes.
std::vector<Attrs> attribute_sets(const OpDef& op) {
  const std::vector<float> numbers = {0.25F, 1.5F, -1.25F, 0.0F, 0.1F};
  const Signature& signature = signature_of(op);
  if (signature.attr("to") != nullptr) {
    std::vector<Attrs> sets;
    for (const DType to : {DType::float32, DType::float64, DType::float16, DType::bfloat16, DType::int8, DType::uint8,
                           DType::int32, DType::int64, DType::uint64, DType::boolean, DType::int4, DType::uint2,
                           DType::float8e4m3fn, DType::float8e5m2, DType::float8e4m3fnuz, DType::float4e2m1}) {
      sets.emplace_back().set("to", static_cast<std::int64_t>(to));
      if (is_float(to) && info(to).bits == 8) sets.emplace_back(sets.back()).set("saturate", std::int64_t{0});
    }
    return sets;
  }
  bool needs_more = false;
  std::vector<Attrs> sets;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    Attrs attrs;
    std::size_t at = i;
    for (const AttrSpec& spec : signature.attrs) {
      if (spec.kind == "float") {
        attrs.set(spec.name, numbers[at++ % numbers.size()]);
        needs_more |= !spec.fallback && op.identity.name != "Clip" && op.identity.name != "Selu";
      } else if (!spec.choices.empty()) {
        attrs.set(spec.name, spec.choices[i % spec.choices.size()].text);
      } else if (spec.kind == "int" && spec.fallback) {
        // A number is a flag, except for that of a derivative.
        attrs.set(spec.name, static_cast<std::int64_t>(spec.name == "n" ? i + 1 : i % 2));
      }
    }
    sets.push_back(std::move(attrs));
  }
  if (sets.front().empty()) return {{}};
  if (!needs_more) sets.emplace_back();
  return sets;
}

std::vector<int> versions_of(const OpDef& op) {
  if (op.identity.until != 0) return {op.identity.until};
  std::vector<int> versions = {std::max(op.identity.since, kNewest)};
  if (op.identity.domain.empty() && op.identity.since < 7) versions.push_back(6);  // attributes became inputs later
  return versions;
}

// ---- all numbers of a format -------------------------------------------------

struct Numbers {
  std::vector<double> finite = {};  // increasing; zero once
  Tensor all = {};                  // finite ones, then NaN, +Inf, -Inf
};

Numbers numbers_of(DType dtype) {
  Numbers numbers;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const double x = decode_float(dtype, bits);
    if (std::isfinite(x) && bits != 0x8000) numbers.finite.push_back(x);
  }
  std::ranges::sort(numbers.finite);
  std::vector<double> all = numbers.finite;
  all.insert(all.end(), {std::nan(""), kInf, -kInf});
  numbers.all = from_elements<double>(dtype, {static_cast<std::int64_t>(all.size())}, all);
  return numbers;
}

const Numbers& numbers(DType dtype) {
  static const std::map<DType, Numbers> kAll = {{DType::float16, numbers_of(DType::float16)},
                                                {DType::bfloat16, numbers_of(DType::bfloat16)}};
  return kAll.at(dtype);
}

// Least and greatest results over any run of operands, and how many are special, in constant time.
class Results {
 public:
  explicit Results(const std::vector<double>& y) : counts_(kKinds, std::vector<int>(y.size() + 1, 0)) {
    std::vector<double> low(y.size()), high(y.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      const bool finite = std::isfinite(y[i]);
      low[i] = finite ? y[i] : kInf;
      high[i] = finite ? y[i] : -kInf;
      const bool is[kKinds] = {std::isnan(y[i]), y[i] == kInf, y[i] == -kInf, finite && y[i] != std::floor(y[i]),
                               y[i] == 0};
      for (std::size_t k = 0; k < kKinds; ++k) counts_[k][i + 1] = counts_[k][i] + (is[k] ? 1 : 0);
    }
    low_ = table(std::move(low), [](double a, double b) { return std::min(a, b); });
    high_ = table(std::move(high), [](double a, double b) { return std::max(a, b); });
  }

  // The smallest range that holds results first..last, and whether zeros and fractions are among them.
  struct Hull {
    Range range = {};
    bool zeros = false;
    bool fractions = false;
  };
  Hull hull(std::size_t first, std::size_t last) const {
    const auto any = [&](std::size_t kind) { return counts_[kind][last + 1] > counts_[kind][first]; };
    const auto level = static_cast<std::size_t>(std::bit_width(last + 1 - first)) - 1;
    const std::size_t second = last + 1 - (std::size_t{1} << level);
    return {.range = {.lo = std::min(low_[level][first], low_[level][second]),
                      .hi = std::max(high_[level][first], high_[level][second]),
                      .nan = any(0),
                      .pinf = any(1),
                      .ninf = any(2)},
            .zeros = any(4),
            .fractions = any(3)};
  }

 private:
  static constexpr std::size_t kKinds = 5;
  using Table = std::vector<std::vector<double>>;

  template <class F>
  static Table table(std::vector<double> row, F pick) {
    Table rows = {std::move(row)};
    for (std::size_t step = 1; 2 * step <= rows.front().size(); step *= 2) {
      const std::vector<double>& above = rows.back();
      std::vector<double> next(above.size() - step);
      for (std::size_t i = 0; i < next.size(); ++i) next[i] = pick(above[i], above[i + step]);
      rows.push_back(std::move(next));
    }
    return rows;
  }

  std::vector<std::vector<int>> counts_;
  Table low_, high_;
};

// ---- the cases ---------------------------------------------------------------

struct Case {
  const OpDef* op = nullptr;
  DType dtype = DType::float16;
};

std::string text(const Attrs& attrs) {
  std::string result;
  for (const auto& [name, value] : attrs) {
    result += " " + name + "=";
    if (const auto* number = std::get_if<float>(&value)) result += std::to_string(*number);
    if (const auto* number = std::get_if<std::int64_t>(&value)) result += std::to_string(*number);
    if (const auto* choice = std::get_if<std::string>(&value)) result += *choice;
  }
  return result;
}

// One op in one format with one set of attributes: its rule, and what it really does to every number.
struct Subject {
  OneNode node;
  std::string name;
  DType dtype;
  const Numbers& all;
  std::vector<double> y;  // of every number, the three special ones last

  Subject(const Case& c, int version, const Attrs& attrs)
      : node(*c.op, version, attrs, {Type::tensor_of(c.dtype, numbers(c.dtype).all.dims())}),
        name(std::string(c.op->identity.name) + ":" + std::to_string(version) + text(attrs)),
        dtype(c.dtype),
        all(numbers(c.dtype)),
        y(elements<double>(*node.eval({all.all})[0].tensor())) {}

  std::size_t count() const { return all.finite.size(); }
  double x(std::size_t i) const {
    return i < count() ? all.finite[i] : i == count() ? std::nan("") : i == count() + 1 ? kInf : -kInf;
  }
  Range interval(std::size_t first, std::size_t last) const { return {.lo = x(first), .hi = x(last)}; }
};

template <class F>
void for_each_subject(const Case& c, F f) {
  std::vector<Attrs> sets = attribute_sets(*c.op);
  for (const int version : versions_of(*c.op)) {
    for (const Attrs& attrs : sets) {
      const Subject subject(c, version, attrs);
      SCOPED_TRACE(subject.name);
      f(subject);
      if (testing::Test::HasFailure()) return;
    }
    sets.resize(1);  // the older version once
  }
}

using Place = std::pair<std::size_t, std::size_t>;

// Random ones, points, both halves of the line, short ones everywhere.
std::vector<Place> intervals(std::size_t count, std::uint64_t seed) {
  Rng rng(seed);
  const auto zero = count / 2;
  std::vector<Place> places = {{0, count - 1},        {0, zero},    {zero, count - 1}, {zero, zero},
                               {zero + 1, count - 1}, {0, zero - 1}};
  for (int i = 0; i < kIntervals; ++i) {
    std::size_t a = rng.below(count), b = rng.below(count);
    if (i % 3 == 1) b = std::min(a + rng.below(40), count - 1);
    if (i % 3 == 2) b = a;
    places.emplace_back(std::min(a, b), std::max(a, b));
  }
  return places;
}

// What the rule may leave out: the consequences of what it warns of.
bool covers(const Range& claimed, const Results::Hull& truth, bool warned, DType out) {
  if (!warned && !is_subset(truth.range, claimed) && !(claimed.integer || claimed.nonzero)) return false;
  const Range& real = truth.range;
  if (!warned && ((real.nan && !claimed.nan) || (real.pinf && !claimed.pinf) || (real.ninf && !claimed.ninf)))
    return false;
  if (real.has_finite() && !(claimed.lo <= real.lo && claimed.hi >= real.hi) && !(warned && is_int(out))) return false;
  if (claimed.integer && truth.fractions) return false;
  return !(claimed.nonzero && truth.zeros);
}

class UnaryRanges : public testing::TestWithParam<Case> {};

TEST_P(UnaryRanges, HoldEveryResult) {
  for_each_subject(GetParam(), [](const Subject& s) {
    const Results results(s.y);
    for (const auto& [first, last] : intervals(s.count(), 1)) {
      const Range x = s.interval(first, last);
      const OneNode::Abstract abstract = s.node.ranges({uniform(s.dtype, s.all.all.dims(), x)});
      const Range y = abstract.outputs[0].hull();
      ASSERT_TRUE(covers(y, results.hull(first, last), abstract.warns(), s.node.out_type().dtype))
          << to_string(x) << " gives " << to_string(y) << ", not " << to_string(results.hull(first, last).range);
      // The same with the special numbers added, one at a time and together.
      for (int flags = 1; flags < 8; ++flags) {
        Range special = x;
        special.nan = (flags & 1) != 0;
        special.pinf = (flags & 2) != 0;
        special.ninf = (flags & 4) != 0;
        const OneNode::Abstract more = s.node.ranges({uniform(s.dtype, s.all.all.dims(), special)});
        const Range wide = more.outputs[0].hull();
        ASSERT_TRUE(is_subset(y, wide) || more.warns()) << to_string(special);
        for (std::size_t k = 0; k < 3; ++k) {
          if ((flags & (1 << k)) == 0) continue;
          ASSERT_TRUE(wide.contains(s.y[s.count() + k]) || more.warns())
              << to_string(special) << " gives " << to_string(wide) << ", not " << s.y[s.count() + k];
        }
      }
    }
  });
}

AbsTensor every_point(const Subject& s) {
  AbsTensor x = uniform(s.dtype, {static_cast<std::int64_t>(s.count())}, {});
  x.cuts.resize(1);
  x.cuts[0].resize(s.count() - 1);
  std::iota(x.cuts[0].begin(), x.cuts[0].end(), 1);
  x.cells.clear();
  for (const double value : s.all.finite) x.cells.push_back(point(value));
  return x;
}

bool is_unsafe(const OpDef& op, DType dtype, double x) {
  for (const Hazard& hazard : op.analysis.hazards) {
    if (hazard.quantity != nullptr) continue;  // tests/types/hazard_quantity_test.cpp
    for (const Unsafe& part : hazard.unsafe(dtype)) {
      if (hazard.operand == 0 && x >= part.lo && x <= part.hi) return true;
    }
  }
  return false;
}

// A finite operand gives NaN or an infinity exactly where a hazard says so, or where the rule says it overflows.
TEST_P(UnaryRanges, TellTheTruthAboutHazards) {
  const OpDef& op = *GetParam().op;
  int unsafe_seen = 0;
  for_each_subject(GetParam(), [&](const Subject& s) {
    if (!is_float(s.node.out_type().dtype)) return;
    const bool sites = s.node.ranges({every_point(s)}).warns();
    const AbsTensor y = s.node.ranges({every_point(s)}).outputs[0];
    ASSERT_EQ(y.cells.size(), s.count());
    for (std::size_t i = 0; i < s.count(); ++i) {
      const bool bad = !std::isfinite(s.y[i]);
      const bool unsafe = is_unsafe(op, s.dtype, s.x(i));
      const bool flagged = y.cells[i].nan || y.cells[i].pinf || y.cells[i].ninf;
      unsafe_seen += unsafe ? 1 : 0;
      ASSERT_TRUE(!unsafe || bad) << s.x(i) << " is called unsafe but gives " << s.y[i];
      ASSERT_TRUE(bad == (unsafe || flagged) || (bad ? sites : kStepwise.contains(op.identity.name)))
          << s.x(i) << " gives " << s.y[i] << ", claimed " << to_string(y.cells[i]);
    }
  });
  const auto about_operand = [](const Hazard& hazard) { return hazard.quantity == nullptr; };
  EXPECT_EQ(unsafe_seen > 0, std::ranges::any_of(op.analysis.hazards, about_operand));
}

// A point gives a point, up to what libraries are granted.
TEST_P(UnaryRanges, AreTightOnPoints) {
  constexpr double kLargeAngle = 65536;
  const bool periodic = GetParam().op->identity.name == "Sin" || GetParam().op->identity.name == "Cos" ||
                        GetParam().op->identity.name == "Tan";
  for_each_subject(GetParam(), [&](const Subject& s) {
    if (s.name.starts_with("Celu") && s.name.find("alpha=-") != std::string::npos)
      return;  // the exponential magnifies errors of x / alpha
    const DType out = s.node.out_type().dtype;
    const double u = std::max(unit_roundoff(out), unit_roundoff(s.dtype));
    const AbsTensor y = s.node.ranges({every_point(s)}).outputs[0];
    ASSERT_EQ(y.cells.size(), s.count());
    for (std::size_t i = 0; i < s.count(); ++i) {
      if (!std::isfinite(s.y[i]) || (periodic && std::abs(s.x(i)) > kLargeAngle)) continue;
      const bool outside = is_int(out) && !fits_integer(point(s.x(i)), out).has_finite();
      if (outside || s.y[i] == -0x1p63) continue;  // beside the lowest integer there is no double to round to
      const double scale = std::max({std::abs(s.y[i]), std::min(std::abs(s.x(i)), 200.0), 1.0});
      const double width = y.cells[i].hi - y.cells[i].lo;
      // Integers beyond 2^53 have ends between which doubles cannot tell.
      const double integers = std::abs(s.y[i]) < 0x1p53 ? 0 : std::abs(s.y[i]) * 0x1p-50;
      ASSERT_LE(width, is_float(out) ? 48 * u * scale : integers) << s.x(i) << " gives " << to_string(y.cells[i]);
    }
  });
}

TEST_P(UnaryRanges, GrowWithTheirOperand) {
  for_each_subject(GetParam(), [](const Subject& s) {
    Rng rng(7);
    for (int i = 0; i < kIntervals; ++i) {
      std::vector<std::size_t> at = {rng.below(s.count()), rng.below(s.count()), rng.below(s.count()),
                                     rng.below(s.count())};
      std::ranges::sort(at);
      const Range small = s.interval(at[1], at[2]);
      const OneNode::Abstract part = s.node.ranges({uniform(s.dtype, s.all.all.dims(), small)});
      if (part.warns()) continue;  // nothing legal may be left
      const Range inner = part.outputs[0].hull();
      const Range outer = s.node.range({s.interval(at[0], at[3])});
      ASSERT_TRUE(is_subset(inner, outer)) << to_string(small) << " gives " << to_string(inner) << ", "
                                           << to_string(s.interval(at[0], at[3])) << " gives " << to_string(outer);
    }
  });
}

TEST_P(UnaryRanges, AreEmptyForNothing) {
  for_each_subject(GetParam(), [](const Subject& s) { EXPECT_TRUE(s.node.range({Range{}}).is_empty()); });
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const OpDef* op : all_ops()) {
    for (const DType dtype : kFormats) {
      if (is_elementwise_of_one(*op, dtype) && !kUnbounded.contains(op->identity.name)) result.push_back({op, dtype});
    }
  }
  return result;
}

// Ops of one float tensor whose elements do not keep to themselves: they reduce, move, or look at neighbours.
const std::set<std::string_view> kMixing = {"ReduceSum",
                                            "ReduceMean",
                                            "ReduceProd",
                                            "ReduceSumSquare",
                                            "ReduceL1",
                                            "ReduceL2",
                                            "ReduceLogSum",
                                            "ReduceLogSumExp",
                                            "ReduceMax",
                                            "ReduceMin",
                                            "TopK",
                                            "Softmax",
                                            "LogSoftmax",
                                            "Hardmax",
                                            "MeanVarianceNormalization",
                                            "LpNormalization",
                                            "LRN",
                                            "Det",
                                            "Inverse",
                                            "MaxPool",
                                            "AveragePool",
                                            "LpPool",
                                            "GlobalMaxPool",
                                            "GlobalAveragePool",
                                            "GlobalLpPool",
                                            "Reshape",
                                            "Flatten",
                                            "Squeeze",
                                            "Unsqueeze",
                                            "Transpose",
                                            "Split",
                                            "Slice",
                                            "Pad",
                                            "DepthToSpace",
                                            "SpaceToDepth",
                                            "Trilu",
                                            "Unique",
                                            "Resize",
                                            "Upsample",
                                            "MultiHeadAttention",
                                            "SequenceErase",
                                            "SequenceZeros",
                                            "ConcatFromSequence",
                                            "SplitToSequence",
                                            "DFT",
                                            "TreeEnsemble",
                                            "ImageScaler",
                                            "Crop"};

bool takes_one_float_tensor(const OpDef& op) {
  const Signature& signature = signature_of(op);
  if (op.meaning.eval == nullptr || op.traits.random || signature.inputs.empty() || signature.outputs.empty())
    return false;
  for (std::size_t i = 1; i < signature.inputs.size(); ++i) {
    if (signature.inputs[i].arity != Param::Arity::optional) return false;
  }
  const ParamType& type = signature.inputs[0].type;
  return signature.inputs[0].arity == Param::Arity::one && type.dtypes[static_cast<std::size_t>(DType::float16)] &&
         !type.variable.empty() && signature.outputs[0].type.variable == type.variable;
}

TEST(UnaryOps, AreEitherElementwiseOrKnownToMix) {
  for (const OpDef* op : all_ops()) {
    if (!takes_one_float_tensor(*op)) continue;
    EXPECT_NE(op->traits.elementwise, kMixing.contains(op->identity.name))
        << op->identity.name << ": set OpTraits::elementwise, or list it here";
  }
}

INSTANTIATE_TEST_SUITE_P(Table, UnaryRanges, testing::ValuesIn(cases()), [](const auto& info) {
  std::string label = std::string(info.param.op->identity.domain) + "_" + std::string(info.param.op->identity.name) +
                      "_" + std::string(name(info.param.dtype));
  std::ranges::replace_if(
      label, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
  return label;
});

}  // namespace
}  // namespace finity

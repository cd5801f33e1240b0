// Ops that the standard defines by other ops. Its own definition is one more implementation: with
// `--runtime any`, what the expanded definition computes must lie in the range of the op itself, and a NaN or an
// infinity must have been announced. The definitions are the official tests' `_expanded` models, and the ones
// below for ops that came later.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <limits>

#include "check/constant_scan.h"
#include "check/judge.h"
#include "check_support.h"
#include "conformance/conformance.h"
#include "exec/reference.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx/test_data.h"
#include "support/paths.h"
#include "tensor/convert.h"

namespace finity {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// How the float operands of a run are drawn.
struct Draw {
  const char* name;
  double lo = 0, hi = 0;        // of ordinary elements
  bool rows_are_equal = false;  // every element is the same
  double special = 0;           // takes the place of every third element; 0: none
};

constexpr Draw kDraws[] = {
    {"ones", 1, 1, true},
    {"equal", 80, 100, true},
    {"equal and large", 1e6, 2e6, true},
    {"ordinary", -3, 3},
    {"wide", -100, 100},
    {"far from zero", 40960, 40961},
    {"huge", -1e30, 1e30},
    {"subnormal", -1e-42, 1e-42},
    {"low and masked", -300, -150, false, -kInf},
    {"masked", -5, 5, false, -kInf},
    {"with NaN", -5, 5, false, kNaN},
};

Datum drawn(const Tensor& like, const Draw& draw, Rng& rng) {
  if (!is_float(like.dtype())) return like;
  std::vector<double> values(static_cast<std::size_t>(like.size()));
  const double same = draw.lo + (draw.hi - draw.lo) * rng.uniform();
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = draw.rows_are_equal ? same : draw.lo + (draw.hi - draw.lo) * rng.uniform();
    if (draw.special != 0 && i % 3 == 0) values[i] = draw.special;
  }
  return from_elements<double>(like.dtype(), like.dims(), values);
}

// Each input within what it holds; equal elements are not known to be equal.
Contract contract_of(const Inputs& inputs) {
  Contract contract;
  for (const auto& [name, datum] : inputs) {
    if (datum.tensor() == nullptr || datum.tensor()->dtype() == DType::string) continue;
    const Range range = scan_constant(*make_constant(*datum.tensor()));
    if (range.is_empty()) continue;
    InputContract input;
    input.pattern = name;
    const bool widens = is_float(datum.tensor()->dtype()) && range.has_finite() && range.lo == range.hi;
    input.lo = range.ninf ? -kInf : range.has_finite() ? (widens ? -std::abs(range.lo) : range.lo) : 0;
    input.hi = range.pinf ? kInf : range.has_finite() ? (widens ? std::abs(range.hi) : range.hi) : 0;
    input.allow_nan = range.nan;
    contract.inputs.push_back(std::move(input));
  }
  return contract;
}

struct Totals {
  int runs = 0, stopped = 0, open = 0;
  Judged judged = {};
};

// The op's ranges against the results of its definition.
void compare(const Graph& op, const Graph& body, const Inputs& inputs, const std::string& title, Totals& totals) {
  const Types types = infer_types(op);
  CheckOptions options;
  options.ranges.runtime = Runtime::any;
  const Analysis analysis = analyze(op, types, premises(op, types, contract_of(inputs), 64), options);
  std::vector<Datum> outputs;
  try {
    outputs = run_reference(body, inputs);
  } catch (const Error&) {
    ++totals.stopped;  // both refuse the operands
    return;
  }
  ++totals.runs;
  totals.open += std::ranges::any_of(analysis.findings, [](const Finding& f) { return f.verdict != Verdict::proved; });
  Judge judge(op, analysis, totals.judged, true,
              [&](const Node*, ValueId, const std::string& what) { ADD_FAILURE() << title << ": " << what; });
  for (const ValueId id : op.main().inputs) {
    if (const auto given = inputs.find(op.value(id).name); given != inputs.end()) judge.give(id, given->second);
  }
  const Node& node = op.node(op.main().nodes.front());
  std::vector<Datum> results(node.outputs.size());
  for (std::size_t i = 0; i < op.main().outputs.size(); ++i) {
    const auto at = std::ranges::find(node.outputs, op.main().outputs[i]);
    if (at != node.outputs.end()) results[static_cast<std::size_t>(at - node.outputs.begin())] = outputs[i];
  }
  judge.look_at(node, results);
}

void compare_draws(const Graph& op, const Graph& body, const Inputs& like, const std::string& title, Totals& totals) {
  if (op.main().nodes.size() != 1) return;
  Rng rng(11);
  for (const Draw& draw : kDraws) {
    Inputs inputs = like;
    for (auto& [name, datum] : inputs) {
      if (datum.tensor() != nullptr) datum = drawn(*datum.tensor(), draw, rng);
    }
    try {
      compare(op, body, inputs, title + ", " + draw.name, totals);
    } catch (const std::exception& error) {
      ADD_FAILURE() << title << ", " << draw.name << ": " << error.what();
    }
  }
}

TEST(Bodies, OfOfficialTestsLieInTheRangesOfTheirOps) {
  const std::string root = onnx_testdata_folder();
  if (!std::filesystem::exists(root + "/node")) GTEST_SKIP() << "no official tests here";
  Totals totals;
  int pairs = 0;
  for (const std::string& test : official_tests(root)) {
    const std::size_t at = test.find("_expanded");
    const std::string plain = test.substr(0, at);
    if (at == std::string::npos || !std::filesystem::exists(root + "/" + plain + "/test_data_set_0")) continue;
    try {
      std::vector<Note> notes;
      const Graph op = read_onnx(root + "/" + plain + "/model.onnx", notes);
      const Graph body = read_onnx(root + "/" + test + "/model.onnx", notes);
      const TestData data = read_test_data(root + "/" + plain + "/test_data_set_0", op);
      ++pairs;
      compare_draws(op, body, data.inputs, plain, totals);
    } catch (const Error&) {
      continue;  // string operands, sequences
    }
  }
  std::cout << pairs << " definitions, " << totals.runs << " runs, " << totals.open << " of them with findings, "
            << totals.judged.tensors << " tensors, " << totals.judged.skipped
            << " after a failure that was announced\n";
  EXPECT_GT(pairs, 90);
  EXPECT_GT(totals.runs, 500);
  EXPECT_GT(totals.judged.tensors, 300U);
}

// ---- later than the official tests here ------------------------------------------------

struct Later {
  const char* op;
  const char* body;
};

constexpr Later kLater[] = {
    {R"(opset 21
graph g (x: float32[2, 4, 3], s: float32[4], b: float32[4]) -> (y) {
  y = GroupNormalization(x, s, b) {num_groups = 2, epsilon = 1e-5}
})",
     R"(opset 17
graph g (x: float32[2, 4, 3], s: float32[4], b: float32[4]) -> (y) {
  const groups: int64[3] = {2, 2, -1}
  const whole: int64[3] = {2, 4, 3}
  const channels: int64[3] = {1, 4, 1}
  const eps: float32[] = {1e-5}
  g = Reshape(x, groups)
  mean = ReduceMean(g) {axes = [2]}
  q = Mul(g, g)
  mean_q = ReduceMean(q) {axes = [2]}
  q_mean = Mul(mean, mean)
  v = Sub(mean_q, q_mean)
  e = Add(v, eps)
  d = Sqrt(e)
  c = Sub(g, mean)
  n = Div(c, d)
  r = Reshape(n, whole)
  s3 = Reshape(s, channels)
  b3 = Reshape(b, channels)
  m = Mul(r, s3)
  y = Add(m, b3)
})"},
    {R"(opset 20
graph g (x: float32[2, 5]) -> (y) {
  y = Gelu(x)
})",
     R"(opset 17
graph g (x: float32[2, 5]) -> (y) {
  const two: float32[] = {2}
  const half: float32[] = {0.5}
  const one: float32[] = {1}
  root = Sqrt(two)
  d = Div(x, root)
  e = Erf(d)
  p = Add(e, one)
  h = Mul(half, p)
  y = Mul(x, h)
})"},
    {R"(opset 18
graph g (x: float32[2, 5]) -> (y) {
  y = Mish(x)
})",
     R"(opset 17
graph g (x: float32[2, 5]) -> (y) {
  p = Softplus(x)
  t = Tanh(p)
  y = Mul(x, t)
})"},
    {R"(opset 23
graph g (x: float32[2, 5], s: float32[5]) -> (y) {
  y = RMSNormalization(x, s) {epsilon = 1e-5}
})",
     R"(opset 17
graph g (x: float32[2, 5], s: float32[5]) -> (y) {
  const two: float32[] = {2}
  const eps: float32[] = {1e-5}
  q = Pow(x, two)
  m = ReduceMean(q) {axes = [-1]}
  e = Add(m, eps)
  r = Sqrt(e)
  n = Div(x, r)
  y = Mul(n, s)
})"},
};

TEST(Bodies, OfLaterOpsLieInTheirRanges) {
  Totals totals;
  for (const Later& later : kLater) {
    const Graph op = parse_graph(later.op, "op");
    Inputs like;
    for (const ValueId id : op.main().inputs) {
      const Type& type = op.value(id).type;
      const Dims dims = type.dims().value();
      like[op.value(id).name] =
          from_elements<double>(type.dtype, dims, std::vector<double>(static_cast<std::size_t>(element_count(dims))));
    }
    compare_draws(op, parse_graph(later.body, "body"), like, later.op, totals);
  }
  EXPECT_GT(totals.runs, 30);
  EXPECT_GT(totals.judged.tensors, 15U);
}

}  // namespace
}  // namespace finity

// Every op of the table on random operands and attributes, most of them odd:
// whatever happens, it is an answer or an Error, and what inference claims is
// true of what evaluation gives, however little it was told of the inputs. So is
// what the range rule claims of operands that are a little more than these.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <map>
#include <string>

#include "base/error.h"
#include "base/rng.h"
#include "check/analyze.h"
#include "check/verify.h"
#include "exec/reference.h"
#include "formats/text/text.h"
#include "graph/builder.h"
#include "ops/op.h"
#include "support/around.h"
#include "support/range_probe.h"
#include "support/support.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity {
namespace {

constexpr int kCallsPerOp = 200;
constexpr int kMixes = 3, kRuns = 2;
constexpr int kVersions[] = {1, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 18, 19, 20, 21, 23, 24, 27};

struct RandomCall {
  Graph graph = {};
  Inputs inputs = {};
};

class Generator {
 public:
  Generator(const OpDef& op, std::uint64_t seed) : op_(op), signature_(signature_of(op)), rng_(seed) {}

  // `detail`: how much is known of the operands. 0: elements, 1: sizes, 2: ranks, 3: dtypes.
  RandomCall next(std::uint64_t seed, int detail) {
    rng_ = Rng(seed);
    dtypes_.clear();
    usual_rank_ = small(4);
    usual_size_ = 1 + small(3);
    RandomCall call;
    GraphBuilder builder;
    const BodyId body = builder.add_body("g");
    Node node;
    node.op = &op_;
    node.op_type = builder.intern(op_.name);
    node.domain = builder.intern(op_.domain);
    node.version = kVersions[rng_.below(std::size(kVersions))];
    builder.info().opsets[std::string(op_.domain)] = node.version;
    builder.info().ir_version = 10;
    node.body = body;
    add_inputs(builder, node, call.inputs, detail);
    add_attrs(node);
    const std::size_t outputs = signature_.outputs.size() + (repeats(signature_.outputs) ? rng_.below(3) : 0);
    for (std::size_t i = 0; i < outputs; ++i) {
      node.outputs.push_back(builder.add_value(body, "out" + std::to_string(i)));
      builder.add_output(body, node.outputs.back());
    }
    builder.add_node(std::move(node));
    call.graph = std::move(builder).build();
    return call;
  }

 private:
  std::int64_t small(std::int64_t limit) {
    return static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(limit) + 1));
  }
  bool chance(int percent) { return rng_.below(100) < static_cast<std::uint64_t>(percent); }
  static bool repeats(const std::vector<Param>& params) {
    return !params.empty() && (params.back().arity == Param::Arity::some || params.back().arity == Param::Arity::any);
  }

  DType dtype_for(const ParamType& type) {
    if (!type.variable.empty() && dtypes_.contains(type.variable)) return dtypes_[type.variable];
    std::vector<DType> choices;
    for (std::size_t i = 1; i < kDTypeCount; ++i) {
      if (type.kind == Type::Kind::unknown || type.dtypes[i]) choices.push_back(static_cast<DType>(i));
    }
    const DType chosen = choices[rng_.below(choices.size())];
    if (!type.variable.empty()) dtypes_[type.variable] = chosen;
    return chosen;
  }

  std::int64_t number() {
    if (chance(3))
      return chance(50) ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
    if (chance(2)) return std::int64_t{1} << 44;
    return ordinary();
  }
  std::int64_t ordinary() { return small(5) - (chance(30) ? 3 : 0); }
  double real() {
    if (chance(5)) return std::numeric_limits<double>::quiet_NaN();
    if (chance(5)) return chance(50) ? INFINITY : -INFINITY;
    if (chance(5)) return 1e30;
    return chance(50) ? static_cast<double>(small(4)) - 1 : rng_.uniform(-2, 3);
  }

  Dims dims() {
    if (chance(25)) return {small(5)};  // a list of sizes, axes or the like
    if (chance(10)) return {};
    const std::int64_t rank = chance(80) ? usual_rank_ : small(5);
    Dims result;
    for (std::int64_t i = 0; i < rank; ++i) result.push_back(chance(70) ? usual_size_ : small(4));
    return result;
  }

  Tensor tensor(DType dtype) {
    const Dims shape = dims();
    const auto count = static_cast<std::size_t>(element_count(shape));
    if (dtype == DType::string) {
      std::vector<std::string> texts;
      while (texts.size() < count) texts.push_back(std::string(rng_.below(3), 'a'));
      return Tensor::of_strings(shape, std::move(texts));
    }
    if (is_float(dtype) || is_complex(dtype)) {
      std::vector<double> values(count);
      for (double& value : values) value = real();
      return from_elements<double>(dtype, shape, values);
    }
    std::vector<std::int64_t> values(count);
    // Extremes of narrow types would be sizes that fit into memory and fill it.
    for (std::int64_t& value : values) value = dtype == DType::int64 ? number() : ordinary();
    return from_elements<std::int64_t>(dtype, shape, values);
  }

  Type known_part(const Tensor& tensor, int detail) {
    Type type = Type::tensor_of(tensor.dtype(), tensor.dims());
    if (detail == 3) return Type::tensor(tensor.dtype());
    for (Dim& dim : type.shape) {
      if (detail == 2) dim = {};
    }
    return type;
  }

  void add_inputs(GraphBuilder& builder, Node& node, Inputs& inputs, int detail) {
    const BodyId body = node.body;
    const std::size_t extra = repeats(signature_.inputs) ? rng_.below(3) : 0;
    for (std::size_t i = 0; i < signature_.inputs.size() + extra; ++i) {
      const Param& param = *Signature::param(signature_.inputs, i);
      const bool optional = param.arity == Param::Arity::optional || param.arity == Param::Arity::any;
      if (optional && chance(40)) {
        node.inputs.emplace_back();
        continue;
      }
      const Tensor value = tensor(dtype_for(param.type));
      const std::string name = "in" + std::to_string(i);
      if (detail == 0) {
        node.inputs.push_back(builder.add_constant(body, name, make_constant(value)));
      } else {
        node.inputs.push_back(builder.add_input(body, name, known_part(value, detail)));
        inputs[name] = value;
      }
    }
    while (!node.inputs.empty() && !node.inputs.back().valid()) node.inputs.pop_back();
  }

  std::string text(const AttrSpec& spec) {
    return spec.choices.empty() ? std::string(rng_.below(3), 'i') : spec.choices[rng_.below(spec.choices.size())];
  }
  template <class T, class F>
  std::vector<T> list(F item) {
    std::vector<T> result(rng_.below(5));
    for (T& entry : result) entry = item();
    return result;
  }

  void add_attrs(Node& node) {
    for (const AttrSpec& spec : signature_.attrs) {
      if (chance(50)) continue;
      const auto real_number = [&] { return static_cast<float>(real()); };
      if (spec.kind == "int") node.attrs.set(spec.name, number());
      else if (spec.kind == "float") node.attrs.set(spec.name, real_number());
      else if (spec.kind == "string") node.attrs.set(spec.name, text(spec));
      else if (spec.kind == "ints") node.attrs.set(spec.name, list<std::int64_t>([&] { return number(); }));
      else if (spec.kind == "floats") node.attrs.set(spec.name, list<float>(real_number));
      else if (spec.kind == "strings") node.attrs.set(spec.name, list<std::string>([&] { return text(spec); }));
      else if (spec.kind == "tensor")
        node.attrs.set(spec.name, make_constant(tensor(dtype_for({.kind = Type::Kind::unknown}))));
    }
  }

  const OpDef& op_;
  const Signature& signature_;
  Rng rng_;
  std::map<std::string, DType, std::less<>> dtypes_;
  std::int64_t usual_rank_ = 0;
  std::int64_t usual_size_ = 0;
};

// A tensor of unknown size is taken to have elements, and some calls that ONNX forbids get an answer nevertheless:
// quantized to a float, with more coefficients than features, or in a format that has no zero.
bool outside_premises(const RandomCall& call) {
  const std::string_view op = call.graph.nodes().front().op_type;
  if (op == "QuantizeLinear" || op == "SVMClassifier" || op == "SVMRegressor") return true;
  return std::ranges::any_of(call.inputs, [](const auto& input) {
    const Tensor* tensor = input.second.tensor();
    return tensor != nullptr && (tensor->size() == 0 || tensor->dtype() == DType::float8e8m0);
  });
}

// What evaluation gives lies in the ranges.
void check_runs(const RandomCall& call, const Types& types, const Premises& given) {
  const Analysis analysis = analyze(call.graph, types, given);
  VerifyReport report;
  Rng rng(1);
  try {
    verify_run(call.graph, analysis, {.inputs = call.inputs, .weights = {}}, 0, report);
    for (int run = 0; run < kRuns; ++run) {
      verify_run(call.graph, analysis, draw_inside(call.graph, types, given, rng, run), 0, report);
    }
  } catch (const Error& error) {
    const bool escaped = std::string_view(error.what()).starts_with("verification failed: node");
    if (escaped) ADD_FAILURE() << error.what() << "\n" << print_graph(call.graph);
  }
}

void check_ranges(const RandomCall& call, const Types& types, Rng& rng) {
  if (call.inputs.empty() || outside_premises(call)) return;  // constants are folded
  check_runs(call, types, premises_around(call.graph, types, call.inputs, 64));
  for (int mix = 0; mix < kMixes; ++mix) {
    check_runs(call, types, mixed_premises(call.graph, types, call.inputs, mix == 0 ? 64 : 1, rng));
  }
}

// 1 when the call gave an answer. Inference may be stricter than evaluation, but not claim what is not so.
int run(const RandomCall& call, Rng& rng) {
  int answers = 0;
  std::vector<Datum> outputs;
  try {
    outputs = run_reference(call.graph, call.inputs);
    answers = 1;
  } catch (const Error&) {
  }
  try {
    const Types types = infer_types(call.graph);
    if (answers == 1) {
      EXPECT_EQ(type_contradiction(call.graph, types, outputs), "") << print_graph(call.graph);
      check_ranges(call, types, rng);
    }
  } catch (const Error&) {
  }
  return answers;
}

bool has_subgraph(const OpDef& op) {
  for (const AttrSpec& spec : signature_of(op).attrs) {
    if (spec.kind == "graph" || spec.kind == "graphs") return true;
  }
  return false;
}

// Ops with subgraphs need a graph around them: testdata/ops/flow.txt has those.
std::vector<const OpDef*> callable_ops() {
  std::vector<const OpDef*> ops;
  for (const OpDef* op : all_ops()) {
    if (op->eval != nullptr && !has_subgraph(*op)) ops.push_back(op);
  }
  return ops;
}

class RandomCalls : public testing::TestWithParam<const OpDef*> {};

TEST_P(RandomCalls, GiveAnAnswerOrAnError) {
  const OpDef& op = *GetParam();
  Generator generator(op, 0);
  int answers = 0;
  Rng rng = seeded(1);
  const std::uint64_t first = rng.below(1U << 30) * (std::getenv("FINITY_TEST_SEED") != nullptr ? 1 : 0);
  for (std::uint64_t i = first; i < first + kCallsPerOp && !testing::Test::HasFailure(); ++i) {
    for (int detail = 0; detail < 4; ++detail) answers += run(generator.next(i, detail), rng);
  }
  RecordProperty("answers", answers);
}

INSTANTIATE_TEST_SUITE_P(Table, RandomCalls, testing::ValuesIn(callable_ops()), [](const auto& info) {
  std::string name = std::string(info.param->domain) + "_" + std::string(info.param->name);
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
});

}  // namespace
}  // namespace finity

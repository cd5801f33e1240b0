// What OpTraits says of how results change with operands, tried on every case of testdata/ops.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>

#include "base/error.h"
#include "base/rng.h"
#include "formats/text/cases.h"
#include "ops/table/fold.h"
#include "ops/table/op.h"
#include "support/paths.h"
#include "support/support.h"
#include "tensor/convert.h"

namespace finity {
namespace {

// A call of a case: its operands as tensors.
struct Called {
  std::string where;
  const Graph* graph;
  const Node* node;
  std::vector<Datum> operands;
};

std::vector<Datum> operands_of(const OpCase& test, const Node& node) {
  const std::vector<ValueId>& given = test.graph.main().inputs;
  std::vector<Datum> operands;
  for (const ValueId id : node.inputs) {
    const auto at = std::ranges::find(given, id);
    const ConstantPtr constant = id.valid() ? test.graph.value(id).constant : nullptr;
    if (at != given.end()) operands.emplace_back(test.inputs[static_cast<std::size_t>(at - given.begin())]);
    else if (constant) operands.emplace_back(constant->load());
    else operands.emplace_back();
  }
  return operands;
}

void for_each_call(const std::function<bool(const OpDef&)>& chosen, const std::function<void(const Called&)>& look) {
  for (const auto& entry : std::filesystem::directory_iterator(testdata_folder() + "/ops")) {
    const std::string file = entry.path().filename().string();
    for (const OpCase& test : parse_cases(read_text_file(entry.path().string()), file)) {
      if (!test.error.empty() || test.graph.nodes().size() != 1) continue;
      const Node& node = test.graph.nodes().front();
      if (node.op == nullptr || node.op->meaning.eval == nullptr || !chosen(*node.op)) continue;
      try {
        fold(call_of(test.graph, node), operands_of(test, node));
      } catch (const Error&) {
        continue;  // operands that are sequences, or what only the graph knows
      }
      look({file + ":" + std::to_string(test.line) + " " + test.name, &test.graph, &node, operands_of(test, node)});
    }
  }
}

std::vector<double> result_of(const Called& call, const std::vector<Datum>& operands) {
  const std::vector<Datum> results = fold(call_of(*call.graph, *call.node), operands);
  const Tensor* result = results.front().tensor();
  return result == nullptr || !is_float(result->dtype()) ? std::vector<double>() : elements<double>(*result);
}

bool is_finite(const std::vector<double>& values) {
  return std::ranges::all_of(values, [](double x) { return std::isfinite(x); });
}

bool is_float_tensor(const Datum& datum) {
  return datum.tensor() != nullptr && is_float(datum.tensor()->dtype()) && is_finite(elements<double>(*datum.tensor()));
}

Datum changed(const Datum& datum, DType dtype, const std::function<double(double)>& f) {
  std::vector<double> values = elements<double>(*datum.tensor());
  for (double& x : values) x = f(x);
  return from_elements<double>(dtype, datum.tensor()->dims(), values);
}

TEST(OpTraits, NoResultFallsWhereOperandsRise) {
  const auto rises = [](const OpDef& op) {
    const OpTraits& t = op.traits;
    return t.rises || t.elements == ElementSource::moved || t.elements == ElementSource::joined ||
           t.order == OrderKind::largest || t.order == OrderKind::smallest || t.order == OrderKind::floored;
  };
  Rng rng(1);
  int looked = 0;
  for_each_call(rises, [&](const Called& call) {
    std::vector<Datum> risen = call.operands;
    const Signature& signature = signature_of(*call.node->op);
    for (std::size_t i = 0; i < risen.size(); ++i) {
      // Old operator sets have sizes and axes that are floats.
      const bool data = Signature::param(signature.inputs, i)->type.variable == signature.outputs.front().type.variable;
      if (data && is_float_tensor(risen[i]))
        risen[i] = changed(risen[i], risen[i].tensor()->dtype(), [&](double x) { return x + rng.uniform(0, 2); });
    }
    const std::vector<double> before = result_of(call, call.operands), after = result_of(call, risen);
    ASSERT_EQ(before.size(), after.size()) << call.where;
    for (std::size_t i = 0; i < before.size(); ++i)
      EXPECT_FALSE(after[i] < before[i]) << call.where << " element " << i;
    looked += before.empty() ? 0 : 1;
  });
  EXPECT_GT(looked, 70);
}

// The same in float64; empty when an operand is not finite.
std::vector<Datum> in_float64(std::vector<Datum> operands) {
  for (Datum& datum : operands) {
    if (is_float_tensor(datum)) datum = changed(datum, DType::float64, [](double x) { return x; });
    else if (datum.tensor() != nullptr && is_float(datum.tensor()->dtype())) return {};
  }
  return operands;
}

// No sum of products of these, a little moved, has larger terms.
double size_of(const std::vector<Datum>& operands) {
  double size = 1;
  for (const Datum& datum : operands) {
    if (!is_float_tensor(datum)) continue;
    double total = 1;
    for (const double x : elements<double>(*datum.tensor())) total += std::abs(x) + 2;
    size *= total;
  }
  return size;
}

// Along a line of any one operand the results go along a line. How many operands were looked at.
int check_lines(const Called& call, Rng& rng) {
  const std::vector<Datum> wide = in_float64(call.operands);
  int looked = 0;
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if (!is_float_tensor(wide[i])) continue;
    std::vector<Datum> one = wide, two = wide;
    std::vector<double> steps;
    one[i] = changed(wide[i], DType::float64, [&](double x) { return x + steps.emplace_back(rng.uniform(-1, 1)); });
    std::size_t next = 0;
    two[i] = changed(wide[i], DType::float64, [&](double x) { return x + 2 * steps[next++]; });
    const std::vector<double> a = result_of(call, wide), b = result_of(call, one), c = result_of(call, two);
    if (!is_finite(a)) continue;
    const double limit = 1e-12 * size_of(wide);
    for (std::size_t k = 0; k < a.size(); ++k)
      EXPECT_LE(std::abs((b[k] - a[k]) - (c[k] - b[k])), limit) << call.where << " operand " << i;
    ++looked;
  }
  return looked;
}

TEST(OpTraits, SumsOfProductsAreLinearInEachOperand) {
  Rng rng(2);
  int looked = 0;
  for_each_call([](const OpDef& op) { return op.traits.linear; },
                [&](const Called& call) { looked += check_lines(call, rng); });
  EXPECT_GT(looked, 60);
}

}  // namespace
}  // namespace finity

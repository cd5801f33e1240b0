#include "fuzz/beyond.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "domain/range.h"
#include "exec/reference.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity::fuzz {

namespace {

// Operands behind the first mostly say how; not those of elementwise ops, and what is put beside the first.
bool is_data(const Sample& sample, const std::string& name) {
  return std::ranges::all_of(sample.steps, [&](const Step& step) {
    const OpDef* op = find_op(step.domain, step.op);
    const bool all_alike = op != nullptr && (op->traits.elementwise || op->traits.elements == ElementSource::joined);
    return all_alike || std::find(step.inputs.begin() + 1, step.inputs.end(), name) == step.inputs.end();
  });
}

std::vector<Tensor*> fit(Sample& sample) {
  std::vector<Tensor*> tensors;
  for (auto* group : {&sample.inputs, &sample.constants}) {
    for (auto& [name, tensor] : *group) {
      if (is_float(tensor.dtype()) && !tensor.empty() && is_data(sample, name)) tensors.push_back(&tensor);
    }
  }
  return tensors;
}

double draw(Rng& rng) {
  constexpr double kValues[] = {NAN, NAN, NAN, kInf, kInf, -kInf, -kInf};
  return kValues[rng.below(std::size(kValues))];
}

bool runs(const Sample& sample) {
  try {
    run_reference(graph(sample), inputs_of(sample));
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::optional<Sample> with_not_finite(const Sample& sample, Rng& rng) {
  Sample changed = sample;
  const std::vector<Tensor*> tensors = fit(changed);
  if (tensors.empty()) return std::nullopt;
  Tensor& tensor = *tensors[rng.below(tensors.size())];
  std::vector<double> values = elements<double>(tensor);
  // Kernels take several elements at a time: all of them, some, or one.
  const bool all = rng.below(10) == 0, mixed = rng.below(3) == 0;
  const std::size_t count = all ? values.size() : rng.below(3) == 0 ? 1 + values.size() / 3 : 1;
  double value = draw(rng);
  for (std::size_t i = 0; i < count; ++i) {
    if (mixed) value = draw(rng);
    values[all ? i : rng.below(values.size())] = value;
  }
  tensor = from_elements<double>(tensor.dtype(), tensor.dims(), values);
  if (!holds_not_finite(changed) || !runs(changed)) return std::nullopt;
  changed.origin += ", not finite";
  return changed;
}

bool holds_not_finite(const Sample& sample) {
  for (const auto* group : {&sample.inputs, &sample.constants}) {
    for (const auto& [name, tensor] : *group) {
      if (is_float(tensor.dtype()) &&
          std::ranges::any_of(elements<double>(tensor), [](double x) { return !std::isfinite(x); }))
        return true;
    }
  }
  return false;
}

}  // namespace finity::fuzz

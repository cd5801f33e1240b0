#include "fuzz/spoil.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "exec/reference.h"
#include "tensor/convert.h"
#include "types/infer.h"

namespace finity::fuzz {

namespace {

// Small enough that nothing becomes large.
std::int64_t another(std::int64_t value, Rng& rng) {
  switch (rng.below(4)) {
    case 0: return value + 1 + static_cast<std::int64_t>(rng.below(3));
    case 1: return -value - 1 - static_cast<std::int64_t>(rng.below(3));
    case 2: return 0;
    default: return static_cast<std::int64_t>(rng.below(19)) - 9;
  }
}

bool spoil_attribute(Sample& sample, Rng& rng) {
  Step& step = sample.steps[rng.below(sample.steps.size())];
  std::vector<std::string> names;
  for (const auto& [name, value] : step.attrs) {
    const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
    const bool is_type = name == "to" || name.ends_with("dtype");
    if ((std::holds_alternative<std::int64_t>(value) && !is_type) || (list != nullptr && !list->empty()))
      names.push_back(name);
  }
  if (names.empty()) return false;
  const std::string& name = names[rng.below(names.size())];
  Attr value = *step.attrs.find(name);
  if (auto* number = std::get_if<std::int64_t>(&value)) {
    *number = another(*number, rng);
  } else {
    auto& list = std::get<std::vector<std::int64_t>>(value);
    if (rng.below(4) == 0) list.push_back(1);
    else if (rng.below(4) == 0) list.pop_back();
    else list[rng.below(list.size())] = another(list.front(), rng);
  }
  step.attrs.set(name, value);
  return true;
}

// A tensor that the sample is given, by its number; inputs come first.
Tensor& given_tensor(Sample& sample, std::size_t at) {
  auto& tensors = at < sample.inputs.size() ? sample.inputs : sample.constants;
  return std::next(tensors.begin(),
                   static_cast<std::ptrdiff_t>(at < sample.inputs.size() ? at : at - sample.inputs.size()))
      ->second;
}

bool spoil_integer(Sample& sample, Rng& rng) {
  Tensor& tensor = given_tensor(sample, rng.below(sample.inputs.size() + sample.constants.size()));
  if ((tensor.dtype() != DType::int64 && tensor.dtype() != DType::int32) || tensor.empty()) return false;
  std::vector<std::int64_t> values = elements<std::int64_t>(tensor);
  std::int64_t& value = values[rng.below(values.size())];
  value = another(std::clamp<std::int64_t>(value, -9, 9), rng);
  tensor = from_elements<std::int64_t>(tensor.dtype(), tensor.dims(), values);
  return true;
}

bool spoil_size(Sample& sample, Rng& rng) {
  Tensor& tensor = given_tensor(sample, rng.below(sample.inputs.size() + sample.constants.size()));
  Dims dims = tensor.dims();
  if (tensor.dtype() == DType::string || tensor.empty()) return false;
  const std::uint64_t how = rng.below(4);
  if (dims.empty() || how == 0) dims.insert(dims.begin(), 1 + static_cast<std::int64_t>(rng.below(2)));
  else if (how == 1) dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(rng.below(dims.size())));
  else dims[rng.below(dims.size())] += how == 2 ? 1 : -1;
  const std::vector<double> old = elements<double>(tensor);
  std::vector<double> values(static_cast<std::size_t>(element_count(dims)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = old[i % old.size()];
  tensor = from_elements<double>(tensor.dtype(), dims, values);
  return true;
}

bool is_refused(const Sample& sample) {
  try {
    const Graph model = graph(sample);
    infer_types(model);
    run_reference(model, inputs_of(sample));
    return false;
  } catch (const Error&) {
    return true;
  }
}

}  // namespace

std::optional<Sample> spoilt(const Sample& sample, Rng& rng) {
  constexpr bool (*kWays[])(Sample&, Rng&) = {spoil_attribute, spoil_integer, spoil_size};
  if (sample.steps.empty() || sample.inputs.size() + sample.constants.size() == 0) return std::nullopt;
  Sample changed = sample;
  if (!kWays[rng.below(std::size(kWays))](changed, rng) || !is_refused(changed)) return std::nullopt;
  changed.origin += ", spoilt";
  return changed;
}

}  // namespace finity::fuzz

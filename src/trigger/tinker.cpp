#include "trigger/tinker.h"

#include <algorithm>
#include <cmath>

#include "check/escape.h"
#include "tensor/convert.h"

namespace finity {

namespace {

const Tensor* tensor_of(const Graph& graph, const Drawn& drawn, ValueId id) {
  const auto weight = drawn.weights.find(id);
  if (weight != drawn.weights.end()) return weight->second.tensor();
  const auto input = drawn.inputs.find(graph.value(id).name);
  return input == drawn.inputs.end() ? nullptr : input->second.tensor();
}

}  // namespace

double Tinker::anything(const Box& box, std::size_t i) {
  const std::uint64_t kind = rng_.below(4);
  if (kind == 0) return box.lo[i];
  if (kind == 1) return box.hi[i];
  return rng_.uniform(box.lo[i], box.hi[i]);
}

// By a little or by much: what is near zero is a matter of the last digits, what is far away is not.
double Tinker::moved(double x, const Box& box, std::size_t i, bool integers) {
  const double sign = rng_.below(2) == 0 ? -1 : 1;
  if (integers && rng_.below(2) == 0) return x + sign;
  constexpr double kLeast = 1e-8;
  const double width = std::clamp(box.hi[i] - box.lo[i], kLeast, 1e6);
  return x + sign * width * std::exp(rng_.uniform(std::log(kLeast), 0));
}

void Tinker::change(std::vector<double>& values, const Box& box, bool integers) {
  const std::size_t at = rng_.below(values.size());
  const std::size_t other = rng_.below(values.size());
  switch (rng_.below(8)) {
    case 0: values[at] = anything(box, at); return;
    case 1: values[at] = values[other]; return;
    case 2: std::ranges::fill(values, rng_.below(2) == 0 ? values[at] : anything(box, at)); return;
    case 3: {  // a part all the same: rows, tails
      const double same = rng_.below(2) == 0 ? values[at] : anything(box, at);
      const auto [first, last] = std::minmax(at, other);
      for (std::size_t i = first; i <= last; ++i) values[i] = same;
      return;
    }
    case 4:
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = moved(values[i], box, i, integers);
      return;
    default: values[at] = moved(values[at], box, at, integers);
  }
}

std::optional<Drawn> Tinker::changed(const Drawn& from) {
  std::vector<ValueId> ids;
  for (std::size_t i = 0; i < space_.of.size(); ++i) {
    const ValueId id{static_cast<std::int32_t>(i)};
    const Tensor* tensor = space_.of[i] ? tensor_of(model_.graph, from, id) : nullptr;
    const bool numbers = tensor != nullptr && tensor->size() > 0 && is_number(tensor->dtype());
    if (numbers && !is_complex(tensor->dtype())) ids.push_back(id);
  }
  if (ids.empty()) return std::nullopt;
  const ValueId id = ids[rng_.below(ids.size())];
  const Tensor& tensor = *tensor_of(model_.graph, from, id);
  Numbers wished;
  wished[id] = elements<double>(tensor);
  change(wished[id], box_of(*space_.of[id.at()], tensor.dims()), !is_float(tensor.dtype()));
  return fit_inside(model_.graph, model_.types, space_, from, wished, rng_);
}

void Tinker::run(Drawn from, int changes, const std::function<void(const Drawn&, double)>& nearer,
                 const std::function<bool()>& over) {
  double best = probe_.distance(from, seed_);
  if (std::isfinite(best)) nearer(from, best);
  for (int i = 0; i < changes && !over(); ++i) {
    std::optional<Drawn> next = changed(from);
    if (!next) return;
    const double distance = probe_.distance(*next, seed_);
    if (!(distance <= best)) continue;
    if (distance < best || distance <= 0) nearer(*next, distance);
    best = distance;
    from = std::move(*next);
  }
}

}  // namespace finity

#include "trigger/walk.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/time_limit.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// Ranges beyond this are "any number": a step is then measured by the element itself.
constexpr double kWide = 1e6;

}  // namespace

Walk::Walk(const CheckedGraph& model, const Premises& space, Objective& objective, Drawn start, Rng& rng, Worker* torch)
    : model_(model),
      space_(space),
      objective_(objective),
      torch_(torch),
      start_(std::move(start)),
      rng_(rng),
      closest_(std::numeric_limits<double>::infinity()) {}

const Tensor& Walk::tensor_of(const Drawn& drawn, ValueId id) const {
  const auto weight = drawn.weights.find(id);
  const Datum& datum = weight != drawn.weights.end() ? weight->second : drawn.inputs.at(model_.graph.value(id).name);
  return *datum.tensor();
}

std::vector<double> Walk::elements_of(const Drawn& drawn, ValueId id) const {
  return elements<double>(tensor_of(drawn, id));
}

// How far an element may sensibly go in one step.
double Walk::reach(ValueId id, std::size_t i, double x) const {
  const Box& box = boxes_.at(id);
  const double width = box.hi[i] - box.lo[i];
  return width <= kWide ? width : std::max(1.0, std::abs(x));
}

std::optional<Walk::Point> Walk::measured(Drawn drawn) {
  try {
    Evaluation at = objective_.evaluate(drawn, 0, torch_);
    if (std::isnan(at.distance)) return std::nullopt;
    closest_ = std::min(closest_, at.distance);
    return Point{std::move(drawn), std::move(at)};
  } catch (const TimeUp&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;  // this input does not suit the model
  }
}

std::optional<Walk::Point> Walk::moved(const Point& from, const Numbers& wished) {
  return measured(fit_inside(model_.graph, model_.types, space_, from.drawn, wished, rng_));
}

Numbers Walk::to_corner(const Point& from) const {
  Numbers wished;
  for (const auto& [id, slopes] : from.at.gradient) {
    std::vector<double> values = elements_of(from.drawn, id);
    const Box& box = boxes_.at(id);
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (slopes[i] != 0) values[i] = slopes[i] > 0 ? box.lo[i] : box.hi[i];
    }
    wished[id] = std::move(values);
  }
  return wished;
}

Numbers Walk::by_signs(const Point& from, double share) const {
  Numbers wished;
  for (const auto& [id, slopes] : from.at.gradient) {
    std::vector<double> values = elements_of(from.drawn, id);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double step = share * reach(id, i, values[i]);
      if (slopes[i] != 0) values[i] += slopes[i] > 0 ? -step : step;
    }
    wished[id] = std::move(values);
  }
  return wished;
}

Numbers Walk::linearly(const Point& from, double factor) const {
  double square = 0;
  for (const auto& [id, slopes] : from.at.gradient) {
    for (const double slope : slopes) square += slope * slope;
  }
  const double step = factor * from.at.distance / square;
  Numbers wished;
  if (!std::isfinite(step)) return wished;
  for (const auto& [id, slopes] : from.at.gradient) {
    std::vector<double> values = elements_of(from.drawn, id);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] -= step * slopes[i];
    wished[id] = std::move(values);
  }
  return wished;
}

Numbers Walk::by_one_element(const Point& from) const {
  double best = std::numeric_limits<double>::infinity();
  ValueId where = {};
  std::size_t at = 0;
  for (const auto& [id, slopes] : from.at.gradient) {
    const std::vector<double> values = elements_of(from.drawn, id);
    for (std::size_t i = 0; i < slopes.size(); ++i) {
      const double share = std::abs(from.at.distance / slopes[i]) / reach(id, i, values[i]);
      if (!(share < best)) continue;
      best = share;
      where = id;
      at = i;
    }
  }
  Numbers wished;
  if (!where.valid()) return wished;
  wished[where] = elements_of(from.drawn, where);
  wished[where][at] -= from.at.distance / from.at.gradient.at(where)[at];
  return wished;
}

void Walk::run(const std::function<void(const Drawn&)>& visit, const std::function<bool()>& over) {
  std::optional<Point> here = measured(start_);
  visit(start_);
  end_ = start_;
  if (!here) return;
  for (const auto& [id, slopes] : here->at.gradient) {
    boxes_[id] = box_of(*space_.of[id.at()], tensor_of(here->drawn, id).dims());
  }
  double share = 0.5;
  const auto go = [&](const Numbers& wished) {
    if (wished.empty() || over()) return false;
    std::optional<Point> next = moved(*here, wished);
    if (!next) return false;
    // At or below zero, or no longer a number's distance in the real format: the run decides.
    if (next->at.distance <= 0 || next->at.distance < here->at.distance) visit(next->drawn);
    if (!(next->at.distance < here->at.distance)) return false;
    here = std::move(next);
    return true;
  };
  go(to_corner(*here));
  constexpr int kMostSteps = 200;
  constexpr double kSmallest = 1e-7;
  for (int step = 0; step < kMostSteps && share > kSmallest && !over(); ++step) {
    bool better = false;
    if (objective_.is_plain()) {
      better |= go(linearly(*here, 1));
      if (!over()) better |= go(by_one_element(*here));
    }
    const bool signs = go(by_signs(*here, share));
    share = signs ? std::min(share * 4, 1e3) : share / 4;
    better |= signs;
    if (!better && here->at.distance <= 0) break;
  }
  end_ = std::move(here->drawn);
}

}  // namespace finity

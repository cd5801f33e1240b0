#include "muffin/verdict.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace finity::muffin {

namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

double difference(float x, float y) { return x == y ? 0.0 : std::abs(static_cast<double>(x) - static_cast<double>(y)); }

// The larger one; NaN when either is.
double worse(double a, double b) { return std::isnan(a) || std::isnan(b) ? kUnknown : std::max(a, b); }

bool has_nan(const Tensor& tensor) {
  return tensor.dtype() == DType::float32 &&
         std::ranges::any_of(tensor.data<float>(), [](float x) { return std::isnan(x); });
}

double between(const std::optional<Tensor>& x, const std::optional<Tensor>& y) {
  return x && y ? chebyshev(*x, *y) : kUnknown;
}

double largest(const std::map<std::string, Tensor>& x, const std::map<std::string, Tensor>& y) {
  double most = x.empty() || y.empty() ? kUnknown : 0;
  for (const auto& [name, tensor] : x) {
    if (const auto other = y.find(name); other != y.end()) most = worse(most, chebyshev(tensor, other->second));
  }
  return most;
}

std::vector<std::vector<int>> users_of(const Model& model) {
  std::vector<std::vector<int>> users(model.layers.size());
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    for (const int from : model.layers[i].from) {
      if (from >= 0) users[static_cast<std::size_t>(from)].push_back(static_cast<int>(i));
    }
  }
  return users;
}

}  // namespace

std::string_view name(Phase phase) {
  constexpr std::string_view kNames[] = {"FC", "LC", "BC", "step"};
  return kNames[static_cast<std::size_t>(phase)];
}

double chebyshev(const Tensor& x, const Tensor& y) {
  if (x.dims() != y.dims() || x.dtype() != DType::float32 || y.dtype() != DType::float32) return kUnknown;
  const auto a = x.data<float>(), b = y.data<float>();
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) most = worse(most, difference(a[i], b[i]));
  return most;
}

PairDistance distances(const Model& model, const std::vector<Trace>& traces, std::size_t a, std::size_t b) {
  const Trace &x = traces[a], &y = traces[b];
  PairDistance pair{.a = a, .b = b};
  const std::vector<std::vector<int>> users = users_of(model);
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    LayerDistance layer{.layer = static_cast<int>(i), .output = chebyshev(x.outputs[i], y.outputs[i])};
    for (const int from : model.layers[i].from) {
      if (from >= 0) layer.before = worse(layer.before, pair.layers[static_cast<std::size_t>(from)].output);
    }
    const bool derived = i < x.gradients.size() && i < y.gradients.size();
    layer.gradient = derived ? between(x.gradients[i], y.gradients[i]) : kUnknown;
    pair.layers.push_back(layer);
  }
  for (LayerDistance& layer : pair.layers) {
    for (const int user : users[static_cast<std::size_t>(layer.layer)]) {
      const LayerDistance& after = pair.layers[static_cast<std::size_t>(user)];
      layer.after = worse(layer.after, after.gradient);
      if (layer.blamed < 0 || !(pair.layers[static_cast<std::size_t>(layer.blamed)].output <= after.output))
        layer.blamed = user;
    }
  }
  pair.output = pair.layers.back().output;
  pair.loss_gradient = pair.layers.back().gradient;
  pair.loss = x.loss && y.loss ? difference(static_cast<float>(*x.loss), static_cast<float>(*y.loss)) : kUnknown;
  pair.weight_gradients = largest(x.weight_gradients, y.weight_gradients);
  pair.weights = largest(x.weights, y.weights);
  return pair;
}

std::vector<Inconsistency> inconsistencies(const Model& model, const PairDistance& pair, const Rules& rules) {
  std::vector<Inconsistency> found;
  const auto add = [&](Phase phase, int layer, std::string kind, double distance) {
    found.push_back({phase, layer, std::move(kind), pair.a, pair.b, distance});
  };
  const auto kind_of = [&](int layer) { return model.layers[static_cast<std::size_t>(layer)].spec.kind; };
  for (const LayerDistance& layer : pair.layers) {
    if (layer.output > rules.threshold && layer.before < rules.equal)
      add(Phase::forward, layer.layer, kind_of(layer.layer), layer.output);
  }
  if (pair.output < rules.equal) {
    if (pair.loss > rules.threshold) add(Phase::loss, -1, model.loss, pair.loss);
    else if (pair.loss_gradient > rules.threshold) add(Phase::loss, -1, model.loss, pair.loss_gradient);
  }
  if (!(pair.loss < rules.equal)) return found;
  for (const LayerDistance& layer : pair.layers) {
    // The last layer's is the gradient of the loss.
    if (layer.blamed < 0 || !(layer.gradient > rules.threshold) || !(layer.after < rules.equal)) continue;
    add(Phase::backward, layer.blamed, kind_of(layer.blamed), layer.gradient);
  }
  if (pair.weight_gradients < rules.equal && pair.weights > rules.threshold)
    add(Phase::step, -1, model.optimiser, pair.weights);
  return found;
}

std::vector<Vote> votes(const std::vector<Inconsistency>& found, std::size_t traces) {
  std::map<std::pair<Phase, std::string>, std::vector<int>> points;
  for (const Inconsistency& one : found) {
    std::vector<int>& sums = points[{one.phase, one.kind}];
    sums.resize(traces, 0);
    ++sums[one.a];
    ++sums[one.b];
  }
  std::vector<Vote> result;
  for (const auto& [where, sums] : points) {
    const auto most = std::ranges::max_element(sums);
    if (std::ranges::count(sums, *most) == 1)
      result.push_back({where.first, where.second, static_cast<std::size_t>(most - sums.begin())});
  }
  return result;
}

namespace {

void find_nans(const Model& model, const std::vector<Trace>& traces, Verdict& verdict) {
  for (std::size_t t = 0; t < traces.size(); ++t) {
    if (!traces[t].ran()) continue;
    for (std::size_t i = 0; i < model.layers.size(); ++i) {
      if (!has_nan(traces[t].outputs[i])) continue;
      const bool here = std::ranges::none_of(model.layers[i].from, [&](int from) {
        return from >= 0 && has_nan(traces[t].outputs[static_cast<std::size_t>(from)]);
      });
      const bool only =
          std::ranges::any_of(traces, [&](const Trace& other) { return other.ran() && !has_nan(other.outputs[i]); });
      if (here && only) verdict.nans.push_back({t, model.layers[i].spec.kind, static_cast<int>(i)});
      break;
    }
  }
}

}  // namespace

Verdict judge_traces(const Model& model, const std::vector<Trace>& traces, const Rules& rules) {
  Verdict verdict;
  const bool any_ran = std::ranges::any_of(traces, [](const Trace& trace) { return trace.ran(); });
  for (std::size_t a = 0; a < traces.size(); ++a) {
    const Trace& trace = traces[a];
    if (any_ran && (trace.end == Trace::End::refused || trace.end == Trace::End::crashed))
      verdict.crashes.push_back({a, trace.end == Trace::End::crashed, trace.message});
    for (std::size_t b = a + 1; b < traces.size(); ++b) {
      if (!trace.ran() || !traces[b].ran()) continue;
      verdict.pairs.push_back(distances(model, traces, a, b));
      for (Inconsistency& one : inconsistencies(model, verdict.pairs.back(), rules))
        verdict.inconsistencies.push_back(std::move(one));
    }
  }
  // The paper's rule needs a third library: one pair alone says nothing about who is wrong.
  verdict.votes = votes(verdict.inconsistencies, traces.size());
  find_nans(model, traces, verdict);
  return verdict;
}

}  // namespace finity::muffin

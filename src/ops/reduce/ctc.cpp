#include "ops/reduce/ctc.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/error.h"
#include "ops/shared/shapes.h"
#include "tensor/convert.h"

namespace finity {

namespace {

using Table = std::vector<std::vector<double>>;  // by time, then by class or position

double log_sum(double a, double b) {
  const double most = std::max(a, b);
  return std::isinf(most) && most < 0 ? most : most + std::log(std::exp(a - most) + std::exp(b - most));
}

// Logarithms of the probabilities at each time.
Table log_probabilities(const std::vector<double>& scores, const Dims& dims, std::int64_t item, std::int64_t steps) {
  const auto classes = static_cast<std::size_t>(dims[2]);
  Table logs;
  for (std::int64_t t = 0; t < steps; ++t) {
    const auto begin = scores.begin() + (t * dims[1] + item) * dims[2];
    std::vector<double> row(begin, begin + dims[2]);
    const double most = *std::ranges::max_element(row);
    double sum = 0;
    for (const double score : row) sum += std::exp(score - most);
    for (std::size_t k = 0; k < classes; ++k) row[k] -= most + std::log(sum);
    logs.push_back(std::move(row));
  }
  return logs;
}

// The labels of one item with blanks before, between and behind them.
struct Path {
  std::vector<std::size_t> classes = {};
  // From position s - 2 one may come when a blank can be left out between two different labels.
  bool may_skip(std::size_t s) const { return s >= 2 && s % 2 == 1 && classes[s] != classes[s - 2]; }
};

// Logarithm of all ways to be at a position at a time, that time's class included.
Table forward_ways(const Table& logs, const Path& path) {
  Table ways(logs.size(), std::vector<double>(path.classes.size(), -kInf));
  for (std::size_t t = 0; t < logs.size(); ++t) {
    for (std::size_t s = 0; s < path.classes.size(); ++s) {
      double before = t == 0 ? (s < 2 ? 0.0 : -kInf) : ways[t - 1][s];
      if (t > 0 && s > 0) before = log_sum(before, ways[t - 1][s - 1]);
      if (t > 0 && path.may_skip(s)) before = log_sum(before, ways[t - 1][s - 2]);
      ways[t][s] = before + logs[t][path.classes[s]];
    }
  }
  return ways;
}

// Logarithm of all ways from a position to the end, later times only.
Table backward_ways(const Table& logs, const Path& path) {
  const std::size_t length = path.classes.size();
  Table ways(logs.size(), std::vector<double>(length, -kInf));
  for (std::size_t t = logs.size(); t-- > 0;) {
    for (std::size_t s = length; s-- > 0;) {
      if (t + 1 == logs.size()) {
        ways[t][s] = s + 2 >= length ? 0.0 : -kInf;
        continue;
      }
      const auto next = [&](std::size_t to) { return ways[t + 1][to] + logs[t + 1][path.classes[to]]; };
      ways[t][s] = next(s);
      if (s + 1 < length) ways[t][s] = log_sum(ways[t][s], next(s + 1));
      if (s + 2 < length && path.may_skip(s + 2)) ways[t][s] = log_sum(ways[t][s], next(s + 2));
    }
  }
  return ways;
}

struct Item {
  double loss = 0;
  Table gradient = {};
};

// The gradient is the probability of each class less the share of the ways that go through it.
Item solved(const Table& logs, const Path& path) {
  Item item;
  const Table forward = forward_ways(logs, path), backward = backward_ways(logs, path);
  double total = logs.empty() ? (path.classes.size() == 1 ? 0.0 : -kInf) : -kInf;
  for (std::size_t s = 0; !logs.empty() && s < path.classes.size(); ++s)
    total = log_sum(total, forward.back()[s] + backward.back()[s]);
  item.loss = -total;
  for (std::size_t t = 0; t < logs.size(); ++t) {
    std::vector<double> row;
    for (const double log : logs[t]) row.push_back(std::exp(log));
    for (std::size_t s = 0; s < path.classes.size() && !std::isinf(total); ++s)
      row[path.classes[s]] -= std::exp(forward[t][s] + backward[t][s] - total);
    item.gradient.push_back(std::move(row));
  }
  return item;
}

std::vector<Path> paths_of(const EvalCall& call, const Dims& dims) {
  const std::vector<std::int64_t> places = elements<std::int64_t>(call.in(1)),
                                  labels = elements<std::int64_t>(call.in(2));
  require_rank(call.in(1), "labels_indices", 2);
  if (call.in(1).dim(1) != 2 || call.in(1).dim(0) != static_cast<std::int64_t>(labels.size()))
    throw Error("labels_indices must have two numbers per label");
  const auto blank = static_cast<std::size_t>(dims[2] - 1);
  std::vector<Path> paths(static_cast<std::size_t>(dims[1]), Path{{blank}});
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::int64_t item = places[2 * i];
    if (item < 0 || item >= dims[1]) throw Error("a label belongs to item " + std::to_string(item) + " of the batch");
    if (labels[i] < 0 || labels[i] >= dims[2] - 1) throw Error("label " + std::to_string(labels[i]) + " is no class");
    Path& path = paths[static_cast<std::size_t>(item)];
    path.classes.push_back(static_cast<std::size_t>(labels[i]));
    path.classes.push_back(blank);
  }
  return paths;
}

}  // namespace

void infer_ctc_loss(InferCall& call) {
  require_rank(call, 0, 3);
  if (!call.ranked(0)) return;
  call.set_shape(0, {call.shape(0)[1]});
  call.set_shape(1, call.shape(0));
}

void eval_ctc_loss(EvalCall& call) {
  const Tensor& inputs = call.in(0);
  require_rank(inputs, "inputs", 3);
  const Dims& dims = inputs.dims();
  if (dims[2] < 1) throw Error("there is no class");
  const std::vector<double> scores = elements<double>(inputs);
  const std::vector<std::int64_t> steps = elements<std::int64_t>(call.in(3));
  if (static_cast<std::int64_t>(steps.size()) != dims[1]) throw Error("sequence_length must have one number per item");
  const std::vector<Path> paths = paths_of(call, dims);
  std::vector<double> losses, gradient(scores.size(), 0.0);
  for (std::int64_t item = 0; item < dims[1]; ++item) {
    const auto at = static_cast<std::size_t>(item);
    if (steps[at] < 0 || steps[at] > dims[0]) throw Error("a sequence is longer than the inputs");
    const Item result = solved(log_probabilities(scores, dims, item, steps[at]), paths[at]);
    losses.push_back(result.loss);
    for (std::size_t t = 0; t < result.gradient.size(); ++t)
      std::ranges::copy(result.gradient[t],
                        gradient.begin() + (static_cast<std::int64_t>(t) * dims[1] + item) * dims[2]);
  }
  call.out(0, from_elements<double>(inputs.dtype(), {dims[1]}, losses));
  call.out(1, from_elements<double>(inputs.dtype(), dims, gradient));
}

// Each step costs at most the distance of two scores and the logarithm of the number of classes. Labels that do not fit
// into their sequence are infinitely unlikely.
void range_ctc_loss(RangeCall& call) {
  const Range x = call.hull(0);
  const DType dtype = call.out_dtype(0);
  Range loss = top(dtype), gradient = top(dtype);
  if (x.is_finite()) {
    const AbsTensor& scores = call.in(0);
    const bool shaped = scores.ranked && scores.rank() == 3;
    const double steps = shaped ? scores.size_limits(0).most : kManyElements;
    const double classes = shaped ? scores.size_limits(2).most : kManyElements;
    constexpr double kSlack = 1.001;  // far more than any way of adding logarithms loses
    // Where scores lie so far apart that their logarithms are rounded to 0, each of at most 3^steps ways counts as 1.
    const double lost = std::min(steps * (x.hi - x.lo + 1) * 1e-4, steps * std::log(3.0)) * kSlack + 1e-3;
    loss = from_bounds(dtype, -lost, steps * (x.hi - x.lo + std::log(std::max(classes, 1.0)) + 1e-3) * kSlack);
    loss.pinf = true;
    gradient = from_bounds(dtype, -kSlack, kSlack);
  }
  call.out(0, loss);
  call.out(1, gradient);
}

}  // namespace finity

#include "fuzz/reduce.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/error.h"
#include "exec/reference.h"
#include "tensor/convert.h"

namespace finity::fuzz {

namespace {

constexpr int kStepsPerCandidate = 10;

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }
// Another number in place of a number; NaN and infinities stay.
double number_or(double x, double other) { return std::isfinite(x) ? other : x; }

class Reducer {
 public:
  Reducer(Sample sample, const StillShows& still_shows, const ReduceLimits& limits)
      : best_(std::move(sample)), still_shows_(still_shows), left_(limits.candidates) {}

  Sample run() {
    // Each pass makes room for the others; two rounds without a change end it.
    for (bool changed = true; changed && going();) {
      changed = one_output();
      changed |= cut_upstream();
      changed |= drop_steps();
      changed |= drop_attrs();
      changed |= drop_operands();
      changed |= smaller_axes();
      changed |= rounder_values();
    }
    return std::move(best_);
  }

 private:
  bool going() const { return left_ > 0; }

  bool accept(Sample candidate) {
    if (!going()) return false;
    drop_unneeded(candidate);
    left_ -= 1 + static_cast<int>(candidate.steps.size()) / kStepsPerCandidate;
    if (candidate.steps.empty() || !still_shows_(candidate)) return false;
    best_ = std::move(candidate);
    return true;
  }

  bool one_output() {
    if (best_.outputs.size() < 2) return false;
    for (const std::string& output : std::vector<std::string>(best_.outputs)) {
      Sample candidate = best_;
      candidate.outputs = {output};
      if (accept(std::move(candidate))) return true;
    }
    // None alone: leave out what can be.
    bool changed = false;
    for (std::size_t i = 0; i < best_.outputs.size() && best_.outputs.size() > 1;) {
      Sample candidate = best_;
      candidate.outputs.erase(candidate.outputs.begin() + static_cast<std::ptrdiff_t>(i));
      if (accept(std::move(candidate))) changed = true;
      else ++i;
    }
    return changed;
  }

  // What the reference computes along the way; empty when it refuses the sample.
  std::map<std::string, Tensor, std::less<>> values() const {
    std::map<std::string, Tensor, std::less<>> result;
    try {
      const Graph model = graph(best_, true);
      const std::vector<Datum> outputs = run_reference(model, inputs_of(best_));
      for (std::size_t i = 0; i < outputs.size(); ++i) {
        if (outputs[i].tensor() != nullptr) result[model.value(model.main().outputs[i]).name] = *outputs[i].tensor();
      }
    } catch (const Error&) {
    }
    return result;
  }

  // Values that were computed become inputs, the latest first: a step's ancestors go all at once.
  bool cut_upstream() {
    const auto computed = values();
    bool changed = false;
    for (std::size_t i = best_.steps.size(); i-- > 0;) {
      if (i >= best_.steps.size()) continue;
      for (const std::string& output : std::vector<std::string>(best_.steps[i].outputs)) {
        const auto value = computed.find(output);
        const bool is_output = std::ranges::find(best_.outputs, output) != best_.outputs.end();
        if (value == computed.end() || is_output) continue;
        Sample candidate = best_;
        for (std::string& name : candidate.steps[i].outputs) {
          if (name == output) name = fresh_name(best_, "unused");
        }
        candidate.inputs[output] = value->second;
        if (accept(std::move(candidate))) {
          changed = true;
          break;
        }
      }
    }
    return changed;
  }

  // A step is left out; its users get one of its operands instead, where the op table agrees.
  bool drop_steps() {
    bool changed = false;
    for (std::size_t i = 0; i < best_.steps.size() && best_.steps.size() > 1;) {
      changed |= bypass(i) || ++i == 0;
    }
    return changed;
  }

  bool bypass(std::size_t i) {
    const Step step = best_.steps[i];
    if (step.outputs.size() != 1) return false;
    for (const std::string& input : step.inputs) {
      if (input.empty()) continue;
      Sample candidate = best_;
      candidate.steps.erase(candidate.steps.begin() + static_cast<std::ptrdiff_t>(i));
      for (Step& other : candidate.steps) std::ranges::replace(other.inputs, step.outputs[0], input);
      if (std::ranges::find(candidate.outputs, step.outputs[0]) != candidate.outputs.end()) {
        if (is_given(candidate, input)) continue;
        std::ranges::replace(candidate.outputs, step.outputs[0], input);
      }
      if (accept(std::move(candidate))) return true;
    }
    return false;
  }

  bool drop_attrs() {
    bool changed = false;
    for (std::size_t i = 0; i < best_.steps.size(); ++i) {
      std::vector<std::string> names;
      for (const auto& [name, value] : best_.steps[i].attrs) names.push_back(name);
      for (const std::string& dropped : names) {
        Sample candidate = best_;
        Attrs kept;
        for (const auto& [name, value] : candidate.steps[i].attrs) {
          if (name != dropped) kept.set(name, value);
        }
        candidate.steps[i].attrs = std::move(kept);
        changed |= accept(std::move(candidate));
        if (i >= best_.steps.size()) return changed;
      }
    }
    return changed;
  }

  // Optional operands at the end.
  bool drop_operands() {
    bool changed = false;
    for (std::size_t i = 0; i < best_.steps.size(); ++i) {
      if (best_.steps[i].inputs.size() < 2) continue;
      Sample candidate = best_;
      auto& inputs = candidate.steps[i].inputs;
      do inputs.pop_back();
      while (!inputs.empty() && inputs.back().empty());
      if (!inputs.empty()) changed |= accept(std::move(candidate));
    }
    return changed;
  }

  static std::optional<Tensor> without_last(const Tensor& tensor, std::size_t axis) {
    if (tensor.dtype() == DType::string || is_complex(tensor.dtype()) || tensor.dim(axis) < 2) return std::nullopt;
    Dims dims = tensor.dims();
    std::int64_t behind = 1;
    for (std::size_t i = axis + 1; i < dims.size(); ++i) behind *= dims[i];
    const std::int64_t length = dims[axis]--;
    const std::vector<double> all = elements<double>(tensor);
    std::vector<double> kept;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (static_cast<std::int64_t>(i) / behind % length != length - 1) kept.push_back(all[i]);
    }
    return from_elements<double>(tensor.dtype(), std::move(dims), kept);
  }

  // All given tensors that have this size somewhere lose an element there together, or one of them alone.
  bool smaller_axes() {
    bool changed = false;
    std::set<std::string> names;
    for (const auto& [name, tensor] : best_.inputs) names.insert(name);
    for (const auto& [name, tensor] : best_.constants) names.insert(name);
    for (const std::string& name : names) {
      for (std::size_t axis = 0; given(best_, name) != nullptr && axis < given(best_, name)->rank(); ++axis) {
        while (going() && given(best_, name) != nullptr && shrink_axis(name, axis)) changed = true;
      }
    }
    return changed;
  }

  bool shrink_axis(const std::string& name, std::size_t axis) {
    const Tensor* tensor = given(best_, name);
    if (axis >= tensor->rank() || tensor->dim(axis) < 2) return false;
    Sample alone = best_;
    if (!replace(alone, name, axis)) return false;
    const std::int64_t size = tensor->dim(axis);
    if (accept(std::move(alone))) return true;
    Sample together = best_;
    for (auto* tensors : {&together.inputs, &together.constants}) {
      for (auto& [other, value] : *tensors) {
        for (std::size_t i = 0; i < value.rank(); ++i) {
          if (value.dim(i) != size) continue;
          if (std::optional<Tensor> smaller = without_last(value, i)) value = std::move(*smaller);
        }
      }
    }
    return accept(std::move(together));
  }

  static bool replace(Sample& sample, const std::string& name, std::size_t axis) {
    for (auto* tensors : {&sample.inputs, &sample.constants}) {
      const auto found = tensors->find(name);
      if (found == tensors->end()) continue;
      std::optional<Tensor> smaller = without_last(found->second, axis);
      if (!smaller) return false;
      found->second = std::move(*smaller);
    }
    return true;
  }

  bool rounder_values() {
    bool changed = false;
    for (auto member : {&Sample::inputs, &Sample::constants}) {
      std::vector<std::string> names;
      for (const auto& [name, tensor] : best_.*member) {
        if (is_float(tensor.dtype())) names.push_back(name);
      }
      for (const std::string& name : names) {
        const auto found = (best_.*member).find(name);
        if (found == (best_.*member).end()) continue;
        const std::vector<double> now = elements<double>(found->second);
        for (const auto rounded :
             {+[](double) { return 0.0; }, +[](double) { return 1.0; }, +[](double x) { return number_or(x, 0); },
              +[](double x) { return number_or(x, 1); }, +[](double x) { return std::round(x); },
              +[](double x) { return std::round(x * 4) / 4; }}) {
          std::vector<double> next;
          for (const double x : now) next.push_back(rounded(x));
          if (std::ranges::equal(next, now, same_number)) break;
          Sample candidate = best_;
          (candidate.*member)[name] = from_elements<double>(found->second.dtype(), found->second.dims(), next);
          if (accept(std::move(candidate))) {
            changed = true;
            break;
          }
        }
      }
    }
    return changed;
  }

  Sample best_;
  const StillShows& still_shows_;
  int left_;
};

}  // namespace

Sample reduce(Sample sample, const StillShows& still_shows, const ReduceLimits& limits) {
  return Reducer(std::move(sample), still_shows, limits).run();
}

}  // namespace finity::fuzz

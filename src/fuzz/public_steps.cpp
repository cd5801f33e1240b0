#include "fuzz/public_steps.h"

#include <algorithm>
#include <limits>

#include "base/error.h"
#include "types/infer.h"

namespace finity::fuzz {

namespace {

using Ints = std::vector<std::int64_t>;

// A window's attributes, all given.
struct Window {
  Ints kernel = {}, strides = {}, dilations = {}, begin = {}, end = {};
  std::int64_t group = 1;
  bool plain = true;  // no automatic padding, no partial windows
  bool counts_padding = false;

  std::int64_t reach(std::size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
};

Ints list(const Attrs& attrs, std::string_view name, Ints fallback) {
  const Attr* attr = attrs.find(name);
  const auto* value = attr == nullptr ? nullptr : std::get_if<Ints>(attr);
  return value == nullptr ? fallback : *value;
}

std::int64_t number(const Attrs& attrs, std::string_view name, std::int64_t fallback) {
  const Attr* attr = attrs.find(name);
  const auto* value = attr == nullptr ? nullptr : std::get_if<std::int64_t>(attr);
  return value == nullptr ? fallback : *value;
}

Window window_of(const Attrs& attrs, const Ints& kernel) {
  const std::size_t axes = kernel.size();
  Window window{.kernel = kernel,
                .strides = list(attrs, "strides", Ints(axes, 1)),
                .dilations = list(attrs, "dilations", Ints(axes, 1)),
                .group = number(attrs, "group", 1)};
  const Ints pads = list(attrs, "pads", Ints(2 * axes, 0));
  window.begin.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(axes));
  window.end.assign(pads.begin() + static_cast<std::ptrdiff_t>(axes), pads.end());
  const Attr* automatic = attrs.find("auto_pad");
  window.plain =
      (automatic == nullptr || std::get<std::string>(*automatic) == "NOTSET") && number(attrs, "ceil_mode", 0) == 0;
  window.counts_padding = number(attrs, "count_include_pad", 0) != 0;
  return window;
}

Ints spatial(const Dims& dims) { return {dims.begin() + 2, dims.end()}; }

class Writer {
 public:
  explicit Writer(const Sample& sample) : sample_(sample) {
    const Graph model = graph(sample);
    const Types types = infer_types(model);
    for (std::size_t i = 0; i < model.values().size(); ++i) {
      if (const auto dims = types.of[i].dims()) dims_[model.values()[i].name] = *dims;
    }
    result_ = sample;
    result_.steps.clear();
  }

  Sample run() {
    for (const Step& step : sample_.steps) {
      if (step.domain != "finity" || !known(step) || !rewrite(step)) result_.steps.push_back(step);
    }
    return std::move(result_);
  }

 private:
  bool known(const Step& step) const {
    return std::ranges::all_of(step.inputs, [&](const std::string& name) { return dims_.contains(name); });
  }
  const Dims& dims(const std::string& name) const { return dims_.find(name)->second; }

  bool rewrite(const Step& step) {
    if (step.op == "ConvInputGradient" || step.op == "ConvWeightGradient") {
      const bool input = step.op == "ConvInputGradient";
      const Dims& weight = dims(step.inputs[input ? 1 : 2]);
      const Window window = window_of(step.attrs, spatial(weight));
      if (!window.plain) return false;
      return input ? conv_input(step, window) : conv_weight(step, window);
    }
    if (step.op == "MaxPoolGradient" || step.op == "AveragePoolGradient") {
      const Window window = window_of(step.attrs, list(step.attrs, "kernel_shape", {}));
      if (!window.plain || window.kernel.empty()) return false;
      step.op == "MaxPoolGradient" ? max_pool(step, window) : average_pool(step, window);
      return true;
    }
    return false;
  }

  std::string add(std::string_view op, std::vector<std::string> inputs, Attrs attrs = {}, std::string output = {}) {
    if (output.empty()) output = "public/" + std::string(op) + std::to_string(named_++);
    result_.steps.push_back(
        {.op = std::string(op), .inputs = std::move(inputs), .outputs = {output}, .attrs = std::move(attrs)});
    return output;
  }
  std::string constant(Tensor tensor) {
    std::string name = "public/constant" + std::to_string(named_++);
    result_.constants[name] = std::move(tensor);
    return name;
  }
  std::string ints(const Ints& values) { return constant(Tensor::vector_of(values)); }
  std::string floats(const Dims& dims, const std::vector<float>& values) {
    return constant(Tensor::of<float>(DType::float32, dims, values));
  }
  std::string reshape(const std::string& x, const Dims& to, std::string output = {}) {
    return add("Reshape", {x, ints(to)}, {}, std::move(output));
  }
  static Attrs attrs_of(std::vector<std::pair<std::string, Attr>> values) {
    Attrs attrs;
    for (auto& [name, value] : values) attrs.set(name, std::move(value));
    return attrs;
  }

  // What was spread over (places - 1) * stride + reach elements per axis, cut down to the operand without its padding.
  std::string crop(std::string x, const Window& window, const Ints& places, const Dims& operand, std::string output) {
    const std::size_t axes = window.kernel.size();
    Ints pads(2 * (axes + 2), 0), starts, ends, which;
    bool short_of = false;
    for (std::size_t i = 0; i < axes; ++i) {
      const std::int64_t spread = (places[i] - 1) * window.strides[i] + window.reach(i);
      pads[axes + 4 + i] = std::max<std::int64_t>(operand[i + 2] + window.begin[i] - spread, 0);
      short_of |= pads[axes + 4 + i] > 0;
      starts.push_back(window.begin[i]);
      ends.push_back(window.begin[i] + operand[i + 2]);
      which.push_back(static_cast<std::int64_t>(i) + 2);
    }
    if (short_of) x = add("Pad", {x, ints(pads)});
    return add("Slice", {x, ints(starts), ints(ends), ints(which)}, {}, std::move(output));
  }

  Attrs spreading(const Window& window) const {
    return attrs_of({{"kernel_shape", window.kernel},
                     {"strides", window.strides},
                     {"dilations", window.dilations},
                     {"group", window.group}});
  }

  bool conv_input(const Step& step, const Window& window) {
    const std::string wide = add("ConvTranspose", {step.inputs[0], step.inputs[1]}, spreading(window));
    crop(wide, window, spatial(dims(step.inputs[0])), dims(step.inputs[2]), step.outputs[0]);
    return true;
  }

  // The operand convolved with the gradient: batch and channels change places, strides and dilations, too.
  bool conv_weight(const Step& step, const Window& window) {
    constexpr std::int64_t kMostGroups = 24;
    if (window.group > kMostGroups) return false;
    const Dims &dy = dims(step.inputs[0]), &x = dims(step.inputs[1]);
    const std::size_t axes = window.kernel.size();
    Ints perm = {1, 0}, pads = window.begin, zeros(axes, 0), which;
    pads.insert(pads.end(), window.end.begin(), window.end.end());
    for (std::size_t i = 0; i < axes; ++i) {
      perm.push_back(static_cast<std::int64_t>(i) + 2);
      which.push_back(static_cast<std::int64_t>(i) + 2);
    }
    std::vector<std::string> parts;
    for (std::int64_t g = 0; g < window.group; ++g) {
      const auto part = [&](const std::string& name, std::int64_t channels) {
        const std::int64_t each = channels / window.group;
        const std::string own =
            window.group == 1 ? name : add("Slice", {name, ints({g * each}), ints({(g + 1) * each}), ints({1})});
        return add("Transpose", {own}, attrs_of({{"perm", perm}}));
      };
      const std::string operand = part(step.inputs[1], x[1]), gradient = part(step.inputs[0], dy[1]);
      const std::string product = add("Conv", {operand, gradient},
                                      attrs_of({{"kernel_shape", spatial(dy)},
                                                {"strides", window.dilations},
                                                {"dilations", window.strides},
                                                {"pads", pads}}));
      const std::string cut = add("Slice", {product, ints(zeros), ints(window.kernel), ints(which)});
      parts.push_back(add("Transpose", {cut}, attrs_of({{"perm", perm}}), window.group == 1 ? step.outputs[0] : ""));
    }
    if (window.group > 1) add("Concat", parts, attrs_of({{"axis", std::int64_t{0}}}), step.outputs[0]);
    return true;
  }

  // Which elements of the padded, flattened operand each window sees: places times taps.
  static Ints taps(const Window& window, const Ints& padded, const Ints& places) {
    Ints result;
    const std::int64_t all = element_count(places), each = element_count(window.kernel);
    for (std::int64_t place = 0; place < all; ++place) {
      for (std::int64_t tap = 0; tap < each; ++tap) {
        std::int64_t index = 0, p = place, t = tap;
        Ints at(padded.size());
        for (std::size_t i = padded.size(); i-- > 0;) {
          at[i] = (p % places[i]) * window.strides[i] + (t % window.kernel[i]) * window.dilations[i];
          p /= places[i];
          t /= window.kernel[i];
        }
        for (std::size_t i = 0; i < padded.size(); ++i) index = index * padded[i] + at[i];
        result.push_back(index);
      }
    }
    return result;
  }

  static Dims joined(std::initializer_list<std::int64_t> front, const Ints& back) {
    Dims dims(front);
    dims.insert(dims.end(), back.begin(), back.end());
    return dims;
  }

  // Adds what each window's taps [rows, taps, places...] got back into the operand.
  void spread_back(const Step& step, const Window& window, const std::string& parts, std::int64_t channels,
                   const std::vector<float>& kernel) {
    const Dims& x = dims(step.inputs[1]);
    const Ints places = spatial(dims(step.inputs[0]));
    const std::string weight = floats(joined({channels, 1}, window.kernel), kernel);
    Window alone = window;
    alone.group = 1;
    const std::string wide = add("ConvTranspose", {parts, weight}, spreading(alone));
    const std::string cut = crop(wide, window, places, joined({x[0] * x[1], 1}, spatial(x)), {});
    reshape(cut, x, step.outputs[0]);
  }

  // The gradient goes to the first of the largest.
  void max_pool(const Step& step, const Window& window) {
    const Dims& x = dims(step.inputs[1]);
    const Ints places = spatial(dims(step.inputs[0]));
    const std::int64_t rows = x[0] * x[1], each = element_count(window.kernel), all = element_count(places);
    Ints padded = spatial(x), pads(2 * x.size(), 0);
    for (std::size_t i = 0; i < padded.size(); ++i) {
      pads[i + 2] = window.begin[i];
      pads[x.size() + i + 2] = window.end[i];
      padded[i] += window.begin[i] + window.end[i];
    }
    const std::string least = floats({}, {-std::numeric_limits<float>::infinity()});
    const std::string flat = reshape(add("Pad", {step.inputs[1], ints(pads), least}), {rows, element_count(padded)});
    const Ints seen = taps(window, padded, places);
    const std::string patches =
        reshape(add("Gather", {flat, ints(seen)}, attrs_of({{"axis", std::int64_t{1}}})), {rows, all, each});
    const std::string first =
        add("ArgMax", {patches}, attrs_of({{"axis", std::int64_t{2}}, {"keepdims", std::int64_t{1}}}));
    Ints numbers(static_cast<std::size_t>(each));
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
    const std::string hit = add("Cast", {add("Equal", {first, ints(numbers)})}, attrs_of({{"to", std::int64_t{1}}}));
    const std::string parts = add("Mul", {hit, reshape(step.inputs[0], {rows, all, 1})});
    const std::string turned = add("Transpose", {parts}, attrs_of({{"perm", Ints{0, 2, 1}}}));
    std::vector<float> one_hot(static_cast<std::size_t>(each * each), 0);
    for (std::int64_t i = 0; i < each; ++i) one_hot[static_cast<std::size_t>(i * each + i)] = 1;
    spread_back(step, window, reshape(turned, joined({rows, each}, places)), each, one_hot);
  }

  void average_pool(const Step& step, const Window& window) {
    const Dims& x = dims(step.inputs[1]);
    const Ints places = spatial(dims(step.inputs[0]));
    std::vector<float> counts(static_cast<std::size_t>(element_count(places)), 1);
    for (std::size_t place = 0; place < counts.size(); ++place) {
      std::size_t rest = place;
      for (std::size_t i = places.size(); i-- > 0;) {
        const std::int64_t start =
            static_cast<std::int64_t>(rest % static_cast<std::size_t>(places[i])) * window.strides[i] - window.begin[i];
        rest /= static_cast<std::size_t>(places[i]);
        std::int64_t inside = 0;
        for (std::int64_t k = 0; k < window.kernel[i]; ++k) {
          const std::int64_t at = start + k * window.dilations[i];
          inside += window.counts_padding || (at >= 0 && at < x[i + 2]) ? 1 : 0;
        }
        counts[place] *= static_cast<float>(inside);
      }
    }
    const Dims form = joined({x[0] * x[1], 1}, places);
    const std::string shares = add("Div", {reshape(step.inputs[0], form), floats(joined({1, 1}, places), counts)});
    spread_back(step, window, shares, 1, std::vector<float>(static_cast<std::size_t>(element_count(window.kernel)), 1));
  }

  const Sample& sample_;
  Sample result_;
  std::map<std::string, Dims, std::less<>> dims_;
  int named_ = 0;
};

// Integers that follow from constants become constants. False when the step is something else.
bool fold(const Step& step, Sample& result) {
  Sample alone{.opset = result.opset, .steps = {step}, .outputs = {}};
  for (const std::string& name : step.inputs) {
    if (!name.empty()) alone.constants[name] = result.constants.at(name);
  }
  for (const std::string& name : step.outputs) {
    if (!name.empty()) alone.outputs.push_back(name);
  }
  const Graph model = graph(alone);
  const Types types = infer_types(model);
  for (const ValueId id : model.main().outputs) {
    if (is_float(types[id].dtype)) return false;
  }
  const std::vector<Datum> values = run_reference(model, {});
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i].tensor() == nullptr) return false;
    result.constants[alone.outputs[i]] = *values[i].tensor();
  }
  return true;
}

}  // namespace

Sample with_public_steps(const Sample& sample) {
  const bool needed = std::ranges::any_of(sample.steps, [](const Step& step) { return step.domain == "finity"; });
  return needed ? Writer(sample).run() : sample;
}

Sample with_folded_indices(const Sample& sample) {
  Sample result = sample;
  result.steps.clear();
  for (const Step& step : sample.steps) {
    const bool known = std::ranges::all_of(
        step.inputs, [&](const std::string& name) { return name.empty() || result.constants.contains(name); });
    if (!known || !fold(step, result)) result.steps.push_back(step);
  }
  drop_unneeded(result);
  return result;
}

Sample with_older_forms(const Sample& newer) {
  const Sample sample = with_folded_indices(newer);
  Sample result = sample;
  result.opset = 15;
  for (Step& step : result.steps) {
    if (step.op.starts_with("Scatter") && step.attrs.find("reduction") != nullptr) result.opset = 16;
    if (!step.op.starts_with("Reduce") || step.op == "ReduceSum" || step.inputs.size() < 2) continue;
    const Tensor* axes = given(sample, step.inputs[1]);
    if (axes == nullptr) throw Error("axes of " + step.op + " are computed");
    const auto values = axes->data<std::int64_t>();
    step.attrs.set("axes", Ints(values.begin(), values.end()));
    step.inputs.resize(1);
  }
  drop_unneeded(result);
  return result;
}

}  // namespace finity::fuzz

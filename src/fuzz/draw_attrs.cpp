// Attributes by what their names mean.
#include <algorithm>
#include <string_view>

#include "fuzz/drawing_class.h"

namespace finity::fuzz {

namespace {

constexpr std::string_view kFlags[] = {"ceil_mode",
                                       "count_include_pad",
                                       "keepdims",
                                       "noop_with_empty_axes",
                                       "transA",
                                       "transB",
                                       "exclusive",
                                       "reverse",
                                       "largest",
                                       "upper",
                                       "select_last_index",
                                       "fmod",
                                       "linear_before_reset",
                                       "align_corners",
                                       "detect_negative",
                                       "detect_positive",
                                       "input_forget",
                                       "antialias",
                                       "exclude_outside",
                                       "normalize_variance",
                                       "across_channels",
                                       "onesided",
                                       "inverse"};
constexpr std::string_view kLeft[] = {
    "consumed_inputs", "sorted",     "seed",         "stash_type",          "layout",
    "training_mode",   "is_test",    "allowzero",    "extrapolation_value", "saturate",
    "batch_dims",      "broadcast",  "spatial",      "activations",         "activation_alpha",
    "activation_beta", "block_size", "output_dtype", "storage_order",       "precision"};

bool among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::optional<Attr> Drawing::int_attr(const AttrSpec& spec) {
  constexpr std::int64_t kTargets[] = {1, 1, 1, 11, 6, 7, 2, 3, 9, 10};  // ONNX's numbers of element types
  if (among(kFlags, spec.name)) return g_.between(0, 1);
  if (spec.name == "axis") return g_.between(-std::max<std::int64_t>(rank(), 1), std::max<std::int64_t>(rank(), 1) - 1);
  if (spec.name == "to" || spec.name == "dtype") return kTargets[g_.rng().below(std::size(kTargets))];
  if (spec.name == "group") {
    constexpr std::int64_t kGroups[] = {1, 1, 2, 3};
    return g_.chance(40) ? channels() : kGroups[g_.rng().below(std::size(kGroups))];
  }
  if (spec.name == "size") return g_.between(0, 3) * 2 + 1;
  if (spec.name == "num_groups") return g_.chance(30) ? channels() : g_.between(1, 3);
  if (spec.name == "p" || spec.name == "blocksize") return g_.between(1, 3);
  if (spec.name == "hidden_size") return g_.between(1, 4);
  if (spec.name == "num_outputs") {
    many_outputs_ = static_cast<std::size_t>(g_.between(1, 4));
    return static_cast<std::int64_t>(many_outputs_);
  }
  if (spec.name == "start" || spec.name == "end") return g_.between(-rank() - 1, rank() + 1);
  return g_.between(0, 2);
}

std::optional<Attr> Drawing::ints_attr(const AttrSpec& spec) {
  std::vector<std::int64_t> list;
  const auto fill = [&](std::int64_t count, std::int64_t least, std::int64_t most) {
    const std::int64_t same = g_.between(least, most);
    const bool equal = g_.chance(40);
    for (std::int64_t i = 0; i < count; ++i) list.push_back(equal ? same : g_.between(least, most));
  };
  if (spec.name == "kernel_shape") fill(spatial(), 1, 4);
  else if (spec.name == "strides") fill(spatial(), 1, 3);
  else if (spec.name == "dilations") fill(spatial(), 1, g_.chance(70) ? 2 : 3);
  else if (spec.name == "output_padding") fill(spatial(), 0, 2);
  else if (spec.name == "pads")
    fill(2 * (signature_.attr("kernel_shape") == nullptr ? rank() : spatial()), 0, g_.chance(70) ? 1 : 3);
  else if (spec.name == "axes") list = some_axes();
  else if (spec.name == "perm") {
    for (std::int64_t i = 0; i < rank(); ++i) list.push_back(i);
    // The order that changes nothing is a case of its own.
    for (std::size_t i = list.size(); !g_.chance(15) && i > 1; --i) std::swap(list[i - 1], list[g_.rng().below(i)]);
  } else {
    return std::nullopt;
  }
  return list;
}

std::optional<Attr> Drawing::float_attr(const AttrSpec& spec) {
  constexpr float kFactors[] = {0.01F, 0.1F, 0.2F, 0.5F, 1.0F, 1.702F, 2.0F, -0.5F, -1.0F, 0.0F};
  constexpr float kSmall[] = {1e-5F, 1e-3F, 0.1F, 1e-12F};
  if (spec.name == "epsilon") return kSmall[g_.rng().below(std::size(kSmall))];
  if (spec.name == "ratio") return 0.5F;
  if (spec.name == "cubic_coeff_a") return g_.chance(50) ? -0.75F : -0.5F;
  if (spec.name == "clip") return std::nullopt;
  return kFactors[g_.rng().below(std::size(kFactors))];
}

std::optional<Attr> Drawing::attr(const AttrSpec& spec) {
  if (among(kLeft, spec.name)) return std::nullopt;
  if (spec.kind == "int" || spec.name == "p" || spec.name == "to") return int_attr(spec);
  if (spec.kind == "ints") return ints_attr(spec);
  if (spec.kind == "float") return float_attr(spec);
  if (spec.kind != "string" || spec.choices.empty()) return std::nullopt;
  const Choice& choice = spec.choices[g_.rng().below(spec.choices.size())];
  if (!has(choice.versions)) return std::nullopt;
  return choice.text;
}

void Drawing::draw_attrs() {
  constexpr std::string_view kNeeded[] = {"kernel_shape", "to", "hidden_size", "blocksize", "size", "num_groups"};
  for (const AttrSpec& spec : signature_.attrs) {
    if (!has(spec.versions)) continue;
    if (!among(kNeeded, spec.name) && !g_.aims_at(spec.name) && g_.chance(spec.name == "auto_pad" ? 75 : 45)) continue;
    std::optional<Attr> drawn = attr(spec);
    if (drawn) d_.step.attrs.set(spec.name, std::move(*drawn));
  }
  // Explicit pads contradict any other way to pad.
  const Attr* automatic = d_.step.attrs.find("auto_pad");
  if (automatic != nullptr && std::get<std::string>(*automatic) != "NOTSET") drop("pads");
}

}  // namespace finity::fuzz

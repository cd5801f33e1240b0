// Small models with a known numerical defect, and the same models repaired. The
// text is finity's text form (docs/text-form.md) without its header; `{3~0.5}` stands
// for weights drawn uniformly from [2.5, 3.5], `{~0.5}` from [-0.5, 0.5].
#pragma once

#include <span>
#include <string_view>

namespace finity {

struct PatternModel {
  std::string_view name = {};  // of the file, without .onnx
  int opset = 17;
  std::string_view text = {};
};

std::span<const PatternModel> half_precision_models();
std::span<const PatternModel> domain_models();
std::span<const PatternModel> gradient_models();

}  // namespace finity

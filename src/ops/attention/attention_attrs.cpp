#include "ops/attention/attention_attrs.h"

#include "base/error.h"

namespace finity {

Reach attention_reach(const Call& call) {
  const Reach reach{.causal = call.integer("is_causal") != 0,
                    .left = call.integer("left_window_size"),
                    .right = call.integer("right_window_size")};
  if (reach.left < -1 || reach.right < -1) throw Error("a window size is below -1");
  return reach;
}

int kept_scores(const Call& call) {
  const std::int64_t mode = call.integer("qk_matmul_output_mode");
  if (mode < 0 || mode > 3) throw Error("attribute 'qk_matmul_output_mode' is " + std::to_string(mode));
  return static_cast<int>(mode);
}

DType softmax_precision(const Call& call) {
  if (!call.has_attr("softmax_precision")) return DType::undefined;
  const auto dtype = dtype_from_code(call.integer("softmax_precision"));
  if (!dtype || !is_float(*dtype) || info(*dtype).bits < 16) {
    throw Error("attribute 'softmax_precision' is no float type");
  }
  return *dtype;
}

std::optional<double> score_scale(const Call& call) {
  if (!call.has_attr("scale")) return std::nullopt;
  return call.real("scale");
}

std::int64_t stated_heads(const Call& call, std::string_view attribute) {
  const std::int64_t heads = call.integer(attribute);
  if (heads < 1) throw Error("attribute '" + std::string(attribute) + "' is " + std::to_string(heads));
  return heads;
}

}  // namespace finity

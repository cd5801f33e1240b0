#include "ops/norm/norm_attrs.h"

#include "base/error.h"

namespace finity {

DType stash_type(const Call& call) {
  const auto dtype = dtype_from_code(call.integer("stash_type"));
  if (!dtype || !is_float(*dtype) || info(*dtype).bits < 16) {
    throw Error("attribute 'stash_type' is " + std::to_string(call.integer("stash_type")) + ", expected a float type");
  }
  return *dtype;
}

bool batch_trains(const Call& call) {
  if (call.version() >= 14) return call.integer("training_mode") != 0;
  // Before, asking for the statistics meant training; up to opset 6 `is_test` could still deny it.
  const bool asked = call.has_output(1) || call.has_output(2) || call.has_output(3) || call.has_output(4);
  return asked && (call.version() >= 7 || call.integer("is_test") == 0);
}

// Rules that other normalisations share with BatchNormalization ask too; those have no such attribute.
bool batch_is_spatial(const Call& call) { return call.version() >= 9 || call.integer("spatial", 1) != 0; }

std::vector<std::int64_t> moment_axes(const Call& call) {
  return call.has_attr("axes") ? call.integers("axes") : std::vector<std::int64_t>{0, 2, 3};
}

}  // namespace finity

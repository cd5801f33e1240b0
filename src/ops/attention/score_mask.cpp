#include "ops/attention/score_mask.h"

#include "base/error.h"
#include "ops/shared/shapes.h"
#include "tensor/convert.h"

namespace finity {

ScoreBias::ScoreBias(const Tensor& bias, const ScoreDims& scores, std::string_view name)
    : values_(elements<double>(bias)) {
  require_rank(bias, name, 4);
  const Dims wanted{scores.batch, scores.heads, scores.queries, scores.keys};
  strides_ = strides_of(bias.dims());
  for (std::size_t axis = 0; axis < 4; ++axis) {
    if (bias.dim(axis) == wanted[axis]) continue;
    if (bias.dim(axis) != 1 || axis == 3) {
      throw Error(std::string(name) + " of shape " + to_string(bias.dims()) + " does not fit scores " +
                  to_string(wanted));
    }
    strides_[axis] = 0;
  }
}

PaddingMask::PaddingMask(const Tensor& mask, const ScoreDims& scores, std::string_view name)
    : scores_(scores), values_(elements<std::int64_t>(mask)) {
  try {
    form_ = form_of(mask.dims());
  } catch (Error& error) {
    error.in(name);
    throw;
  }
  if (form_ == Form::positions) positions_ = mask.dim(2);
}

PaddingMask::Form PaddingMask::form_of(const Dims& dims) const {
  const std::int64_t batch = scores_.batch, queries = scores_.queries, keys = scores_.keys;
  if (dims == Dims{batch}) return Form::ends;
  if (dims == Dims{2 * batch}) return Form::ends_and_starts;
  if (dims == Dims{batch, keys}) return Form::keys;
  if (dims == Dims{batch, 1} || dims == Dims{1, 1}) return Form::none;
  if (dims == Dims{batch, queries, keys}) return Form::queries_and_keys;
  if (dims.size() == 4 && dims[0] == batch && dims[1] == 1 && dims[2] == dims[3] && dims[2] >= keys) {
    return Form::positions;
  }
  if (dims == Dims{3 * batch + 2}) throw Unsupported("a mask of cumulated lengths is only read by GPU kernels");
  throw Error("shape " + to_string(dims) + " does not fit " + std::to_string(batch) + " batches of " +
              std::to_string(queries) + " queries and " + std::to_string(keys) + " keys");
}

bool PaddingMask::hides(std::int64_t b, std::int64_t i, std::int64_t j) const {
  const auto value = [&](std::int64_t at) { return values_[static_cast<std::size_t>(at)]; };
  switch (form_) {
    case Form::none: return false;
    case Form::ends: return j >= value(b);
    case Form::ends_and_starts: return j >= value(b) || j < value(scores_.batch + b);
    case Form::keys: return value(b * scores_.keys + j) <= 0;
    case Form::queries_and_keys: return value((b * scores_.queries + i) * scores_.keys + j) <= 0;
    case Form::positions: break;
  }
  const std::int64_t position = scores_.keys - scores_.queries + i;
  return value((b * positions_ + position) * positions_ + j) <= 0;
}

}  // namespace finity

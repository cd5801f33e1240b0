#include "ops/windows/deform_conv_gradient.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "ops/movement/move_gradient.h"
#include "ops/shared/shapes.h"
#include "ops/windows/window.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// Written out: GridSample reads what each tap of each window sees, the mask scales it, and a convolution by single
// pixels adds it up.
class SampledTaps {
 public:
  explicit SampledTaps(BuildCall& call) : call_(call), groups_(call.integer("offset_group")) {
    const std::optional<Dims> x = call.dims(call.in(0)), w = call.dims(call.in(1));
    if (!x || !w) throw Unsupported("its derivative needs sizes that are not known");
    kernel_.assign(w->begin() + 2, w->end());
    const Shape kernel = Type::tensor_of(DType::undefined, kernel_).shape;
    axes_ = place(read_window(call, kernel_.size(), kernel), std::span(*x).subspan(2));
    for (const PlacedAxis& axis : axes_) {
      image_.push_back(axis.input);
      outputs_.push_back(axis.output);
    }
    taps_ = element_count(kernel_);
    channels_ = (*x)[1];
    filters_ = {(*w)[0], (*w)[1] * taps_};
    filters_.resize(w->size(), 1);
  }

  ValueId result() const {
    const ValueId x = reshape_to(call_, call_.in(0), joined({-1, channels_ / groups_}, image_));
    ValueId seen = call_.add("GridSample", {x, grid()}, with_attr("mode", std::string("linear")));
    seen = reshape_to(call_, seen, joined({-1, channels_ / groups_, taps_}, outputs_));
    if (call_.has_input(4))
      seen = call_.product(seen, reshape_to(call_, call_.in(4), joined({-1, 1, taps_}, outputs_)));
    std::vector<ValueId> operands = {reshape_to(call_, seen, joined({-1, channels_ * taps_}, outputs_)),
                                     reshape_to(call_, call_.in(1), filters_)};
    if (call_.has_input(3)) operands.push_back(call_.in(3));
    return call_.add("Conv", std::move(operands), with_attr("group", call_.integer("group")));
  }

 private:
  static Dims joined(Dims first, const Dims& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }

  // Pixel p of an axis of so many is at (2 p + 1) / size - 1; the innermost axis comes first.
  ValueId grid() const {
    const DType dtype = call_.in_type(2).dtype;
    const auto rank = static_cast<std::int64_t>(axes_.size());
    const auto constant = [&](const Dims& dims, const std::vector<double>& values) {
      return call_.writer().constant(from_elements<double>(dtype, dims, values));
    };
    const ValueId sizes =
        constant(joined({1, 1, rank}, Dims(outputs_.size(), 1)), std::vector<double>(image_.begin(), image_.end()));
    const ValueId at = call_.sum(reshape_to(call_, call_.in(2), joined({-1, taps_, rank}, outputs_)),
                                 constant(joined({1, taps_, rank}, outputs_), unmoved()));
    const ValueId doubled = call_.sum(call_.product(at, call_.scalar(2, dtype)), call_.scalar(1, dtype));
    const ValueId placed = call_.difference(call_.quotient(doubled, sizes), call_.scalar(1, dtype));
    std::vector<std::int64_t> order(static_cast<std::size_t>(rank) + 3), reversed;
    std::iota(order.begin(), order.end(), 0);
    std::rotate(order.begin() + 2, order.begin() + 3, order.end());
    for (std::int64_t i = rank; i-- > 0;) reversed.push_back(i);
    const ValueId turned =
        call_.add("Gather", {transpose(call_, placed, order), call_.ints(reversed)}, with_attr("axis", rank + 2));
    Dims dims = joined({-1}, outputs_);
    dims[1] *= taps_;
    dims.push_back(rank);
    return reshape_to(call_, turned, dims);
  }

  // Where taps read that no offset moves, by tap, axis and output.
  std::vector<double> unmoved() const {
    std::vector<double> values;
    for (IndexCounter tap(kernel_); tap.valid(); tap.next()) {
      for (std::size_t i = 0; i < axes_.size(); ++i) {
        const PlacedAxis& axis = axes_[i];
        for (IndexCounter output(outputs_); output.valid(); output.next()) {
          const std::int64_t first = output.index()[i] * axis.stride - axis.pad_begin;
          values.push_back(static_cast<double>(first + tap.index()[i] * axis.dilation));
        }
      }
    }
    return values;
  }

  BuildCall& call_;
  std::int64_t groups_ = 1, channels_ = 1, taps_ = 1;
  std::vector<PlacedAxis> axes_ = {};
  Dims kernel_ = {}, image_ = {}, outputs_ = {}, filters_ = {};
};

}  // namespace

void deform_conv_gradient(BuildCall& call) { call.give_through(std::vector{SampledTaps(call).result()}); }

}  // namespace finity

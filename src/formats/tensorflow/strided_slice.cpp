#include "formats/tensorflow/strided_slice.h"

#include <limits>
#include <optional>

#include "base/error.h"

namespace finity::tensorflow {

namespace {

constexpr std::int64_t kEnd = std::numeric_limits<std::int64_t>::max();

struct Sliced {
  std::int64_t axis = 0;
  std::size_t entry = 0;  // of begin, end and strides
  std::int64_t stride = 1;
  bool from_start = false, to_end = false;
};
struct Dropped {
  std::int64_t axis = 0;
  std::size_t entry = 0;
};
struct Plan {
  std::vector<Sliced> sliced = {};
  std::vector<Dropped> dropped = {};     // by rising axis
  std::vector<std::int64_t> added = {};  // axes of the result
};

class Planner {
 public:
  Planner(TfCall& call, std::size_t entries, const std::vector<std::int64_t>& strides)
      : begin_mask_(call.integer("begin_mask", 0)),
        end_mask_(call.integer("end_mask", 0)),
        ellipsis_mask_(call.integer("ellipsis_mask", 0)),
        new_axis_mask_(call.integer("new_axis_mask", 0)),
        shrink_mask_(call.integer("shrink_axis_mask", 0)),
        entries_(entries),
        strides_(strides) {}

  Plan plan(const Type& x) {
    for (std::size_t i = 0; i < entries_; ++i) {
      if (in(ellipsis_mask_, i)) skip(x, i);
      else if (in(new_axis_mask_, i)) plan_.added.push_back(result_axis_++);
      else if (in(shrink_mask_, i)) plan_.dropped.push_back({.axis = axis_++, .entry = i});
      else slice(i);
    }
    return plan_;
  }

 private:
  static bool in(std::int64_t mask, std::size_t i) { return i < 63 && (mask >> i & 1) != 0; }

  void slice(std::size_t i) {
    const Sliced sliced{.axis = axis_++,
                        .entry = i,
                        .stride = strides_[i],
                        .from_start = in(begin_mask_, i),
                        .to_end = in(end_mask_, i)};
    ++result_axis_;
    if (sliced.from_start && sliced.to_end && sliced.stride == 1) return;
    plan_.sliced.push_back(sliced);
  }

  // The axes that no other entry speaks of.
  void skip(const Type& x, std::size_t i) {
    std::int64_t behind = 0;
    for (std::size_t k = i + 1; k < entries_; ++k) behind += in(new_axis_mask_, k) ? 0 : 1;
    if (!x.ranked && i + 1 == entries_) return;
    if (!x.ranked) throw Unsupported("the number of axes is not known");
    const std::int64_t skipped = static_cast<std::int64_t>(x.shape.size()) - axis_ - behind;
    if (skipped < 0) throw Unsupported("it slices more axes than there are");
    axis_ += skipped;
    result_axis_ += skipped;
  }

  std::int64_t begin_mask_, end_mask_, ellipsis_mask_, new_axis_mask_, shrink_mask_;
  std::size_t entries_;
  const std::vector<std::int64_t>& strides_;
  Plan plan_ = {};
  std::int64_t axis_ = 0, result_axis_ = 0;
};

// Entries of a vector, as far as they are known.
class Entries {
 public:
  Entries(TfCall& call, ValueId vector) : emit_(call), vector_(vector), known_(call.known_ints(vector)) {}
  std::optional<std::int64_t> number(std::size_t i) const {
    return known_ && i < known_->size() ? std::optional((*known_)[i]) : std::nullopt;
  }
  // As an int64 vector of one element.
  ValueId one(std::size_t i) {
    if (const auto known = number(i)) return emit_.ints({*known});
    const auto from = static_cast<std::int64_t>(i);
    return emit_.int64(emit_.slice(vector_, 0, from, from + 1));
  }
  ValueId scalar(std::size_t i) {
    if (const auto known = number(i)) return emit_.whole(*known);
    return emit_.int64(emit_.gather(vector_, emit_.whole(static_cast<std::int64_t>(i)), 0));
  }

 private:
  Emit emit_;
  ValueId vector_;
  std::optional<std::vector<std::int64_t>> known_;
};

ValueId sliced(TfCall& call, ValueId x, const Plan& plan, Entries& begin, Entries& end) {
  if (plan.sliced.empty()) return x;
  Emit emit(call);
  std::vector<ValueId> starts, ends;
  std::vector<std::int64_t> axes, steps;
  for (const Sliced& part : plan.sliced) {
    const bool up = part.stride > 0;
    starts.push_back(part.from_start ? emit.ints({up ? 0 : kEnd}) : begin.one(part.entry));
    ends.push_back(part.to_end ? emit.ints({up ? kEnd : -kEnd}) : end.one(part.entry));
    axes.push_back(part.axis);
    steps.push_back(part.stride);
  }
  return emit.add("Slice", {x, emit.concat(starts, 0), emit.concat(ends, 0), emit.ints(axes), emit.ints(steps)});
}

}  // namespace

ValueId strided_slice(TfCall& call, ValueId x, ValueId begin, ValueId end, ValueId strides) {
  Emit emit(call);
  const std::vector<std::int64_t> steps = emit.need_ints(strides, "the list of strides");
  const Plan plan = Planner(call, steps.size(), steps).plan(emit.type(x));
  Entries begins(call, begin), ends(call, end);
  ValueId result = sliced(call, x, plan, begins, ends);
  for (auto drop = plan.dropped.rbegin(); drop != plan.dropped.rend(); ++drop)
    result = emit.gather(result, begins.scalar(drop->entry), drop->axis);
  result = emit.unsqueeze(result, plan.added);
  return result == x ? emit.add("Identity", {x}) : result;
}

// The positions of all elements are sliced instead, and written to.
ValueId with_slice_replaced(TfCall& call, ValueId into, ValueId begin, ValueId end, ValueId strides, ValueId updates) {
  Emit emit(call);
  const ValueId sizes = emit.shape(into);
  const ValueId all = emit.reshape(emit.positions(emit.add("Size", {into})), sizes);
  const ValueId where = emit.vector(strided_slice(call, all, begin, end, strides));
  const ValueId values = emit.vector(emit.expand(updates, emit.shape(strided_slice(call, all, begin, end, strides))));
  return emit.reshape(emit.add("ScatterElements", {emit.vector(into), where, values}, {{"axis", 0}}), sizes);
}

}  // namespace finity::tensorflow

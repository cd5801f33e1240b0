// Every format that partial sums may be carried in.
#include "ops/reduce/reduce_range.h"

namespace finity {

Range in_all_carriers(const RangeCall& call, DType dtype, const std::function<Range(DType carrier)>& f) {
  Range result;
  for (const DType carrier : call.accumulators(dtype)) result = join(result, f(carrier));
  return result;
}

}  // namespace finity

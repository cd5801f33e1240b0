#include "ops/table/grants.h"

namespace finity {

std::string_view describe(Way way) {
  switch (way) {
    case Way::difference_of_squares:
      return "a variance is mean(x^2) - mean(x)^2 (LRN: a sum of squares from which old ones are subtracted), and may "
             "be negative";
    case Way::broadcast_differs:
      return "with a scale or bias of another size than a row, the variance is mean(x^2) - mean(x)^2 in float64";
    case Way::no_epsilon: return "nothing is added to the deviation: rows of equal elements give 0 / 0";
    case Way::factor_and_term: return "computed as x * factor + term, both of which may be large and cancel";
    case Way::starts_from_zero:
      return "where the first element is -Inf, the largest is taken to be at least 0: low elements vanish";
    case Way::no_shift:
      return "log(sum(exp(x))) without subtracting the largest element: measured in float16 and bfloat16";
    case Way::lowest_for_nothing: return "the maximum of nothing but -Inf or NaN is the lowest finite number";
    case Way::passes_over_nan: return "of elements with NaN among them, any may be the result";
    case Way::clips_less: return "the attribute clip is not applied to all that the definition clips";
    case Way::plain_softplus:
      return "softplus is log(exp(x) + 1), which overflows (outside recurrent cells: in operator sets 18 to 21, in "
             "other "
             "formats than float32)";
    case Way::scales_last: return "constant factors of the operands are applied to the sum of products";
    case Way::scales_weights: return "a constant factor or term behind the product is merged into its weights or bias";
    case Way::longer_transform:
      return "transforms of other than 2^k points go through longer ones, whose sums overflow earlier";
    case Way::sums_first: return "an axis that only one operand has is summed before anything is multiplied";
    case Way::leaves_out_padding: return "zeros of a Pad in front are taken for padding, which no maximum counts";
    case Way::far_weights:
      return "linear weights of positions from 2^24 pixels on (2^53 in float64) are 0, 1 or 2, whatever their "
             "neighbour's";
  }
  return "";
}

}  // namespace finity

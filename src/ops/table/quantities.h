// What hazards are about when it is not an operand as it stands: variance plus epsilon, the largest score of a row, the
// sum that is divided by. Each is a small graph, so that the reference can evaluate it and a search can differentiate
// it (Hazard::quantity). The range rules decide the same sites with sharper bounds.
//
// The unsafe values belong to the op's float format (BuildCall::dtype), not to the format the quantity is computed in:
// a sum that may overflow is computed in float64 and compared with the largest number of the op's format.
#pragma once

#include <string_view>
#include <vector>

#include "ops/shared/accumulate.h"
#include "ops/table/build_call.h"
#include "ops/table/hazard.h"
#include "ops/table/op.h"

namespace finity {

// The hazard behind a finding. A finding about a result (operand -1) or about one of many operands of the same kind
// belongs to the entry of its rule that has a quantity. Null where the rule is about the result itself.
const Hazard* hazard_of(const OpDef& op, std::string_view rule, int operand);

// Infinite ends are members; NaN is in no set.
bool holds(const UnsafeSet& set, double x);

// ---- unsafe values ---------------------------------------------------------------

UnsafeSet unsafe_zero(DType dtype);
UnsafeSet unsafe_zero_of_floats(DType dtype);  // of integers nothing
UnsafeSet unsafe_negative(DType dtype);
UnsafeSet unsafe_not_positive(DType dtype);
UnsafeSet unsafe_minus_infinity(DType dtype);
UnsafeSet unsafe_beyond_largest(DType dtype);  // what rounds to an infinity
// Of a quantity that was divided by its limit.
UnsafeSet unsafe_share(DType dtype);

// ---- parts of quantities ------------------------------------------------------------

// A number that is in none of the sets above: the op, as this node uses it, has no such hazard.
ValueId harmless(BuildCall& call);
ValueId in_float64(BuildCall& call, ValueId value);
// The least number that rounds to an infinity; the largest of float64.
double overflow_limit(DType dtype);
ValueId divided(BuildCall& call, ValueId value, double limit);
// ReduceMax, ReduceSum, ... with size 1 left of each axis; no axes: all of them.
ValueId reduced(BuildCall& call, std::string_view op, ValueId value, std::vector<std::int64_t> axes);
// Counted from the front.
std::size_t axis_of(std::int64_t axis, std::size_t rank);
std::vector<std::int64_t> axes_from(std::size_t first, std::size_t rank);
ValueId reshaped(BuildCall& call, ValueId value, std::vector<std::int64_t> dims);
ValueId transposed(BuildCall& call, ValueId value, std::vector<std::int64_t> order);

// ---- hazards of families --------------------------------------------------------------

Hazards softmax_hazards();
Hazards bias_softmax_hazards();
Hazards likelihood_loss_hazards();
Hazards cross_entropy_loss_hazards();
Hazards reduction_hazards();  // of a reduction that has no value for no elements
Hazards log_sum_hazards();
Hazards log_sum_exp_hazards();
Hazards window_hazards();
Hazards power_hazards();
Hazards cast_hazards();
Hazards dropout_hazards();
Hazards pole_hazards();
Hazards tangent_hazards();
Hazards scale_down_hazards();
Hazards adagrad_hazards();
Hazards adam_hazards();
Hazards accumulator_hazards();

Hazards batch_norm_hazards();
Hazards instance_norm_hazards();
Hazards mean_variance_norm_hazards();
Hazards lp_norm_hazards();
Hazards local_response_norm_hazards();
Hazards layer_norm_hazards();
Hazards rms_norm_hazards();
Hazards group_norm_hazards();
Hazards skip_layer_norm_hazards();
Hazards skip_rms_norm_hazards();
Hazards embed_layer_norm_hazards();
Hazards image_group_norm_hazards();
Hazards skip_group_norm_hazards();

Hazards attention_hazards();
Hazards microsoft_attention_hazards();
Hazards multi_head_hazards();
Hazards group_query_hazards();
Hazards recurrent_hazards();

}  // namespace finity

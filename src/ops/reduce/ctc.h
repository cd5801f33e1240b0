// Connectionist temporal classification: how unlikely labels are when every way of stretching them over time, with
// blanks between, counts. TensorFlow's op; its labels are a sparse matrix.
#pragma once

#include "ops/table/call.h"
#include "ops/table/range_call.h"

namespace finity {

void infer_ctc_loss(InferCall& call);
void eval_ctc_loss(EvalCall& call);
void range_ctc_loss(RangeCall& call);

}  // namespace finity

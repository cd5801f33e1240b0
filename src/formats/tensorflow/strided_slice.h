// TensorFlow's x[begin:end:stride, ..., newaxis, i]: which axes are sliced, dropped and added.
#pragma once

#include "formats/tensorflow/emit.h"

namespace finity::tensorflow {

// The masks are attributes of the call.
ValueId strided_slice(TfCall& call, ValueId x, ValueId begin, ValueId end, ValueId strides);
// `into`, with what strided_slice would take replaced by `updates`.
ValueId with_slice_replaced(TfCall& call, ValueId into, ValueId begin, ValueId end, ValueId strides, ValueId updates);

}  // namespace finity::tensorflow

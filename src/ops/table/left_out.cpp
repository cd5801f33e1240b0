// The reviewed list of default-domain operators that have no entry.
#include "ops/table/op.h"

namespace finity {

namespace {

constexpr LeftOut kLeftOut[] = {
    {.name = "ImageDecoder", .reason = "needs JPEG, PNG and other image decoders; decode before the model"},
};

}  // namespace

std::span<const LeftOut> left_out_ops() { return kLeftOut; }

}  // namespace finity

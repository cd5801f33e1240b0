// Random numbers, with the supports that TensorFlow's generators have.
#include <cmath>

#include "formats/tensorflow/emit.h"
#include "tensor/dtype.h"

namespace finity::tensorflow {

namespace {

DType drawn_type(const TfCall& call) {
  const DType dtype = call.dtype("dtype");
  return dtype == DType::undefined ? DType::float32 : dtype;
}

// Something of that shape: generators look at nothing else of it.
ValueId shaped(Emit& emit, ValueId shape) { return emit.filled(shape, 0, DType::uint8); }

// TensorFlow fills the mantissa of a number between 1 and 2 with random bits and subtracts 1: the largest value is 1
// less one unit in the last place. (An attribute cannot hold that of float64.)
void lower_uniform(TfCall& call) {
  Emit emit(call);
  const DType dtype = drawn_type(call);
  const double high = dtype == DType::float64 ? 1 : 1 - std::ldexp(1, -float_format(dtype).mantissa_bits);
  call.give(emit.add("RandomUniformLike", {shaped(emit, call.in(0))},
                     {{"dtype", static_cast<std::int64_t>(dtype)}, {"low", 0.0F}, {"high", static_cast<float>(high)}}));
}

void lower_normal(TfCall& call) {
  Emit emit(call);
  call.give(emit.add("RandomNormalLike", {shaped(emit, call.in(0))},
                     {{"dtype", static_cast<std::int64_t>(drawn_type(call))}}));
}

void lower_truncated_normal(TfCall& call) {
  Emit emit(call);
  call.give(emit.add("finity:TruncatedNormalLike", {shaped(emit, call.in(0))},
                     {{"dtype", static_cast<std::int64_t>(drawn_type(call))}}));
}

// (shape, minval, maxval); the stateless form has the seed in between.
template <int kLow>
void lower_integers(TfCall& call) {
  Emit emit(call);
  call.give(emit.add("finity:RandomIntegersLike",
                     {shaped(emit, call.in(0)), emit.scalar(call.in(kLow)), emit.scalar(call.in(kLow + 1))}));
}

// Rows in the order of random numbers.
void lower_shuffle(TfCall& call) {
  Emit emit(call);
  const ValueId x = call.in(0), count = emit.shape_part(x, 0, 1);
  const ValueId keys =
      emit.add("RandomUniformLike", {shaped(emit, count)}, {{"dtype", static_cast<std::int64_t>(DType::float32)}});
  const std::vector<ValueId> sorted = call.add_all("TopK", {keys, count}, 2, {{"axis", 0}});
  call.give(emit.gather(x, sorted[1], 0));
}

void lower_multinomial(TfCall& call) {
  Emit emit(call);
  const std::int64_t count = emit.need_ints(call.in(1), "the number of samples").at(0);
  const DType wanted = call.dtype("output_dtype") == DType::undefined ? DType::int64 : call.dtype("output_dtype");
  call.give(
      emit.add("Multinomial", {call.in(0)}, {{"sample_size", count}, {"dtype", static_cast<std::int64_t>(wanted)}}));
}

constexpr Lowering kRandom[] = {
    {.op = "Multinomial", .lower = lower_multinomial},
    {.op = "RandomShuffle", .lower = lower_shuffle},
    {.op = "RandomStandardNormal", .lower = lower_normal},
    {.op = "RandomUniform", .lower = lower_uniform},
    {.op = "RandomUniformInt", .lower = lower_integers<1>},
    {.op = "StatelessMultinomial", .lower = lower_multinomial},
    {.op = "StatelessRandomNormal", .lower = lower_normal},
    {.op = "StatelessRandomNormalV2", .lower = lower_normal},
    {.op = "StatelessRandomUniform", .lower = lower_uniform},
    {.op = "StatelessRandomUniformInt", .lower = lower_integers<2>},
    {.op = "StatelessRandomUniformV2", .lower = lower_uniform},
    {.op = "StatelessTruncatedNormal", .lower = lower_truncated_normal},
    {.op = "StatelessTruncatedNormalV2", .lower = lower_truncated_normal},
    {.op = "TruncatedNormal", .lower = lower_truncated_normal},
};

}  // namespace

std::span<const Lowering> random_lowerings() { return kRandom; }

}  // namespace finity::tensorflow

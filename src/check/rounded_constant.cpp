// Constants rounded to another format when they are loaded, so that a converted
// model does not hold its weights twice.
#include <bit>
#include <cstring>
#include <utility>

#include "check/convert.h"
#include "graph/initial_weight.h"
#include "tensor/convert.h"
#include "tensor/float_formats.h"

namespace finity {

namespace {

std::uint16_t to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>(encode_float(DType::bfloat16, x));
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// Normal results by integer arithmetic, which is what weights are; the rest by the general way.
std::uint16_t to_float16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  constexpr std::uint32_t kLeastNormal = 0x38800000U;  // 2^-14
  constexpr std::uint32_t kTooLarge = 0x477ff000U;     // 65520 rounds to infinity
  if (magnitude < kLeastNormal || magnitude >= kTooLarge) {
    return magnitude == 0 ? static_cast<std::uint16_t>(bits >> 16)
                          : static_cast<std::uint16_t>(encode_float(DType::float16, x));
  }
  const std::uint32_t rebased = magnitude - (112U << 23);  // exponent bias 127 becomes 15
  const std::uint32_t rounded = (rebased + 0xfffU + ((rebased >> 13) & 1U)) >> 13;
  return static_cast<std::uint16_t>((bits >> 16 & 0x8000U) | rounded);
}

class RoundedConstant final : public Constant {
 public:
  RoundedConstant(ConstantPtr source, DType target) : Constant(target, source->dims()), source_(std::move(source)) {}

  Tensor load() const override;
  std::string missing() const override { return source_->missing(); }
  bool sparse() const override { return source_->sparse(); }

 private:
  template <class F>
  Tensor converted_bytes(std::span<const std::byte> bytes, F convert) const;

  ConstantPtr source_;
};

template <class F>
Tensor RoundedConstant::converted_bytes(std::span<const std::byte> bytes, F convert) const {
  Tensor result(dtype(), dims());
  const std::span<std::uint16_t> target = result.mutable_data<std::uint16_t>();
  for (std::size_t i = 0; i < target.size(); ++i) {
    float x = 0;
    std::memcpy(&x, bytes.data() + 4 * i, 4);
    target[i] = convert(x);
  }
  return result;
}

Tensor RoundedConstant::load() const {
  const bool half = dtype() == DType::float16 || dtype() == DType::bfloat16;
  if (source_->dtype() == DType::float32 && half) {
    Tensor loaded;
    std::span<const std::byte> bytes = source_->raw();
    if (bytes.empty()) {
      loaded = source_->load();
      bytes = std::as_const(loaded).bytes();
    }
    return dtype() == DType::float16 ? converted_bytes(bytes, to_float16) : converted_bytes(bytes, to_bfloat16);
  }
  return from_elements<double>(dtype(), dims(), elements<double>(source_->load()));
}

}  // namespace

ConstantPtr rounded_constant(ConstantPtr source, DType target) {
  if (source->dtype() == target) return source;
  // Of a variable only its start is known, in every format.
  if (const auto* initial = dynamic_cast<const InitialWeight*>(source.get())) {
    return std::make_shared<const InitialWeight>(target, initial->dims(), initial->support());
  }
  return std::make_shared<const RoundedConstant>(std::move(source), target);
}

ConstantPtr stated_constant(const Node& node) {
  if (!node.inputs.empty() || node.outputs.size() != 1 || !node.domain.empty()) return nullptr;
  for (const std::string_view key : {"value", "sparse_value"}) {
    const Attr* attr = node.attrs.find(key);
    const auto* constant = attr == nullptr ? nullptr : std::get_if<ConstantPtr>(attr);
    if (constant != nullptr) return *constant;
  }
  const Attr* one = node.attrs.find("value_float");
  if (one != nullptr && std::holds_alternative<float>(*one))
    return make_constant(Tensor::scalar(std::get<float>(*one)));
  const Attr* many = node.attrs.find("value_floats");
  if (many != nullptr && std::holds_alternative<std::vector<float>>(*many)) {
    const auto& values = std::get<std::vector<float>>(*many);
    const auto count = static_cast<std::int64_t>(values.size());
    return make_constant(Tensor::of<float>(DType::float32, {count}, values));
  }
  return nullptr;
}

}  // namespace finity

// What a lowering sees: its node and operands as LibTorch tensors. Attributes and their defaults are read with the
// accessors of Call, as the reference reads them.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "ops/table/call.h"
#include "torch/value.h"

namespace finity {

class TorchCall : public Call {
 public:
  using RunBody = std::function<std::vector<TorchValue>(BodyId, std::span<const TorchValue>)>;

  // `dtypes` are those of the outputs; undefined where they are not known before the run.
  TorchCall(OpCall what, std::span<const TorchValue> in, std::span<const DType> dtypes, Rng& rng,
            const RunBody& run_body);

  // Throws Error when the operand is absent or not a tensor that LibTorch has.
  const at::Tensor& in(std::size_t i) const;
  const TorchValue& value(std::size_t i) const;  // an absent value when omitted
  bool has(std::size_t i) const { return value(i).present(); }
  DType dtype(std::size_t i) const { return value(i).dtype; }
  // Elements of an operand that says how, not what: axes, sizes.
  std::vector<std::int64_t> ints(std::size_t i) const;
  // One number that a lowering reads as such, so that nothing can be derived by it: throws Unsupported when that is
  // asked for, because the derivative is not zero.
  double number(std::size_t i) const;
  void require_plain(std::size_t i) const;
  Tensor host(std::size_t i) const { return to_host(in(i), dtype(i)); }

  // Rounds or wraps the result into the output's dtype; ignored when the node does not ask for it.
  void out(std::size_t i, const at::Tensor& tensor);
  void put(std::size_t i, TorchValue value);
  DType out_dtype(std::size_t i) const { return i < dtypes_.size() ? dtypes_[i] : DType::undefined; }

  // Shapes of the outputs as type inference computes them for these operands.
  std::vector<Dims> inferred_dims() const;
  // What the reference computes for these operands (by default the call's own), without derivatives.
  std::vector<Datum> reference() const;
  std::vector<Datum> reference(std::span<const Datum> operands) const;

  Rng& rng() const { return rng_; }
  std::vector<TorchValue> run_body(BodyId body, std::span<const TorchValue> inputs) const {
    return run_body_(body, inputs);
  }
  std::vector<TorchValue>& outs() { return out_; }

 private:
  std::span<const TorchValue> in_;
  std::span<const DType> dtypes_;
  std::vector<TorchValue> out_;
  Rng& rng_;
  const RunBody& run_body_;
};

}  // namespace finity

// What a lowering to oneDNN sees: its node, operands on the host, and where to leave the results and how they are
// derived. Every primitive runs as forward_training and is given back in our order of elements, so each node is one
// primitive and its result can be looked at.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "exec/protocol.h"
#include "onednn/memory.h"
#include "ops/table/call.h"
#include "ops/table/op.h"

namespace finity::dnn {

// From the derivatives by the node's outputs (absent ones are zero) to those by its operands; absent: none, or zero.
using Backward = std::function<std::vector<std::optional<Tensor>>(std::span<const std::optional<Tensor>>)>;

class DnnCall : public Call {
 public:
  DnnCall(OpCall what, std::span<const Datum> in, Optimisation level)
      : Call(std::move(what)), in_(in), level_(level), out_(output_count()) {}

  bool has(std::size_t i) const { return i < in_.size() && in_[i].present(); }
  // Throws Error when it is absent.
  const Tensor& tensor(std::size_t i) const;
  // The same, and Unsupported when it is not float32.
  const Tensor& in(std::size_t i) const;
  std::vector<std::int64_t> ints(std::size_t i) const;
  std::span<const Datum> operands() const { return in_; }

  void out(std::size_t i, Datum datum) {
    if (i < out_.size()) out_[i] = std::move(datum);
  }
  // How many outputs the node asks for.
  std::size_t outs_asked() const;
  void derived(Backward backward) { backward_ = std::move(backward); }
  std::vector<Datum>& outs() { return out_; }
  const Backward& backward() const { return backward_; }

  // Without optimisation primitives work on our order of elements, else on the one they choose.
  Desc wanted(const Dims& dims) const { return level_ == Optimisation::none ? plain(dims) : any(dims); }

  // Sizes of output 0 as type inference computes them for these operands.
  Dims result_dims() const;
  std::vector<Datum> reference(std::span<const Datum> operands) const;

 private:
  std::span<const Datum> in_;
  Optimisation level_;
  std::vector<Datum> out_;
  Backward backward_;
};

struct Lowering {
  std::string_view name;
  std::string_view domain;
  void (*lower)(DnnCall&);
};

// Null: oneDNN has no primitive for it, and it moves nothing.
const Lowering* find_lowering(const OpDef& op);

std::span<const Lowering> activations();
std::span<const Lowering> windows();
std::span<const Lowering> products();
std::span<const Lowering> norms();
std::span<const Lowering> merges();
std::span<const Lowering> reductions();
// By the reference: what moves elements, tells shapes or is constant.
std::span<const Lowering> movements();

}  // namespace finity::dnn

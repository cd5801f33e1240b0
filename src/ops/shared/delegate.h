// Ops of other domains that are a default-domain op under another name, or one
// with something fused to it: they ask that op instead of repeating it.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "ops/table/call.h"
#include "ops/table/range_call.h"

namespace finity {

// A default-domain op at one of its versions.
struct OtherOp {
  std::string_view name = {};
  int version = 1;
};

// The node of `call` seen as a node of the other op: same operands, same attributes.
std::vector<Datum> eval_as(EvalCall& call, const OtherOp& other);
void infer_as(InferCall& call, const OtherOp& other);

// The other op on operands of its own; an absent datum is an omitted one.
std::vector<Datum> eval_other(EvalCall& call, const OtherOp& other, const Attrs& attrs,
                              const std::vector<Datum>& inputs, std::size_t outputs = 1);

// The other op's range rule on the node's own operands; its results become the node's. `attrs` replace the node's own.
void range_as(RangeCall& call, const OtherOp& other, const Attrs* attrs = nullptr);
// The same on other operands; an absent one is omitted. Sites are those of this node's results.
void range_as(RangeCall& call, const OtherOp& other, const Attrs& attrs,
              const std::vector<std::optional<AbsTensor>>& inputs);
// The other op's first result for operands of its own; hazards are recorded as sites of this node's result.
AbsTensor range_other(RangeCall& call, const OtherOp& other, const Attrs& attrs, const std::vector<AbsTensor>& inputs,
                      const Type& result);

// An operand of a part of a composite.
struct PartOperand {
  AbsTensor range = {};
  const Type* type = nullptr;       // null: omitted
  DType format = DType::undefined;  // that its part computes in, where its own is another
  ConstantPtr constant = nullptr;
  int own = -1;  // the operand of the composite that it is
};
struct PartResult {
  AbsTensor range = {};
  Type type = {};
};
// The results of a part. What is found in it is found at the composite, at operands of its own where they are the
// part's, or where its hazards say.
std::vector<PartResult> range_part(RangeCall& call, const OpCall& part, std::span<const PartOperand> operands);

}  // namespace finity

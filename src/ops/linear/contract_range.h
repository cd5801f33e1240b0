// Ranges of contractions of two operands: matrix products of every kind and Einsum.
// Which axes belong together is data; whether an operand's elements are known is
// found out here. A known operand is summed exactly, once, per output column; two
// abstract ones are multiplied block by block.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ops/linear/dot_range.h"
#include "ops/linear/weight_sums.h"

namespace finity {

// An axis of the result, or one that is summed over; -1 where an operand does not have it.
struct ContractedAxis {
  int left = -1;
  int right = -1;
  std::int64_t size = -1;  // -1: unknown
};

struct Contraction {
  std::vector<ContractedAxis> out = {};
  std::vector<ContractedAxis> summed = {};
};

// Elements of an operand in memory, without a copy where the file has them plainly.
struct Weights {
  WeightData data = {};
  Dims dims = {};
};
std::optional<Weights> weights_of(RangeCall& call, std::size_t i);

struct ContractOperand {
  const AbsTensor* range = nullptr;
  const Weights* weights = nullptr;      // null: not known
  std::span<const double> offsets = {};  // subtracted from the weights; per column or one; the range is as it is
};

// `addend`, if not empty, is added to every column of the known operand (one per index of its axes that are not
// summed). It is left out, and `added` false, when no operand is known.
struct Contracted {
  SumGrid sums = {};
  bool added = false;
};
Contracted contract(const RangeCall& call, const ContractOperand& left, const ContractOperand& right,
                    const Contraction& axes, std::span<const double> addend = {});

// Both of unknown rank, or of shapes that say nothing: any number of products.
SumGrid smashed_products(const AbsTensor& left, const AbsTensor& right, double least, double most);

// Adds x, which broadcasts to the result, to every cell.
void add_tensor(SumGrid& grid, const AbsTensor& x, double factor);

}  // namespace finity

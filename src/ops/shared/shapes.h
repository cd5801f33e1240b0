// Shape rules and index arithmetic that several families share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "graph/type.h"
#include "ops/table/call.h"
#include "tensor/index.h"
#include "tensor/tensor.h"

namespace finity {

// ---- infer rules that are complete for many ops ----------------------------
void infer_same_shape(InferCall& call);  // output 0 like input 0
void infer_broadcast(InferCall& call);   // numpy broadcasting of all inputs
void infer_dtype_only(InferCall& call);  // dtype from the signature, shape unknown

// ---- shapes ----------------------------------------------------------------
// Throws Error when known sizes do not broadcast. An unknown size next to a known one > 1 is that one.
Shape broadcast(const Shape& a, const Shape& b);
Dims broadcast(const Dims& a, const Dims& b);
// Result of broadcasting `from` to exactly `to` is checked by eval helpers; see elementwise.h.

// Throws Error unless -rank <= axis < rank (or <= rank where `inclusive`).
std::size_t normalize_axis(std::int64_t axis, std::size_t rank, bool inclusive = false);
std::vector<std::size_t> normalize_axes(std::span<const std::int64_t> axes, std::size_t rank);
// The axes a list of parameters speaks about: those given, else the first ones.
std::vector<std::size_t> axes_or_first(std::span<const std::int64_t> axes, bool given, std::size_t count,
                                       std::size_t rank);
// Without axes the entries are for all of them.
void require_all_axes(bool axes_given, std::size_t count, std::size_t rank);

// The product of sizes when all are known; a symbol survives only factors of 1 (with a zero the product is zero).
Dim product(std::span<const Dim> dims);

// Throws Error "input I (NAME) has rank R, expected WANTED".
void require_rank(const InferCall& call, std::size_t input, std::size_t wanted);
void require_min_rank(const InferCall& call, std::size_t input, std::size_t wanted);
void require_rank(const Tensor& tensor, std::string_view name, std::size_t wanted);

// ---- indices ---------------------------------------------------------------
// A tensor seen as [outer, axis, inner]: for ops along one axis.
struct AxisView {
  std::int64_t outer = 1;
  std::int64_t length = 1;
  std::int64_t inner = 1;
  AxisView(std::span<const std::int64_t> dims, std::size_t axis);
  std::size_t at(std::int64_t o, std::int64_t k, std::int64_t i) const {
    return static_cast<std::size_t>((o * length + k) * inner + i);
  }
};

// Copies elements of any dtype (strings too): result[i] = source[positions[i]]; position -1 leaves zero/empty.
Tensor gather_elements(const Tensor& source, Dims dims, std::span<const std::int64_t> positions);

}  // namespace finity

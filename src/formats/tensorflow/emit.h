// Short names for what lowerings write most: casts, constants, shapes, reductions, slices. They leave out what would
// change nothing (a cast to the same type, a transposition that moves nothing), so that lowerings need not ask; and
// formulas, for ops that are arithmetic of their operands:
//
//   {.op = "SigmoidGrad", .lower = formula<"Mul(b, Mul(a, Sub(1, a)))">},
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "formats/tensorflow/lowering.h"

namespace finity::tensorflow {

class Emit {
 public:
  explicit Emit(TfCall& call) : call_(call) {}

  using Values = std::vector<ValueId>;
  using Ints = std::vector<std::int64_t>;

  // ---- nodes and types -------------------------------------------------------
  ValueId add(std::string_view op, Values inputs, AttrList attrs = {}) {
    return call_.add(op, std::move(inputs), attrs);
  }
  const Type& type(ValueId id) const { return call_.type(id); }
  DType dtype(ValueId id) const { return call_.type(id).dtype; }
  std::size_t rank(ValueId id) const { return static_cast<std::size_t>(call_.rank(id)); }
  bool ranked(ValueId id) const { return call_.type(id).ranked; }
  // The size along an axis, or -1.
  std::int64_t size(ValueId id, std::size_t axis) const;
  // Elements of an operand that an op needs to know; throws Unsupported naming `what`.
  Ints need_ints(ValueId id, std::string_view what) const;
  // One number, of any dtype.
  double need_number(ValueId id, std::string_view what) const;

  // ---- constants ---------------------------------------------------------------
  ValueId ints(Ints numbers) { return call_.ints(std::move(numbers)); }        // an int64 vector
  ValueId whole(std::int64_t number) { return call_.integer_scalar(number); }  // an int64 of rank 0
  ValueId number(double x, DType dtype);                                       // a scalar
  ValueId number_like(double x, ValueId like) { return number(x, dtype(like)); }

  // ---- arithmetic --------------------------------------------------------------
  ValueId cast(ValueId x, DType to) { return call_.cast(x, to); }
  ValueId int64(ValueId x);  // a constant where the elements are known
  ValueId sum(ValueId a, ValueId b) { return add("Add", {a, b}); }
  ValueId difference(ValueId a, ValueId b) { return add("Sub", {a, b}); }
  ValueId product(ValueId a, ValueId b) { return add("Mul", {a, b}); }
  ValueId quotient(ValueId a, ValueId b) { return add("Div", {a, b}); }
  ValueId where(ValueId condition, ValueId yes, ValueId no) { return add("Where", {condition, yes, no}); }

  // ---- shapes and movement -----------------------------------------------------
  ValueId shape(ValueId x) { return add("Shape", {x}); }  // int64
  ValueId shape_part(ValueId x, std::int64_t begin, std::int64_t end);
  ValueId dim(ValueId x, std::int64_t axis);  // of rank 0
  ValueId vector(ValueId x);                  // all elements as a vector
  ValueId scalar(ValueId x);                  // the one element as rank 0
  ValueId concat(Values parts, std::int64_t axis);
  ValueId reshape(ValueId x, ValueId to);
  ValueId reshape(ValueId x, Ints to) { return reshape(x, ints(std::move(to))); }
  ValueId transpose(ValueId x, Ints order);
  ValueId unsqueeze(ValueId x, Ints axes);
  ValueId squeeze(ValueId x, Ints axes);
  ValueId expand(ValueId x, ValueId shape) { return add("Expand", {x, int64(shape)}); }
  // Along one axis, ends as Python has them.
  ValueId slice(ValueId x, std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t step = 1);
  ValueId gather(ValueId x, ValueId indices, std::int64_t axis);
  ValueId filled(ValueId shape, double x, DType dtype);
  ValueId zeros_like(ValueId x) { return filled(shape(x), 0, dtype(x)); }
  // 0, 1, ..., as many as the int64 scalar says.
  ValueId positions(ValueId count) { return add("Range", {whole(0), count, whole(1)}); }

  // ---- reductions --------------------------------------------------------------
  ValueId reduce(std::string_view op, ValueId x, Ints axes, bool keep);
  ValueId reduce_all(std::string_view op, ValueId x);

  // Names a, b, c, ... are the operands, other letters attributes that are numbers; see formula.cpp.
  ValueId formula(std::string_view text);

 private:
  TfCall& call_;
};

// [0, 1, ..., count - 1]
std::vector<std::int64_t> counted(std::size_t count);

// One result, computed as the text says.
template <OpName Text>
void formula(TfCall& call) {
  call.give(Emit(call).formula(Text.letters));
}

}  // namespace finity::tensorflow

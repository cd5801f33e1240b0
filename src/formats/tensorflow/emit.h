// Short names for the nodes that lowerings of TensorFlow ops write: casts, constants, shapes, reductions, slices. All of
// them know the types of what they write at once, and leave out what would change nothing (a cast to the same type, a
// transposition that moves nothing), so that lowerings need not ask.
#pragma once

#include <initializer_list>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/table/build_call.h"

namespace finity {

class Emit {
 public:
  explicit Emit(NodeWriter& writer) : writer_(writer) {}

  using Values = std::vector<ValueId>;
  using Ints = std::vector<std::int64_t>;

  // ---- nodes and types -------------------------------------------------------
  ValueId add(std::string_view op, Values inputs, Attrs attrs = {}) {
    return writer_.add(op, std::move(inputs), std::move(attrs), 1).front();
  }
  Values add_all(std::string_view op, Values inputs, std::size_t outputs, Attrs attrs = {}) {
    return writer_.add(op, std::move(inputs), std::move(attrs), outputs);
  }
  const Type& type(ValueId id) const { return writer_.type(id); }
  DType dtype(ValueId id) const { return writer_.type(id).dtype; }
  // Its number of axes; throws Unsupported when it is not known.
  std::size_t rank(ValueId id) const;
  std::optional<std::size_t> rank_if_known(ValueId id) const;
  // Elements of an integer operand, when all are known.
  std::optional<Ints> known_ints(ValueId id) const;
  // The same; throws Unsupported naming `what`.
  Ints ints_of(ValueId id, std::string_view what) const;
  // The size along an axis, or -1.
  std::int64_t size(ValueId id, std::size_t axis) const;

  // ---- constants ---------------------------------------------------------------
  ValueId ints(Ints numbers);              // an int64 vector
  ValueId whole(std::int64_t number);      // an int64 scalar
  ValueId number(double x, DType dtype);   // a scalar
  ValueId number_like(double x, ValueId like) { return number(x, dtype(like)); }

  // ---- arithmetic --------------------------------------------------------------
  ValueId cast(ValueId x, DType to);
  ValueId int64(ValueId x) { return cast(x, DType::int64); }
  ValueId sum(ValueId a, ValueId b) { return add("Add", {a, b}); }
  ValueId difference(ValueId a, ValueId b) { return add("Sub", {a, b}); }
  ValueId product(ValueId a, ValueId b) { return add("Mul", {a, b}); }
  ValueId quotient(ValueId a, ValueId b) { return add("Div", {a, b}); }
  ValueId where(ValueId condition, ValueId yes, ValueId no) { return add("Where", {condition, yes, no}); }

  // ---- shapes and movement -----------------------------------------------------
  ValueId shape(ValueId x) { return add("Shape", {x}); }  // int64
  ValueId shape_part(ValueId x, std::int64_t begin, std::int64_t end);
  ValueId dim(ValueId x, std::int64_t axis);  // of rank 0
  ValueId vector(ValueId x);                  // a scalar or anything else as a vector
  ValueId concat(Values parts, std::int64_t axis);
  ValueId reshape(ValueId x, ValueId to);
  ValueId reshape(ValueId x, Ints to) { return reshape(x, ints(std::move(to))); }
  ValueId transpose(ValueId x, Ints order);
  ValueId unsqueeze(ValueId x, Ints axes);
  ValueId squeeze(ValueId x, Ints axes);
  ValueId expand(ValueId x, ValueId shape) { return add("Expand", {x, shape}); }
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

  NodeWriter& writer() { return writer_; }

 private:
  NodeWriter& writer_;
};

struct NamedAttr {
  std::string name;
  Attr value;
};
Attrs attrs(std::initializer_list<NamedAttr> list);

}  // namespace finity

// What an op may use to draw the operands of a call that libraries are tested with. Most draws are legal; whoever asked
// lets the reference decide about each.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "graph/attrs.h"
#include "ops/table/op.h"
#include "tensor/tensor.h"

namespace finity {

// Which numbers a tensor is filled with.
enum class ValueClass : std::uint8_t { normal, integers, positive, tiny_steps, wide, ties, ends };

class DrawCall {
 public:
  using Ints = std::vector<std::int64_t>;

  DrawCall() = default;
  DrawCall(const DrawCall&) = delete;
  DrawCall& operator=(const DrawCall&) = delete;
  virtual ~DrawCall() = default;

  virtual const OpDef& op() const = 0;
  virtual int opset() const = 0;
  // Of the first operand.
  virtual const Dims& dims() const = 0;
  virtual DType dtype() const = 0;
  // As drawn so far; operands may change them.
  virtual Attrs& attrs() = 0;

  virtual Rng& rng() = 0;
  // Numbers of a class that is drawn, too.
  virtual Tensor draw(DType dtype, Dims dims) = 0;
  virtual Tensor draw(DType dtype, Dims dims, ValueClass values) = 0;
  // A length of an axis.
  virtual std::int64_t size() = 0;
  // A shape that is repeated along axes to come to this one.
  virtual Dims broadcastable(const Dims& dims) = 0;
  // Adds an operand; in so many of a hundred cases it is a constant. Those left out at the end are not written.
  virtual void add(Tensor tensor, int constant_percent) = 0;
  virtual void leave_out() = 0;
  // How many results of a kind that repeats are asked for.
  virtual void ask_for(std::size_t results) = 0;

  std::int64_t rank() const { return static_cast<std::int64_t>(dims().size()); }
  std::int64_t length(std::int64_t axis) const { return dims()[static_cast<std::size_t>(axis)]; }
  std::int64_t spatial() const { return rank() > 2 ? rank() - 2 : 0; }
  std::int64_t channels() const { return rank() > 1 ? dims()[1] : 1; }
  std::int64_t integer(std::string_view name, std::int64_t fallback);
  Ints integers(std::string_view name);
  void drop(std::string_view name);
  std::string text(std::string_view name);  // "" when it is absent
  // Attribute `name`, counted from the front; 0 for a scalar.
  std::int64_t axis(std::string_view name, std::int64_t fallback);
  // Some of the axes, some counted from the end.
  Ints some_axes();

  bool chance(int percent) { return rng().below(100) < static_cast<std::uint64_t>(percent); }
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(rng().below(static_cast<std::uint64_t>(most - least + 1)));
  }

  // Operands of the usual kinds: numbers that say where or how many, and numbers of the first operand's format.
  void add_ints(const Ints& values);
  void add_floats(Dims dims, ValueClass values = ValueClass::normal);
  void add_number(double value, int constant_percent = 80);
  // Places along an axis of this length; some count from the end.
  void add_indices(Dims dims, std::int64_t length);
};

}  // namespace finity

// The inside of draw_step(): drawing.cpp has dtypes and generic operands, draw_attrs.cpp attributes, draw_operands.cpp
// the operands of ops that want certain shapes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/drawing.h"

namespace finity::fuzz {

class Drawing {
 public:
  Drawing(Grower& grower, const OpDef& op);
  std::optional<Drawn> draw(const std::string& first);

 private:
  std::int64_t size();
  Dims first_dims();
  DType dtype_of(const ParamType& type);
  Tensor draw(DType dtype, Dims dims);
  std::string give(Tensor tensor, int constant_percent);
  std::string give_ints(const std::vector<std::int64_t>& values);
  std::string give_float(Dims dims, ValueClass values = ValueClass::normal);
  Dims broadcastable(const Dims& dims) { return g_.broadcastable(dims); }
  std::string existing(DType dtype, const Dims& dims);
  void generic_operands();
  void add_outputs();

  void draw_attrs();
  void keep_windows_inside();
  std::optional<Attr> attr(const AttrSpec& spec);
  std::optional<Attr> int_attr(const AttrSpec& spec);
  std::optional<Attr> ints_attr(const AttrSpec& spec);
  std::optional<Attr> float_attr(const AttrSpec& spec);
  std::int64_t int_of(std::string_view name, std::int64_t fallback) const;
  std::vector<std::int64_t> ints_of(std::string_view name) const;
  std::vector<std::int64_t> axes();

  // True when the op is one that is known here.
  bool special_operands();
  bool window_operands();
  bool norm_operands();
  bool movement_operands();
  bool index_operands();
  void resize_operands();
  bool linear_operands();
  bool recurrent_operands();
  bool quantised_operands();

  std::int64_t rank() const { return static_cast<std::int64_t>(x_.size()); }
  std::int64_t spatial() const { return std::max<std::int64_t>(rank() - 2, 0); }
  std::int64_t channels() const { return rank() > 1 ? x_[1] : 1; }

  Grower& g_;
  const OpDef& op_;
  const Signature& signature_;
  Drawn d_;
  Dims x_;  // of operand 0
  DType x_type_ = DType::float32;
  std::map<std::string, DType, std::less<>> dtypes_;
  std::size_t many_outputs_ = 2;
  bool floats_only_ = false, in_float_ = false;
};

}  // namespace finity::fuzz

// The inside of draw_step(): drawing.cpp has formats and operands, draw_attrs.cpp attributes. Ops that want operands of
// certain shapes add them themselves (OpDrawing::operands).
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "fuzz/drawing.h"
#include "ops/table/draw_call.h"

namespace finity::fuzz {

class Drawing : public DrawCall {
 public:
  Drawing(Grower& grower, const OpDef& op);
  std::optional<Drawn> drawn(const std::string& first);

 private:
  const OpDef& op() const override { return op_; }
  int opset() const override { return g_.opset(); }
  const Dims& dims() const override { return x_; }
  DType dtype() const override { return x_type_; }
  Attrs& attrs() override { return d_.step.attrs; }
  Rng& rng() override { return g_.rng(); }
  Tensor draw(DType dtype, Dims dims) override { return g_.draw(dtype, std::move(dims)); }
  Tensor draw(DType dtype, Dims dims, ValueClass values) override { return g_.draw(dtype, std::move(dims), values); }
  std::int64_t size() override;
  Dims broadcastable(const Dims& dims) override { return g_.broadcastable(dims); }
  void add(Tensor tensor, int constant_percent) override;
  void leave_out() override { d_.step.inputs.emplace_back(); }
  void ask_for(std::size_t results) override { many_outputs_ = results; }

  bool has_meaning(DType dtype) const;
  // Operator sets are those of the default domain.
  bool has(const Versions& versions) const { return !op_.identity.domain.empty() || versions.hold(g_.opset()); }
  Dims first_dims();
  DType dtype_of(const ParamType& type);
  bool add_first(const Param& param, const std::string& first);
  // Perhaps with integers at the ends of their type.
  Tensor draw_operand(DType dtype, Dims dims);
  std::string existing(DType dtype, const Dims& dims);
  void operands_by_signature();
  void add_outputs();

  void draw_attrs();
  std::optional<Attr> attr(const AttrSpec& spec);
  std::optional<Attr> int_attr(const AttrSpec& spec);
  std::optional<Attr> ints_attr(const AttrSpec& spec);
  std::optional<Attr> float_attr(const AttrSpec& spec);

  Grower& g_;
  const OpDef& op_;
  const Signature& signature_;
  Drawn d_;
  Dims x_;  // of operand 0
  DType x_type_ = DType::float32;
  std::map<std::string, DType, std::less<>> dtypes_;
  std::size_t many_outputs_ = 2;
};

}  // namespace finity::fuzz

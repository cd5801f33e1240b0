// What an op's functions may look at: how it is used, and the types or values of its
// operands. All accessors throw Error with the operand's or attribute's name, and
// the engines add the node and the file.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "ops/table/datum.h"
#include "ops/table/op_call.h"

namespace finity {

class Call {
 public:
  explicit Call(OpCall what) : what_(std::move(what)) {}

  const OpCall& description() const { return what_; }
  const OpDef& op() const { return *what_.op; }
  const Attrs& attrs() const;
  // Version of the operator set the node was written for.
  int version() const { return what_.version; }

  std::size_t input_count() const { return what_.inputs.count(); }
  std::size_t output_count() const { return what_.outputs.count(); }
  bool has_input(std::size_t i) const { return what_.inputs.has(i); }
  bool has_output(std::size_t i) const { return what_.outputs.has(i); }

  // Attributes. Without a second argument the signature's default is used; an
  // attribute with neither throws. The list forms give an empty list when absent.
  bool has_attr(std::string_view name) const { return attrs().find(name) != nullptr; }
  std::int64_t integer(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  double real(std::string_view name) const;
  double real(std::string_view name, double fallback) const;
  std::string text(std::string_view name) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  std::vector<std::int64_t> integers(std::string_view name) const;
  std::vector<double> reals(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  ConstantPtr constant(std::string_view name) const;  // null when absent
  BodyId body(std::string_view name) const;
  const Type* type(std::string_view name) const;  // null when absent

  // The graph that holds the bodies which attributes name, for what control flow asks of them: their inputs, outputs
  // and declared types. Running or typing one goes through the call. Throws Error when there is none.
  const Graph& bodies() const;

 private:
  OpCall what_;
};

// Computes the outputs' types. Before the op's infer runs, arity, attributes and
// dtypes are checked against the signature and every output whose dtype follows
// from it is a tensor of that dtype with unknown rank: infer only adds shapes.
class InferCall : public Call {
 public:
  using InferBody = std::function<std::vector<Type>(BodyId, std::span<const Type>)>;
  struct Operand {
    Type type;
    const Tensor* value = nullptr;       // when the elements are known (small constants, folded nodes)
    const Shape* shape_value = nullptr;  // elements of an integer scalar or vector, some perhaps symbolic
  };

  InferCall(OpCall what, std::vector<Operand> in, InferBody infer_body = {});

  // The operand's type; an unknown type when it is omitted.
  const Type& in(std::size_t i) const;
  bool ranked(std::size_t i) const { return in(i).ranked; }
  const Shape& shape(std::size_t i) const { return in(i).shape; }
  std::size_t rank(std::size_t i) const { return in(i).shape.size(); }
  const Tensor* value(std::size_t i) const;
  // The operand's elements as dimensions; nullopt when not even their number is known.
  std::optional<Shape> shape_value(std::size_t i) const;
  // The operand's elements as integers, when all are known.
  std::optional<std::vector<std::int64_t>> ints(std::size_t i) const;

  Type& out(std::size_t i) { return out_[i]; }
  void set_shape(std::size_t i, Shape shape);
  void set_dtype(std::size_t i, DType dtype);
  void set_type(std::size_t i, Type type);
  // States the elements of an integer output (scalar or vector).
  void set_shape_value(std::size_t i, Shape value);

  std::vector<Type> infer_body(BodyId body, std::span<const Type> inputs);

  // For the engine.
  std::vector<Type>& outs() { return out_; }
  std::vector<std::optional<Shape>>& out_values() { return out_values_; }

 private:
  std::vector<Operand> in_;
  std::vector<Type> out_;
  std::vector<std::optional<Shape>> out_values_;
  InferBody infer_body_;
};

class EvalCall : public Call {
 public:
  using RunBody = std::function<std::vector<Datum>(BodyId, std::span<const Datum>)>;

  EvalCall(OpCall what, std::span<const Datum> in, Rng& rng, RunBody run_body = {});

  const Tensor& in(std::size_t i) const;    // throws when absent or not a tensor
  const Datum& datum(std::size_t i) const;  // an absent datum when omitted
  void out(std::size_t i, Datum datum);     // ignored when the node does not ask for it
  Rng& rng() { return rng_; }
  std::vector<Datum> run_body(BodyId body, std::span<const Datum> inputs);

  std::vector<Datum>& outs() { return out_; }

 private:
  std::span<const Datum> in_;
  std::vector<Datum> out_;
  Rng& rng_;
  RunBody run_body_;
};

}  // namespace finity

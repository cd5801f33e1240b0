// Writes nodes on behalf of an op: the gradients of its operands, or a quantity that its hazards speak of. What is
// short is written as text, with the names of the signature; dY is the gradient that arrives at result Y:
//
//   .vjp = gradients<"X: Div(dY, X)">
//   .vjp = gradients<"A: Mul(dY, B); B: Mul(dY, A)">
//   .quantity = quantity<"Add(ReduceMean(X), epsilon)">
//
// A number or an attribute that is a number becomes a constant of the op's float format. The rest is a function.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/table/call.h"

namespace finity {

// Where the nodes go. Types of what was added are known at once.
class NodeWriter {
 public:
  NodeWriter() = default;
  NodeWriter(const NodeWriter&) = delete;
  NodeWriter& operator=(const NodeWriter&) = delete;
  virtual ~NodeWriter() = default;

  // `op` is a name of the default domain, or "domain:Name". An invalid input is an omitted one.
  virtual std::vector<ValueId> add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs,
                                   std::size_t outputs) = 0;
  virtual ValueId constant(Tensor tensor) = 0;
  virtual const Type& type(ValueId id) const = 0;
  // The elements, when they are known and few.
  virtual const Tensor* known(ValueId id) const = 0;

  // The op of a call, in its version, on other operands; as many results as the call has.
  virtual std::vector<ValueId> repeat(const OpCall& call, std::vector<ValueId> inputs, Attrs attrs) = 0;
  // Subgraphs: what is added between begin_body() and end_body() goes into a new one.
  virtual BodyId begin_body() = 0;
  virtual ValueId add_body_input(const Type& type) = 0;
  virtual void end_body(std::vector<ValueId> outputs) = 0;
  // Writes a copy of what `body` computes from its inputs; returns its outputs.
  virtual std::vector<ValueId> copy_body(BodyId body, std::span<const ValueId> inputs) = 0;
};

// A tensor of the shape and format of another, filled with a number.
ValueId filled_like(NodeWriter& writer, ValueId value, double number);

// The operands and results of a node in the graph that is written to.
struct Wiring {
  std::vector<ValueId> inputs = {};
  std::vector<ValueId> outputs = {};
  std::vector<ValueId> captures = {};
};

class BuildCall : public Call {
 public:
  // Gradients of `wanted`, invalid where none flows, given those of `outputs`: through nodes that were written before.
  using Derive = std::function<std::vector<ValueId>(
      std::span<const ValueId> outputs, std::span<const ValueId> gradients, std::span<const ValueId> wanted)>;

  // Attributes of `what` may not lie in the graph that is being written to. `gradients` are those of the results,
  // invalid where none flows; empty when no gradient is asked for.
  BuildCall(OpCall what, Wiring wiring, NodeWriter& writer, std::vector<ValueId> gradients = {},
            std::vector<bool> wanted = {});

  ValueId in(std::size_t i) const { return has_input(i) ? wiring_.inputs[i] : ValueId{}; }
  ValueId out(std::size_t i) const { return has_output(i) ? wiring_.outputs[i] : ValueId{}; }
  const std::vector<ValueId>& inputs() const { return wiring_.inputs; }
  const std::vector<ValueId>& captures() const { return wiring_.captures; }
  // The gradient that arrives at result i; zeros when none does and the result is asked for all the same.
  ValueId grad(std::size_t i);
  bool has_grad(std::size_t i) const { return i < gradients_.size() && gradients_[i].valid(); }
  // Whether anyone wants the gradient of operand i. Behind the operands come the captures of the node.
  bool wanted(std::size_t i) const { return i < wanted_.size() && wanted_[i]; }
  // States the gradient of operand i. The engine sums it over the axes along which the operand was repeated.
  void give(std::size_t i, ValueId gradient);

  const Type& type(ValueId id) const { return writer_.type(id); }
  const Type& in_type(std::size_t i) const { return writer_.type(in(i)); }
  const Type& out_type(std::size_t i) const { return writer_.type(out(i)); }
  const Tensor* known(ValueId id) const { return writer_.known(id); }
  // The sizes of a value when all are known.
  std::optional<Dims> dims(ValueId id) const { return writer_.type(id).dims(); }
  // Its number of axes; throws Unsupported when it is not known.
  std::size_t rank(ValueId id) const;
  // The float format of the op: of its first float result, else of its first float operand.
  DType dtype() const;

  ValueId add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs = {});
  std::vector<ValueId> add_all(std::string_view op, std::vector<ValueId> inputs, std::size_t outputs, Attrs attrs = {});
  ValueId scalar(double number) { return scalar(number, dtype()); }
  ValueId scalar(double number, DType dtype);
  ValueId ints(std::vector<std::int64_t> numbers);
  ValueId cast(ValueId value, DType dtype);
  ValueId zeros_like(ValueId value) { return filled_like(writer_, value, 0); }
  ValueId ones_like(ValueId value) { return filled_like(writer_, value, 1); }
  // Larger things: the same op on other operands, subgraphs, and the gradient of a definition that was written out.
  NodeWriter& writer() { return writer_; }
  std::vector<ValueId> derive(std::span<const ValueId> outputs, std::span<const ValueId> gradients,
                              std::span<const ValueId> wanted) const;
  // Gives every operand and capture its gradient through `outputs`, which were written as results 0, 1, ... are
  // defined.
  void give_through(std::span<const ValueId> outputs);
  // Elementwise ops, for readable formulas.
  ValueId sum(ValueId a, ValueId b) { return add("Add", {a, b}); }
  ValueId difference(ValueId a, ValueId b) { return add("Sub", {a, b}); }
  ValueId product(ValueId a, ValueId b) { return add("Mul", {a, b}); }
  ValueId quotient(ValueId a, ValueId b) { return add("Div", {a, b}); }

  // For the engine.
  void set_derive(Derive derive) { derive_ = std::move(derive); }
  const std::vector<ValueId>& given() const { return given_; }

 private:
  Wiring wiring_;
  NodeWriter& writer_;
  std::vector<ValueId> gradients_;
  std::vector<bool> wanted_;
  std::vector<ValueId> given_;  // by operand, then by capture
  Derive derive_;
};

// Nothing flows back: no gradient is defined.
void flat(BuildCall& call);
// Zeros flow back, as PyTorch has it for steps: what comes before may turn them into NaN.
void zero_slope(BuildCall& call);

// The text forms above. Throws Error when the text is malformed: a bug in the op table, found by its tests.
void give_gradients(BuildCall& call, std::string_view text);
ValueId build_expression(BuildCall& call, std::string_view text);

template <std::size_t N>
struct Text {
  std::array<char, N> letters{};
  constexpr Text(const char (&text)[N]) {  // NOLINT: a literal is meant to become a template argument
    std::copy_n(text, N, letters.begin());
  }
  constexpr std::string_view view() const { return {letters.data(), N - 1}; }
};

template <Text Formula>
void gradients(BuildCall& call) {
  give_gradients(call, Formula.view());
}

template <Text Formula>
ValueId quantity(BuildCall& call) {
  return build_expression(call, Formula.view());
}

}  // namespace finity

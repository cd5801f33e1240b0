// What an op's functions may look at: its node, and the types or values of its
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
#include "graph/graph.h"
#include "ops/table/datum.h"

namespace finity {

struct OpDef;

class Call {
 public:
  Call(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  const Graph& graph() const { return graph_; }
  const Node& node() const { return node_; }
  // Version of the operator set the node was written for.
  int version() const { return node_.version; }

  std::size_t input_count() const { return node_.inputs.size(); }
  std::size_t output_count() const { return node_.outputs.size(); }
  bool has_input(std::size_t i) const { return i < node_.inputs.size() && node_.inputs[i].valid(); }
  bool has_output(std::size_t i) const { return i < node_.outputs.size() && node_.outputs[i].valid(); }

  // Attributes. Without a second argument the signature's default is used; an
  // attribute with neither throws. The list forms give an empty list when absent.
  bool has_attr(std::string_view name) const { return node_.attrs.find(name) != nullptr; }
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

 private:
  const Graph& graph_;
  const Node& node_;
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

  InferCall(const Graph& graph, const Node& node, std::vector<Operand> in, InferBody infer_body);

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

  std::vector<Type> infer_body(BodyId body, std::span<const Type> inputs) { return infer_body_(body, inputs); }

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

  EvalCall(const Graph& graph, const Node& node, std::span<const Datum> in, Rng& rng, RunBody run_body);

  const Tensor& in(std::size_t i) const;    // throws when absent or not a tensor
  const Datum& datum(std::size_t i) const;  // an absent datum when omitted
  void out(std::size_t i, Datum datum);     // ignored when the node does not ask for it
  Rng& rng() { return rng_; }
  std::vector<Datum> run_body(BodyId body, std::span<const Datum> inputs) { return run_body_(body, inputs); }

  std::vector<Datum>& outs() { return out_; }

 private:
  std::span<const Datum> in_;
  std::vector<Datum> out_;
  Rng& rng_;
  RunBody run_body_;
};

}  // namespace finity

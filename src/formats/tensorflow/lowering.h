// How a TensorFlow op becomes nodes of the op table. Each op has one function in one of the files lower_*.cpp:
//
//   void lower_real_div(TfCall& call) { call.give(call.add("Div", {call.in(0), call.in(1)})); }
//
//   constexpr Lowering kMath[] = {
//       {.op = "RealDiv", .lower = lower_real_div},
//       {.op = "Sqrt", .lower = same<"Sqrt">},                 // one operand per operand, one result
//       {.op = "SaveV2", .lower = bookkeeping},                // gives nothing that numbers depend on
//       {.op = "RandomUniform", .lower = lower_random_uniform},
//   };
//   std::span<const Lowering> math_lowerings() { return kMath; }
//
// declared below and listed in lowering_table.cpp. Nodes that a lowering adds are named after the user's node; the one
// that computes its first result gets the plain name. A lowering that cannot say what a node means throws Unsupported
// with the reason: the node then stays in the graph as a named unknown. So does an op that has no lowering. Nothing is
// ever left out silently.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "formats/tensorflow/attr_value.h"
#include "formats/tensorflow/graph_def.h"
#include "graph/attrs.h"
#include "graph/type.h"

namespace finity::tensorflow {

class Importer;

// What flows along an edge. Handles (resources, references, queues) are kept apart from tensors: `handle` is the number
// of a piece of state that the importer knows. A reference to a variable has both.
struct TfValue {
  ValueId id = {};
  int handle = -1;
  bool array = false;  // a list or array: what the file declares of its shape is that of something else
};

using AttrList = std::initializer_list<std::pair<std::string_view, Attr>>;

class TfCall {
 public:
  TfCall(Importer& importer, const NodeDef& node, std::vector<TfValue> inputs, std::size_t outputs);

  // ---- the node as written: data inputs only, control inputs are not here
  const NodeDef& node() const { return node_; }
  std::string_view op() const { return node_.op; }
  std::string_view name() const { return node_.name; }
  std::size_t input_count() const { return inputs_.size(); }
  // How many results somebody uses (at least 1).
  std::size_t output_count() const { return output_count_; }

  // Attributes. An attribute of a function that stands for an argument of the call is replaced by it. Those without a
  // fallback throw Error when there is none.
  bool has_attr(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  std::int64_t integer(std::string_view name, std::int64_t fallback) const;
  double real(std::string_view name, double fallback) const;
  bool flag(std::string_view name, bool fallback) const;
  std::string text(std::string_view name, std::string_view fallback) const;
  std::vector<std::int64_t> integers(std::string_view name) const;  // empty when absent
  std::vector<double> reals(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  // undefined for resources and variants, and when absent
  DType dtype(std::string_view name) const;
  std::vector<DType> dtypes(std::string_view name) const;
  // A shape attribute with the dtype given; not ranked when absent or of unknown rank.
  Type shape(std::string_view name, DType dtype) const;
  std::vector<Type> shapes(std::string_view name) const;
  ConstantPtr tensor(std::string_view name) const;  // null when absent
  std::optional<Bytes> tensor_message(std::string_view name) const;
  std::string function(std::string_view name) const;  // the name; empty when absent

  // ---- operands
  // The tensor of input i; throws Unsupported when it is a handle or of a node that gives none. Negative counts from
  // the end.
  ValueId in(int i) const;
  bool has_tensor(std::size_t i) const { return i < inputs_.size() && inputs_[i].id.valid(); }
  TfValue value(std::size_t i) const;
  std::vector<ValueId> tensors(std::size_t first, std::size_t count) const;
  const Type& type(ValueId id) const;
  const Type& in_type(int i) const { return type(in(i)); }
  // The dtype of a tensor; throws Unsupported when it is not known.
  DType dtype_of(ValueId id) const;
  // The number of axes; throws Unsupported when it is not known.
  std::int64_t rank(ValueId id) const;
  // Sizes when all are known.
  std::optional<Dims> dims(ValueId id) const;
  // Elements when they are known and few.
  const Tensor* known(ValueId id) const;
  std::optional<std::vector<std::int64_t>> known_ints(ValueId id) const;
  // Known elements of input i; throws Unsupported naming `what` when they are not.
  std::vector<std::int64_t> need_ints(int i, std::string_view what) const;

  // ---- writing nodes. `op` is a name of the default domain, or "domain:Name", in operator set 21. An invalid input is
  // an omitted one. Types of what was added are known at once.
  ValueId add(std::string_view op, std::vector<ValueId> inputs, AttrList attrs = {});
  std::vector<ValueId> add_all(std::string_view op, std::vector<ValueId> inputs, std::size_t outputs,
                               AttrList attrs = {});
  ValueId constant(Tensor tensor);
  ValueId scalar(double number, DType dtype);       // rank 0, any dtype of numbers, or boolean
  ValueId ints(std::vector<std::int64_t> numbers);  // an int64 vector
  ValueId integer_scalar(std::int64_t number);      // an int64 of rank 0
  ValueId cast(ValueId value, DType dtype);         // the value itself when it has the dtype
  ValueId as_int64(ValueId value) { return cast(value, DType::int64); }
  ValueId transpose(ValueId value, std::vector<std::int64_t> permutation);
  ValueId reshape(ValueId value, ValueId shape);  // shape: int32 or int64
  ValueId reshape(ValueId value, std::vector<std::int64_t> shape);
  // The value as an int64 vector of one element, and back.
  ValueId as_vector(ValueId scalar);
  ValueId as_scalar(ValueId vector);
  // Something that comes from outside: an input of the model, named after the node ("name", "name:1"). It is made once
  // per node of the file, in functions and loops too.
  ValueId outside(std::size_t output, const Type& type);
  // A named unknown with results of these types, and the reason.
  std::vector<ValueId> unknown(const std::vector<Type>& types);

  // ---- results
  void give(std::size_t output, ValueId id) { give(output, TfValue{.id = id}); }
  void give(std::size_t output, TfValue value);
  void give(ValueId id) { give(0, id); }
  void give_all(const std::vector<ValueId>& ids);

  // What the file declares for a result (_output_shapes); unranked and undefined when it says nothing.
  Type declared(std::size_t output) const;

  Importer& importer() { return importer_; }
  const std::vector<TfValue>& results() const { return results_; }

 private:
  std::optional<AttrValue> find(std::string_view name) const;

  Importer& importer_;
  const NodeDef& node_;
  std::vector<TfValue> inputs_;
  std::vector<TfValue> results_;
  std::size_t output_count_ = 1;
};

struct Lowering {
  std::string_view op = {};
  void (*lower)(TfCall&) = nullptr;
};

// For ops whose results no number depends on: files, summaries, checks, control. Gives nothing.
void bookkeeping(TfCall& call);

template <std::size_t N>
struct OpName {
  char letters[N] = {};
  constexpr OpName(const char (&text)[N]) {  // NOLINT: a literal is meant to become a template argument
    for (std::size_t i = 0; i < N; ++i) letters[i] = text[i];
  }
};

// The op of the table with the same operands and one result, without attributes.
template <OpName Name>
void same(TfCall& call) {
  call.give(call.add(Name.letters, call.tensors(0, call.input_count())));
}

// Null when there is none.
const Lowering* find_lowering(std::string_view op);
std::span<const std::span<const Lowering>> all_lowerings();

// The families, one file each.
std::span<const Lowering> basic_lowerings();        // Const, Identity, placeholders, queues, iterators
std::span<const Lowering> bookkeeping_lowerings();  // files, summaries, data sets, texts
std::span<const Lowering> state_lowerings();        // variables
std::span<const Lowering> array_lowerings();        // TensorArray, TensorList, stacks
std::span<const Lowering> math_lowerings();
std::span<const Lowering> reduce_lowerings();
std::span<const Lowering> linear_lowerings();
std::span<const Lowering> window_lowerings();
std::span<const Lowering> norm_lowerings();
std::span<const Lowering> shape_lowerings();
std::span<const Lowering> slice_lowerings();
std::span<const Lowering> index_lowerings();
std::span<const Lowering> sparse_lowerings();
std::span<const Lowering> sequence_lowerings();  // recurrent layers, texts and sets, of which only bounds are known
std::span<const Lowering> random_lowerings();
std::span<const Lowering> image_lowerings();
std::span<const Lowering> resample_lowerings();
std::span<const Lowering> point_lowerings();
std::span<const Lowering> train_lowerings();

}  // namespace finity::tensorflow

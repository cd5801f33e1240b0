// Sequences of tensors, and optionals: an optional that holds something is just
// that datum, an empty one is an absent datum.
#include <algorithm>
#include <string>

#include "base/error.h"
#include "ops/control/loops.h"
#include "ops/control/sequence_gradient.h"
#include "ops/elementwise/elementwise.h"
#include "ops/movement/move_gradient.h"
#include "ops/movement/movement_rules.h"
#include "ops/shared/pieces.h"
#include "ops/shared/range_rules.h"
#include "ops/shared/shapes.h"
#include "ops/table/families.h"
#include "ops/table/gradient_values.h"
#include "tensor/convert.h"

namespace finity {

namespace {

// A sequence of more pieces than this is not cut: only a tensor with an empty axis could have that many cheaply.
constexpr std::int64_t kMaxPieces = std::int64_t{1} << 20;

const Sequence& sequence_in(const EvalCall& call, std::size_t input) {
  if (const Sequence* items = call.datum(input).sequence()) return *items;
  throw Error("input " + std::to_string(input) + " is not a sequence");
}

// The position input as an index into `limit` places, negative ones from the back.
std::size_t position_in(const EvalCall& call, std::size_t input, std::size_t count, std::size_t limit) {
  const Tensor& tensor = call.in(input);
  if (tensor.size() != 1) throw Error("position has shape " + to_string(tensor.dims()) + ", expected a scalar");
  const std::int64_t position = element_as_int(tensor, 0);
  const auto size = static_cast<std::int64_t>(count);
  if (position < -size || position >= static_cast<std::int64_t>(limit)) {
    throw Error("position " + std::to_string(position) + " is outside a sequence of " + std::to_string(count));
  }
  return static_cast<std::size_t>(position < 0 ? position + size : position);
}

// What is known of every item of a sequence operand.
Type item_type(const InferCall& call, std::size_t input) {
  const Type& type = call.in(input);
  return type.kind == Type::Kind::sequence && type.element ? *type.element : Type{};
}

// ---- one sequence ------------------------------------------------------------

void infer_sequence_at(InferCall& call) {
  const Type item = item_type(call, 0);
  if (item.kind != Type::Kind::unknown) call.set_type(0, item);
}

void eval_sequence_at(EvalCall& call) {
  const Sequence& items = sequence_in(call, 0);
  call.out(0, items[position_in(call, 1, items.size(), items.size())]);
}

void infer_sequence_construct(InferCall& call) {
  Type item = call.in(0);
  for (std::size_t i = 1; i < call.input_count(); ++i) item = join(item, call.in(i));
  if (item.kind != Type::Kind::unknown) call.set_type(0, Type::sequence(item));
}

void eval_sequence_construct(EvalCall& call) {
  Sequence items;
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (call.in(i).dtype() != call.in(0).dtype()) throw Error("the items differ in dtype");
    items.push_back(call.datum(i));
  }
  call.out(0, Datum::sequence(std::move(items)));
}

void infer_sequence_empty(InferCall& call) {
  const auto dtype = dtype_from_code(call.integer("dtype"));
  if (!dtype || *dtype == DType::undefined) throw Error("attribute 'dtype' is not a dtype");
  call.set_type(0, Type::sequence(Type::tensor(*dtype)));
}

void eval_sequence_empty(EvalCall& call) { call.out(0, Datum::sequence({})); }

void infer_same_sequence(InferCall& call) {
  if (call.in(0).kind == Type::Kind::sequence) call.set_type(0, call.in(0));
}

void eval_sequence_erase(EvalCall& call) {
  Sequence items = sequence_in(call, 0);
  if (items.empty()) throw Error("the sequence is empty");
  const std::size_t at = call.has_input(1) ? position_in(call, 1, items.size(), items.size()) : items.size() - 1;
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
  call.out(0, Datum::sequence(std::move(items)));
}

void infer_sequence_insert(InferCall& call) {
  const Type item = join(item_type(call, 0), call.in(1));
  if (item.kind != Type::Kind::unknown) call.set_type(0, Type::sequence(item));
}

void eval_sequence_insert(EvalCall& call) {
  Sequence items = sequence_in(call, 0);
  const Tensor* first = items.empty() ? nullptr : items.front().tensor();
  if (first != nullptr && first->dtype() != call.in(1).dtype())
    throw Error("the tensor differs from the items in dtype");
  const std::size_t at = call.has_input(2) ? position_in(call, 2, items.size(), items.size() + 1) : items.size();
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), call.datum(1));
  call.out(0, Datum::sequence(std::move(items)));
}

void infer_scalar(InferCall& call) { call.set_shape(0, {}); }

void eval_sequence_length(EvalCall& call) {
  call.out(0, Tensor::scalar(static_cast<std::int64_t>(sequence_in(call, 0).size())));
}

// ---- sequences from and to tensors -------------------------------------------

void infer_concat_from_sequence(InferCall& call) {
  const Type item = item_type(call, 0);
  if (!item.ranked) return;
  Shape shape = item.shape;
  const bool fresh = call.integer("new_axis") != 0;
  const auto at = static_cast<std::ptrdiff_t>(normalize_axis(call.integer("axis"), shape.size(), fresh));
  if (fresh) shape.insert(shape.begin() + at, Dim{});
  else shape[static_cast<std::size_t>(at)] = Dim{};
  call.set_shape(0, std::move(shape));
}

void eval_concat_from_sequence(EvalCall& call) {
  std::vector<Tensor> parts;
  for (const Datum& item : sequence_in(call, 0)) {
    if (item.tensor() == nullptr) throw Error("an item of the sequence is not a tensor");
    parts.push_back(*item.tensor());
  }
  if (parts.empty()) throw Error("the sequence is empty");
  const bool fresh = call.integer("new_axis") != 0;
  const std::size_t axis = normalize_axis(call.integer("axis"), parts.front().rank(), fresh);
  call.out(0, fresh ? stacked(parts, axis) : concatenated(parts, axis));
}

// Lengths of the pieces; `split` may be absent, a scalar (all but the last of that size) or a vector.
std::vector<std::int64_t> piece_lengths(std::int64_t size, const Tensor* split) {
  if (split != nullptr && split->rank() > 1) {
    throw Error("split has shape " + to_string(split->dims()) + ", expected a scalar or a vector");
  }
  if (split != nullptr && split->rank() == 1) {
    std::vector<std::int64_t> lengths = elements<std::int64_t>(*split);
    std::int64_t rest = size;
    for (const std::int64_t length : lengths) {
      if (length < 0 || length > rest) throw Error("split does not add up to " + std::to_string(size));
      rest -= length;
    }
    if (rest != 0) throw Error("split does not add up to " + std::to_string(size));
    return lengths;
  }
  const std::int64_t length = split != nullptr ? element_as_int(*split, 0) : 1;
  if (length <= 0) throw Error("split is " + std::to_string(length) + ", expected a positive number");
  const std::int64_t full = size / length;
  if (full >= kMaxPieces) throw Error("split into " + std::to_string(full) + " pieces is too large");
  std::vector<std::int64_t> lengths(static_cast<std::size_t>(full), length);
  if (size % length != 0) lengths.push_back(size % length);
  return lengths;
}

// The size of every piece along the axis, when all have the same and it is known.
Dim piece_size(const InferCall& call, const Dim& size) {
  if (!call.has_input(1)) return Dim::of(1);
  const Tensor* split = call.value(1);
  if (split == nullptr || !size.known()) return {};
  const std::vector<std::int64_t> lengths = piece_lengths(size.size, split);
  const bool equal = std::ranges::all_of(lengths, [&](std::int64_t length) { return length == lengths.front(); });
  return equal && !lengths.empty() ? Dim::of(lengths.front()) : Dim{};
}

void infer_split_to_sequence(InferCall& call) {
  if (!call.ranked(0)) return;
  Shape shape = call.shape(0);
  const std::size_t axis = normalize_axis(call.integer("axis"), shape.size());
  if (drops_axis(call)) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(axis));
  else shape[axis] = piece_size(call, shape[axis]);
  call.set_type(0, Type::sequence(Type::tensor(call.in(0).dtype, std::move(shape))));
}

void eval_split_to_sequence(EvalCall& call) {
  const Tensor& input = call.in(0);
  const std::size_t axis = normalize_axis(call.integer("axis"), input.rank());
  const Tensor* split = call.has_input(1) ? &call.in(1) : nullptr;
  Sequence items;
  std::int64_t at = 0;
  for (const std::int64_t length : piece_lengths(input.dim(axis), split)) {
    items.emplace_back(drops_axis(call) ? take_at(input, axis, at) : take_range(input, axis, at, length));
    at += length;
  }
  call.out(0, Datum::sequence(std::move(items)));
}

// ---- optionals ---------------------------------------------------------------

void infer_optional(InferCall& call) {
  const Type* declared = call.type("type");
  if (call.has_input(0)) {
    if (call.in(0).kind != Type::Kind::unknown) call.set_type(0, Type::optional(call.in(0)));
  } else if (declared != nullptr) {
    call.set_type(0, Type::optional(*declared));
  } else {
    throw Error("needs an input or the attribute 'type'");
  }
}

void eval_optional(EvalCall& call) { call.out(0, call.datum(0)); }

void infer_optional_get_element(InferCall& call) {
  const Type& type = call.in(0);
  if (type.kind == Type::Kind::optional && type.element) call.set_type(0, *type.element);
  else if (type.kind != Type::Kind::optional) call.set_type(0, type);
}

void eval_optional_get_element(EvalCall& call) {
  if (!call.datum(0).present()) throw Error("the optional is empty");
  call.out(0, call.datum(0));
}

void infer_optional_has_element(InferCall& call) {
  call.set_shape(0, {});
  const Type::Kind kind = call.in(0).kind;
  const bool surely_present = kind == Type::Kind::tensor || kind == Type::Kind::sequence;
  if (!call.has_input(0)) call.set_shape_value(0, {Dim::of(0)});
  else if (surely_present) call.set_shape_value(0, {Dim::of(1)});
}

void eval_optional_has_element(EvalCall& call) { call.out(0, Tensor::scalar(call.datum(0).present())); }

// ---- ranges: one cell stands for all items -----------------------------------

// Whatever the operands hold, the result holds some of it.
void range_items(RangeCall& call) {
  Range all;
  for (std::size_t i = 0; i < call.input_count() && i < 2; ++i) {
    if (call.has_range(i)) all = join(all, call.hull(i));
  }
  call.out(0, all);
}

// The first operand's items; others are positions and sizes.
void range_same_items(RangeCall& call) { call.out(0, call.has_range(0) ? call.hull(0) : Range{}); }

void range_construct(RangeCall& call) {
  Range all;
  for (std::size_t i = 0; i < call.input_count(); ++i) all = join(all, call.hull(i));
  call.out(0, all);
}

void range_length(RangeCall& call) { call.out(0, whole_numbers(0, kManyElements)); }

void range_optional_get(RangeCall& call) {
  if (call.in_type(0).is_tensor()) call.same(0, 0);
  else range_same_items(call);
}

// ---- what gradients need -----------------------------------------------------

constexpr std::string_view kDomain = "finity";

void eval_sequence_zeros(EvalCall& call) {
  Sequence items;
  for (const Datum& item : sequence_in(call, 0)) {
    const Tensor& tensor = require_tensor(item, "an item of the sequence");
    items.emplace_back(Tensor(tensor.dtype(), tensor.dims()));
  }
  call.out(0, Datum::sequence(std::move(items)));
}

void range_zeros(RangeCall& call) { call.out(0, point(0)); }

void infer_sequence_sum(InferCall& call) {
  const Type item = join(item_type(call, 0), item_type(call, 1));
  if (item.kind != Type::Kind::unknown) call.set_type(0, Type::sequence(item));
}

void eval_sequence_sum(EvalCall& call) {
  const Sequence &a = sequence_in(call, 0), &b = sequence_in(call, 1);
  if (a.size() != b.size()) {
    throw Error("sequences of " + std::to_string(a.size()) + " and of " + std::to_string(b.size()) + " tensors");
  }
  Sequence items;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const Tensor& x = require_tensor(a[i], "an item of the sequence");
    const Tensor& y = require_tensor(b[i], "an item of the sequence");
    if (x.dims() != y.dims()) throw Error("items differ in shape");
    items.emplace_back(map_binary(x, y, x.dtype(), [](auto u, auto v) { return u + v; }));
  }
  call.out(0, Datum::sequence(std::move(items)));
}

void range_sequence_sum(RangeCall& call) {
  const DType dtype = innermost(call.out_type(0)).dtype;
  call.out(0, is_float(dtype) ? add(dtype, call.hull(0), call.hull(1)) : top(DType::float64));
}

// The pieces are as long as the items; all other sizes are those of what is cut.
void infer_split_like(InferCall& call) {
  if (!call.ranked(0)) return;
  Shape shape = call.shape(0);
  const std::size_t axis = normalize_axis(call.integer("axis"), shape.size());
  const Type& like = innermost(call.in(1));
  const bool alike = like.is_tensor() && like.ranked && like.shape.size() == shape.size();
  shape[axis] = alike ? like.shape[axis] : Dim{};
  call.set_type(0, Type::sequence(Type::tensor(call.in(0).dtype, std::move(shape))));
}

void eval_split_like(EvalCall& call) {
  const Tensor& input = call.in(0);
  const std::size_t axis = normalize_axis(call.integer("axis"), input.rank());
  Sequence items;
  std::int64_t at = 0;
  for (const Datum& item : sequence_in(call, 1)) {
    const Tensor& like = require_tensor(item, "an item of the sequence");
    if (like.rank() != input.rank()) throw Error("an item of the sequence has another rank");
    if (like.dim(axis) > input.dim(axis) - at) throw Error("the pieces are longer than what is cut");
    items.emplace_back(take_range(input, axis, at, like.dim(axis)));
    at += like.dim(axis);
  }
  if (at != input.dim(axis)) throw Error("the pieces add up to " + std::to_string(at));
  call.out(0, Datum::sequence(std::move(items)));
}

// Back from pieces to the whole.
void split_like_gradient(BuildCall& call) {
  call.give(0, call.add("ConcatFromSequence", {call.grad(0)}, with_attr("axis", call.integer("axis"))));
}

const OpDef kOps[] = {
    {.identity = {.name = "SequenceAt",
                  .since = 11,
                  .summary = "the tensor at a position of a sequence",
                  .signature = "(input_sequence: seq(T), position: int32|int64) -> (tensor: T) where T: any"},
     .meaning = {.infer = infer_sequence_at, .eval = eval_sequence_at},
     .analysis = {.range = range_same_items, .vjp = sequence_at_gradient}},
    {.identity = {.name = "SequenceConstruct",
                  .since = 11,
                  .summary = "a sequence of the given tensors",
                  .signature = "(inputs...: T) -> (output_sequence: seq(T)) where T: any"},
     .meaning = {.infer = infer_sequence_construct, .eval = eval_sequence_construct},
     .analysis = {.range = range_construct, .vjp = sequence_construct_gradient}},
    {.identity = {.name = "SequenceEmpty",
                  .since = 11,
                  .summary = "a sequence of no tensors",
                  .signature = "() -> (output: seq(any))",
                  .attrs = "dtype: int = 1"},
     .meaning = {.infer = infer_sequence_empty, .eval = eval_sequence_empty},
     .analysis = {.range = range_same_items, .vjp = flat}},
    {.identity = {.name = "SequenceErase",
                  .since = 11,
                  .summary = "a sequence without one of its tensors, by default the last",
                  .signature =
                      "(input_sequence: seq(T), position?: int32|int64) -> (output_sequence: seq(T)) where T: any"},
     .meaning = {.infer = infer_same_sequence, .eval = eval_sequence_erase},
     .analysis = {.range = range_same_items, .vjp = sequence_erase_gradient}},
    {.identity =
         {.name = "SequenceInsert",
          .since = 11,
          .summary = "a sequence with one more tensor, by default at the end",
          .signature =
              "(input_sequence: seq(T), tensor: T, position?: int32|int64) -> (output_sequence: seq(T)) where T: any"},
     .meaning = {.infer = infer_sequence_insert, .eval = eval_sequence_insert},
     .analysis = {.range = range_items, .vjp = sequence_insert_gradient}},
    {.identity = {.name = "SequenceLength",
                  .since = 11,
                  .summary = "number of tensors in a sequence",
                  .signature = "(input_sequence: seq(any)) -> (length: int64)"},
     .meaning = {.infer = infer_scalar, .eval = eval_sequence_length},
     .analysis = {.range = range_length, .vjp = flat}},
    {.identity = {.name = "ConcatFromSequence",
                  .since = 11,
                  .summary = "the tensors of a sequence joined along an axis, or stacked along a new one",
                  .signature = "(input_sequence: seq(T)) -> (concat_result: T) where T: any",
                  .attrs = "axis: int; new_axis: int = 0"},
     .meaning = {.infer = infer_concat_from_sequence, .eval = eval_concat_from_sequence},
     .analysis = {.range = range_same_items, .vjp = concat_from_sequence_gradient}},
    {.identity = {.name = "SplitToSequence",
                  .since = 11,
                  .summary = "a tensor cut along an axis into a sequence",
                  .signature = "(input: T, split?: int32|int64) -> (output_sequence: seq(T)) where T: any",
                  .attrs = "axis: int = 0; keepdims: int = 1"},
     .meaning = {.infer = infer_split_to_sequence, .eval = eval_split_to_sequence},
     .analysis = {.range = range_same_items, .vjp = split_to_sequence_gradient}},
    {.identity = {.name = "Optional",
                  .since = 15,
                  .summary = "an optional that holds the input, or an empty one",
                  .signature = "(input?: value) -> (output: value)",
                  .attrs = "type: type"},
     .meaning = {.infer = infer_optional, .eval = eval_optional},
     .analysis = {.range = range_same_items, .vjp = optional_gradient}},
    {.identity = {.name = "OptionalGetElement",
                  .since = 15,
                  .summary = "what an optional holds",
                  .signature = "(input: value) -> (output: value)"},
     .meaning = {.infer = infer_optional_get_element, .eval = eval_optional_get_element},
     .analysis = {.range = range_optional_get, .vjp = optional_gradient}},
    {.identity = {.name = "OptionalHasElement",
                  .since = 15,
                  .summary = "whether an optional holds something",
                  .signature = "(input?: value) -> (output: bool)"},
     .meaning = {.infer = infer_optional_has_element, .eval = eval_optional_has_element},
     .analysis = {.range = range_bool, .vjp = flat}},
    {.identity = {.name = "SequenceZeros",
                  .domain = kDomain,
                  .summary = "zeros in place of all elements of the tensors of a sequence",
                  .signature = "(like: seq(T)) -> (zeros: seq(T)) where T: float"},
     .meaning = {.infer = infer_same_sequence, .eval = eval_sequence_zeros},
     .analysis = {.range = range_zeros, .vjp = flat}},
    {.identity = {.name = "SequenceSum",
                  .domain = kDomain,
                  .summary = "a sequence of the sums of the tensors of two sequences, one of each",
                  .signature = "(A: seq(T), B: seq(T)) -> (sum: seq(T)) where T: float"},
     .meaning = {.infer = infer_sequence_sum, .eval = eval_sequence_sum},
     .analysis = {.range = range_sequence_sum, .vjp = gradients<"A: dsum; B: dsum">}},
    {.identity = {.name = "SplitLike",
                  .domain = kDomain,
                  .summary = "a tensor cut along an axis into pieces as long as those of a sequence",
                  .signature = "(input: T, like: seq(T)) -> (output_sequence: seq(T)) where T: float",
                  .attrs = "axis: int"},
     .meaning = {.infer = infer_split_like, .eval = eval_split_like},
     .analysis = {.range = range_same_items, .vjp = split_like_gradient}},
};

}  // namespace

std::span<const OpDef> sequence_ops() { return kOps; }

}  // namespace finity

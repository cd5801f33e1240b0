// TensorArray, TensorList and stacks. An array is a tensor whose first axis counts its elements; it flows where
// TensorFlow's flow value (or the list itself) flows, so loops carry it like any other state. A stack that a loop
// pushes onto is what the loop collects over its rounds; the loop that pops runs through it backwards.
#include <algorithm>

#include "formats/tensorflow/importer.h"
#include "formats/tensorflow/lowering.h"

namespace finity::tensorflow {

namespace {

// An array of `size` (an int64 scalar) zeros; sizes that are not known are left open.
ValueId new_array(TfCall& call, ValueId size, DType dtype, const Type& element) {
  if (dtype == DType::undefined || dtype == DType::string) throw Unsupported("an array that holds no numbers");
  std::vector<std::int64_t> shape;
  for (const Dim& dim : element.shape) shape.push_back(dim.known() ? dim.size : -1);
  return call.add("finity:ArrayNew", {call.as_int64(size)},
                  {{"dtype", static_cast<std::int64_t>(dtype)},
                   {"shape", std::move(shape)},
                   {"ranked", std::int64_t{element.ranked ? 1 : 0}}});
}

State& state_of(TfCall& call, std::size_t input) {
  const int handle = call.value(input).handle;
  if (handle < 0) throw Unsupported("where its array comes from is not known");
  return call.importer().states()[static_cast<std::size_t>(handle)];
}

// ---- TensorArray: (handle, flow)

void lower_array(TfCall& call) {
  const DType dtype = call.dtype("dtype");
  if (dtype == DType::string) return;
  const Type element = call.shape("element_shape", dtype);
  State state{.kind = State::Kind::array, .name = std::string(call.name()), .dtype = dtype};
  state.element = element;
  const ValueId array = new_array(call, call.in(0), dtype, element);
  const int handle = call.importer().add_state(std::move(state));
  call.give(0, TfValue{.id = {}, .handle = handle});
  call.give(1, TfValue{.id = array, .handle = handle, .array = true});
}

// Gradients of an array: zeros of its shape, to which everything that is written is added.
void lower_array_gradient(TfCall& call) {
  State gradient{.kind = State::Kind::array, .name = std::string(call.name()), .dtype = DType::undefined};
  const ValueId array = call.in(1);
  gradient.dtype = call.dtype_of(array);
  gradient.accumulates = true;
  const int handle = call.importer().add_state(std::move(gradient));
  const ValueId shape = call.add("Shape", {array});
  const ValueId zero = call.scalar(0, call.dtype_of(array));
  call.give(0, TfValue{.id = {}, .handle = handle});
  call.give(1, TfValue{.id = call.add("Expand", {zero, shape}), .handle = handle, .array = true});
}

std::int64_t accumulates(TfCall& call) {
  const int handle = call.value(0).handle;
  return handle >= 0 && call.importer().states()[static_cast<std::size_t>(handle)].accumulates ? 1 : 0;
}

// An array of texts gives no tensor.
bool of_texts(const TfCall& call, std::size_t flow) { return !call.has_tensor(flow); }

// (handle, index, value, flow)
void lower_array_write(TfCall& call) {
  if (of_texts(call, 3)) return;
  const ValueId written =
      call.add("finity:ArrayWrite", {call.in(3), call.in(1), call.in(2)}, {{"accumulate", accumulates(call)}});
  call.give(0, TfValue{.id = written, .handle = call.value(3).handle, .array = true});
}
void lower_array_scatter(TfCall& call) {
  if (of_texts(call, 3)) return;
  const ValueId written =
      call.add("finity:ArrayScatter", {call.in(3), call.in(1), call.in(2)}, {{"accumulate", accumulates(call)}});
  call.give(0, TfValue{.id = written, .handle = call.value(3).handle, .array = true});
}
// (handle, index or indices, flow)
void lower_array_read(TfCall& call) {
  if (!of_texts(call, 2)) call.give(call.add("Gather", {call.in(2), call.in(1)}));
}
// (handle, flow)
void lower_array_size(TfCall& call) {
  if (of_texts(call, 1)) return call.give(call.outside(0, Type::tensor(DType::int32, {})));
  const ValueId count = call.add("Shape", {call.in(1)}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
  call.give(call.cast(call.as_scalar(count), DType::int32));
}
// All elements behind each other: the first two axes become one.
ValueId concatenated(TfCall& call, ValueId array) {
  const std::int64_t rank = call.rank(array);
  if (rank < 2) throw Unsupported("the elements of an array are scalars");
  const ValueId tail = call.add("Shape", {array}, {{"start", std::int64_t{2}}});
  const ValueId shape = call.add("Concat", {call.ints({-1}), tail}, {{"axis", std::int64_t{0}}});
  return call.add("Reshape", {array, shape});
}
void lower_array_concat(TfCall& call) { call.give(concatenated(call, call.in(1))); }

// ---- TensorList: the list itself is the value

void give_list(TfCall& call, ValueId list) { call.give(0, TfValue{.id = list, .handle = -1, .array = true}); }

// Element shape, number of elements.
void lower_list_reserve(TfCall& call) {
  const DType dtype = call.dtype("element_dtype");
  Type element = Type::tensor(dtype);
  if (call.has_tensor(0)) {
    if (const auto sizes = call.known_ints(call.in(0)); sizes && call.rank(call.in(0)) == 1) {
      Shape shape;
      for (const std::int64_t size : *sizes) shape.push_back(size < 0 ? Dim{} : Dim::of(size));
      element = Type::tensor(dtype, std::move(shape));
    }
  }
  const bool empty = call.op() == "EmptyTensorList";
  give_list(call, new_array(call, empty ? call.scalar(0, DType::int64) : call.in(1), dtype, element));
}
void lower_list_from(TfCall& call) { give_list(call, call.in(0)); }
void lower_list_stack(TfCall& call) { call.give(call.in(0)); }
void lower_list_set(TfCall& call) {
  give_list(call, call.add("finity:ArrayWrite", {call.in(0), call.in(1), call.in(2)}));
}
void lower_list_get(TfCall& call) { call.give(call.add("Gather", {call.in(0), call.in(1)})); }
void lower_list_length(TfCall& call) {
  const ValueId count = call.add("Shape", {call.in(0)}, {{"start", std::int64_t{0}}, {"end", std::int64_t{1}}});
  call.give(call.cast(call.as_scalar(count), DType::int32));
}
void lower_list_concat(TfCall& call) { call.give(concatenated(call, call.in(0))); }
void lower_list_push(TfCall& call) { give_list(call, call.add("finity:ArrayPush", {call.in(0), call.in(1)})); }
void lower_list_pop(TfCall& call) {
  const ValueId list = call.in(0);
  give_list(call, call.add("Slice", {list, call.ints({0}), call.ints({-1}), call.ints({0})}));
  call.give(1, call.add("Gather", {list, call.integer_scalar(-1)}));
}
void lower_list_scatter(TfCall& call) {
  // (tensor, indices, element_shape, num_elements)
  const ValueId values = call.in(0);
  const DType dtype = call.dtype_of(values);
  ValueId size = call.input_count() > 3 ? call.in(3) : ValueId{};
  if (size.valid()) {
    const auto known = call.known_ints(size);
    if (known && known->size() == 1 && known->front() < 0) size = {};
  }
  if (!size.valid()) {
    const ValueId most = call.add("ReduceMax", {call.as_int64(call.in(1))}, {{"keepdims", std::int64_t{0}}});
    size = call.add("Add", {most, call.scalar(1, DType::int64)});
  }
  give_list(call,
            call.add("finity:ArrayScatter", {new_array(call, size, dtype, Type::tensor(dtype)), call.in(1), values}));
}

// ---- stacks

void lower_stack(TfCall& call) {
  State state{.kind = State::Kind::stack, .name = std::string(call.name())};
  state.dtype = call.dtype(call.has_attr("elem_type") ? "elem_type" : "elem_dtype");
  call.give(0, TfValue{.id = {}, .handle = call.importer().add_state(std::move(state))});
}

void lower_push(TfCall& call) {
  call.give(0, call.value(1));
  if (!call.has_tensor(1)) return;
  State& stack = state_of(call, 0);
  stack.of_arrays = call.value(1).array;
  std::vector<OpenLoop>& loops = call.importer().loops();
  Writer& writer = call.importer().writer();
  // What does not change from round to round needs no stack.
  const ValueId pushed = call.in(1);
  stack.same = {};
  if (const Tensor* known = call.known(pushed)) stack.same = call.constant(*known);
  else if (writer.graph().value(pushed).body == Graph::kMain && writer.depth() > 0) stack.same = pushed;
  if (stack.same.valid()) return;
  if (loops.empty() || loops.back().depth != writer.depth())
    throw Unsupported("a push that is not in a loop's own body");
  loops.back().pushed.emplace_back(call.value(0).handle, call.in(1));
}

// In round k of a loop: what was pushed k rounds before the last.
void lower_pop(TfCall& call) {
  const State& stack = state_of(call, 0);
  const std::vector<OpenLoop>& loops = call.importer().loops();
  const Writer& writer = call.importer().writer();
  if (stack.same.valid()) return call.give(0, TfValue{.id = stack.same, .array = stack.of_arrays});
  if (!stack.content.valid() || !writer.visible(stack.content)) throw Unsupported("what was pushed is out of reach");
  if (loops.empty() || loops.back().depth != writer.depth())
    throw Unsupported("a pop that is not in a loop's own body");
  const ValueId back = call.add("Sub", {call.integer_scalar(-1), loops.back().iteration});
  call.give(0, TfValue{.id = call.add("Gather", {stack.content, back}), .array = stack.of_arrays});
}

constexpr Lowering kArrays[] = {
    {"TensorArrayV2", lower_array},
    {"TensorArrayV3", lower_array},
    {"TensorArrayGradV2", lower_array_gradient},
    {"TensorArrayGradV3", lower_array_gradient},
    {"TensorArrayWriteV2", lower_array_write},
    {"TensorArrayWriteV3", lower_array_write},
    {"TensorArrayReadV2", lower_array_read},
    {"TensorArrayReadV3", lower_array_read},
    {"TensorArrayGatherV2", lower_array_read},
    {"TensorArrayGatherV3", lower_array_read},
    {"TensorArrayScatterV2", lower_array_scatter},
    {"TensorArrayScatterV3", lower_array_scatter},
    {"TensorArraySizeV2", lower_array_size},
    {"TensorArraySizeV3", lower_array_size},
    {"TensorArrayConcatV2", lower_array_concat},
    {"TensorArrayConcatV3", lower_array_concat},
    {"TensorListReserve", lower_list_reserve},
    {"EmptyTensorList", lower_list_reserve},
    {"TensorListFromTensor", lower_list_from},
    {"TensorListStack", lower_list_stack},
    {"TensorListSetItem", lower_list_set},
    {"TensorListGetItem", lower_list_get},
    {"TensorListGather", lower_list_get},
    {"TensorListLength", lower_list_length},
    {"TensorListConcat", lower_list_concat},
    {"TensorListConcatV2", lower_list_concat},
    {"TensorListPushBack", lower_list_push},
    {"TensorListPopBack", lower_list_pop},
    {"TensorListScatter", lower_list_scatter},
    {"TensorListScatterV2", lower_list_scatter},
    {"Stack", lower_stack},
    {"StackV2", lower_stack},
    {"StackPush", lower_push},
    {"StackPushV2", lower_push},
    {"StackPop", lower_pop},
    {"StackPopV2", lower_pop},
};

}  // namespace

std::span<const Lowering> array_lowerings() { return kArrays; }

}  // namespace finity::tensorflow

// Variables, by reference or behind a resource: their value when a step begins is a weight of the model, and what is
// assigned to them is a result of the step.
#include "formats/tensorflow/importer.h"
#include "formats/tensorflow/lowering.h"

namespace finity::tensorflow {

namespace {

void lower_variable(TfCall& call) {
  const DType dtype = call.dtype("dtype");
  if (dtype == DType::undefined) throw Unsupported("a variable that holds no tensor");
  Type type = call.shape("shape", dtype);
  // A variable that was made without checking shapes has a scalar's shape.
  const Type declared = call.declared(0);
  if (type.ranked && type.shape.empty() && declared.ranked && !declared.shape.empty()) {
    type = declared;
    type.kind = Type::Kind::tensor;
    type.dtype = dtype;
  }
  call.give(0, call.importer().variable(call.node(), type));
}

// A handle that is not that of a variable of the graph: its value comes from outside.
void lower_read(TfCall& call) {
  if (call.has_tensor(0)) return call.give(call.in(0));
  Type type = call.declared(0);
  type.kind = Type::Kind::tensor;
  type.dtype = call.dtype("dtype");
  if (type.dtype == DType::undefined) throw Unsupported("what it reads is not known");
  call.give(call.outside(0, type));
}

// As many variables as results.
void lower_read_many(TfCall& call) {
  const std::vector<DType> dtypes = call.dtypes("dtypes");
  for (std::size_t i = 0; i < call.input_count(); ++i) {
    if (call.has_tensor(i)) {
      call.give(i, call.in(static_cast<int>(i)));
      continue;
    }
    Type type = call.declared(i);
    type.kind = Type::Kind::tensor;
    type.dtype = i < dtypes.size() ? dtypes[i] : DType::undefined;
    if (type.dtype == DType::undefined) throw Unsupported("what it reads is not known");
    call.give(i, call.outside(i, type));
  }
}

// The variable afterwards; a reference to it goes on.
void give_assigned(TfCall& call, ValueId value) { call.give(0, TfValue{.id = value, .handle = call.value(0).handle}); }

void lower_assign(TfCall& call) {
  if (!call.has_tensor(1)) return;  // restored from a file
  give_assigned(call, call.add("Identity", {call.in(1)}));
}
void lower_assign_add(TfCall& call) { give_assigned(call, call.add("Add", {call.in(0), call.in(1)})); }
void lower_assign_sub(TfCall& call) { give_assigned(call, call.add("Sub", {call.in(0), call.in(1)})); }

// Whoever runs a step has initialised the variables before.
void lower_is_initialized(TfCall& call) { call.give(call.scalar(1, DType::boolean)); }

void lower_variable_shape(TfCall& call) {
  const DType out = call.dtype("out_type");
  call.give(call.cast(call.add("Shape", {call.in(0)}), out == DType::undefined ? DType::int32 : out));
}

constexpr Lowering kState[] = {
    {"Variable", lower_variable},
    {"VariableV2", lower_variable},
    {"AutoReloadVariable", lower_variable},
    {"TemporaryVariable", lower_variable},
    {"VarHandleOp", lower_variable},
    {"ReadVariableOp", lower_read},
    {"_ReadVariablesOp", lower_read_many},
    {"Assign", lower_assign},
    {"AssignVariableOp", lower_assign},
    {"AssignAdd", lower_assign_add},
    {"AssignAddVariableOp", lower_assign_add},
    {"AssignSub", lower_assign_sub},
    {"AssignSubVariableOp", lower_assign_sub},
    {"IsVariableInitialized", lower_is_initialized},
    {"VarIsInitializedOp", lower_is_initialized},
    {"VariableShape", lower_variable_shape},
};

}  // namespace

std::span<const Lowering> state_lowerings() { return kState; }

}  // namespace finity::tensorflow

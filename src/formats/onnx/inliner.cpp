#include <utility>

#include "formats/onnx/graph_reader.h"

namespace finity::onnx {

namespace {

std::string name_of(const Function& function) { return "function '" + qualified(function.domain, function.name) + "'"; }

void check_arity(const NodeFields& call, const Function& function) {
  const auto check = [&](std::size_t given, std::size_t taken, const char* what) {
    if (given <= taken) return;
    throw Error(std::to_string(given) + " " + what + ", " + name_of(function) + " has " + std::to_string(taken));
  };
  check(call.inputs.size(), function.inputs.size(), "inputs");
  check(call.outputs.size(), function.outputs.size(), "outputs");
}

void check_not_recursive(const Function& function, const Scope& scope) {
  for (const Frame* at = scope.frame; at != nullptr; at = at->caller.frame) {
    if (&at->function == &function) throw Error(name_of(function) + " calls itself");
  }
}

}  // namespace

void GraphReader::inline_call(const NodeFields& call, const Function& function, Scope& scope) {
  check_arity(call, function);
  check_not_recursive(function, scope);
  const Level level(nesting_);
  ++inlining_;
  charge(kNodeCost + 8 * (function.inputs.size() + function.outputs.size()));
  const std::size_t first = builder_.value_count();
  const Frame frame = make_frame(call, function, scope);
  Scope inner{.body = scope.body, .frame = &frame, .ops = &ops_.context_of(function)};
  bind_inputs(frame, inner);
  bind_outputs(frame, inner);
  const std::vector<ValueId> outputs = declare_outputs(function.nodes, inner);
  set_types(function.value_infos, first, inner);
  read_nodes(function.nodes, outputs, inner);
  connect_outputs(frame, inner);
  --inlining_;
}

Frame GraphReader::make_frame(const NodeFields& call, const Function& function, Scope& scope) {
  Frame frame{.function = function, .call = call, .caller = scope};
  frame.transparent = function.domain == kVersionDomain && function.nodes.size() == 1;
  frame.prefix = unique_prefix(call, function, scope);
  auto origin = std::make_shared<Origin>();
  if (scope.frame != nullptr && scope.frame->origin) origin->calls = scope.frame->origin->calls;
  const std::string name(function.name);
  origin->calls.push_back(call.name.empty() ? name : std::string(call.name) + " (" + name + ")");
  for (const std::string& outer : origin->calls) charge(outer.size());
  frame.origin = std::move(origin);
  for (const Bytes attribute : call.attributes) {
    const std::string_view argument = attribute_name(attribute, file_);
    charge(static_cast<std::size_t>(argument.data() + argument.size() - as_text(attribute).data()));
    frame.arguments.emplace_back(argument, attribute);
  }
  return frame;
}

std::string GraphReader::unique_prefix(const NodeFields& call, const Function& function, const Scope& scope) {
  std::string wanted(call.name.empty() ? function.name : call.name);
  if (scope.frame != nullptr) wanted = scope.frame->prefix + "/" + wanted;
  charge(wanted.size());
  return prefixes_.make(wanted);
}

// An input the call leaves out is an omitted input of every node that uses it.
void GraphReader::bind_inputs(const Frame& frame, Scope& inner) {
  for (std::size_t i = 0; i < frame.function.inputs.size(); ++i) {
    const ValueId actual = i < frame.call.inputs.size() ? resolve(frame.call.inputs[i], frame.caller) : ValueId{};
    const auto [place, fresh] = inner.names.insert(frame.function.inputs[i]);
    if (!fresh)
      throw Error(name_of(frame.function) + " has two inputs '" + std::string(frame.function.inputs[i]) + "'");
    *place = actual;
  }
}

// The nodes of the function write straight into the values of the caller.
void GraphReader::bind_outputs(const Frame& frame, Scope& inner) {
  for (std::size_t i = 0; i < frame.call.outputs.size(); ++i) {
    if (frame.call.outputs[i].empty()) continue;
    const auto [place, fresh] = inner.bound.insert(frame.function.outputs[i]);
    if (fresh) *place = *frame.caller.names.find(frame.call.outputs[i]);
  }
}

// What no node of the function writes: outputs that are inputs, and outputs listed twice.
void GraphReader::connect_outputs(const Frame& frame, Scope& inner) {
  for (std::size_t i = 0; i < frame.call.outputs.size(); ++i) {
    if (frame.call.outputs[i].empty()) continue;
    const ValueId* source = inner.names.find(frame.function.outputs[i]);
    if (source == nullptr || !source->valid()) {
      throw Error(name_of(frame.function) + " does not produce its output '" + std::string(frame.function.outputs[i]) +
                  "'");
    }
    const ValueId target = *frame.caller.names.find(frame.call.outputs[i]);
    if (*source != target) add_identity(frame, *source, target, inner);
  }
}

void GraphReader::add_identity(const Frame& frame, ValueId from, ValueId to, Scope& inner) {
  const NodeFields identity{.op_type = "Identity"};
  const Meaning& meaning = ops_.find(*inner.ops, identity);
  if (meaning.function != nullptr)
    throw Error(name_of(frame.function) + " returns an input, and Identity is redefined");
  Node node;
  node.op = meaning.op;
  node.op_type = meaning.op_type;
  node.domain = meaning.domain;
  node.version = meaning.version;
  node.inputs = {from};
  node.outputs = {to};
  node.body = inner.body;
  node.where = {.offset = frame.call.offset, .origin = frame.origin};
  builder_.add_node(std::move(node));
}

// The value the enclosing call gives to one of its function's attributes; else the function's default; else nothing.
std::optional<Attr> GraphReader::read_reference(std::string_view name, Scope& scope) {
  if (scope.frame == nullptr)
    throw Error("refers to attribute '" + std::string(name) + "' of a function, outside of functions");
  const Frame& frame = *scope.frame;
  charge(8 * (frame.arguments.size() + frame.function.defaults.size()));
  for (const auto& [argument, message] : frame.arguments) {
    if (argument != name) continue;
    AttributeFields attribute = scan_attribute(message, file_);
    if (!attribute.reference.empty()) return read_reference(attribute.reference, frame.caller);
    return read_value(std::move(attribute), frame.caller);
  }
  for (const auto& [argument, message] : frame.function.defaults) {
    if (argument == name) return read_value(scan_attribute(message, file_), scope);
  }
  return std::nullopt;
}

// A node with its operands and attributes takes 2 * kNodeCost on average.
void GraphReader::charge(std::size_t bytes) {
  if (inlining_ == 0) return;
  spent_ += bytes;
  if (spent_ / (2 * kNodeCost) <= inline_limit_) return;
  throw Error("inlining the model's functions gives more than " + std::to_string(inline_limit_) + " nodes");
}

}  // namespace finity::onnx

#include "ops/table/build_call.h"

#include <optional>

#include "base/error.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity {

BuildCall::BuildCall(OpCall what, Wiring wiring, NodeWriter& writer, std::vector<ValueId> gradients,
                     std::vector<bool> wanted)
    : Call(std::move(what)),
      wiring_(std::move(wiring)),
      writer_(writer),
      gradients_(std::move(gradients)),
      wanted_(std::move(wanted)),
      given_(wiring_.inputs.size() + wiring_.captures.size()) {}

ValueId BuildCall::grad(std::size_t i) {
  if (!has_grad(i)) {
    gradients_.resize(std::max(gradients_.size(), i + 1));
    gradients_[i] = zeros_like(out(i));
  }
  return gradients_[i];
}

void BuildCall::give(std::size_t i, ValueId gradient) {
  if (!wanted(i) || !gradient.valid()) return;
  given_[i] = given_[i].valid() ? sum(given_[i], gradient) : gradient;
}

std::size_t BuildCall::rank(ValueId id) const {
  const Type& type = writer_.type(id);
  if (!type.is_tensor() || !type.ranked) throw Unsupported("a gradient needs the number of axes, which is not known");
  return type.shape.size();
}

DType BuildCall::dtype() const {
  for (const ValueId id : wiring_.outputs) {
    if (id.valid() && is_float(writer_.type(id).dtype)) return writer_.type(id).dtype;
  }
  for (const ValueId id : wiring_.inputs) {
    if (id.valid() && is_float(writer_.type(id).dtype)) return writer_.type(id).dtype;
  }
  throw Unsupported("a gradient needs a float format, which is not known");
}

ValueId BuildCall::add(std::string_view op, std::vector<ValueId> inputs, Attrs attrs) {
  return writer_.add(op, std::move(inputs), std::move(attrs), 1).front();
}

std::vector<ValueId> BuildCall::add_all(std::string_view op, std::vector<ValueId> inputs, std::size_t outputs,
                                        Attrs attrs) {
  return writer_.add(op, std::move(inputs), std::move(attrs), outputs);
}

ValueId BuildCall::scalar(double number, DType dtype) {
  const double one[] = {number};
  return writer_.constant(from_elements<double>(dtype, {}, one));
}

ValueId BuildCall::ints(std::vector<std::int64_t> numbers) {
  const Dims dims = {static_cast<std::int64_t>(numbers.size())};
  return writer_.constant(from_elements<std::int64_t>(DType::int64, dims, numbers));
}

ValueId BuildCall::cast(ValueId value, DType dtype) {
  if (type(value).dtype == dtype) return value;
  Attrs attrs;
  attrs.set("to", static_cast<std::int64_t>(dtype));
  return add("Cast", {value}, std::move(attrs));
}

std::vector<ValueId> BuildCall::derive(std::span<const ValueId> outputs, std::span<const ValueId> gradients,
                                       std::span<const ValueId> wanted) const {
  if (!derive_) throw Unsupported("the gradient of a definition was asked for outside of a gradient");
  return derive_(outputs, gradients, wanted);
}

void BuildCall::give_through(std::span<const ValueId> outputs) {
  std::vector<ValueId> results, arriving, sources;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].valid() || !has_grad(i)) continue;
    results.push_back(outputs[i]);
    arriving.push_back(gradients_[i]);
  }
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < wanted_.size(); ++i) {
    if (!wanted_[i]) continue;
    places.push_back(i);
    sources.push_back(i < wiring_.inputs.size() ? wiring_.inputs[i] : wiring_.captures[i - wiring_.inputs.size()]);
  }
  // An operand that is given twice has one gradient, not one for each place.
  std::vector<ValueId> distinct;
  for (const ValueId source : sources) {
    if (std::ranges::find(distinct, source) == distinct.end()) distinct.push_back(source);
  }
  const std::vector<ValueId> flowing = derive(results, arriving, distinct);
  for (std::size_t i = 0; i < distinct.size(); ++i) {
    const auto place = std::ranges::find(sources, distinct[i]) - sources.begin();
    give(places[static_cast<std::size_t>(place)], flowing[i]);
  }
}

ValueId filled_like(NodeWriter& writer, ValueId value, double number) {
  const Type::Kind kind = writer.type(value).kind;
  if (kind == Type::Kind::optional) throw Unsupported("an optional may hold nothing");
  if (kind == Type::Kind::sequence && number != 0) throw Unsupported("numbers in sequences of unknown length");
  if (kind == Type::Kind::sequence) return writer.add("finity:SequenceZeros", {value}, {}, 1).front();
  const DType dtype = writer.type(value).dtype;
  const std::optional<Dims> dims = writer.type(value).dims();
  const double one[] = {number};
  if (dims && dims->empty()) return writer.constant(from_elements<double>(dtype, {}, one));
  const ValueId shape = dims ? writer.constant(Tensor::vector_of(*dims)) : writer.add("Shape", {value}, {}, 1).front();
  Attrs attrs;
  attrs.set("value", make_constant(from_elements<double>(dtype, {1}, one)));
  return writer.add("ConstantOfShape", {shape}, std::move(attrs), 1).front();
}

void flat(BuildCall&) {}

void zero_slope(BuildCall& call) {
  if (call.wanted(0)) call.give(0, call.zeros_like(call.in(0)));
}

}  // namespace finity

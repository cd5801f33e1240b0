#include "ops/table/range_call.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "ops/shared/lengths.h"
#include "ops/table/op.h"
#include "tensor/convert.h"

namespace finity {

RangeCall::RangeCall(OpCall what, std::vector<Operand> in, std::vector<const Type*> out_types,
                     const RangeSettings& settings, Symbols& symbols, RunBody run_body)
    : Call(std::move(what)),
      in_(std::move(in)),
      out_types_(std::move(out_types)),
      settings_(settings),
      symbols_(symbols),
      run_body_(std::move(run_body)),
      out_(output_count()),
      given_(output_count(), false) {}

const AbsTensor& RangeCall::in(std::size_t i) const {
  if (!has_range(i)) throw Error("input " + std::to_string(i) + " is missing");
  return *in_[i].range;
}

const Type& RangeCall::in_type(std::size_t i) const {
  static const Type kUnknown;
  return i < in_.size() && in_[i].type != nullptr ? *in_[i].type : kUnknown;
}

const Tensor* RangeCall::value(std::size_t i, std::int64_t limit) {
  if (i >= in_.size()) return nullptr;
  if (in_[i].value != nullptr) return in_[i].value;
  if (in_[i].range != nullptr && in_[i].range->exact) return in_[i].range->exact.get();
  const ConstantPtr& constant = in_[i].constant;
  if (!constant || !constant->missing().empty() || element_count(constant->dims()) > limit) return nullptr;
  loaded_.push_back(std::make_shared<const Tensor>(constant->load()));
  in_[i].value = loaded_.back().get();
  return in_[i].value;
}

std::optional<std::vector<std::int64_t>> RangeCall::ints(std::size_t i) {
  constexpr std::int64_t kFew = 1 << 16;
  const Tensor* tensor = value(i, kFew);
  if (tensor == nullptr || !(is_int(tensor->dtype()) || tensor->dtype() == DType::boolean)) return std::nullopt;
  return elements<std::int64_t>(*tensor);
}

void RangeCall::out(std::size_t i, AbsTensor result) {
  if (!has_output(i)) return;
  out_[i] = std::move(result);
  // What a rule copied from an operand by accident must not be believed; same() and the engine set them.
  out_[i].identity = {};
  out_[i].exact.reset();
  out_[i].rows.reset();
  given_[i] = true;
}

void RangeCall::besides(std::size_t i, const Range& flags) {
  if (!has_output(i)) return;
  besides_.resize(output_count());
  besides_[i] = join(besides_[i], flags);
}

void RangeCall::add_besides() {
  for (std::size_t i = 0; i < besides_.size(); ++i) {
    if (!given_[i] || besides_[i].is_empty()) continue;
    for (Range& cell : out_[i].cells) cell = join(cell, besides_[i]);
  }
}

void RangeCall::same(std::size_t i, std::size_t j) {
  out(i, in(j));
  if (!has_output(i)) return;
  out_[i].identity = in(j).identity;
  out_[i].exact = in(j).exact;
  out_[i].rows = in(j).rows;
}

void RangeCall::site(std::string_view rule, int operand, const Range& seen, bool possible, bool certain) {
  sites_.push_back({.rule = rule, .operand = operand, .seen = seen, .possible = possible, .certain = certain});
}

bool RangeCall::not_below(std::size_t whole, std::size_t part) const {
  return hooks_.not_below && hooks_.not_below(whole, part);
}

double RangeCall::length(std::size_t i, const Rows& rows) const {
  if (!has_range(i)) return kInf;
  return hooks_.length ? hooks_.length(i, rows) : length_by_elements(in(i), rows);
}

AbsTensor RangeCall::assuming(std::size_t i, std::size_t condition, bool truth) const {
  return hooks_.assuming ? hooks_.assuming(i, condition, truth) : in(i);
}

std::vector<AbsTensor> RangeCall::run_body(BodyId body, std::span<const AbsTensor> inputs) {
  if (!run_body_) throw Unsupported("has a subgraph");
  return run_body_(body, inputs);
}

std::vector<AbsTensor> RangeCall::probe_body(BodyId body, std::span<const AbsTensor> inputs) {
  return hooks_.probe_body ? hooks_.probe_body(body, inputs) : run_body(body, inputs);
}

std::vector<AbsTensor> RangeCall::run_branch(BodyId body, std::size_t condition, bool truth) {
  return hooks_.run_branch ? hooks_.run_branch(body, condition, truth) : run_body(body, {});
}

int RangeCall::ulps() const {
  const Grants& grants = op().analysis.grants;
  return settings_.runtime == Runtime::exact ? 0 : std::max(grants.specified.ulps, grants.measured.ulps);
}

bool RangeCall::may(Way way) const {
  const Grants& grants = op().analysis.grants;
  if (settings_.runtime == Runtime::exact) return false;
  return grants.ways.has(way) || (settings_.runtime == Runtime::any && grants.elsewhere.has(way));
}

Upstream RangeCall::upstream(std::size_t i) const {
  const bool known = hooks_.around != nullptr && has_input(i) && i < hooks_.inputs.size();
  return known ? Upstream(*hooks_.around, hooks_.inputs[i]) : Upstream();
}

const AbsTensor* RangeCall::range_of(ValueId value) const {
  const bool known = hooks_.around != nullptr && hooks_.around->range_of != nullptr;
  return known ? hooks_.around->range_of(value) : nullptr;
}

std::vector<DType> RangeCall::accumulators(DType dtype) const {
  if (dtype == DType::float64 || !is_float(dtype)) return {dtype};
  if (dtype == DType::float32) return {DType::float32};
  if (settings_.accumulate == DType::float32) return {DType::float32};
  if (settings_.accumulate == DType::undefined) return {dtype, DType::float32};
  return {dtype};
}

}  // namespace finity

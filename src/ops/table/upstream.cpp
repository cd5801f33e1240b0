#include "ops/table/upstream.h"

namespace finity {

const Node* Upstream::node() const {
  const NodeId id = value_.valid() ? around_->graph.value(value_).producer : NodeId{};
  return id.valid() ? &around_->graph.node(id) : nullptr;
}

const OpDef* Upstream::op() const {
  const Node* made_by = node();
  return made_by != nullptr ? made_by->op : nullptr;
}

std::size_t Upstream::input_count() const {
  const Node* made_by = node();
  return made_by != nullptr ? made_by->inputs.size() : 0;
}

Upstream Upstream::input(std::size_t i) const {
  const Node* made_by = node();
  if (made_by == nullptr || i >= made_by->inputs.size()) return {};
  return {*around_, made_by->inputs[i]};
}

const AbsTensor* Upstream::range() const {
  return value_.valid() && around_->range_of ? around_->range_of(value_) : nullptr;
}

bool Upstream::is_weight() const { return value_.valid() && around_->graph.value(value_).constant != nullptr; }

}  // namespace finity

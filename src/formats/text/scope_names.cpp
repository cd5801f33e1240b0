#include "formats/text/scope_names.h"

#include <utility>

namespace finity::textform {

ScopeNames::ScopeNames(const Graph& graph) : graph_(graph), scopes_(graph.bodies().size()) {
  enter_definitions();
  check_uses();
}

const std::string& ScopeNames::of(ValueId id) const {
  const auto found = renamed_.find(id);
  return found == renamed_.end() ? graph_.value(id).name : found->second;
}

void ScopeNames::enter_definitions() {
  std::vector<ValueId> unnamed;
  const auto enter = [&](ValueId id) {
    if (!id.valid()) return;
    const Value& value = graph_.value(id);
    const auto [entry, fresh] = scopes_[value.body.at()].try_emplace(value.name, id);
    if (value.name.empty() || (!fresh && entry->second != id)) unnamed.push_back(id);
  };
  for (const Body& body : graph_.bodies()) {
    for (const ValueId id : body.inputs) enter(id);
    for (const ValueId id : body.constants) enter(id);
  }
  for (const Node& node : graph_.nodes()) {
    for (const ValueId id : node.outputs) enter(id);
  }
  for (const ValueId id : unnamed) rename(id);
}

void ScopeNames::check_uses() {
  const auto check = [&](ValueId id, BodyId from) {
    if (id.valid() && !renamed_.contains(id) && resolve(graph_.value(id).name, from) != id) rename(id);
  };
  for (const Node& node : graph_.nodes()) {
    for (const ValueId input : node.inputs) check(input, node.body);
  }
  for (std::size_t i = 0; i < graph_.bodies().size(); ++i) {
    const BodyId body{static_cast<std::int32_t>(i)};
    for (const ValueId output : graph_.body(body).outputs) check(output, body);
  }
}

ValueId ScopeNames::resolve(std::string_view name, BodyId from) const {
  while (true) {
    const auto& scope = scopes_[from.at()];
    if (const auto found = scope.find(name); found != scope.end()) return found->second;
    const NodeId owner = graph_.body(from).owner;
    if (!owner.valid()) return {};
    from = graph_.node(owner).body;
  }
}

void ScopeNames::rename(ValueId id) {
  if (taken_.empty()) {
    for (const Value& value : graph_.values()) taken_.insert(value.name);
  }
  const std::string& name = graph_.value(id).name;
  const std::string stem = (name.empty() ? "value" : name) + "." + std::to_string(id.index);
  std::string fresh = stem;
  for (int attempt = 2; !taken_.insert(fresh).second; ++attempt) fresh = stem + "." + std::to_string(attempt);
  renamed_.insert_or_assign(id, std::move(fresh));
}

}  // namespace finity::textform

#include "graph/builder.h"

#include <algorithm>
#include <iterator>
#include <queue>

#include "base/error.h"
#include "graph/users.h"

namespace finity {

GraphBuilder::GraphBuilder() : interned_(std::make_shared<Interned>()) { graph_.interned_ = interned_; }

GraphBuilder::GraphBuilder(const Graph& graph) : graph_(graph), interned_(std::make_shared<Interned>()) {
  interned_->earlier = graph.interned_;
  graph_.interned_ = interned_;
  for (std::size_t i = 0; i < graph.symbols().size(); ++i) {
    symbols_.emplace(graph.symbols()[i], SymbolId{static_cast<std::int32_t>(i)});
  }
}

void GraphBuilder::reserve(std::size_t nodes, std::size_t values) {
  graph_.nodes_.reserve(nodes);
  graph_.values_.reserve(values);
}

BodyId GraphBuilder::add_body(std::string name) {
  graph_.bodies_.push_back({.name = std::move(name)});
  return {static_cast<std::int32_t>(graph_.bodies_.size() - 1)};
}

ValueId GraphBuilder::add_value(BodyId body, std::string name, Type type) {
  graph_.values_.push_back(
      {.name = std::move(name), .type = std::move(type), .producer = {}, .body = body, .constant = nullptr});
  return {static_cast<std::int32_t>(graph_.values_.size() - 1)};
}

ValueId GraphBuilder::add_input(BodyId body, std::string name, Type type) {
  const ValueId id = add_value(body, std::move(name), std::move(type));
  this->body(body).inputs.push_back(id);
  return id;
}

ValueId GraphBuilder::add_constant(BodyId body, std::string name, ConstantPtr constant) {
  const ValueId id = add_value(body, std::move(name), Type::tensor_of(constant->dtype(), constant->dims()));
  value(id).constant = std::move(constant);
  this->body(body).constants.push_back(id);
  return id;
}

NodeId GraphBuilder::add_node(Node node) {
  const NodeId id{static_cast<std::int32_t>(graph_.nodes_.size())};
  for (const ValueId output : node.outputs) {
    if (!output.valid()) continue;
    Value& produced = value(output);
    if (produced.producer.valid() || produced.constant) {
      throw Error(describe(graph_, node) + ": value '" + produced.name + "' is defined twice");
    }
    produced.producer = id;
  }
  for (const BodyId owned : bodies_of(node.attrs)) body(owned).owner = id;
  body(node.body).nodes.push_back(id);
  graph_.nodes_.push_back(std::move(node));
  return id;
}

std::string_view GraphBuilder::intern(std::string_view text) { return *interned_->texts.emplace(text).first; }

SymbolId GraphBuilder::symbol(std::string_view name) {
  const auto [place, fresh] =
      symbols_.try_emplace(std::string(name), SymbolId{static_cast<std::int32_t>(symbols_.size())});
  if (fresh) graph_.symbols_.emplace_back(name);
  return place->second;
}

void GraphBuilder::drop_unneeded() {
  std::vector<bool> needed_node(graph_.nodes_.size(), false), needed(graph_.values_.size(), false);
  std::vector<ValueId> open = graph_.bodies_.front().outputs;
  while (!open.empty()) {
    const ValueId id = open.back();
    open.pop_back();
    if (!id.valid() || needed[id.at()]) continue;
    needed[id.at()] = true;
    const NodeId producer = value(id).producer;
    if (!producer.valid() || needed_node[producer.at()]) continue;
    needed_node[producer.at()] = true;
    std::ranges::copy(node(producer).inputs, std::back_inserter(open));
    std::ranges::copy(node(producer).captures, std::back_inserter(open));
  }
  Body& main = graph_.bodies_.front();
  std::erase_if(main.nodes, [&](NodeId id) { return !needed_node[id.at()]; });
  std::erase_if(main.constants, [&](ValueId id) { return !needed[id.at()]; });
}

Graph GraphBuilder::build() && {
  if (graph_.bodies_.empty()) throw Error("the model has no graph");
  check_defined();
  find_captures();
  for (Body& body : graph_.bodies_) order_nodes(body);
  return std::move(graph_);
}

void GraphBuilder::check_defined() const {
  std::vector<bool> defined(graph_.values_.size(), false);
  for (std::size_t i = 0; i < defined.size(); ++i) {
    defined[i] = graph_.values_[i].producer.valid() || graph_.values_[i].constant != nullptr;
  }
  for (const Body& body : graph_.bodies_) {
    for (const ValueId input : body.inputs) defined[input.at()] = true;
  }
  for (const Node& node : graph_.nodes_) {
    for (const ValueId input : node.inputs) {
      if (input.valid() && !defined[input.at()]) {
        throw Error(describe(graph_, node) + ": input '" + graph_.value(input).name + "' is not defined anywhere");
      }
    }
  }
  for (const Body& body : graph_.bodies_) {
    for (const ValueId output : body.outputs) {
      if (output.valid() && !defined[output.at()]) {
        throw Error("graph '" + body.name + "': output '" + graph_.value(output).name + "' is not defined anywhere");
      }
    }
  }
}

// A body is created after its parent, so going backwards sees inner captures before the outer node collects them. A
// node may have been changed since its captures were found, so all are found anew.
void GraphBuilder::find_captures() {
  for (std::size_t i = graph_.bodies_.size(); i-- > 0;) {
    for (const NodeId id : graph_.bodies_[i].nodes) node(id).captures = captures_of(graph_, node(id).attrs);
  }
}

// Kahn's algorithm that keeps the file's order among nodes that are ready.
void GraphBuilder::order_nodes(Body& body) {
  bool ordered = true;
  const BodyId here{static_cast<std::int32_t>(&body - graph_.bodies_.data())};
  const auto local_producer = [&](ValueId used) -> NodeId {
    if (!used.valid()) return {};
    const Value& value = graph_.value(used);
    return value.body == here ? value.producer : NodeId{};
  };
  // Files are nearly always in order already: then every producer has a smaller id, as ids follow the file.
  for (const NodeId id : body.nodes) {
    const auto later = [&](ValueId used) { return local_producer(used) >= id; };
    const Node& node = graph_.node(id);
    if (std::ranges::any_of(node.inputs, later) || std::ranges::any_of(node.captures, later)) {
      ordered = false;
      break;
    }
  }
  if (ordered) return;

  std::unordered_map<NodeId, int> waiting;
  std::unordered_map<NodeId, std::vector<NodeId>> users;
  for (const NodeId id : body.nodes) {
    const auto depend = [&](ValueId used) {
      const NodeId producer = local_producer(used);
      if (!producer.valid()) return;
      users[producer].push_back(id);
      ++waiting[id];
    };
    std::ranges::for_each(graph_.node(id).inputs, depend);
    std::ranges::for_each(graph_.node(id).captures, depend);
  }
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (const NodeId id : body.nodes) {
    if (!waiting.contains(id)) ready.push(id);
  }
  std::vector<NodeId> order;
  while (!ready.empty()) {
    const NodeId id = ready.top();
    ready.pop();
    order.push_back(id);
    for (const NodeId user : users[id]) {
      if (--waiting[user] == 0) ready.push(user);
    }
  }
  if (order.size() != body.nodes.size()) {
    const auto stuck = std::ranges::find_if(body.nodes, [&](NodeId id) { return waiting[id] > 0; });
    throw Error(describe(graph_, graph_.node(*stuck)) + ": is part of a cycle");
  }
  body.nodes = std::move(order);
}

}  // namespace finity

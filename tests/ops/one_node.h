// One node on its own: its range rule and its evaluation, for tests of rules.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "graph/builder.h"
#include "ops/table/op.h"
#include "ops/table/range_call.h"
#include "types/infer.h"

namespace finity {

class OneNode {
 public:
  struct Abstract {
    std::vector<AbsTensor> outputs = {};
    std::vector<Site> sites = {};

    bool warns() const {
      for (const Site& site : sites) {
        if (site.possible) return true;
      }
      return false;
    }
  };

  // Inputs of unknown kind are omitted.
  OneNode(const OpDef& op, int version, Attrs attrs, const std::vector<Type>& inputs, std::size_t outputs = 1) {
    GraphBuilder builder;
    const BodyId body = builder.add_body("g");
    Node node;
    node.op = &op;
    node.op_type = builder.intern(op.identity.name);
    node.domain = builder.intern(op.identity.domain);
    node.version = version;
    node.attrs = std::move(attrs);
    node.body = body;
    builder.info().opsets[std::string(op.identity.domain)] = version;
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const bool given = inputs[i].kind != Type::Kind::unknown;
      node.inputs.push_back(given ? builder.add_input(body, "in" + std::to_string(i), inputs[i]) : ValueId{});
    }
    for (std::size_t i = 0; i < outputs; ++i) {
      node.outputs.push_back(builder.add_value(body, "out" + std::to_string(i)));
      builder.add_output(body, node.outputs.back());
    }
    builder.add_node(std::move(node));
    graph_ = std::move(builder).build();
    types_ = infer_types(graph_);
  }

  const Node& node() const { return graph_.nodes().front(); }
  const Type& out_type(std::size_t i = 0) const { return types_[node().outputs[i]]; }

  Abstract ranges(std::vector<AbsTensor> operands, const RangeSettings& settings = {}) const {
    Symbols symbols;
    return ranges(std::move(operands), symbols, settings);
  }
  Abstract ranges(std::vector<AbsTensor> operands, Symbols& symbols, const RangeSettings& settings = {}) const {
    std::vector<RangeCall::Operand> given(operands.size());
    std::vector<const Type*> types;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (!node().inputs[i].valid()) continue;
      given[i] = {.range = &operands[i], .type = &types_[node().inputs[i]]};
    }
    for (std::size_t i = 0; i < node().outputs.size(); ++i) types.push_back(&out_type(i));
    RangeCall call(call_of(graph_, node()), given, types, settings, symbols);
    node().op->analysis.range(call);
    return {.outputs = std::move(call.outs()), .sites = std::move(call.sites())};
  }
  // The rule on operands of one cell each.
  Range range(const std::vector<Range>& operands, const RangeSettings& settings = {}) const {
    std::vector<AbsTensor> tensors(operands.size());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (node().inputs[i].valid()) tensors[i] = uniform(types_[node().inputs[i]], operands[i]);
    }
    return ranges(std::move(tensors), settings).outputs[0].hull();
  }

  std::vector<Datum> eval(const std::vector<Datum>& inputs, std::uint64_t seed = 0) const {
    Rng rng(seed);
    EvalCall call(call_of(graph_, node()), inputs, rng);
    node().op->meaning.eval(call);
    return std::move(call.outs());
  }

 private:
  Graph graph_;
  Types types_;
};

}  // namespace finity

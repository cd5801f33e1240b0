// Small helpers of the checker's tests: a graph from text, and everything up to its analysis.
#pragma once

#include <string>
#include <string_view>

#include "check/analyze.h"
#include "check/contract.h"
#include "formats/text/text.h"
#include "types/infer.h"

namespace finity {

struct Checked {
  Graph graph = {};
  Types types = {};
  Contract contract = {};
  Premises premises = {};
  Analysis analysis = {};

  ValueId value(std::string_view name) const {
    for (std::size_t i = 0; i < graph.values().size(); ++i) {
      if (graph.values()[i].name == name) return {static_cast<std::int32_t>(i)};
    }
    throw Error("no value named " + std::string(name));
  }
  const AbsTensor& premise(std::string_view name) const {
    if (!premises.of[value(name).at()]) throw Error("nothing is assumed of " + std::string(name));
    return *premises.of[value(name).at()];
  }
  Range range(std::string_view name) const { return analysis.ranges[value(name).at()].hull(); }
  const Finding* finding(std::string_view node_result, std::string_view rule) const {
    for (const Finding& finding : analysis.findings) {
      if (finding.rule == rule && finding.node == graph.value(value(node_result)).producer) return &finding;
    }
    return nullptr;
  }
};

inline Checked premises_of(Graph graph, Contract contract = {}, std::size_t max_cells = 64) {
  Checked checked;
  checked.graph = std::move(graph);
  checked.contract = std::move(contract);
  checked.types = infer_types(checked.graph);
  checked.premises = premises(checked.graph, checked.types, checked.contract, max_cells);
  return checked;
}

inline Checked checked(Graph graph, Contract contract = {}) {
  Checked result = premises_of(std::move(graph), std::move(contract));
  result.analysis = analyze(result.graph, result.types, result.premises);
  return result;
}

inline Contract ranges(std::initializer_list<std::string_view> texts) {
  Contract contract = {};
  for (const std::string_view text : texts) add_range(contract, text);
  return contract;
}

}  // namespace finity

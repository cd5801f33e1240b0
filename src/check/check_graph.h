// A graph from its contract to its findings: conversion, premises, analysis, and
// what is said about constants and inputs. The command line, the tests and other
// engines all check a model with this one call.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "check/analyze.h"
#include "check/compat.h"

namespace finity {

// The backward pass is checked too: gradients of a loss.
struct Training {
  std::string loss = {};             // an output; "": the only float one
  std::vector<std::string> by = {};  // inputs and weights, by name or glob; empty: all but single numbers
};

struct GraphCheckOptions {
  CheckOptions analysis = {};
  std::optional<Training> training = {};
  Bindings bindings = {};
  DType target = DType::undefined;  // of a conversion (--as); undefined: the model as it is
  CompatSet compat = {};            // what is taken for granted though it does not hold
  // A declaration that speaks of nothing in the model is an error. Otherwise it is listed, for runs over several
  // models.
  bool all_names_match = true;
};

struct CheckedGraph {
  // Converted, and with the backward pass, when that was asked for; ids of nodes and values are those of the file.
  Graph graph = {};
  Types types = {};
  Graph original = {};  // as given, only when it was converted
  Types original_types = {};
  std::string trained = {};  // "gradient of 'loss' by 4 weights"; "": forward pass only
  Premises premises = {};
  Analysis analysis = {};        // findings about constants and inputs included
  std::vector<Note> notes = {};  // of converting, typing and assuming
  Bindings bindings = {};        // those that speak of this model
  std::vector<Unmatched> unmatched = {};
};

// Throws Error naming the node or the declaration when the model contradicts itself or the contract.
CheckedGraph check_graph(Graph graph, const Contract& contract, const GraphCheckOptions& options = {});

}  // namespace finity

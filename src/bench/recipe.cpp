#include "bench/recipe.h"

#include <algorithm>
#include <cmath>

#include "formats/text/text.h"
#include "program/data.h"

namespace finity {

namespace {

ProgramInput input_of(const Feed& feed, const DigitData& digits) {
  ProgramInput input = feed.input;
  if (feed.source == Feed::Source::images) {
    input.data = rescaled(digits.images, 0, 1, input.range->lo, input.range->hi);
  }
  if (feed.source == Feed::Source::labels) input.data = digits.labels;
  if (feed.one_hot > 0) input.data = one_hot(input.data, feed.one_hot);
  return input;
}

}  // namespace

Program program_of(const Recipe& recipe, const DigitData& digits, const std::string& name) {
  Program program;
  program.name = name;
  program.graph = std::make_shared<const Graph>(parse_graph(recipe.model, name));
  program.batch = recipe.batch;
  program.loss = "loss";
  program.watch = {recipe.watch};
  program.flush_subnormals = recipe.flush_subnormals;
  for (const Feed& feed : recipe.feeds) program.inputs.push_back(input_of(feed, digits));
  for (const TrainedWeight& trained : recipe.weights) {
    program.weights.push_back(trained.weight);
    program.weights.back().reach = trained.reach;
  }
  program.optimiser = recipe.optimiser;
  settle(program);
  return program;
}

Contract contract_of(const Recipe& recipe) {
  Contract contract;
  const auto declare = [&](const std::string& name, double lo, double hi, bool whole) {
    const auto end = [](double x) { return std::isinf(x) ? std::copysign(kMostFinite, x) : x; };
    contract.inputs.push_back({.pattern = name, .lo = end(lo), .hi = end(hi), .integer = whole, .origin = "the bench"});
  };
  for (const Feed& feed : recipe.feeds) {
    declare(feed.input.name, feed.input.range->lo, feed.input.range->hi, feed.whole);
  }
  for (const TrainedWeight& trained : recipe.weights) {
    declare(trained.weight.name, -trained.reach, trained.reach, false);
  }
  return contract;
}

}  // namespace finity

// What is assumed of a model's inputs and weights. A Contract is what the user
// declared (command line, TOML file); premises() turns it into one abstract tensor
// per input and weight of a graph, and says in words what was assumed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "domain/abs_tensor.h"
#include "graph/graph.h"
#include "types/infer.h"

namespace finity {

enum class WeightMode : std::uint8_t { trained, initial, any };

struct InputContract {
  std::string pattern = {};  // glob over input and weight names
  std::optional<double> lo = {}, hi = {};
  bool integer = false;               // only integers
  bool allow_nan = false;             // may hold NaN
  bool allow_inf = false;             // may hold infinities
  std::vector<double> values = {};    // exactly one of these
  std::optional<int> one_true_axis = {};  // masks: at least one true (non-zero) element in every row along this axis
  std::optional<int> sums_to_one_axis = {};  // nonnegative rows that sum to one (within float error)
  std::map<std::int64_t, std::pair<double, double>> columns = {};  // ranges of single columns of the last axis
  std::string origin = {};            // "--range", "contract.toml:12", for messages
};

// left >= right between inputs, or between columns of the last axis of one input ("boxes[2]").
struct OrderContract {
  std::string greater = {};
  std::string smaller = {};
  std::string origin = {};
};

struct Contract {
  std::vector<InputContract> inputs = {};
  std::vector<OrderContract> orders = {};
  WeightMode weights = WeightMode::trained;
};

// "x:[0,1]", "x:[-inf,5]", "'*':[-50,50]": adds to the contract. Throws Error on bad syntax.
void add_range(Contract& contract, std::string_view text);
// TOML; see docs/contracts.md. Throws Error naming file, line and reason.
Contract read_contract(const std::string& path);

struct Premises {
  std::vector<std::optional<AbsTensor>> of;  // by ValueId: inputs and weights that are not exact
  std::vector<std::string> assumptions;      // "x: guessed [-50, 50] (float32, nothing declared)"
  std::vector<Note> notes;                   // patterns that match nothing, ...
};

Premises premises(const Graph& graph, const Types& types, const Contract& contract, std::size_t max_cells);

// Case-sensitive glob with * and ?.
bool matches_glob(std::string_view pattern, std::string_view text);

}  // namespace finity

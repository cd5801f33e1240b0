// What is assumed of a model's inputs and weights. A Contract is what the user
// declared (command line, TOML file); premises() turns it into one abstract tensor
// per input and weight of a graph, and says in words what was assumed.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "domain/abs_tensor.h"
#include "graph/graph.h"
#include "types/infer.h"

namespace finity {

enum class WeightMode : std::uint8_t { trained, initial, any };
std::string_view name(WeightMode mode);
// Throws Error naming the three choices.
WeightMode weight_mode_from_name(std::string_view name);

// An end of a declared range that stands for the largest finite value of whatever dtype the input has.
inline constexpr double kMostFinite = std::numeric_limits<double>::max();

struct InputContract {
  std::string pattern = {};                  // glob over input and weight names; "*" alone speaks of all inputs
  std::optional<double> lo = {}, hi = {};    // an infinite end means that the infinity is a possible value
  bool integer = false;                      // only integers
  bool allow_nan = false;                    // may hold NaN
  bool allow_inf = false;                    // may hold infinities
  std::vector<double> values = {};           // exactly one of these
  std::optional<int> one_true_axis = {};     // masks: at least one true (positive) element in every row along this axis
  std::optional<int> one_zero_axis = {};     // additive masks (0 or very negative): at least one zero in every row
  std::optional<int> sums_to_one_axis = {};  // nonnegative rows that sum to one (within float error)
  std::map<std::int64_t, std::pair<double, double>> columns = {};  // ranges of single columns of the last axis
  std::string origin = {};                                         // "--range", "contract.toml:12", for messages
  bool may_match_nothing = false;                                  // patterns in settings that many models share
};

// greater >= smaller between inputs, or between columns of the last axis of one input ("boxes[2]").
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
void add_range(Contract& contract, std::string_view text, std::string_view option = "--range");
// "b >= a", "boxes[0] <= boxes[2]": adds to the contract. Throws Error on bad syntax.
void add_order(Contract& contract, std::string_view text, std::string origin);
// TOML; see docs/contracts.md. Throws Error naming file, line and reason.
Contract read_contract(const std::string& path);
Contract parse_contract(std::string_view text, const std::string& file);

// Column `greater` of the last axis is at least column `smaller`, row by row.
struct ColumnOrder {
  ValueId value = {};
  std::int64_t greater = 0;
  std::int64_t smaller = 0;
};

// A declared range that the input's format cannot hold: such values are infinite before the model starts.
// The premise holds the finite part; see input_findings() in check/constants.h.
struct TooWide {
  ValueId value = {};
  Range declared = {};
};

// A declaration that speaks of nothing in this model. Another model of the same run may have it.
struct Unmatched {
  std::string declaration = {};  // "--range img:[0,1]", "contract.toml:12"; the same for all models
  std::string name = {};
  std::string text = {};  // "the model has no input or weight named 'img' (did you mean 'image'?)"
};

// An input that nobody declared.
struct GuessedInput {
  ValueId value = {};
  Range range = {};
  bool complete = false;  // nothing that the model can take lies outside: not worth a word
};

struct Premises {
  std::vector<std::shared_ptr<AbsTensor>> of = {};  // by ValueId: inputs and weights that are not exact; else null
  std::vector<ColumnOrder> column_orders = {};      // for apply_orders()
  std::vector<TooWide> too_wide = {};
  std::vector<ValueId> missing = {};          // weights whose numbers are not there; what depends on them is not known
  std::vector<std::string> assumptions = {};  // "x: assumed [-50, 50] (float32; nothing declared, use ...)"
  std::vector<GuessedInput> guesses = {};     // inputs that nobody declared
  std::vector<Unmatched> unmatched = {};      // declarations that speak of nothing
  std::vector<Note> notes = {};               // ranges that were cut, weights that are missing
};

// Throws Error when a declaration contradicts itself, the input's type, or another declaration.
Premises premises(const Graph& graph, const Types& types, const Contract& contract, std::size_t max_cells);

// For the engine, when it has given the cells of an input their symbols: a greater column becomes
// "smaller column + something that is not negative". Does nothing where there is no such order.
void apply_orders(const Premises& premises, ValueId id, AbsTensor& x, Symbols& symbols);

// What an undeclared input is taken to be, from its dtype, name, shape and uses.
struct Guess {
  Range range = {};
  std::string why = {};   // "float32", "int64, indexes an axis of size 100"
  bool complete = false;  // nothing that the model can take lies outside
};
// Sizes of the axes that main inputs index (through casts and reshapes), by ValueId; -1: none.
std::vector<std::int64_t> indexed_sizes(const Graph& graph, const Types& types);
Guess guess_range(std::string_view name, const Type& type, std::int64_t indexed_size);

// Case-sensitive glob with * and ?.
bool matches_glob(std::string_view pattern, std::string_view text);
bool is_glob(std::string_view pattern);

}  // namespace finity

// Cases of the checker, testdata/check/*.txt:
//
//   opset 17                                  // for the cases that follow
//   case log of a shifted square              // the title is the test's name
//     each  T        eps                      // optional: one test per row, $T and $eps are replaced
//     |     float32  1e-6
//     |     float64  1e-12
//     input x: $T[2, 4] in [-3, 3]            // becomes an input of the graph and a line of the contract
//     const eps: $T[] = {$eps}                // anything else is a statement of the graph (docs/text-form.md)
//     s = Mul(x, x)
//     y = Add(s, eps)
//     z = Log(y)
//     proved z FN102                          // a node is called by one of its results
//
// After an input's type may stand: in [lo, hi], in {v, ...}, integer, may-nan, may-inf, one-true AXIS,
// sums-to-one AXIS, column K [lo, hi]. Further lines:
//
//   declare w in [0, 1]                         the same for a weight
//   order a >= b                                a relation between inputs, or columns: boxes[2] >= boxes[0]
//   output l                                    an output besides the results that nothing uses
//   weights trained|initial|any
//   option max_cells|affine|flush_subnormals NUMBER, option accumulate DTYPE, option as DTYPE,
//   option runtime measured|any|exact, option train OUTPUT (nodes of the gradient of value v are called
//   gradient/v/Op, gradient/v/Op_2, ...)
//   proved NODE RULE                            the site exists and is proved
//   possible NODE RULE [seen RANGE]             must warn
//   unknown NODE [RULE]
//   known-false-alarm NODE RULE # reason        warns although it cannot happen
//   range VALUE RANGE                           exactly this text (FINITY_UPDATE=1 rewrites it)
//   within VALUE RANGE, covers VALUE RANGE      the inferred range is inside, or contains, this one
//   assumes WORDS                               one of the printed assumptions contains these words
//   witness NODE: x = 3; y = {1, 2}             these inputs make the node's result NaN or infinite
//
// A node that no line mentions must have no alarm. Verdicts are never rewritten.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "check/check_graph.h"
#include "check/contract.h"
#include "exec/reference.h"
#include "graph/graph.h"
#include "ops/table/range_call.h"

namespace finity {

struct CheckExpectation {
  enum class Kind : std::uint8_t { proved, possible, unknown, known_false_alarm, range, within, covers };
  Kind kind = Kind::proved;
  std::string name = {};   // of a result of the node, of the value, or of the constant
  std::string rule = {};   // verdicts
  std::string range = {};  // as written; verdicts: what `seen` says, or empty
  int line = 0;
};

struct Witness {
  std::string node = {};
  Inputs inputs = {};
  int line = 0;
};

struct CheckCase {
  std::string file = {};
  std::string title = {};
  std::string test_name = {};  // the title in letters, digits and underscores
  int line = 0;
  std::string error = {};  // the case could not be read: nothing below is meant
  bool rows = false;       // one of several rows: its ranges cannot be rewritten
  Graph graph = {};
  Contract contract = {};
  RangeSettings settings = {};
  std::optional<Training> training = {};
  DType target = DType::undefined;  // the model is looked at as if converted to this format
  std::vector<CheckExpectation> expectations = {};
  std::vector<std::string> assumptions = {};  // words that must be among the printed ones
  std::vector<Witness> witnesses = {};
};

// Runs the graph; "" when a result of the node called `name` (after one of its results) is NaN or infinite, else why
// not.
std::string why_no_failure(const Graph& graph, const Inputs& inputs, const std::string& name, bool flush = false);

// A case that cannot be read has an error instead of a graph, so that the others still run.
std::vector<CheckCase> read_check_cases(const std::string& path);

// One number (or true, false, nan, inf) for every element. Throws Error.
Tensor filled(DType dtype, const Dims& dims, const std::string& number);

// "[-3, 5]" or "[0, 1] or NaN", as to_string(Range) writes it. Throws Error.
Range parse_range(std::string_view text);

}  // namespace finity

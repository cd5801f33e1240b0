// The suspect losses of a program, written behind its graph: for every vulnerable op how far its nearest element is
// from the unsafe values. Once in the program's own formats, as the published method has it, and once in double: the
// last cheap nodes before the op (everything back to a product of matrices or a convolution) are computed again in
// double, and the logarithm of the distance is taken there, so that a softmax that saturates in float32 still shows
// which way to go. Per sample, so that a whole batch of searches runs at once.
#pragma once

#include <string>
#include <vector>

#include "check/check_graph.h"
#include "program/program.h"

namespace finity {

struct Suspect {
  std::string name = {};    // of the op: its name, else what it computes
  std::string title = {};   // "node 'log' (Log)"
  std::string result = {};  // its first result, by which both processes know the node
  std::string rule = {};    // "FN102"
  std::string unsafe = {};  // "<= 0"; "" for an overflow
  double limit = 0;         // of an overflow
  bool in_gradient = false;
  bool general = false;  // a sum or product that may overflow, as every one may with weights of any size
  // Values of the graph, by name.
  std::string distance = {};  // smallest distance in the program's formats
  std::string nearest = {};   // the same in double
  std::string rows = {};      // one number per row of the op's operand, the smaller the nearer; of one element at least
  std::string total = {};     // their sum, to be derived
  std::int64_t row_count = 1;
};

// What the check says of a node, by its first result.
struct SiteVerdict {
  std::string result = {};
  std::string rule = {};
  bool proved = false;
};

// What the check did not prove and no search can walk towards: inside a branch or loop, an op that is not modelled.
struct Unsearched {
  std::string title = {};
  std::string rule = {};
  std::string why = {};
};

// A program ready to be searched: its graph has the backward pass and the suspect losses behind it.
struct Prepared {
  Program program = {};
  std::vector<Suspect> suspects = {};
  std::vector<std::string> gradients = {};  // values: what training computes for the weights
  std::vector<SiteVerdict> verdicts = {};
  std::size_t proved = 0;                   // sites that need no search
  std::vector<Unsearched> unsearched = {};  // sites of which no loss could be written, and why
};

// The program's graph with what training computes for its weights behind it, as outputs "gradient of W".
Graph training_step(const Program& program);

// What the check says of the program's training step, with trained weights as large as the program says, or any number.
CheckedGraph check_program(const Program& program);

// `sites` restricts to nodes, values they compute, rules, or NODE:RULE; none takes what the check left open. A site
// that is named is searched even where it is proved, for comparisons. Throws Error when there is no such site.
Prepared prepare(const Program& program, const std::vector<std::string>& sites);

}  // namespace finity

// DEBAR's evaluation, measured anew: graphs are checked under every combination of a tensor abstraction and a numeric
// one, and what is said of their unsafe operations is compared with reviewed labels. A site is a node of the file that
// computes an exponential, logarithm, root, quotient or reciprocal of floats, outside of the gradients that TensorFlow
// adds.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "check/abstraction.h"
#include "check/analyze.h"
#include "check/contract.h"

namespace finity {

// How a graph is checked.
struct DebarSetting {
  TensorAbstraction tensor = TensorAbstraction::partition;
  bool affine = true;
  bool input_ranges = true;      // false: inputs are any finite numbers
  bool parameter_ranges = true;  // false: so are variables and weights
  bool compat = false;           // with all that DEBAR takes for granted, sound or not

  std::string name() const;  // "partition, affine", "..., no input ranges"
};
// The six combinations, the strongest last; then the strongest without input ranges, without parameter ranges, and with
// DEBAR's unsound assumptions.
std::vector<DebarSetting> debar_combinations();
std::vector<DebarSetting> debar_ablations();

// What a reviewer says of a site. Whatever is not labelled is safe: it was proved, and a proof is trusted.
enum class DebarLabel : std::uint8_t {
  real,        // fails for values that nothing forbids, whatever is declared
  contract,    // safe for inputs as the label file declares them
  imprecision  // safe, though it is not proved
};
std::string_view name(DebarLabel label);

// Of one graph.
struct DebarLabels {
  std::map<std::string, DebarLabel> sites = {};  // by node
  std::vector<std::string> ranges = {};          // of inputs, as --range takes them
  std::vector<std::string> orders = {};          // "boxes[2] >= boxes[0]"
};
// Lines of graph, node, label, kind, declarations, separated by tabs; '#' begins a comment. By graph. Throws Error with
// file, line and reason.
using DebarLabelFile = std::map<std::string, DebarLabels>;
DebarLabelFile read_debar_labels(std::string_view text, const std::string& file);

struct DebarSubject {
  std::string name = {};
  std::string path = {};  // "": the text below
  std::string text = {};
  DebarLabels labels = {};
  bool labelled = false;  // otherwise nothing is said of right and wrong
  std::string twin_of = {};
};
// The nine architectures with known bugs, or their repaired twins.
std::vector<DebarSubject> debar_subjects(bool twins);
// All models of a folder, by name, with what the label file says of them.
std::vector<DebarSubject> folder_subjects(const std::string& folder, const DebarLabelFile& labels);

struct DebarSite {
  std::string node = {};
  std::string op = {};
  Verdict verdict = Verdict::proved;
  std::string seen = {};  // what reaches it, where it is not proved
  std::string rule = {};
};

// One graph under one setting.
struct DebarResult {
  std::string subject = {};
  DebarSetting setting = {};
  std::string error = {};  // why it could not be checked
  std::size_t nodes = 0;   // of the file, in functions too
  std::int64_t parameters = 0;
  std::vector<DebarSite> sites = {};  // in the file's order
  double seconds = 0;                 // of CPU, reading included
  std::size_t peak_bytes = 0;
  bool complete = true;  // false: the time limit was reached

  std::size_t count(Verdict verdict) const;
};
// Never throws: what goes wrong is the result's error. `limit`: seconds; 0: none.
DebarResult measure(const DebarSubject& subject, const DebarSetting& setting, double limit);

// Right and wrong: a site that is not proved is an alarm.
struct DebarScore {
  int true_positives = 0, true_negatives = 0, false_positives = 0, false_negatives = 0;

  void add(const DebarScore& other);
  int sites() const { return true_positives + true_negatives + false_positives + false_negatives; }
  double accuracy() const;  // in percent
};
DebarScore score(const DebarSubject& subject, const DebarResult& result);

}  // namespace finity

// The nine architectures with known bugs that DEBAR (ESEC/FSE 2020) was measured on, written anew as TensorFlow graphs:
// forward pass, variables and their initialisers. Backward passes are left out, because the published tool looks at
// nothing behind a gradient. Each has a twin that is repaired as its authors did, or as DEBAR's authors advise.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace finity {

struct DebarGraph {
  std::string name = {};                 // as in the paper's Table 1
  std::string grist = {};                // the number of the same program in the GRIST benchmark
  std::vector<std::string> bugs = {};    // nodes that fail; everything else does not
  std::vector<std::string> ranges = {};  // of the inputs: "x:[0,1]"
  std::string repair = {};               // what the twin does instead
  std::function<std::string(bool repaired)> make = {};
};

const std::vector<DebarGraph>& debar_graphs();

// What the paper's Table 1 says of a subject. Nothing is known of cells below zero.
struct DebarPublished {
  std::string_view name = {};
  int true_positives = 0, true_negatives = 0, false_positives = 0;
  double seconds = 0;
  int smash_negatives = 0, smash_positives = 0;        // true negatives and false positives of array smashing
  int interval_negatives = 0, interval_positives = 0;  // without affine relations
  int expand_negatives = -1, expand_positives = -1;    // array expansion (Table 3)
  double expand_seconds = -1;
};
// Null when the paper has no such subject; "Total" is the sum over all 57.
const DebarPublished* find_debar_published(std::string_view name);

}  // namespace finity

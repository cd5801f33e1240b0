// Ends of programs that many families share: the loss from a softmax or a sigmoid, with the logarithm that is the bug,
// or its repair.
#pragma once

#include <string>

#include "bench/maker.h"

namespace finity {

enum class Over : std::uint8_t { sum, mean };  // of a loss over the batch

// p where it cannot be zero: what programs of the benchmark were repaired with.
std::string at_least_tiny(Maker& maker, const std::string& p);
// The cross-entropy of probabilities p (rows) and one-hot labels: the node `log` is the bug.
std::string cross_entropy(Maker& maker, const std::string& p, const std::string& labels, Over over, bool repaired,
                          const std::string& log = "log");
// The cross-entropy of single probabilities: nodes "log" of p and "log_not" of 1 - p.
struct BinaryTerms {
  std::string of_p = {};      // log p
  std::string of_not_p = {};  // log (1 - p)
};
BinaryTerms binary_logs(Maker& maker, const std::string& p, bool repaired);
// -(y log p + (1 - y) log (1 - p)), element by element.
std::string binary_cross_entropy(Maker& maker, const std::string& p, const std::string& labels, bool repaired);

}  // namespace finity

// What a library did with a sample, judged. As written, every step is judged by itself, on the operands that the
// library itself computed, so errors do not add up and each faulty step shows. Optimised, the model's outputs are
// judged against boxes that follow from inputs and weights known to a few units in the last place: whatever order of
// roundings an optimiser chose is explained by that.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "domain/range.h"
#include "fuzz/backend.h"

namespace finity::fuzz {

enum class Symptom : std::uint8_t {
  wrong_value,  // an element that no correct library computes
  wrong_form,   // another shape or element type
  nan_here,     // NaN where a number is due
  crash,        // the process died
  hang,         // no answer
  exception,    // refuses when optimising what it runs as written
  unstable,     // two runs of one session differ
  broken_law    // a relation between two models (relations.h) does not hold
};
std::string_view name(Symptom symptom);

struct Complaint {
  Symptom symptom = Symptom::wrong_value;
  Optimisation level = Optimisation::none;
  std::string op = {};      // of the step to blame, or of the whole chain when optimised
  std::string tensor = {};  // the result
  std::int64_t element = -1;
  Range expected = {};
  double observed = 0;
  bool proven = true;        // false: inside what is granted, or a matter of taste
  bool derivative = false;   // of the sample's loss, by the library's own rules
  bool by_distance = false;  // by NNSmith's comparison: nothing is proven
  std::string text = {};
};

// What was looked at; the share of elements of which nothing is claimed says how good generator and oracle are.
struct Counts {
  std::int64_t runs = 0;
  std::int64_t steps = 0;  // judged by themselves
  std::int64_t elements = 0;
  std::int64_t undecided = 0;
  std::int64_t refused = 0;  // samples that a library does not take as written
};

// How a process ended, for people.
std::string last_words(const Answer& answer);

// Judges values of a sample, however a library came by them, as if it had been optimised. `op` goes into complaints.
std::vector<Complaint> compare_with_boxes(const Sample& sample, const NamedData& values, const std::string& op,
                                          Counts& counts);

std::vector<Complaint> judge(Backend& backend, const Sample& sample, Counts& counts);

}  // namespace finity::fuzz

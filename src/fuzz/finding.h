// A fault of a library, made small, named and told from others: what the campaign stores and people read.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "fuzz/oracle.h"

namespace finity::fuzz {

// How one version of the library takes the minimal sample.
enum class Stand : std::uint8_t { good, bad, refused, died, other };

struct Finding {
  std::string key = {};  // the same for the same fault
  BackendSpec backend = {};
  Complaint complaint = {};
  Sample sample = {};
  bool legal = true;
  std::vector<std::pair<BackendSpec, Stand>> versions = {};  // oldest first
  std::string known = {};                                    // of the table of known faults; empty: new
};

// Judges a sample as a campaign does: an illegal one only for whether the library survives it.
std::vector<Complaint> judge_any(Backend& backend, const Sample& sample, bool legal, Counts& counts);
// The same, or only the library's derivatives.
std::vector<Complaint> judge_again(Backend& backend, const Sample& sample, bool legal, bool derivative, Counts& counts);

// The complaint that is worth most: deaths first, then what is proven.
const Complaint* worst(const std::vector<Complaint>& complaints);

// Reduces, judges again and names it. `versions`: other versions of the library, or none.
Finding make_finding(Backend& backend, const Sample& sample, bool legal, const Complaint& complaint);
void add_versions(Finding& finding, std::vector<Backend>& versions);

// "ort wrong value optimised: Pad(float32)+MaxPool{pads}".
std::string key_of(const BackendSpec& backend, const Complaint& complaint, const Sample& sample);
// "1.10.0 bad, 1.14.0 bad, 1.30.0 good", neighbours of one kind merged.
std::string strip_text(const std::vector<std::pair<BackendSpec, Stand>>& versions);

}  // namespace finity::fuzz

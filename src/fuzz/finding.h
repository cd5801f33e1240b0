// A fault of a library, made small, named and told from others: what the campaign stores and people read.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/oracle.h"

namespace finity::fuzz {

// How one version of the library takes the minimal sample.
enum class Stand : std::uint8_t { good, bad, refused, died, other };

// What shows a fault.
struct Evidence {
  Sample sample = {};
  bool legal = true;
  bool derivative = false;
  bool by_distance = false;
  std::string law = {};  // that was broken: the sample must give what `before` gives
  Sample before = {};
};

struct Finding {
  std::string key = {};  // the same for the same fault
  BackendSpec backend = {};
  std::string library = {};  // and its version, as it says itself
  Complaint complaint = {};
  Sample sample = {};
  bool legal = true;
  std::string law = {};
  Sample before = {};
  std::vector<std::pair<BackendSpec, Stand>> versions = {};  // oldest first
  std::string known = {};                                    // of the table of known faults; empty: new
  std::string script = {};                                   // Backend::script of the sample
};

// Judges a sample as a campaign does: an illegal one only for whether the library survives it.
std::vector<Complaint> judge_any(Backend& backend, const Sample& sample, bool legal, Counts& counts);
// The same, or only the library's derivatives, or a law.
std::vector<Complaint> judge_again(Backend& backend, const Evidence& evidence, Counts& counts);
Evidence evidence_of(const Finding& finding);

// The complaint that is worth most: deaths first, then what is proven.
const Complaint* worst(const std::vector<Complaint>& complaints);

// Reduces, judges again and names it. Nothing when it does not show in a new process.
std::optional<Finding> make_finding(Backend& backend, const Sample& sample, bool legal, const Complaint& complaint);
// The same for a broken law: the sample before it is reduced, and the law is applied anew to each candidate.
std::optional<Finding> make_law_finding(Backend& backend, const Sample& before, const Sample& after,
                                        const std::string& law, const Complaint& complaint);
// The library's calls that a sample comes to; empty when it has none to show.
std::string script_of(Backend& backend, const Sample& sample);
void add_versions(Finding& finding, std::vector<Backend>& versions);

// How complaints look alike before they are reduced: by the op to blame, and by the attributes that it has there.
struct Kind {
  std::string coarse = {}, fine = {};
};
Kind kind_of(const BackendSpec& backend, const Complaint& complaint, const Sample& sample);

// "ort wrong value optimised: Pad(float32)+MaxPool{pads}".
std::string key_of(const BackendSpec& backend, const Complaint& complaint, const Sample& sample);
// "1.10.0 bad, 1.14.0 bad, 1.30.0 good", neighbours of one kind merged.
std::string strip_text(const std::vector<std::pair<BackendSpec, Stand>>& versions);

}  // namespace finity::fuzz

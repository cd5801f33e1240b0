// The GRIST benchmark (ESEC/FSE 2021): 63 training programs with 79 numerical bugs, written anew from their
// description. A family of programs is one function and a table of configurations. Every bug has a twin with the defect
// repaired.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bench/recipe.h"

namespace finity {

// How a program is made.
struct Build {
  bool repaired = false;
  bool small = false;  // few samples and small images: the same graph for quick runs
};

struct GristBug {
  std::string id = {};                     // "35a"
  std::string family = {};                 // "softmax regression"
  std::string op = {};                     // "log", "exp", "division", "sqrt"
  std::string rule = {};                   // that a check must report
  std::vector<std::string> nodes = {};     // any of them is the bug
  std::vector<std::string> repaired = {};  // all of them must be proved in the twin
  bool derivative = false;                 // not the value but the derivative is invalid
  std::string note = {};                   // how this program differs from the one of the paper; "": not that we know
  std::function<Recipe(const Build&)> make = {};

  // The number of the program it is in: 35.
  int program() const { return std::stoi(id); }
};

// All 79, in the order of the paper's table.
const std::vector<GristBug>& grist_bugs();
// Null when there is none of this id.
const GristBug* find_grist_bug(std::string_view id);

// What the paper's Table 2 says of a bug. Times are in seconds, of runs that hit; 0 hits have none.
struct PublishedResult {
  int hits = 0;  // of 10 runs
  double seconds = 0;
};
struct PublishedRow {
  std::string_view id = {};
  PublishedResult plain = {};  // "default"
  PublishedResult grist = {};
  PublishedResult grist_ns = {};  // without switching samples
  bool debar = false;             // found by the static tool DEBAR
};
std::span<const PublishedRow> published_table();
const PublishedRow* find_published(std::string_view id);

// Families, each in a file of its own.
using GristBugs = std::vector<GristBug>;
GristBugs grist_regressions();
GristBugs grist_toys();
GristBugs grist_convolutional();
GristBugs grist_perceptrons();
GristBugs grist_hand_made_softmax();
GristBugs grist_autoencoders();
GristBugs grist_boltzmann_machines();
GristBugs grist_scaled_network();
GristBugs grist_transformer();
GristBugs grist_value_iteration();
GristBugs grist_disc_segmentation();
GristBugs grist_adversarial();

}  // namespace finity

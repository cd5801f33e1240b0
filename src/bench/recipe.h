// A training program as the bench writes it: a model in the text form, and beside it what it is fed with, how its
// weights begin and how they are trained. A Recipe is plain data, so it can be printed as a program folder, checked
// statically and run from the same description.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "check/contract.h"
#include "program/program.h"
#include "tensor/tensor.h"

namespace finity {

// A graph input that data or random numbers are fed into.
struct Feed {
  enum class Source : std::uint8_t { own, images, labels };

  ProgramInput input = {};
  Source source = Source::own;  // own: the input's data or draw; else the digits that all programs share
  int one_hot = 0;              // classes, when the model takes labels as one-hot rows
  bool whole = false;           // only whole numbers are legal: masks and classes
};

// A graph input that is trained.
struct TrainedWeight {
  ProgramWeight weight = {};
  double reach = 0;  // how large training may make it: a check assumes [-reach, reach]
};

struct Recipe {
  std::string model = {};  // text form
  std::vector<Feed> feeds = {};
  std::vector<TrainedWeight> weights = {};
  Optimiser optimiser = {};
  std::int64_t batch = 0;
  std::string watch = "loss";
  bool flush_subnormals = false;
};

// Digits: float32 [n, 784] from 0 to 1, and int64 [n].
struct DigitData {
  Tensor images = {};
  Tensor labels = {};
  // Where they were read from; empty: the synthetic digits that are built in.
  std::string images_file = {}, labels_file = {};
};

// The program, settled.
Program program_of(const Recipe& recipe, const DigitData& digits, const std::string& name);
// What a check may assume of inputs and weights.
Contract contract_of(const Recipe& recipe);

// A folder with a program: the model, its description in TOML, and tables that are too large for it.
inline constexpr const char* kModelFile = "model.txt";
inline constexpr const char* kDescriptionFile = "program.toml";
inline constexpr const char* kTableFile = "data.npz";
std::string description_of(const Recipe& recipe, const DigitData& digits);
// What goes into the table file; empty: there is none.
std::vector<std::pair<std::string, Tensor>> large_tables(const Recipe& recipe);

}  // namespace finity

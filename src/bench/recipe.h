// A training program as the bench writes it: a model in the text form, and beside it what it is fed with, how its
// weights begin and how they are trained. A Recipe is plain data, so it can be printed as a program folder, checked
// statically and run from the same description.
#pragma once

#include <cstdint>
#include <string>
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

// Digits that the programs learn: float32 [n, 28, 28] from 0 to 1, and int64 [n].
struct DigitData {
  Tensor images = {};
  Tensor labels = {};
  std::string images_source = {}, labels_source = {};  // as a description names them: "digits.images"
};
// From a folder with files of MNIST (images and labels, packed or not); "": the synthetic ones that are built in.
// Throws Error naming what is missing.
DigitData load_digits(const std::string& folder);

// The program, settled.
Program program_of(const Recipe& recipe, const DigitData& digits, const std::string& name);
// What a check may assume of inputs and weights.
Contract contract_of(const Recipe& recipe);

// A folder that `finity trigger` takes: the model, its description in TOML, and tables that belong to it.
struct ProgramFolder {
  std::string description = {};
  std::string model = {};
  std::string tables = {};  // bytes of an .npz; "": none are needed
};
inline constexpr const char* kModelFile = "model.txt";
inline constexpr const char* kDescriptionFile = "program.toml";
inline constexpr const char* kTableFile = "data.npz";
ProgramFolder folder_of(const Recipe& recipe, const DigitData& digits);
void write_folder(const ProgramFolder& folder, const std::string& path);

}  // namespace finity

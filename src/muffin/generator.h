// Models from a seed, one after the other: the baselines of the paper and our own way with layers. Which layer types
// come next depends on how often each was used before, so models are made in order; the same version of finity makes
// the same models of the same seed everywhere.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muffin/cover.h"
#include "muffin/model.h"
#include "muffin/structure.h"

namespace finity::muffin {

enum class Mode : std::uint8_t {
  layers,       // ours: all types, guided by coverage, shapes made to fit in many ways
  muffin,       // as published
  muffin_code,  // as the released code does it
  muffin_ut     // single layers
};
std::string_view name(Mode mode);

struct GeneratorOptions {
  Mode mode = Mode::muffin;
  std::uint64_t seed = 1;
  std::string data = {};   // a data set; empty: they take turns
  std::int64_t batch = 2;  // samples
  int libraries = 2;       // of the run: the released code counts a layer once per library but the first
  Limits limits = {};
};

class Generator {
 public:
  explicit Generator(GeneratorOptions options);

  // The next model.
  Model next();
  std::uint64_t made() const { return made_; }
  // How often each layer type was chosen.
  const std::map<std::string, std::int64_t, std::less<>>& counts() const { return counts_; }

 private:
  friend class Realisation;

  const DataSet& data_for(std::uint64_t index) const;
  Model one(const DataSet& data, Rng& rng);
  Model single(Rng& rng);

  GeneratorOptions options_;
  std::uint64_t made_ = 0;
  std::map<std::string, std::int64_t, std::less<>> counts_;
  Coverage covered_;
};

}  // namespace finity::muffin

// Models of a baseline as samples of a campaign, so that they are judged by proof: forward pass, loss and, where it can
// be written, the backward pass. Threads may ask for any number; models are made in order.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "fuzz/generate.h"
#include "muffin/source.h"

namespace finity::muffin {

class Samples {
 public:
  Samples(const std::string& mode, const SourceOptions& options);

  fuzz::Generated at(std::uint64_t index);

 private:
  std::mutex guard_;
  std::string mode_;
  SourceOptions options_;
  std::unique_ptr<Source> source_;
  std::uint64_t made_ = 0;
  std::map<std::uint64_t, Model> waiting_;
};

}  // namespace finity::muffin

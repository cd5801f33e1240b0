// Where models of a baseline come from, by the baseline's name, in order.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "muffin/model.h"

namespace finity::muffin {

struct SourceOptions {
  std::uint64_t seed = 1;
  std::string data = {};
  int libraries = 2;
  bool small = false;  // one sample and small tensors: proofs take longer than runs
};

class Source {
 public:
  Source() = default;
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;
  virtual ~Source() = default;

  virtual Model next() = 0;
  // How far apart libraries were on the last model (lemon.h), for sources that learn from it. Each model's once, in
  // order, or of none.
  virtual void hear(double /*distance*/) {}
  // Only the forward pass is looked at.
  virtual bool forward_only() const { return false; }
};

struct SourceKind {
  std::string_view name, what;
};
std::span<const SourceKind> source_kinds();
// Throws Error naming the modes.
std::unique_ptr<Source> make_source(std::string_view mode, const SourceOptions& options);

}  // namespace finity::muffin

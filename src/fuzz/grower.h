// Grows a sample step by step. Each step is drawn from the op's signature, run by the reference and kept when it is
// legal and its results are ordinary numbers, so later steps see shapes and values as they are. Everything is a
// function of the random numbers handed in.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/rng.h"
#include "fuzz/sample.h"
#include "ops/table/draw_call.h"

namespace finity::fuzz {

class Grower {
 public:
  Grower(Rng& rng, int opset, std::string origin);

  // Adds a step of this op on operand 0 `first`, or on a new input when it is empty. The new results' names; empty when
  // no legal call was found in some tries.
  std::vector<std::string> add(const OpDef& op, const std::string& first = {});
  // Attributes that the next steps have as often as that is legal.
  void aim(std::vector<std::string> attrs) { aims_ = std::move(attrs); }
  bool aims_at(std::string_view attr) const { return std::ranges::find(aims_, attr) != aims_.end(); }
  // The next integers that are computed with may lie at the ends of their type.
  void allow_ends() { ends_ = true; }
  bool draws_ends() { return ends_ && chance(12); }
  // A step as it is given; operands must exist. Empty when the reference refuses it or its results are not ordinary.
  std::vector<std::string> add(std::string_view op, std::vector<std::string> inputs, Attrs attrs = {},
                               std::size_t outputs = 1);

  std::string add_input(Tensor tensor);
  std::string add_constant(Tensor tensor);
  Tensor draw(DType dtype, Dims dims);
  Tensor draw(DType dtype, Dims dims, ValueClass values);
  // A shape that is repeated along axes to come to this one: the whole, one number, one axis alone, the last axes, or
  // sizes of 1 here and there. Now and then it has an axis more, to which the other is repeated.
  Dims broadcastable(const Dims& dims);

  const Tensor& value(const std::string& name) const { return values_.at(name); }
  // Everything that was computed or given and is numbers, oldest first.
  const std::vector<std::string>& names() const { return names_; }
  Rng& rng() { return rng_; }
  int opset() const { return sample_.opset; }
  const Sample& sample() const { return sample_; }
  // A call that the reference refused, for libraries that must not die of it; the last one drawn.
  const std::optional<Sample>& refused() const { return refused_; }

  // The outputs are what nobody uses.
  Sample finish() &&;

  bool chance(int percent) { return rng_.below(100) < static_cast<std::uint64_t>(percent); }
  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(rng_.below(static_cast<std::uint64_t>(most - least + 1)));
  }

 private:
  friend class Drawing;
  // Runs the step on what exists; nothing when it is not legal or not ordinary.
  std::optional<std::vector<Tensor>> tried(const Step& step, const std::map<std::string, Tensor, std::less<>>& more);
  std::vector<std::string> keep(Step step, std::vector<Tensor> results);
  std::string new_name(std::string_view stem);

  Rng& rng_;
  Sample sample_;
  std::map<std::string, Tensor, std::less<>> values_;
  std::vector<std::string> names_;
  std::optional<Sample> refused_;
  std::vector<std::string> aims_;
  bool ends_ = false;
  int named_ = 0;
};

// Whether attributes and operands have the form that the operator set's version of the op has.
bool fits_opset(const OpDef& op, const Step& step, int opset);

}  // namespace finity::fuzz

// Writes a recipe line by line: inputs, weights and nodes in the text form, with the layers that the programs of the
// bench share. Every function that adds something gives the name of what it added.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bench/recipe.h"

namespace finity {

// How weights begin.
namespace begin {
inline constexpr Draw zeros = {.kind = Draw::Kind::zeros};
inline constexpr Draw xavier = {.kind = Draw::Kind::xavier_uniform};
constexpr Draw constant(double x) { return {.kind = Draw::Kind::constant, .a = x}; }
constexpr Draw normal(double deviation) { return {.kind = Draw::Kind::normal, .a = 0, .b = deviation}; }
constexpr Draw truncated(double deviation) { return {.kind = Draw::Kind::truncated_normal, .a = 0, .b = deviation}; }
constexpr Draw uniform(double lo, double hi) { return {.kind = Draw::Kind::uniform, .a = lo, .b = hi}; }
constexpr Draw linear(std::int64_t fan_in) {
  return {.kind = Draw::Kind::linear_default, .a = 0, .b = 0, .fan_in = fan_in};
}
}  // namespace begin

// How a layer's weights and biases begin.
struct Init {
  Draw weight = {};
  std::optional<Draw> bias = {};  // none: the layer has none
};

// Draws of a normal distribution are cut where float32 draws end in practice.
inline constexpr LegalRange kNormalDraws = {-6, 6};

class Maker {
 public:
  explicit Maker(std::int64_t batch) { recipe_.batch = batch; }

  std::int64_t batch() const { return recipe_.batch; }
  // How large training may make weights that are added from now on; see Weight::reach.
  void set_reach(double reach) { reach_ = reach; }

  // ---- inputs; sizes are those behind the batch ----------------------------------------------------------------
  // Digits, as numbers from `lo` to `hi`.
  std::string images(const std::string& name, const Dims& sizes, double lo = 0, double hi = 1);
  std::string one_hot_labels(const std::string& name, int classes = 10);
  std::string class_labels(const std::string& name);
  // Rows of numbers; the first axis of the table runs over samples.
  std::string table(const std::string& name, Tensor rows, LegalRange legal, bool change);
  std::string one_hot_table(const std::string& name, const std::vector<std::int64_t>& classes, int count);
  // What a dropout keeps: ones with probability `keep`.
  std::string mask(const std::string& name, const Dims& sizes, double keep);
  // Draws of a whole shape, batch included.
  std::string draw(const std::string& name, const Dims& dims, const Draw& how, LegalRange legal, bool every_step);
  std::string weight(const std::string& name, const Dims& dims, const Draw& init);
  // The weights that are added from now on are trained on this loss instead of the program's; "": its own.
  void trained_on(std::string loss) { trained_on_ = std::move(loss); }
  // A weight is what this value is after a step, instead of what an optimiser makes of it.
  void updated_by(const std::string& weight, const std::string& value);

  // ---- nodes ---------------------------------------------------------------------------------------------------
  // `name` becomes the name of the result, and so of the node; a number is added when it is "".
  std::string node(std::string_view op, const std::vector<std::string>& operands, std::string_view attributes = "",
                   std::string name = "");
  std::string number(double x);
  std::string whole_numbers(const std::vector<std::int64_t>& numbers);
  std::string constant(const Tensor& tensor);

  std::string dense(const std::string& x, std::int64_t in, std::int64_t out, const std::string& name, const Init& init);
  // The same layer once more, on something else.
  std::string dense_again(const std::string& x, const std::string& name);
  // Channels first.
  std::string conv(const std::string& x, const Dims& kernel, bool same, const std::string& name, const Init& init,
                   std::int64_t stride = 1);
  std::string max_pool(const std::string& x);
  std::string relu(const std::string& x) { return node("Relu", {x}); }
  std::string sigmoid(const std::string& x) { return node("Sigmoid", {x}); }
  // x where the mask keeps it, scaled by 1 / keep.
  std::string dropout(const std::string& x, const std::string& name, const Dims& sizes, double keep);
  std::string reshape(const std::string& x, const Dims& dims) { return node("Reshape", {x, whole_numbers(dims)}); }
  std::string clip(const std::string& x, double lo, double hi) { return node("Clip", {x, number(lo), number(hi)}); }
  std::string sum(const std::string& x) { return node("ReduceSum", {x}, "keepdims = 0"); }
  std::string mean(const std::string& x) { return node("ReduceMean", {x}, "keepdims = 0"); }
  std::string row_sums(const std::string& x) { return node("ReduceSum", {x, whole_numbers({1})}, "keepdims = 0"); }

  // The output "loss".
  void loss(const std::string& value) { node("Identity", {value}, "", "loss"); }
  // A further output.
  void output(const std::string& value, const std::string& name);
  // Looked at for NaN and Inf instead of the loss; an output.
  void watch(const std::string& name) { recipe_.watch = name; }
  void optimiser(Optimiser optimiser) { recipe_.optimiser = std::move(optimiser); }
  void flush_subnormals() { recipe_.flush_subnormals = true; }
  Recipe finish() &&;

 private:
  void add_input(const std::string& name, std::string_view dtype, const Dims& dims);
  Dims with_batch(const Dims& sizes) const;

  Recipe recipe_ = {};
  double reach_ = 10;
  std::string inputs_ = {};
  std::string outputs_ = "loss";
  std::string trained_on_ = {};
  std::string lines_ = {};
  int constants_ = 0;
  int nodes_ = 0;
};

// What an initialiser can give, where it draws: a normal distribution is cut at four deviations.
std::optional<LegalRange> support_of(const Draw& init, const Dims& dims);

}  // namespace finity

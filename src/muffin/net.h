// Nodes of the op table with typed results, and the few compositions that several layers are made of. A dry net has
// weights without elements: it tells shapes and sizes only.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "fuzz/sample.h"
#include "types/graph_writer.h"

namespace finity::muffin {

// How large weights are.
enum class Weights : std::uint8_t {
  wide,    // uniform in [-10, 10], as Muffin draws them
  scaled,  // so that a layer's results are about as large as its operands
  none     // dry
};

using Ints = std::vector<std::int64_t>;
using Attribute = std::pair<std::string, Attr>;

class Net {
 public:
  explicit Net(Weights weights);

  ValueId input(const std::string& name, DType dtype, const Dims& dims);
  ValueId add(std::string_view op, std::vector<ValueId> inputs, std::vector<Attribute> attrs = {});
  std::vector<ValueId> add_several(std::string_view op, std::vector<ValueId> inputs, std::vector<Attribute> attrs,
                                   std::size_t outputs);
  Dims dims(ValueId id) const;
  std::int64_t rank(ValueId id) const { return static_cast<std::int64_t>(dims(id).size()); }

  // Weights that follow are drawn from this seed.
  void seed(std::uint64_t seed) { rng_ = Rng(seed); }
  // Weights that follow are changed in this way: "fuzz", "shuffle", "block", "inverse", "switch" or "".
  void change(std::string how) { change_ = std::move(how); }
  // To be trained. `fan_in`: over how many of them a result sums.
  ValueId weight(const Dims& dims, std::int64_t fan_in);
  // A weight in [low, high].
  ValueId weight_between(const Dims& dims, double low, double high);
  ValueId number(double x);
  ValueId ints(const Ints& values);
  ValueId filled(const Dims& dims, double x);

  ValueId reshape(ValueId x, const Dims& dims) { return add("Reshape", {x, ints(dims)}); }
  ValueId transpose(ValueId x, const Ints& perm) { return add("Transpose", {x}, {{"perm", perm}}); }
  // Axis `from` goes to place `to`; the others keep their order.
  ValueId move_axis(ValueId x, std::int64_t from, std::int64_t to);
  ValueId slice(ValueId x, std::int64_t axis, std::int64_t begin, std::int64_t end);
  ValueId gather(ValueId x, const Dims& dims, const Ints& indices, std::int64_t axis);
  ValueId reversed(ValueId x, std::int64_t axis);
  ValueId concat(const std::vector<ValueId>& parts, std::int64_t axis);
  ValueId pad(ValueId x, const Ints& pads) { return add("Pad", {x, ints(pads), number(0)}); }
  ValueId sum(ValueId x, const Ints& axes, bool keep);
  // By its name in Keras. Softmax is over the last axis.
  ValueId activation(ValueId x, const std::string& name);

  GraphWriter& writer() { return writer_; }
  const std::vector<ValueId>& weights() const { return made_; }
  // Elements of all weights.
  std::int64_t weight_elements() const { return weight_elements_; }
  // Of the largest result.
  std::int64_t most_elements() const { return most_elements_; }

 private:
  ValueId keep_weight(const Dims& dims, double low, double high);
  void changed(std::vector<float>& values, std::size_t columns, double size);

  Weights weights_;
  GraphWriter writer_;
  Rng rng_{0};
  std::string change_;
  std::vector<ValueId> made_;
  std::int64_t weight_elements_ = 0;
  std::int64_t most_elements_ = 0;
};

}  // namespace finity::muffin

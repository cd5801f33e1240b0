// Writes a TensorFlow 1 graph as text, node by node, in the shape in which TensorFlow's own functions write them: a
// variable is a VariableV2 with its initialiser, an Assign and an Identity that reads it; a dropout draws, adds the
// keep probability, rounds down and divides. Every function that adds something gives the name of what it added.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bench/maker.h"
#include "tensor/tensor.h"

namespace finity {

class GraphDefMaker {
 public:
  using Names = std::vector<std::string>;
  struct Attribute {
    std::string key = {};
    std::string value = {};  // text of the AttrValue
  };
  using Attributes = std::vector<Attribute>;
  // A node as it was added. `numbers`: the elements of a constant of whole numbers.
  struct Added {
    std::string name = {};
    std::string op = {};
    Names inputs = {};
    Attributes attributes = {};
    std::vector<std::int64_t> numbers = {};
  };

  // Sizes of -1 are not known.
  std::string placeholder(const std::string& name, const Dims& dims);
  // A trained float32 variable; what reads it.
  std::string variable(const std::string& name, const Dims& dims, const Draw& init);

  // ---- constants -------------------------------------------------------------------------------------------------
  std::string number(double x, const std::string& name = "");
  std::string numbers(const std::vector<double>& all, const Dims& dims, const std::string& name = "");
  std::string whole(const std::vector<std::int64_t>& all, const std::string& name = "");  // an int32 vector
  std::string whole_number(std::int64_t x, const std::string& name = "");

  // ---- nodes -----------------------------------------------------------------------------------------------------
  // "" for a name: the op's own, with a number behind it when it is taken, as TensorFlow does.
  std::string node(const std::string& op, const Names& inputs, const std::string& name = "",
                   const Attributes& attributes = {});
  // An op of float32 operands: with T as its type.
  std::string op(const std::string& op, const Names& inputs, const std::string& name = "");
  std::string sum(const std::string& x, const std::vector<std::int64_t>& axes, bool keep = false);
  std::string mean(const std::string& x, const std::vector<std::int64_t>& axes);
  std::string dense(const std::string& x, std::int64_t in, std::int64_t out, const std::string& scope,
                    const Init& init);
  // Channels last; the kernel is height, width, channels in, channels out.
  std::string conv(const std::string& x, const Dims& kernel, std::int64_t stride, const std::string& scope,
                   const Init& init);
  std::string max_pool(const std::string& x);
  std::string reshape(const std::string& x, const std::vector<std::int64_t>& dims);
  std::string cast(const std::string& x, std::string_view from, std::string_view to);
  // Kept with the probability that `keep` holds, and divided by it.
  std::string dropout(const std::string& x, const std::string& keep, const std::string& scope);

  const std::vector<Added>& added() const { return added_; }
  // The last node is the loss: with the derivatives of all variables, and a step of gradient descent.
  std::string finish() &&;

 private:
  std::string fresh(const std::string& name);

  std::string text_ = {};
  std::vector<std::string> taken_ = {};
  std::vector<Added> added_ = {};
};

}  // namespace finity

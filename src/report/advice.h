// How to repair a finding, said for the place where it is: what made the operand,
// what uses the result, which format is computed in, and whether the model was asked
// about as if converted. The rule's own text is the fallback.
#pragma once

#include <string>
#include <vector>

#include "graph/users.h"
#include "report/collect.h"

namespace finity {

struct Advice {
  std::string fix = {};                    // one line
  std::vector<std::string> contract = {};  // lines of a contract file that would prove it, ready to be pasted
};

class Advisor {
 public:
  explicit Advisor(const Checked& checked) : checked_(checked) {}

  Advice on(const Finding& finding, const Rule& rule);

 private:
  const Graph& graph() const { return checked_.graph; }
  DType dtype_of(ValueId id) const;
  const Node* maker(ValueId id, bool through_casts = true) const;
  std::string op_behind(ValueId id) const;
  bool is_main_input(ValueId id) const;
  bool is_size(ValueId id) const;
  bool uses(ValueId id, std::string_view op, ValueId* result = nullptr);

  Advice on_derivative(const Finding& finding) const;
  std::string on_divisor(const Finding& finding);
  std::string on_tiny_divisor(const Finding& finding) const;
  std::string on_logarithm(const Finding& finding);
  std::string on_root(const Finding& finding);
  std::string on_exponential(const Finding& finding);
  std::string on_overflow(const Finding& finding, const Rule& rule);
  std::string on_domain(const Finding& finding, const Rule& rule) const;
  std::string on_constant(const Finding& finding, const Rule& rule) const;
  std::string declare(ValueId input, std::string_view where) const;
  Advice on_masked_softmax(const Finding& finding) const;

  const Checked& checked_;
  Users users_;  // when first asked for
};

}  // namespace finity

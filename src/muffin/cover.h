// What models made use of, counted in cells: layer types, forms of their operands, values and pairs of values of
// their parameters, which type feeds which. Our own mode draws towards cells that are rare.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "muffin/params.h"
#include "tensor/tensor.h"

namespace finity::muffin {

struct CoverCell {
  std::string_view kind;  // "layer", "form", "value", "pair", "edge"
  std::string cell;
};

// The cells of one layer on operands of these shapes that come from these layer types ("": the data).
std::vector<CoverCell> cells_of(const LayerSpec& spec, const std::vector<Dims>& operands,
                                const std::vector<std::string>& makers);

class Coverage {
 public:
  void add(const std::vector<CoverCell>& cells);
  std::int64_t hits(const CoverCell& cell) const;
  // How rare the rarest of the cells is: 1 / sqrt(1 + hits).
  double novelty(const std::vector<CoverCell>& cells) const;
  // Distinct cells by kind.
  std::map<std::string, std::int64_t> sizes() const;

 private:
  std::map<std::string, std::map<std::string, std::int64_t>, std::less<>> hits_;
};

}  // namespace finity::muffin

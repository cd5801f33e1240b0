// Small pieces of output that several commands share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "graph/graph.h"
#include "ops/table/datum.h"

namespace finity {

std::string with_thousands(std::int64_t number);  // 11,689,512
std::string human_bytes(std::uint64_t bytes);     // 44.6 MiB
std::string short_number(double number);          // at most 6 significant digits
std::string padded(std::string_view text, std::size_t width);
std::string domain_name(std::string_view domain);  // "" is shown as ai.onnx
void print_notes(const std::vector<Note>& notes, std::size_t most = 10);

// What a tensor holds: range of its finite elements and what is not finite.
struct Extent {
  std::int64_t count = 0;
  double low = 0, high = 0, mean = 0;  // of the finite elements
  std::int64_t finite = 0, nan = 0, positive_inf = 0, negative_inf = 0;
  std::int64_t first_bad = -1;  // position of the first element that is not finite
};
Extent extent_of(const Tensor& tensor);
// "float32[2, 3]  [-1, 2.5]  1 NaN, first at [0, 1]"
std::string describe(const Datum& datum);

}  // namespace finity

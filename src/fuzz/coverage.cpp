#include "fuzz/coverage.h"

#include <map>

namespace finity::fuzz {

namespace {

// Sizes in classes: the edges of kernels' blocks tell them apart.
std::string size_class(std::int64_t size) {
  if (size <= 2) return std::to_string(size);
  return size < 8 ? "3-7" : size < 16 ? "8-15" : size == 16 ? "16" : "17+";
}

std::string form_of(const Step& step, const Tensor& tensor) {
  std::string form = step.op + " " + std::string(name(tensor.dtype())) + " rank " + std::to_string(tensor.rank());
  if (tensor.rank() > 0) form += " " + size_class(tensor.dims().back());
  return form;
}

}  // namespace

std::vector<CoverageCell> coverage_cells(const Sample& sample) {
  std::vector<CoverageCell> cells;
  std::map<std::string, std::string, std::less<>> makers;
  for (const Step& step : sample.steps) {
    cells.emplace_back("op", step.op);
    cells.emplace_back("opset", step.op + " " + std::to_string(sample.opset));
    for (const auto& [name, value] : step.attrs) cells.emplace_back("attribute", step.op + "." + name);
    for (const auto& [name, value] : step.attrs) {
      for (const auto& [other, more] : step.attrs) {
        if (name < other) cells.emplace_back("attribute pair", step.op + "." + name + "." + other);
      }
    }
    for (const std::string& input : step.inputs) {
      if (const auto maker = makers.find(input); maker != makers.end())
        cells.emplace_back("edge", maker->second + " " + step.op);
      if (const Tensor* tensor = given(sample, input)) cells.emplace_back("form", form_of(step, *tensor));
    }
    for (const std::string& output : step.outputs) makers[output] = step.op;
  }
  return cells;
}

}  // namespace finity::fuzz

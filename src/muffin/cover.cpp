#include "muffin/cover.h"

#include <algorithm>
#include <cmath>

namespace finity::muffin {

namespace {

// Sizes in classes: the edges of kernels' blocks tell them apart.
std::string size_class(std::int64_t size) {
  if (size <= 2) return std::to_string(size);
  return size < 8 ? "3-7" : size < 16 ? "8-15" : size == 16 ? "16" : size < 32 ? "17-31" : "32+";
}

std::string form_of(const Dims& dims) {
  std::string text = "rank " + std::to_string(dims.size());
  for (std::size_t i = 1; i < dims.size(); ++i) text += " " + size_class(dims[i]);
  return text;
}

std::string number_class(std::int64_t value) {
  if (value < 0) return "negative";
  if (value <= 2) return std::to_string(value);
  return value <= 4 ? "3-4" : value <= 8 ? "5-8" : "9+";
}

std::string value_class(const Param& param) {
  if (const auto* number = std::get_if<std::int64_t>(&param)) return number_class(*number);
  if (const auto* real = std::get_if<double>(&param)) return *real < 0.1 ? "<0.1" : *real < 1 ? "<1" : "1+";
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&param)) {
    std::string text;
    for (const std::int64_t value : *list) text += (text.empty() ? "" : " ") + number_class(value);
    return "[" + text + "]";
  }
  return std::get<std::string>(param);
}

}  // namespace

std::vector<CoverCell> cells_of(const LayerSpec& spec, const std::vector<Dims>& operands,
                                const std::vector<std::string>& makers) {
  std::vector<CoverCell> cells = {{"layer", spec.kind}};
  for (const Dims& dims : operands) cells.push_back({"form", spec.kind + " " + form_of(dims)});
  std::vector<std::string> values;
  for (const auto& [name, value] : spec.params) values.push_back(name + "=" + value_class(value));
  if (spec.inner) values.push_back("inner=" + spec.inner->kind);
  for (std::size_t i = 0; i < values.size(); ++i) {
    cells.push_back({"value", spec.kind + "." + values[i]});
    for (std::size_t k = i + 1; k < values.size(); ++k)
      cells.push_back({"pair", spec.kind + "." + values[i] + "." + values[k]});
  }
  for (std::size_t i = 0; i < makers.size(); ++i)
    cells.push_back({"edge", makers[i] + " " + spec.kind + (i == 0 ? "" : " " + std::to_string(i))});
  if (spec.inner) {
    for (CoverCell& cell : cells_of(*spec.inner, {}, {})) cells.push_back(std::move(cell));
  }
  return cells;
}

void Coverage::add(const std::vector<CoverCell>& cells) {
  for (const CoverCell& cell : cells) ++hits_[std::string(cell.kind)][cell.cell];
}

std::int64_t Coverage::hits(const CoverCell& cell) const {
  const auto kind = hits_.find(cell.kind);
  if (kind == hits_.end()) return 0;
  const auto found = kind->second.find(cell.cell);
  return found == kind->second.end() ? 0 : found->second;
}

double Coverage::novelty(const std::vector<CoverCell>& cells) const {
  double most = 0;
  for (const CoverCell& cell : cells) most = std::max(most, 1 / std::sqrt(1.0 + static_cast<double>(hits(cell))));
  return most;
}

std::map<std::string, std::int64_t> Coverage::sizes() const {
  std::map<std::string, std::int64_t> sizes;
  for (const auto& [kind, cells] : hits_) sizes[kind] = static_cast<std::int64_t>(cells.size());
  return sizes;
}

}  // namespace finity::muffin

#include "check/escape.h"

#include <algorithm>
#include <cmath>

#include "ops/shared/shapes.h"
#include "tensor/convert.h"

namespace finity {

namespace {

std::string shown(double x) { return to_string(point(x)); }

std::string shape_escape(const AbsTensor& range, const Tensor& tensor) {
  if (range.dtype != DType::undefined && range.dtype != tensor.dtype()) {
    return "is " + std::string(name(tensor.dtype())) + " but was taken to be " + std::string(name(range.dtype));
  }
  if (!range.ranked) return {};
  bool fits = range.sizes.size() == tensor.rank();
  for (std::size_t i = 0; fits && i < range.sizes.size(); ++i) {
    fits = range.sizes[i] < 0 || range.sizes[i] == tensor.dim(i);
  }
  if (fits) return {};
  return "has shape " + to_string(tensor.dims()) + " but was taken to be " + to_string(range.sizes);
}

std::string index_text(const Dims& dims, std::size_t position) {
  std::vector<std::int64_t> index(dims.size());
  for (std::size_t axis = dims.size(); axis-- > 0;) {
    index[axis] = static_cast<std::int64_t>(position % static_cast<std::size_t>(dims[axis]));
    position /= static_cast<std::size_t>(dims[axis]);
  }
  return to_string(index);
}

// The cell of every element, in order; empty when there is only one.
std::vector<std::size_t> cells_of(const AbsTensor& range, const Dims& dims) {
  std::vector<std::size_t> cells;
  if (!range.cut()) return cells;
  for (IndexCounter at(dims); at.valid(); at.next()) {
    std::size_t cell = 0;
    for (std::size_t axis = 0; axis < dims.size(); ++axis) {
      const Cuts& cuts = range.cuts[axis];
      const auto block = std::ranges::upper_bound(cuts, at.index()[axis]) - cuts.begin();
      cell = cell * range.blocks(axis) + static_cast<std::size_t>(block);
    }
    cells.push_back(cell);
  }
  return cells;
}

// The first element outside, and how many more there are.
template <class Outside, class Wanted>
std::string first_escape(const Tensor& tensor, const std::vector<double>& values, Outside outside, Wanted wanted) {
  std::size_t first = values.size(), count = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (!outside(i)) continue;
    first = std::min(first, i);
    ++count;
  }
  if (count == 0) return {};
  std::string text = "element " + index_text(tensor.dims(), first) + " is " + shown(values[first]) + wanted(first);
  if (count > 1) text += " (and " + std::to_string(count - 1) + " more of " + std::to_string(values.size()) + ")";
  return text;
}

std::string cell_escape(const AbsTensor& range, const Tensor& tensor) {
  const std::vector<double> values = elements<double>(tensor);
  const std::vector<std::size_t> cells = cells_of(range, tensor.dims());
  const auto cell = [&](std::size_t i) -> const Range& { return range.cells[cells.empty() ? 0 : cells[i]]; };
  return first_escape(
      tensor, values, [&](std::size_t i) { return !cell(i).contains(values[i]); },
      [&](std::size_t i) { return ", outside " + to_string(cell(i)); });
}

std::string exact_escape(const AbsTensor& range, const Tensor& tensor) {
  if (!range.exact) return {};
  if (range.exact->dims() != tensor.dims()) return "has another shape than its known elements";
  const std::vector<double> known = elements<double>(*range.exact);
  const std::vector<double> values = elements<double>(tensor);
  return first_escape(
      tensor, values, [&](std::size_t i) { return !same_number(known[i], values[i]); },
      [&](std::size_t i) { return ", known to be " + shown(known[i]); });
}

}  // namespace

bool is_number(DType dtype) { return is_float(dtype) || is_int(dtype) || dtype == DType::boolean; }

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

bool has_non_finite(const Datum& datum) {
  if (const Sequence* items = datum.sequence()) return std::ranges::any_of(*items, has_non_finite);
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr || !is_float(tensor->dtype())) return false;
  return std::ranges::any_of(elements<double>(*tensor), [](double x) { return !std::isfinite(x); });
}

std::optional<std::size_t> first_element(const Datum& datum, const std::function<bool(double)>& wanted) {
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr || !is_number(tensor->dtype())) return std::nullopt;
  const std::vector<double> values = elements<double>(*tensor);
  const auto found = std::ranges::find_if(values, wanted);
  if (found == values.end()) return std::nullopt;
  return static_cast<std::size_t>(found - values.begin());
}

std::string element_text(const Tensor& tensor, std::size_t position, std::string_view name) {
  const std::string index = tensor.rank() == 0 ? "" : "element " + index_text(tensor.dims(), position) + " of ";
  return index + "'" + std::string(name) + "' is " + shown(elements<double>(tensor)[position]);
}

std::string escape_of(const AbsTensor& range, const Datum& datum) {
  if (const Sequence* items = datum.sequence()) {
    for (const Datum& item : *items) {
      if (std::string escape = escape_of(range, item); !escape.empty()) return escape;
    }
    return {};
  }
  const Tensor* tensor = datum.tensor();
  if (tensor == nullptr || !is_number(tensor->dtype())) return {};
  if (std::string escape = shape_escape(range, *tensor); !escape.empty()) return escape;
  if (std::string escape = exact_escape(range, *tensor); !escape.empty()) return escape;
  return cell_escape(range, *tensor);
}

}  // namespace finity

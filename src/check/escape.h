// Concrete elements against the abstract tensor that claims to describe them.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "domain/abs_tensor.h"
#include "ops/table/datum.h"

namespace finity {

bool is_number(DType dtype);
bool has_non_finite(const Datum& datum);

// How the datum leaves its dtype, its shape, its known elements or its cells; empty when it does not. A datum without
// numbers leaves nothing.
std::string escape_of(const AbsTensor& range, const Datum& datum);

// Position of the first element of a tensor of numbers for which `wanted` holds. Sequences have none.
std::optional<std::size_t> first_element(const Datum& datum, const std::function<bool(double)>& wanted);
// "element [2] of 'y' is -Inf"
std::string element_text(const Tensor& tensor, std::size_t position, std::string_view name);

// Equal, or both NaN.
bool same_number(double a, double b);

}  // namespace finity

// Exact descriptions of data movement, the steps of Symbols::moved. A symbol is a
// function of an index with any number of axes, counted from the last (1, 2, ...),
// that is constant along axes where its tensor has size 1 or none. A step composes
// it with a map of indices:
//   S<axis>:<start>:<length>   a slice; after a slice of length 1 it is constant along the axis
//   G<axis>:<text>             any other selection along one axis; text has no '|'
//   M<shift>:<e1>,<e2>,...     source axis j reads result axis ej (0: has size 1); axes beyond the list read j + shift
//   R<sizes>><sizes>           row-major reshape of a whole block
// A chain is steps joined by '|', first applied first. Equal chains are equal functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/tensor.h"

namespace finity {

std::string slice_step(std::size_t axis, std::int64_t start, std::int64_t length);
// Any selection along an axis; `text` must describe it exactly.
std::string select_step(std::size_t axis, const std::string& text);
// `target[a]` is the position in the result of the source's axis a, both counted from the front; -1: an axis of size 1
// that goes away. "" when nothing moves.
std::string axes_step(const std::vector<std::int64_t>& target, std::size_t result_rank);
// "" when nothing moves.
std::string reshape_step(const Dims& from, const Dims& to);

// The chain followed by the step, in canonical form: slices of slices are one slice, selections stand before moved
// axes, transposing back gives nothing. "" is the identity.
std::string composed(std::string_view chain, std::string_view step);

}  // namespace finity

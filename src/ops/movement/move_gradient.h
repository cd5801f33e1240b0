// Gradients of ops that move elements: what arrives goes back to where it came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ops/table/build_call.h"

namespace finity {

Attrs with_attr(std::string name, Attr value);
Attrs with_attr(Attrs attrs, std::string name, Attr value);

// Elements of operand `input`, or of the attribute that older opsets have instead; an empty list when neither is given,
// nullopt when they are not known.
std::optional<std::vector<std::int64_t>> known_numbers(const BuildCall& call, std::string_view attr, std::size_t input);

// The sizes of a value as a vector: a constant when all are known.
ValueId shape_vector(BuildCall& call, ValueId value);
ValueId reshape_to(BuildCall& call, ValueId value, std::vector<std::int64_t> sizes);
ValueId reshape_like(BuildCall& call, ValueId value, ValueId like);
ValueId transpose(BuildCall& call, ValueId value, std::vector<std::int64_t> order);
// The sum of all elements, in the shape of `like`, which has one.
ValueId sum_all(BuildCall& call, ValueId value, ValueId like);

// The op gives operand 0 another shape and nothing else.
void reshape_gradient(BuildCall& call);

// Where each element went is found by moving their numbers with the same op; what arrives there is added up. Works for
// every op whose results hold elements of `operand`, of operands `others` and zeros, if it takes integers too. `attrs`
// replace those of the node.
void scatter_back(BuildCall& call, std::size_t operand, const std::vector<std::size_t>& others = {},
                  const Attrs* attrs = nullptr);
// The same for an op of one such operand, the first.
void movement_gradient(BuildCall& call);
// And for one that takes floats only, whose elements are numbered in float64.
void float_movement_gradient(BuildCall& call);

// Of data, when Gather(data, indices) along `axis` gets `arriving`. The ranks must be known.
ValueId gather_gradient(BuildCall& call, ValueId arriving, ValueId data, ValueId indices, std::int64_t axis);

}  // namespace finity

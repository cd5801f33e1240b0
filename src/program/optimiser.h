// One step of an optimiser on one weight, in the weight's own precision, as PyTorch and TensorFlow compute it. Both
// engines use this code, so a run gives the same weights in either up to the rounding of its gradients.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "program/program.h"

namespace finity {

// What an optimiser remembers of a weight: up to three numbers per element.
template <class T>
struct OptimiserState {
  std::vector<T> first = {}, second = {}, third = {};
};

// `step` counts from 1. T is float or double.
template <class T>
void optimiser_step(const Optimiser& optimiser, std::int64_t step, std::span<T> weight, std::span<const T> gradient,
                    OptimiserState<T>& state);

}  // namespace finity

// The numbers that a program draws: initial weights and noise inputs. What is drawn depends on the seed, on what it is
// for and on the step alone, so a run can be repeated from any point and in any process.
#pragma once

#include <cstdint>
#include <string_view>

#include "program/program.h"

namespace finity {

// Throws Error when the text is none: "uniform(0,1)", "normal(0.1)" (mean 0), "zeros", ...
Draw parse_draw(std::string_view text);
std::string to_string(const Draw& draw);

Tensor drawn(const Draw& draw, DType dtype, const Dims& dims, std::uint64_t seed);

// A seed for one purpose of a run.
std::uint64_t seed_for(std::uint64_t seed, std::string_view purpose, std::uint64_t step = 0);

// Programs that draw all of their samples anew for every step, as ones with as much data, drawn in advance: what may be
// chosen of samples (their order, one for the whole batch, which label goes with which) can be chosen then. Others stay
// as they are: what is drawn beside data is noise.
Program with_drawn_samples(Program program, std::uint64_t seed);

// Where a weight starts in a run with this seed.
Tensor initial_weight(const Program& program, const ProgramWeight& weight, std::uint64_t seed);

}  // namespace finity

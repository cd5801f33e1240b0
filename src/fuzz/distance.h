// How NNSmith judges: what a library gives for the optimised model beside the reference, element by element, within
// 1e-2 of the number and 1e-3. NaN equals NaN. Nothing of this says who is right.
#pragma once

#include <vector>

#include "fuzz/oracle.h"

namespace finity::fuzz {

std::vector<Complaint> judge_by_distance(Backend& backend, const Sample& sample, Counts& counts);

}  // namespace finity::fuzz

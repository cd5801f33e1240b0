// How much memory the process has held at most since it was asked to forget: for measurements, one at a time.
#pragma once

#include <cstddef>

namespace finity {

// Gives back what is free and starts counting anew. Without /proc the count goes on from the start of the process.
void forget_peak_memory();
// Bytes in memory at most; 0 when the system does not say.
std::size_t peak_memory();

}  // namespace finity

// One libFuzzer program per target: FINITY_FUZZ_TARGET is the function.
#include <cstdint>

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  finity::FINITY_FUZZ_TARGET({reinterpret_cast<const std::byte*>(data), size});
  return 0;
}

#include "base/peak_memory.h"

#include <malloc.h>

#include <fstream>
#include <string>

namespace finity {

void forget_peak_memory() {
  ::malloc_trim(0);
  std::ofstream("/proc/self/clear_refs") << "5";
}

std::size_t peak_memory() {
  std::ifstream status("/proc/self/status");
  constexpr std::size_t kKilo = 1024;
  for (std::string word; status >> word;) {
    std::size_t kilobytes = 0;
    if (word == "VmHWM:" && status >> kilobytes) return kilobytes * kKilo;
  }
  return 0;
}

}  // namespace finity

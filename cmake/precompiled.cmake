# Headers that nearly every file reads, compiled once. Off for fuzzers and clang-tidy, which so also see that every file
# includes what it uses.
option(FINITY_PCH "precompile standard headers" ON)
if(FINITY_FUZZERS)
  set(FINITY_PCH OFF)
endif()

set(finity_standard_headers <algorithm> <array> <cmath> <cstdint> <cstring> <functional> <limits> <map> <memory> <optional>
                            <span> <string> <string_view> <unordered_map> <utility> <variant> <vector>)

# finity_precompile(TARGET [HEADER...]): the standard headers and these.
function(finity_precompile target)
  if(FINITY_PCH)
    target_precompile_headers(${target} PRIVATE ${finity_standard_headers} ${ARGN})
  endif()
endfunction()

# finity_precompiled_like(TARGET OTHER): the two must have the same compiler options.
function(finity_precompiled_like target other)
  if(FINITY_PCH)
    target_precompile_headers(${target} REUSE_FROM ${other})
  endif()
endfunction()

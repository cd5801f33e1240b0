# Compiler settings shared by every target.
add_library(finity_options INTERFACE)
# Results must be those of the written operations: no contraction to FMA, never fast-math.
target_compile_options(finity_options INTERFACE -Wall -Wextra -Werror -ffp-contract=off -fno-math-errno)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A false alarm of g++ 12 on std::string's operator+.
  target_compile_options(finity_options INTERFACE -Wno-restrict)
  target_compile_options(finity_options INTERFACE -fpch-preprocess)  # wanted by ccache
endif()
# Assertions stay on: they are cheap next to what they guard.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

if(FINITY_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A false alarm of g++ 12 on <regex>, with the sanitizers only.
  target_compile_options(finity_options INTERFACE -Wno-maybe-uninitialized)
endif()
if(FINITY_SANITIZE)
  target_compile_options(finity_options INTERFACE -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined
                                                  -fno-sanitize-recover=all)
  target_link_options(finity_options INTERFACE -fsanitize=address,undefined)
endif()

if(FINITY_FUZZERS)
  target_compile_options(finity_options INTERFACE -O1 -g -fsanitize=fuzzer-no-link,address,undefined
                                                  -fno-sanitize-recover=all)
  target_link_options(finity_options INTERFACE -fsanitize=address,undefined)
endif()

find_program(ccache_program ccache)
if(ccache_program AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Otherwise ccache does not keep what uses precompiled headers.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${ccache_program})
endif()
find_program(mold_program mold)
if(mold_program)
  target_link_options(finity_options INTERFACE -fuse-ld=mold)
endif()

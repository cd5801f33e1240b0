// FINITY_WIDE before a function whose time goes into loops over floats: it is compiled several times, for the widest
// registers that the processor turns out to have. Rounding is that of the written operations, in their order, so all
// of these give the same bits.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define FINITY_WIDE __attribute__((optimize("O3"), target_clones("avx512f", "avx2", "default")))
#else
#define FINITY_WIDE
#endif

// prefetch: asks the processor for a cache line that will be read soon. A hint: no address is ever wrong.
#pragma once

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#endif

namespace gz {

inline void prefetch(const void* address) {
#if defined(_MSC_VER) && !defined(__clang__) && (defined(_M_X64) || defined(_M_IX86))
  _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T0);
#elif defined(_MSC_VER) && !defined(__clang__)
  __prefetch(address);
#else
  __builtin_prefetch(address);
  asm volatile("");  // to GCC a function that only prefetches does nothing: it drops calls that it does not inline
#endif
}

// The same, no nearer than the second-level cache. For runs of many lines: the first level keeps few lines on their way
// at once, and loads wait when those slots are full (benchmarks/gather --warm: 1.2 to 1.4 times as fast).
inline void prefetch_run(const void* address) {
#if defined(_MSC_VER) && !defined(__clang__) && (defined(_M_X64) || defined(_M_IX86))
  _mm_prefetch(static_cast<const char*>(address), _MM_HINT_T1);
#elif defined(_MSC_VER) && !defined(__clang__)
  __prefetch(address);
#else
  __builtin_prefetch(address, 0, 2);
  asm volatile("");
#endif
}

}  // namespace gz

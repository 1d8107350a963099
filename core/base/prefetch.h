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
#endif
}

}  // namespace gz

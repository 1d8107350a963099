// thread_name: what tools such as top and a profiler call a thread of the engine.
#pragma once

#ifdef __linux__
#include <pthread.h>
#endif

namespace gz {

// Names the calling thread; at most 15 characters. Does nothing where threads have no names of this kind.
inline void name_thread([[maybe_unused]] const char* name) noexcept {
#ifdef __linux__
  pthread_setname_np(pthread_self(), name);
#endif
}

}  // namespace gz

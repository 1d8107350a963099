// process: which process this is, for objects that own threads. A forked child has copies of them, but not of the
// threads, and of locks and condition variables in whatever state those threads had them: it must leave them alone.
#pragma once

#include <cstdint>

#ifndef _WIN32
#include <unistd.h>
#endif

namespace gz {

inline int64_t process_id() {
#ifdef _WIN32
  return 0;  // there is no fork
#else
  return getpid();
#endif
}

}  // namespace gz

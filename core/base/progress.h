// progress: how long-running work reports to its caller, and how the caller stops it.
#pragma once

#include <cstdint>

namespace gz {

// report() is called from the thread that called into the core, at least every few hundred milliseconds of work; it may
// throw Cancelled (Ctrl-C), which unwinds the work. `phase` is a short noun phrase that stays the same within a phase.
class Progress {
 public:
  virtual ~Progress() = default;
  virtual void report(const char* phase, uint64_t done, uint64_t total) = 0;
};

}  // namespace gz

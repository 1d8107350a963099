// mailbox: the queue between a sweep and the threads that use it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "sweep/claim.h"

namespace gz {

// All guarded by mutex, which is held briefly. Dropping claims under it takes the lock of the pool, and no other.
struct Mailbox {
  using Claims = std::vector<std::shared_ptr<Claim>>;
  std::mutex mutex;
  std::condition_variable changed;  // any member below changed
  Claims submitted, released;       // released: copied
  bool stopping = false;            // the sweep is to stop
  bool cancelling = false;          // the sweep is to drop all claims, and resets this when it has
  bool ended = false;               // the sweep has stopped and no longer responds
};

}  // namespace gz

// mailbox: what passes between a sweep and everybody else.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "sweep/claim.h"

namespace gz {

// All guarded by mutex, which is held for moments and with no other lock taken inside.
struct Mailbox {
  using Claims = std::vector<std::shared_ptr<Claim>>;
  std::mutex mutex;
  std::condition_variable changed;  // anything below
  Claims submitted, released;       // released: copied
  bool stopping = false;            // the sweep shall end
  bool cancelling = false;          // the sweep shall forget all claims; it says when it has
  bool ended = false;               // the sweep is over: nothing is answered
};

}  // namespace gz

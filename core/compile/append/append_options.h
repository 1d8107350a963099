// append_options: what writing a delta or merging deltas may use.
#pragma once

#include <cstdint>

#include "base/progress.h"

namespace gz {

struct AppendOptions {
  uint64_t memory = uint64_t{1} << 30;
  int threads = 1;
  Progress* progress = nullptr;
};

}  // namespace gz

// stages: what the files of the pipeline share.
#pragma once

#include <chrono>

#include "base/error.h"
#include "load/pipeline.h"

namespace gz {

using Clock = std::chrono::steady_clock;
inline double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Ends work that nobody waits for any more: the epoch was stopped, or its batch was thrown away.
class Pipeline::Cancel : public Progress {
 public:
  explicit Cancel(const Pipeline& pipeline) : pipeline_(pipeline), generation_(pipeline.generation_) {}
  uint64_t generation() const { return generation_; }
  void report(const char*, uint64_t, uint64_t) override {
    if (pipeline_.stopping_ || pipeline_.generation_ != generation_) throw Cancelled();
  }

 private:
  const Pipeline& pipeline_;
  const uint64_t generation_;
};

}  // namespace gz

// stages: what the files of the pipeline share.
#pragma once

#include <chrono>

namespace gz {

using Clock = std::chrono::steady_clock;
inline double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

}  // namespace gz

// touch_ahead: one system call for each stretch.
#include "gather/touch_ahead.h"

#include <algorithm>
#include <system_error>

#ifdef __linux__
#include <sys/mman.h>
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#endif

namespace gz {
namespace {

constexpr size_t kStretch = size_t{2} << 20;  // at a time: meanwhile nobody else can map or unmap memory
constexpr size_t kAhead = 16 * kStretch;

// Leaves what is there as it is. False where the kernel is older than 5.14 or has no memory for it.
bool populate([[maybe_unused]] std::span<std::byte> memory) {
#ifdef __linux__
  return madvise(memory.data(), memory.size(), MADV_POPULATE_WRITE) == 0;
#else
  return false;
#endif
}

}  // namespace

TouchAhead::TouchAhead(std::span<std::byte> memory) : memory_(memory) {
  if (memory_.size() < kAhead) return;
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error&) {  // no more threads: pages come as they are touched
  }
}

TouchAhead::~TouchAhead() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  news_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void TouchAhead::use(size_t bytes) {
  if (bytes < asked_ + kStretch) return;
  asked_ = bytes;
  std::lock_guard lock(mutex_);
  used_ = bytes;
  news_.notify_all();
}

void TouchAhead::run() {
  for (size_t at = 0; at < memory_.size();) {
    {
      std::unique_lock lock(mutex_);
      news_.wait(lock, [&] { return stopping_ || at < used_ + kAhead; });
      if (stopping_) return;
      at = std::max(at, used_ / kStretch * kStretch);
    }
    const auto stretch = memory_.subspan(at, std::min(kStretch, memory_.size() - at));
    if (!populate(stretch)) return;
    at += stretch.size();
  }
}

}  // namespace gz

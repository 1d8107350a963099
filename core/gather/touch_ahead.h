// touch_ahead: has the system lay out memory a little before it is used for the first time, on a thread of its own.
//
// A huge page is cleared at its first touch, and in a virtual machine the host may have to find it first: a sweep that
// fills its window would stand still for that, page after page, while other cores idle.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <span>
#include <thread>

namespace gz {

class TouchAhead {
 public:
  // Of `memory`, which stays until this object is gone. Does nothing where the system cannot.
  explicit TouchAhead(std::span<std::byte> memory);
  ~TouchAhead();

  void use(size_t bytes);  // so many from the start are in use

 private:
  void run();

  const std::span<std::byte> memory_;
  std::mutex mutex_;
  std::condition_variable news_;
  size_t used_ = 0;        // guarded by mutex_
  bool stopping_ = false;  // guarded by mutex_
  size_t asked_ = 0;       // of used_, by the thread that uses it
  std::thread thread_;
};

}  // namespace gz

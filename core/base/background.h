// background: threads that work ahead of somebody, in the processor time that is left over.
//
// A thread that wakes up waits for the one that runs to use up its slice: a model's threads, which meet many times a
// step, lose a tenth of their time to two or three threads that fill in between them. Threads of the lowest class make
// way at once. But on a machine that is busy otherwise they hardly run at all, so they are taken back into the class
// that they came from whenever somebody waits for them.
#pragma once

#include <mutex>
#include <vector>

namespace gz {

class Background {
 public:
  // Whether threads may go to the lowest class and come back: on Linux, with the right to raise priorities.
  static bool is_possible();

  // A thread that one of them starts has its class to begin with: puts the calling thread, a new one, into the class of
  // the process.
  static void start_ordinary() noexcept;

  // The calling thread is one of them as long as this lives.
  class Member {
   public:
    explicit Member(Background& all);
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

   private:
    Background& all_;
  };

  // Whether somebody waits for them, as it is to begin with. Any thread.
  void set_awaited(bool awaited) noexcept;

 private:
  struct Thread {
    int id, policy;  // its own
  };
  static void apply(const Thread& thread, bool awaited) noexcept;

  std::mutex mutex_;
  bool awaited_ = true;          // guarded by mutex_
  std::vector<Thread> threads_;  // guarded by mutex_
};

}  // namespace gz

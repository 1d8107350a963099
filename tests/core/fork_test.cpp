// fork_test: a child that is forked while other threads hold locks finds them free, and what they guard whole.
#include "base/fork.h"

#ifndef _WIN32  // which has no fork
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/per_process.h"
#include "check.h"
#include "gather_files.h"
#include "storage/features.h"
#include "storage/mounted.h"

using namespace gz;
using namespace gz::test;

namespace {

// The exit status of a child that does this; one that hangs is killed.
int status_of_child(const std::function<bool()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    bool done = false;
    try {
      done = work();
    } catch (...) {
    }
    _exit(done ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

// Runs `body` again and again in a thread for as long as this exists.
class Repeating {
 public:
  explicit Repeating(std::function<void()> body)
      : thread_([this, body = std::move(body)] {
          while (!stop_) body();
        }) {}
  ~Repeating() {
    stop_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace

TEST(a_forked_child_finds_a_mutex_unlocked_and_its_data_whole) {
  ForkSafeMutex mutex;
  uint64_t a = 0, b = 0;  // guarded by mutex, and equal
  const Repeating busy([&] {
    const std::lock_guard lock(mutex);
    ++a;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    ++b;
  });
  for (int i = 0; i < 50; ++i) {
    CHECK_EQ(status_of_child([&] {
               const std::lock_guard lock(mutex);
               return a == b;
             }),
             0);
  }
}

TEST(a_child_can_fork_and_its_threads_have_sections) {
  CHECK_EQ(status_of_child([] {
             const Repeating busy([] {
               const NoFork outer;
               const NoFork inner;
             });
             for (int i = 0; i < 50; ++i) {
               if (status_of_child([] {
                     const NoFork section;
                     return true;
                   }) != 0) {
                 return false;
               }
             }
             return true;
           }),
           0);
}

TEST(sections_may_be_nested_while_a_fork_waits) {
  std::atomic<bool> within{false};
  std::thread nested([&] {
    const NoFork outer;
    within = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the other thread waits in fork() by then
    const NoFork inner;
  });
  while (!within) std::this_thread::yield();
  const int status = status_of_child([] { return true; });
  nested.join();
  CHECK_EQ(status, 0);
}

TEST(an_object_that_is_made_while_a_fork_waits_is_made_anew_in_the_child) {
  const auto object = []() -> int& { return per_process([] { return new int(0); }); };
  std::atomic<bool> within{false};
  std::atomic<const int*> parents{nullptr};
  std::thread maker([&] {
    const NoFork section;
    within = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // the other thread waits in fork() by then
    parents = &object();
  });
  while (!within) std::this_thread::yield();
  const int status = status_of_child([&] { return parents != nullptr && &object() != parents; });
  maker.join();
  CHECK_EQ(status, 0);
  CHECK(&object() == parents);
}

TEST(a_fork_is_not_kept_waiting_by_threads_that_come_later) {
  ForkSafeMutex mutex;
  uint64_t sum = 0;
  std::vector<std::unique_ptr<Repeating>> busy;
  for (int i = 0; i < 8; ++i) {
    busy.push_back(std::make_unique<Repeating>([&] {
      const std::lock_guard lock(mutex);
      ++sum;
    }));
  }
  for (int i = 0; i < 20; ++i) CHECK_EQ(status_of_child([] { return true; }), 0);
}

TEST(a_forked_child_can_use_files_that_other_threads_were_just_using) {
  const std::string path = write_features("busy.gd", {{"x", DType::kFloat32, 50, 8}});
  for (int i = 0; i < 300; ++i) {
    const auto file = FeatureFile::open(path);
    std::atomic<bool> begun{false};
    const auto use = [&] {
      const MountedFile& mounted = file->file();
      mounted.warmth().remember(0, std::chrono::milliseconds(1));
      const bool warm = mounted.warmth().recent(0);
      mounted.direct();
      return warm && mounted.user_mapping() != nullptr && FeatureFile::open(path) != nullptr &&
             !mounted_files().empty();
    };
    const Repeating busy([&] {
      begun = true;
      use();
    });
    while (!begun) {
    }
    CHECK_EQ(status_of_child(use), 0);
  }
}
#endif

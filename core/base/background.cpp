// background: scheduling classes, where the system has them.
#include "base/background.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

#ifdef __linux__
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace gz {
#ifdef __linux__
namespace {

bool set_policy(int id, int policy) noexcept {
  const sched_param no_priority{};
  return sched_setscheduler(id, policy, &no_priority) == 0;
}

int own_id() noexcept { return static_cast<int>(syscall(SYS_gettid)); }
int own_policy() noexcept { return sched_getscheduler(0); }
bool is_ordinary(int policy) noexcept { return policy == SCHED_OTHER || policy == SCHED_BATCH; }

std::atomic<int> ordinary{-1};  // the policy that threads come back to; none before it was tried

// A thread that is not let back stays where it is, so one is sent that is not needed afterwards.
bool try_it() {
  bool comes_back = false;
  try {
    std::thread([&] {
      const int policy = own_policy();
      comes_back = is_ordinary(policy) && set_policy(0, SCHED_IDLE) && set_policy(0, policy);
      if (comes_back) ordinary = policy;
    }).join();
  } catch (const std::system_error&) {
  }
  return comes_back;
}

}  // namespace

bool Background::is_possible() {
  static const bool possible = try_it();
  return possible;
}

void Background::start_ordinary() noexcept {
  const int policy = ordinary;
  if (policy >= 0 && own_policy() == SCHED_IDLE) set_policy(0, policy);
}

Background::Member::Member(Background& all) : all_(all) {
  if (!is_possible()) return;
  start_ordinary();
  const std::lock_guard lock(all_.mutex_);
  all_.threads_.push_back({own_id(), own_policy()});
  apply(all_.threads_.back(), all_.awaited_);
}

Background::Member::~Member() {
  const std::lock_guard lock(all_.mutex_);
  std::erase_if(all_.threads_, [id = own_id()](const Thread& thread) { return thread.id == id; });
}

void Background::set_awaited(bool awaited) noexcept {
  const std::lock_guard lock(mutex_);
  if (awaited_ == awaited) return;
  awaited_ = awaited;
  for (const Thread& thread : threads_) apply(thread, awaited);
}

void Background::apply(const Thread& thread, bool awaited) noexcept {
  if (is_ordinary(thread.policy)) set_policy(thread.id, awaited ? thread.policy : SCHED_IDLE);
}
#else
bool Background::is_possible() { return false; }
void Background::start_ordinary() noexcept {}
Background::Member::Member(Background& all) : all_(all) {}
Background::Member::~Member() = default;
void Background::set_awaited(bool) noexcept {}
void Background::apply(const Thread&, bool) noexcept {}
#endif

}  // namespace gz

// interrupt_test: calls that are asked to stop do so between chunks, on every thread, and are as good as new after.
#include "base/interrupt.h"

#include <vector>

#include "base/error.h"
#include "base/threads.h"
#include "check.h"
#include "sample/walk/pairs.h"

using namespace gz;

namespace {

struct StopAfter : Progress {
  explicit StopAfter(int looks_) : left(looks_) {}
  void report(const char*, uint64_t, uint64_t) override {
    if (--left < 0) throw Cancelled();
  }
  int left;
};

}  // namespace

TEST(an_interrupt_stops_parallel_for_between_chunks) {
  StopAfter stop(5);
  int begun = 0;
  {
    const Interruptible scope(stop);
    CHECK_THROWS(Cancelled, "cancelled", parallel_for(1000, 1, 1, [&](size_t, size_t, int) { ++begun; }));
  }
  CHECK_EQ(begun, 5);
  parallel_for(10, 1, 1, [&](size_t, size_t, int) { ++begun; });  // nothing is left of it
  CHECK_EQ(begun, 15);
}

TEST(an_interrupt_reaches_helpers_in_the_midst_of_a_chunk) {
  StopAfter stop(3);
  const Interruptible scope(stop);
  // Chunks without an end: each thread leaves its own only by the look.
  CHECK_THROWS(Cancelled, "cancelled", parallel_for(3, 1, 3, [&](size_t, size_t, int) {
                 for (;;) check_interrupt();
               }));
}

TEST(only_the_thread_that_opened_it_is_asked_and_scopes_nest) {
  StopAfter outer(1000), inner(0);
  const Interruptible scope(outer);
  {
    const Interruptible nested(inner);
    CHECK_THROWS(Cancelled, "cancelled", check_interrupt());
  }
  check_interrupt();
  CHECK_EQ(outer.left, 999);
}

TEST(pairs_can_be_interrupted) {
  std::vector<int64_t> nodes(1 << 18);
  for (size_t i = 0; i < nodes.size(); ++i) nodes[i] = static_cast<int64_t>(i);
  const WalkPairs pairs({nodes.data(), nodes.size() / 64, 64}, {.window = 5, .shuffle = true, .threads = 1});
  std::vector<int64_t> center(pairs.size()), context(pairs.size());
  StopAfter stop(2);
  const Interruptible scope(stop);
  CHECK_THROWS(Cancelled, "cancelled", pairs.fill(center, context));
}

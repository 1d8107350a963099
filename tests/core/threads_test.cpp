// threads_test: processors that threads of a loader leave to others.
#include "base/threads.h"

#include <cstdint>
#include <thread>

#include "check.h"

#ifdef __linux__
#include <sched.h>
#endif

using namespace gz;

TEST(threads_that_feed_devices_leave_a_processor_per_rank) {
  for (const uint64_t few : {0, 1, 2, 7}) CHECK_EQ(processors_left(few, 1), uint64_t{0});
  CHECK_EQ(processors_left(8, 1), uint64_t{1});
  CHECK_EQ(processors_left(64, 1), uint64_t{1});
  CHECK_EQ(processors_left(15, 2), uint64_t{0});
  CHECK_EQ(processors_left(16, 2), uint64_t{2});
  CHECK_EQ(processors_left(16, 0), uint64_t{0});
}

#ifdef __linux__
TEST(threads_leave_processors_of_their_own_only) {
  cpu_set_t before, after, main;
  CPU_ZERO(&main);
  if (sched_getaffinity(0, sizeof before, &before) != 0) return;
  std::thread([&] {
    leave_processors(1);
    sched_getaffinity(0, sizeof after, &after);
  }).join();
  sched_getaffinity(0, sizeof main, &main);
  const auto count = static_cast<uint64_t>(CPU_COUNT(&before));
  CHECK_EQ(static_cast<uint64_t>(CPU_COUNT(&after)), count - processors_left(count, 1));
  CHECK(CPU_EQUAL(&main, &before));
}
#endif

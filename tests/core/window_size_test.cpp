// window_size_test: how many claims a window admits, circle by circle.
#include <cmath>

#include "check.h"
#include "sweep/sweep.h"

using namespace gz;

namespace {

struct Circle {
  uint64_t held;
  bool waited;
  uint64_t stalled_with;  // claims; 0: no stall
  uint64_t target;        // afterwards
};

void check_circles(WindowSize size, std::initializer_list<Circle> circles) {
  for (const Circle& circle : circles) {
    size.note_held(circle.held / 2);
    size.note_held(circle.held);
    if (circle.waited) size.note_waiting();
    if (circle.stalled_with > 0) size.stall(circle.stalled_with);
    size.end_circle();
    CHECK_EQ(size.target(), circle.target);
  }
}

}  // namespace

TEST(a_window_grows_by_the_room_that_a_circle_left_and_by_one_at_least) {
  check_circles({100, 150, 0, 1000}, {{800, true, 0, 120}, {900, true, 0, 128}, {960, true, 0, 129}});
  check_circles({100, 150, 0, 1000}, {{100, true, 0, 150}, {200, true, 0, 150}});  // at most 150
  check_circles({148, 150, 0, 1000}, {{990, true, 0, 149}, {995, true, 0, 150}, {999, true, 0, 150}});
}

TEST(a_window_is_estimated_within_its_first_circle) {
  WindowSize size(100, 150, 0, 1000);
  size.note_held(200);  // 50 claims, a quarter read on average: 16 rows each; 100 claims, half read, hold 800
  size.estimate(0.5, 50);
  CHECK_EQ(size.target(), 120u);
  size.note_held(900);  // more than was to be expected: it does not shrink
  size.estimate(0.75, 75);
  CHECK_EQ(size.target(), 120u);
  WindowSize late(100, 150, 0, 1000);
  late.note_held(200);  // half as many were admitted: they hold more each
  late.estimate(0.5, 25);
  CHECK_EQ(late.target(), 100u);
  WindowSize full(100, 150, 0, 1000);
  full.stall(90);
  full.note_held(100);
  full.estimate(0.5, 50);
  CHECK_EQ(full.target(), 84u);
}

TEST(a_window_stays_where_its_target_was_no_limit) {
  check_circles({100, 150, 0, 1000}, {{500, false, 0, 100}, {0, true, 0, 100}, {0, false, 0, 100}});
}

TEST(a_window_shrinks_by_a_sixteenth_once_a_circle_that_stalls) {
  check_circles({160, 200, 0, 1000}, {{1000, true, 160, 150}, {1000, true, 150, 140}, {900, true, 0, 149}});
  check_circles({160, 200, 0, 1000}, {{1000, true, 80, 75}});  // fewer were admitted when it was full
  check_circles({3, 4, 0, 1000}, {{1000, true, 3, 2}, {1000, true, 2, 2}, {1000, true, 1, 2}});
  WindowSize size(160, 200, 0, 1000);
  size.stall(160);
  size.stall(150);
  size.stall(100);
  CHECK_EQ(size.target(), 150u);
}

TEST(a_window_goes_on_with_what_a_sweep_before_learned) {
  CHECK_EQ(WindowSize(100, 150, 0, 1000).target(), 100u);
  CHECK_EQ(WindowSize(100, 150, 130, 1000).target(), 130u);
  CHECK_EQ(WindowSize(100, 150, 400, 1000).target(), 150u);  // there is memory for fewer now
  CHECK_EQ(WindowSize(0, 0, 0, 1000).target(), 1u);
}

// n claims hold 10 n^a rows: the number that fills the window is reached in a few circles, and passed by one at most.
TEST(a_window_finds_its_size_whatever_claims_share) {
  for (const double a : {0.5, 0.7, 0.9, 1.0}) {
    WindowSize size(40, 100000, 0, 1000);
    for (int circle = 0; circle < 12; ++circle) {
      const double held = 10 * std::pow(static_cast<double>(size.target()), a);
      CHECK(held <= 10 * std::pow(std::pow(100, 1 / a) + 1, a) + 1e-6);
      size.note_held(static_cast<uint64_t>(held));
      if (held > 1000) size.stall(size.target());
      size.note_waiting();
      size.end_circle();
    }
    const double fits = std::pow(96, 1 / a);
    CHECK(static_cast<double>(size.target()) > 0.9 * fits);
  }
}

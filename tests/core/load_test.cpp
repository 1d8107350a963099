// load_test: epoch orders.
#include <algorithm>
#include <numeric>

#include "check.h"
#include "load/order.h"

using namespace gz;

TEST(epoch_order_is_a_permutation_that_depends_on_seed_and_epoch_alone) {
  const auto order = epoch_order(1000, true, 7, 3);
  CHECK(order == epoch_order(1000, true, 7, 3));
  CHECK(order != epoch_order(1000, true, 7, 4));
  CHECK(order != epoch_order(1000, true, 8, 3));
  auto sorted = order;
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == epoch_order(1000, false, 7, 3));
  CHECK_EQ(sorted.front(), 0);
  CHECK_EQ(sorted.back(), 999);
}

TEST(epoch_order_is_uniform_over_the_first_place) {
  // 6000 epochs over 6 seeds: chi-square with 5 degrees of freedom; 30 has a false-alarm rate of 1.5e-5, and the seed
  // is fixed, so the test never flakes.
  std::vector<int> first(6);
  for (uint64_t epoch = 0; epoch < 6000; ++epoch) ++first[static_cast<size_t>(epoch_order(6, true, 11, epoch)[0])];
  double chi = 0;
  for (const int count : first) chi += (count - 1000.0) * (count - 1000.0) / 1000.0;
  CHECK(chi < 30);
}

TEST(batches_cover_the_order) {
  CHECK_EQ(count_batches(10, 4, false), 3u);
  CHECK_EQ(count_batches(10, 4, true), 2u);
  CHECK_EQ(count_batches(8, 4, false), 2u);
  CHECK_EQ(count_batches(0, 4, false), 0u);
  const auto order = epoch_order(10, false, 0, 0);
  CHECK_EQ(batch_input(order, 4, 2).size(), 2u);
  CHECK_EQ(batch_input(order, 4, 1).front(), 4);
}

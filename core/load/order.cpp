// order: Fisher and Yates, by counter.
#include "load/order.h"

#include <algorithm>
#include <numeric>

#include "base/random.h"

namespace gz {
namespace {

constexpr uint64_t kShuffle = 0x73687566666c65ull;  // keeps the two uses of (seed, epoch) apart
constexpr uint64_t kBatch = 0x6261746368ull;

}  // namespace

std::vector<int64_t> epoch_order(uint64_t count, bool shuffle, uint64_t seed, uint64_t epoch) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), int64_t{0});
  if (!shuffle) return order;
  Random random(make_key(seed, kShuffle, epoch));
  for (uint64_t i = count; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  return order;
}

uint64_t count_batches(uint64_t count, uint64_t batch_size, bool drop_last) {
  return drop_last ? count / batch_size : count / batch_size + (count % batch_size != 0 ? 1 : 0);
}

std::vector<int64_t> batch_input(std::span<const int64_t> order, uint64_t batch_size, uint64_t number) {
  const auto part = order.subspan(number * batch_size);
  const auto taken = part.first(std::min<uint64_t>(batch_size, part.size()));
  return {taken.begin(), taken.end()};
}

uint64_t batch_seed(uint64_t seed, uint64_t epoch, uint64_t number) { return make_key(seed, kBatch, epoch, number); }

}  // namespace gz

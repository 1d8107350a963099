// pairs: counting, filling in order, and filling by random access.
#include "sample/walk/pairs.h"

#include <algorithm>
#include <array>
#include <bit>

#include "base/checked.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/permutation.h"
#include "base/prefetch.h"
#include "base/random.h"
#include "base/threads.h"

namespace gz {
namespace {

constexpr uint64_t kStream = 0x7372696170;  // "pairs": separate from other draws of the same seed
constexpr size_t kChunkPairs = size_t{1} << 15;

using Shuffle = Permutation<BitHalves, 6>;

Shuffle shuffle_of(uint64_t n, uint64_t key) {
  Shuffle::Keys keys;
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = absorb(key, i);
  return {n, keys};
}

// The nodes of a walk that count: up to padding, without the repeats of a dead end.
uint64_t counted(const int64_t* walk, size_t columns) {
  const auto end = static_cast<uint64_t>(std::find_if(walk, walk + columns, [](int64_t n) { return n < 0; }) - walk);
  uint64_t length = end;
  while (length >= 2 && walk[length - 1] == walk[length - 2]) --length;
  return length;
}

// The sum of min(j, window) over j < n.
constexpr uint64_t ramp(uint64_t n, uint64_t window) {
  const uint64_t rising = std::min(n, window + 1);
  return rising * (rising - 1) / 2 + (n - rising) * window;  // 0 for n = 0: 0 * anything
}

// How many pairs the centers before `center` have in a walk of `length` nodes: contexts before them, then after them.
constexpr uint64_t pairs_before(uint64_t center, uint64_t length, uint64_t window) {
  return ramp(center, window) + ramp(length, window) - ramp(length - center, window);
}

struct Position {
  uint64_t center, context;
};

// The pair number `k` of a walk of `length` nodes.
Position pair_at(uint64_t k, uint64_t length, uint64_t window) {
  uint64_t center = 0;
  for (uint64_t half = std::bit_floor(length); half > 0; half /= 2) {  // the last center with pairs_before <= k
    const uint64_t next = std::min(center + half, length);             // all come before `length`, and k is one of them
    center = pairs_before(next, length, window) <= k ? next : center;
  }
  const uint64_t nth = k - pairs_before(center, length, window);
  const uint64_t before = std::min(center, window);
  return {center, nth < before ? center - before + nth : center + 1 + nth - before};
}

}  // namespace

WalkPairs::WalkPairs(WalkMatrix walks, const PairOptions& options) : walks_(walks), options_(options) {
  if (options.window == 0) fail<ArgumentError>("window is 0, expected 1 or more");
  options_.window = std::min<uint64_t>(options.window, std::max<size_t>(walks.columns, 2) - 1);
  const auto cells = checked_mul(walks.rows, walks.columns);
  if (!cells || !checked_mul(*cells, 2 * options_.window)) fail<ArgumentError>("the walks have more than 2^64 pairs");
  ends_ = Buffer(walks.rows * sizeof(uint64_t), Purpose::kBatches);
  first_ = Buffer((walks.rows + 1) * sizeof(uint64_t), Purpose::kBatches);
  uint64_t* ends = ends_.as<uint64_t>();
  const size_t grain = std::max<size_t>(kChunkPairs / std::max<size_t>(walks.columns, 1), 1);
  parallel_for(walks.rows, grain, resolve_threads(options.threads), [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) ends[i] = counted(walks_.data + i * walks_.columns, walks_.columns);
  });
  for (size_t i = 0; i < walks.rows; ++i) {
    if (i % kChunkPairs == 0) check_interrupt();
    first_.as<uint64_t>()[i] = total_;
    total_ += pairs_before(ends[i], ends[i], options_.window);
  }
  first_.as<uint64_t>()[walks.rows] = total_;
  size_ = std::min(total_, options.limit.value_or(total_));
}

void WalkPairs::fill(std::span<int64_t> center, std::span<int64_t> context) const {
  if (options_.shuffle || options_.limit) {
    fill_shuffled(center.data(), context.data());
  } else {
    fill_in_order(center.data(), context.data());
  }
}

void WalkPairs::fill_in_order(int64_t* center, int64_t* context) const {
  const size_t each = std::max<size_t>(2 * options_.window * walks_.columns, 1);
  parallel_for(walks_.rows, std::max<size_t>(kChunkPairs / each, 1), resolve_threads(options_.threads),
               [&](size_t begin, size_t end, int) {
                 uint64_t at = first_pair(begin);
                 for (size_t walk = begin; walk < end; ++walk) {
                   const int64_t* nodes = walks_.data + walk * walks_.columns;
                   const uint64_t length = walk_length(walk);
                   for (uint64_t i = 0; i < length; ++i) {
                     const auto add = [&](uint64_t j) {
                       center[at] = nodes[i];
                       context[at++] = nodes[j];
                     };
                     for (uint64_t j = i - std::min(i, options_.window); j < i; ++j) add(j);
                     for (uint64_t j = i + 1; j < std::min(length, i + options_.window + 1); ++j) add(j);
                   }
                 }
               });
}

// The walk that pair `k` belongs to. Walks have about as many pairs each, so the search starts where it would be if
// they had exactly as many, and widens from there.
size_t WalkPairs::walk_of(uint64_t k) const {
  const uint64_t* first = first_.as<uint64_t>();
  const double share = static_cast<double>(k) / static_cast<double>(total_);
  size_t low = std::min(static_cast<size_t>(share * static_cast<double>(walks_.rows)), walks_.rows - 1), high = low + 1;
  for (size_t step = 1; first[low] > k; step *= 2) {
    high = low;
    low -= std::min(step, low);
  }
  for (size_t step = 1; high < walks_.rows && first[high] <= k; step *= 2) {
    low = high;
    high = std::min(high + step, walks_.rows);
  }
  return static_cast<size_t>(std::upper_bound(first + low, first + high, k) - first) - 1;
}

// Pair number shuffle(i) goes to place i: nothing is stored but the result, so `limit` bounds the memory.
void WalkPairs::fill_shuffled(int64_t* center, int64_t* context) const {
  constexpr size_t kAhead = 32;
  const Shuffle shuffle = shuffle_of(total_, make_key(options_.seed, kStream));
  parallel_for(size_, kChunkPairs, resolve_threads(options_.threads), [&](size_t begin, size_t end, int) {
    std::array<const int64_t*, kAhead> walk;
    std::array<Position, kAhead> position;
    for (size_t group = begin; group < end; group += kAhead) {
      const size_t count = std::min(kAhead, end - group);
      for (size_t i = 0; i < count; ++i) {
        const uint64_t k = shuffle(group + i);
        const size_t row = walk_of(k);
        walk[i] = walks_.data + row * walks_.columns;
        position[i] = pair_at(k - first_pair(row), walk_length(row), options_.window);
        prefetch(walk[i] + position[i].center);
        prefetch(walk[i] + position[i].context);
      }
      for (size_t i = 0; i < count; ++i) {
        center[group + i] = walk[i][position[i].center];
        context[group + i] = walk[i][position[i].context];
      }
    }
  });
}

}  // namespace gz

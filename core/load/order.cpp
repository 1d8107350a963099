// order: a permutation by Feistel rounds on a rectangle, and batches dealt out to ranks.
#include "load/order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "base/random.h"

namespace gz {
namespace {

constexpr uint64_t kShuffle = 0x73687566666c65ull;  // keeps the two uses of (seed, epoch) apart
constexpr uint64_t kBatch = 0x6261746368ull;

// Uniform in [0, n), a function of (key, x).
uint64_t draw_below(uint64_t key, uint64_t x, uint64_t n) { return multiply_high(mix(key + x * kGolden), n); }

uint64_t add_modulo(uint64_t a, uint64_t b, uint64_t n) { return a + b < n ? a + b : a + b - n; }

}  // namespace

EpochOrder::EpochOrder(uint64_t count, bool shuffle, uint64_t seed, uint64_t epoch) : count_(count), shuffle_(shuffle) {
  if (count >> 62 != 0) fail<ArgumentError>("an epoch of ", count, " seeds is too long, expected less than 2^62");
  if (!shuffle || count == 0) return;
  Random random(make_key(seed, kShuffle, epoch));
  if (count <= kShort) {  // Fisher and Yates
    std::iota(table_.begin(), table_.end(), uint8_t{0});
    for (uint64_t i = count; i > 1; --i) std::swap(table_[i - 1], table_[random.below(i)]);
    return;
  }
  // The root may be off by a few either way, which only changes the rectangle's shape: width covers the count.
  height_ = static_cast<uint64_t>(std::sqrt(static_cast<double>(count)));
  width_ = (count + height_ - 1) / height_;
  for (uint64_t& key : keys_) key = random.next();
}

uint64_t EpochOrder::permute(uint64_t place) const {
  uint64_t row = place / width_, column = place % width_;
  for (size_t round = 0; round < keys_.size(); round += 2) {
    row = add_modulo(row, draw_below(keys_[round], column, height_), height_);
    column = add_modulo(column, draw_below(keys_[round + 1], row, width_), width_);
  }
  return row * width_ + column;
}

uint64_t EpochOrder::at(uint64_t position) const {
  if (!shuffle_) return position;
  if (count_ <= kShort) return table_[position];
  uint64_t place = permute(position);
  while (place >= count_) place = permute(place);
  return place;
}

uint64_t count_batches(uint64_t count, uint64_t batch_size, bool drop_last) {
  return drop_last ? count / batch_size : count / batch_size + (count % batch_size != 0 ? 1 : 0);
}

uint64_t count_share(uint64_t batches, const Share& share) {
  const uint64_t world = share.world_size;
  if (world == 0) fail<ArgumentError>("world_size is 0, expected at least 1");
  if (share.rank >= world) fail<ArgumentError>("rank is ", share.rank, ", expected less than world_size = ", world);
  const uint64_t left = batches - std::min(share.first, batches);
  const uint64_t rounds = left / world, over = left % world;
  switch (share.uneven) {
    case Uneven::kPad:
      return rounds + (over > 0 ? 1 : 0);
    case Uneven::kKeep:
      return rounds + (share.rank < over ? 1 : 0);
    case Uneven::kDrop:
      break;
  }
  return rounds;
}

EpochBatches::EpochBatches(const EpochOrder& order, uint64_t batch_size, bool drop_last, const Share& share)
    : order_(order),
      batch_size_(batch_size),
      total_(count_batches(order.count(), batch_size, drop_last)),
      share_(share),
      count_(count_share(total_, share)) {}

uint64_t EpochBatches::number(uint64_t i) const {
  // Past the end, the epoch starts again: that is what pads the last round.
  return (share_.first + i * share_.world_size + share_.rank) % total_;
}

std::vector<int64_t> EpochBatches::input(uint64_t i) const {
  const uint64_t begin = number(i) * batch_size_;
  std::vector<int64_t> positions(std::min(batch_size_, order_.count() - begin));
  for (size_t k = 0; k < positions.size(); ++k) positions[k] = static_cast<int64_t>(order_.at(begin + k));
  return positions;
}

uint64_t batch_seed(uint64_t seed, uint64_t epoch, uint64_t number) { return make_key(seed, kBatch, epoch, number); }

}  // namespace gz

// order: which seeds make up which batch of which epoch, and which of the batches a rank delivers.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace gz {

// The order of one epoch over `count` seeds: a permutation of 0 to count - 1 chosen by (seed, epoch), or the identity
// without shuffling. The same for any number of threads or machines.
//
// A function rather than an array, so that it takes no memory and no time to make: a Feistel network on the
// rectangle height x width, the smallest near-square one that holds `count` places. A round adds to one coordinate a
// random function of the other one, which can be undone, so all rounds together are a bijection of the rectangle.
// Fewer than height of its places lie past `count`; an index that lands there is permuted again until it is inside
// (cycle walking). Eight rounds: with four, places of one column are visibly not independent. Counts that fit into a
// small table are shuffled there, since on a tiny rectangle no small number of rounds reaches all permutations equally
// often.
class EpochOrder {
 public:
  EpochOrder(uint64_t count, bool shuffle, uint64_t seed, uint64_t epoch);

  uint64_t count() const { return count_; }
  // The seed at `position` of the epoch, position < count.
  uint64_t at(uint64_t position) const;

 private:
  uint64_t permute(uint64_t place) const;

  uint64_t count_;
  bool shuffle_;
  static constexpr uint64_t kShort = 64;
  std::array<uint8_t, kShort> table_{};  // for counts up to kShort
  uint64_t height_ = 1, width_ = 1;      // for larger ones
  std::array<uint64_t, 8> keys_{};       // one per round
};

// How many batches `count` seeds make.
uint64_t count_batches(uint64_t count, uint64_t batch_size, bool drop_last);

// What to do with the last round of batches when it has fewer of them than there are ranks: repeat batches from the
// start of the epoch, omit the round, or let some ranks deliver one batch less.
enum class Uneven { kPad, kDrop, kKeep };

// The batches of an epoch that one of `world_size` processes delivers: from batch `first` on, every world_size-th.
// Dealing out whole batches makes each of them the one that a single process would deliver under that number.
struct Share {
  uint64_t rank = 0, world_size = 1;
  Uneven uneven = Uneven::kPad;
  uint64_t first = 0;  // batches of the whole epoch that are already done

  bool operator==(const Share&) const = default;
};

// How many of `batches` this share has. Throws ArgumentError unless rank < world_size.
uint64_t count_share(uint64_t batches, const Share& share);

// The batches that a pipeline delivers, in order: its own 0 to count() - 1.
class EpochBatches {
 public:
  EpochBatches(const EpochOrder& order, uint64_t batch_size, bool drop_last, const Share& share);

  uint64_t count() const { return count_; }
  // The number in the whole epoch of the i-th batch of this share; draws are keyed by it.
  uint64_t number(uint64_t i) const;
  // The positions of its seeds among the loader's seeds.
  std::vector<int64_t> input(uint64_t i) const;

 private:
  EpochOrder order_;
  uint64_t batch_size_;
  uint64_t total_;  // batches of the whole epoch
  Share share_;
  uint64_t count_;
};

// The key of one batch's random draws.
uint64_t batch_seed(uint64_t seed, uint64_t epoch, uint64_t number);

}  // namespace gz

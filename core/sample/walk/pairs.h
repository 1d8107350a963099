// pairs: walks -> the (center, context) pairs that skip-gram trains on.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "base/memory.h"

namespace gz {

struct WalkMatrix {  // one walk a row
  const int64_t* data = nullptr;
  size_t rows = 0, columns = 0;
};

struct PairOptions {
  uint64_t window = 1;            // contexts are up to this many steps before and after the center
  bool shuffle = false;           // pairs in random order
  std::optional<uint64_t> limit;  // at most this many, drawn from all without replacement; implies shuffle
  uint64_t seed = 0;
  int threads = 0;
};

// Counts first, so that the caller can allocate, then fills. A walk ends before its first negative number (padding),
// and where it only repeats its last node (a dead end) the repeats are cut off: they would train a node on itself. In
// order, pairs come walk by walk, center by center, context by context. What is drawn depends on the seed and the walks
// alone.
class WalkPairs {
 public:
  WalkPairs(WalkMatrix walks, const PairOptions& options);
  uint64_t size() const { return size_; }
  void fill(std::span<int64_t> center, std::span<int64_t> context) const;  // size() each

 private:
  uint64_t walk_length(size_t walk) const { return ends_.as<uint64_t>()[walk]; }
  uint64_t first_pair(size_t walk) const { return first_.as<uint64_t>()[walk]; }
  size_t walk_of(uint64_t pair) const;
  void fill_in_order(int64_t* center, int64_t* context) const;
  void fill_shuffled(int64_t* center, int64_t* context) const;

  WalkMatrix walks_;
  PairOptions options_;
  uint64_t total_ = 0, size_ = 0;
  Buffer ends_;   // how many nodes of each walk count
  Buffer first_;  // number of each walk's first pair, and the total last
};

}  // namespace gz

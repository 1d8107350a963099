// row_cache: rows of one matrix kept in RAM within a byte budget.
//
// Some rows are pinned for good (the caller knows which are hot: by degree, or by counting a few sampled epochs). The
// rest of the room goes to rows that passed by: those that an announced batch will need are kept, the soonest first;
// among the others SIEVE decides. Misses are read past the page cache, so a row is in RAM once.
//
// The budget covers the rows and all that finds them; what announced batches take comes on top (announced_bytes()).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "gather/gather.h"

namespace gz {

struct CacheStats {
  uint64_t budget_bytes = 0, held_bytes = 0;
  uint64_t capacity = 0;  // rows that fit
  uint64_t pinned = 0;    // rows pinned
  uint64_t resident = 0;  // rows held now, pinned ones included
  uint64_t hits = 0, misses = 0;
  uint64_t inserted = 0, evicted = 0;
  uint64_t passed_over = 0;  // misses not kept, because everything held will be needed sooner
  double hit_rate() const { return hits + misses == 0 ? 0 : double(hits) / double(hits + misses); }
};

class RowCache {
 public:
  static constexpr uint64_t kUnannounced = UINT64_MAX;

  // Throws BudgetError when not even one row fits.
  RowCache(std::shared_ptr<const FeatureFile> file, const Matrix& matrix, uint64_t budget_bytes);
  ~RowCache();
  RowCache(const RowCache&) = delete;
  RowCache& operator=(const RowCache&) = delete;

  const FeatureFile& file() const;
  const Matrix& matrix() const;

  // Reads these rows and keeps them for good, in the order given, until `most` of the room is taken (1: all of it).
  // Returns how many fitted.
  uint64_t pin(std::span<const int64_t> ids, const GatherOptions& options, double most = 1.0);

  // Batch `number` will need these ids. Numbers ascend; announce as far ahead as batches are sampled.
  void announce(uint64_t number, std::span<const int64_t> ids);
  void forget_announced();  // an epoch was cut short
  uint64_t announced_bytes() const;

  // As gz::gather. With the number of an announced batch (and the ids it was announced with) eviction goes by next use.
  void gather(std::span<const int64_t> ids, std::byte* out, const GatherOptions& options, GatherStats* stats = nullptr,
              uint64_t number = kUnannounced, Progress* progress = nullptr);

  CacheStats stats() const;
  void clear();  // drops all rows that are not pinned

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gz

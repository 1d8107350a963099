// row_cache: the plain version, which counts and reads through.
#include "gather/row_cache.h"

#include <mutex>

#include "base/error.h"

namespace gz {

struct RowCache::State {
  std::shared_ptr<const FeatureFile> file;
  const Matrix* matrix = nullptr;
  mutable std::mutex mutex;
  CacheStats stats;  // guarded by mutex
};

RowCache::RowCache(std::shared_ptr<const FeatureFile> file, const Matrix& matrix, uint64_t budget_bytes)
    : state_(std::make_unique<State>()) {
  if (budget_bytes < matrix.row_bytes) {
    fail<BudgetError>("the cache budget of ", budget_bytes, " bytes holds no row of ", matrix.row_bytes, " bytes");
  }
  state_->matrix = &file->matrix(matrix.name);
  state_->file = std::move(file);
  state_->stats.budget_bytes = budget_bytes;
}

RowCache::~RowCache() = default;

const FeatureFile& RowCache::file() const { return *state_->file; }
const Matrix& RowCache::matrix() const { return *state_->matrix; }

uint64_t RowCache::pin(std::span<const int64_t> ids, const GatherOptions&, double) {
  check_row_ids(file(), matrix(), ids);
  return 0;
}

void RowCache::announce(uint64_t, std::span<const int64_t> ids) { check_row_ids(file(), matrix(), ids); }
void RowCache::forget_announced() {}
uint64_t RowCache::announced_bytes() const { return 0; }

void RowCache::gather(std::span<const int64_t> ids, std::byte* out, const GatherOptions& options, GatherStats* stats,
                      uint64_t, Progress* progress) {
  gz::gather(file(), matrix(), ids, out, options, stats, progress);
  std::lock_guard lock(state_->mutex);
  state_->stats.misses += ids.size();
}

CacheStats RowCache::stats() const {
  std::lock_guard lock(state_->mutex);
  return state_->stats;
}

void RowCache::clear() {}

}  // namespace gz

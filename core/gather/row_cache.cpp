// row_cache: hits are copied from the slots, misses are read and stored.
#include "gather/row_cache.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "base/checked.h"
#include "base/error.h"
#include "base/threads.h"
#include "gather/copy.h"
#include "gather/slot_book.h"

namespace gz {
namespace {

constexpr uint32_t kNone = SlotBook::kNone;
constexpr size_t kGrain = 2048;                          // rows a chunk
constexpr uint64_t kStreamingBytes = uint64_t{1} << 20;  // as in gather.cpp
constexpr uint64_t kScratchBytes = uint64_t{32} << 20;   // rows as on disk, on their way to be converted or pinned
constexpr uint64_t kHuge = uint64_t{2} << 20;

// What fits the budget: rows, then the book, in one buffer so that rounding is paid once.
struct Room {
  uint64_t bytes = 0, capacity = 0, book_at = 0;
};

Room room_for(uint64_t budget, uint64_t row_bytes, uint64_t rows) {
  const uint64_t unit = budget >= kHuge ? kHuge : kPageBytes;  // what Buffer rounds to
  const auto need = [&](uint64_t capacity) {
    return round_up(capacity * row_bytes, alignof(SlotBook::Slot)) + SlotBook::bytes_for(capacity);
  };
  Room room;
  room.bytes = budget / unit * unit;
  room.capacity = std::min<uint64_t>({room.bytes / (need(1024) / 1024), rows, kNone - 1});
  while (room.capacity > 0 && need(room.capacity) > room.bytes) --room.capacity;
  room.bytes = std::min(room.bytes, round_up(need(room.capacity), unit));
  room.book_at = round_up(room.capacity * row_bytes, alignof(SlotBook::Slot));
  return room;
}

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void copy_rows(const RowCopier& copier, const std::byte* base, std::span<const RowMove> moves, std::byte* out,
               int threads) {
  parallel_for(moves.size(), kGrain, threads, [&](size_t begin, size_t end, int) {
    copier.gather(base, moves.subspan(begin, end - begin), out);
    finish_streaming();
  });
}

}  // namespace

// Two locks, taken in this order: `bytes` guards the rows' bytes (shared: copied from; exclusive: written), `mutex` all
// the rest. A read from disk holds neither, so several batches can be on their way at once.
struct RowCache::State {
  State(std::shared_ptr<const FeatureFile> file_, const Matrix& matrix_, uint64_t budget)
      : file(std::move(file_)), matrix(file->matrix(matrix_.name)) {
    if (matrix.row_bytes == 0) fail<ArgumentError>("'", matrix.name, "' has no columns: there is nothing to cache");
    const Room room = room_for(budget, matrix.row_bytes, matrix.rows);
    if (room.capacity == 0) {
      const uint64_t needed = round_up(matrix.row_bytes + 128, kPageBytes);
      throw BudgetError(text("the cache budget of ", budget, " bytes holds no row of '", matrix.name, "', which takes ",
                             matrix.row_bytes, " bytes and some to find it: give at least ", needed),
                        needed);
    }
    buffer = Buffer(room.bytes, Purpose::kCache);
    book = SlotBook(buffer.data() + room.book_at, room.capacity);
    stats.budget_bytes = budget;
    stats.held_bytes = buffer.size();
    stats.capacity = room.capacity;
  }

  const std::shared_ptr<const FeatureFile> file;
  const Matrix& matrix;
  std::shared_mutex bytes;
  mutable std::mutex mutex;
  Buffer buffer;     // the rows in it: guarded by bytes; the book's part: by mutex
  SlotBook book;     // guarded by mutex
  CacheStats stats;  // guarded by mutex; what the book knows is filled in by stats()

  // Keeps rows that lie at `source`: row `to` of it is the matrix's row `from`. Rows already held are left alone.
  void store(std::span<const RowMove> rows, const std::byte* source, bool pinned, int threads) {
    std::vector<RowMove> fills;  // source row -> slot
    std::unique_lock writing(bytes);
    {
      std::lock_guard lock(mutex);
      for (const RowMove& row : rows) {
        uint32_t slot = book.find(row.from);
        if (slot != kNone) {
          if (pinned) book.pin(slot);
          continue;
        }
        slot = book.place(row.from, pinned);
        if (slot == kNone) {
          ++stats.passed_over;
        } else {
          ++stats.inserted;
          fills.push_back({row.to, slot});
        }
      }
      // A slot may have changed hands within this call: its last owner's bytes are the ones that count.
      std::reverse(fills.begin(), fills.end());
      std::erase_if(fills, [&](const RowMove& fill) { return !book.take_fresh(static_cast<uint32_t>(fill.to)); });
    }
    copy_rows(RowCopier(matrix, matrix.dtype, true), source, fills, buffer.data(), threads);
  }
};

RowCache::RowCache(std::shared_ptr<const FeatureFile> file, const Matrix& matrix, uint64_t budget_bytes)
    : state_(std::make_unique<State>(std::move(file), matrix, budget_bytes)) {}

RowCache::~RowCache() = default;

const FeatureFile& RowCache::file() const { return *state_->file; }
const Matrix& RowCache::matrix() const { return state_->matrix; }

uint64_t RowCache::pin(std::span<const int64_t> ids, const GatherOptions& options, double most) {
  check_row_ids(file(), matrix(), ids);
  if (!(most >= 0 && most <= 1)) fail<ArgumentError>("the share to pin is ", most, ", expected 0 to 1");
  GatherOptions reads = options;
  reads.out_dtype.reset();
  reads.past_page_cache = true;
  const int threads = resolve_threads(options.threads);
  const auto part = static_cast<size_t>(std::max<uint64_t>(kScratchBytes / matrix().row_bytes, 1));
  Buffer scratch(std::min(part, ids.size()) * matrix().row_bytes, Purpose::kReads);
  uint64_t before = 0, room = 0;
  {
    std::lock_guard lock(state_->mutex);
    before = state_->book.pinned();
    const auto allowed = static_cast<uint64_t>(most * static_cast<double>(state_->book.capacity()));
    room = allowed - std::min(allowed, before);
  }
  for (size_t at = 0; at < ids.size() && room > 0;) {
    std::vector<RowMove> rows;
    for (; at < ids.size() && rows.size() < std::min<uint64_t>(part, room); ++at) {
      rows.push_back({static_cast<uint64_t>(ids[at]), rows.size()});
    }
    gz::gather(file(), matrix(), std::span<const RowMove>(rows), scratch.data(), reads);
    state_->store(rows, scratch.data(), true, threads);
    std::lock_guard lock(state_->mutex);  // repeated ids took no room
    const auto allowed = static_cast<uint64_t>(most * static_cast<double>(state_->book.capacity()));
    room = allowed - std::min<uint64_t>(allowed, state_->book.pinned());
  }
  std::lock_guard lock(state_->mutex);
  return state_->book.pinned() - before;
}

void RowCache::announce(uint64_t number, std::span<const int64_t> ids) {
  check_row_ids(file(), matrix(), ids);
  std::lock_guard lock(state_->mutex);
  if (number == kUnannounced || !state_->book.can_announce(number)) {
    fail<ArgumentError>("batch ", number, " cannot be announced: numbers ascend and at most ", Announced::kWindow,
                        " batches are announced at once");
  }
  state_->book.announce(number, ids);
}

void RowCache::forget_announced() {
  std::lock_guard lock(state_->mutex);
  state_->book.forget_announced();
}

uint64_t RowCache::announced_bytes() const {
  std::lock_guard lock(state_->mutex);
  return state_->book.announced_bytes();
}

void RowCache::gather(std::span<const int64_t> ids, std::byte* out, const GatherOptions& options, GatherStats* stats,
                      uint64_t number, Progress* progress) {
  State& state = *state_;
  const DType out_dtype = gathered_dtype(matrix(), options);
  check_row_ids(file(), matrix(), ids);
  const int threads = resolve_threads(options.threads);
  const uint64_t out_row = gathered_row_bytes(matrix(), options);
  const RowCopier copier(matrix(), out_dtype, ids.size() * out_row > kStreamingBytes);
  GatherStats done;
  std::vector<RowMove> hits, misses;
  const auto start = std::chrono::steady_clock::now();
  {
    std::shared_lock reading(state.bytes);  // from the look-up to the copy: slots keep their rows
    {
      std::vector<uint32_t> found(ids.size());
      std::lock_guard lock(state.mutex);
      state.book.find_all(ids, found);
      if (number != kUnannounced) state.book.served(number, ids);
      for (size_t i = 0; i < ids.size(); ++i) {
        if (found[i] != kNone) {
          hits.push_back({found[i], i});
        } else {
          misses.push_back({static_cast<uint64_t>(ids[i]), i});
        }
      }
      state.stats.hits += hits.size();
      state.stats.misses += misses.size();
    }
    copy_rows(copier, state.buffer.data(), hits, out, threads);
  }
  done.rows = done.rows_cached = hits.size();
  done.bytes_useful = hits.size() * matrix().row_bytes;
  done.copy_seconds = seconds_since(start);
  GatherOptions reads = options;
  reads.out_dtype.reset();
  reads.past_page_cache = true;
  const std::span<const RowMove> missing(misses);
  if (out_dtype == matrix().dtype) {
    gz::gather(file(), matrix(), missing, out, reads, &done, progress);
    state.store(missing, out, false, threads);
  } else {
    const auto part = static_cast<size_t>(std::max<uint64_t>(kScratchBytes / matrix().row_bytes, 1));
    Buffer scratch(std::min(part, missing.size()) * matrix().row_bytes, Purpose::kReads);
    for (size_t first = 0; first < missing.size(); first += part) {
      const auto some = missing.subspan(first, std::min(part, missing.size() - first));
      std::vector<RowMove> raw(some.begin(), some.end()), finish(some.begin(), some.end());
      for (size_t i = 0; i < some.size(); ++i) raw[i].to = finish[i].from = i;
      gz::gather(file(), matrix(), std::span<const RowMove>(raw), scratch.data(), reads, &done, progress);
      copy_rows(copier, scratch.data(), finish, out, threads);
      state.store(raw, scratch.data(), false, threads);
    }
  }
  if (stats != nullptr) stats->add(done);
}

CacheStats RowCache::stats() const {
  std::lock_guard lock(state_->mutex);
  CacheStats stats = state_->stats;
  stats.pinned = state_->book.pinned();
  stats.resident = state_->book.resident();
  stats.evicted = state_->book.evicted();
  return stats;
}

void RowCache::clear() {
  std::unique_lock writing(state_->bytes);
  std::lock_guard lock(state_->mutex);
  state_->book.clear();
}

}  // namespace gz

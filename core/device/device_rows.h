// device_rows: the rows of one part that a device caches: what its cache holds, decided batch by batch in the order of
// delivery, long before the device comes to them (docs/how-the-gpu-tier-works.md).
//
// DeviceReader is the last of the readers: it takes the requests of coming batches, plans each when enough batches
// after it are known, and hands only the missing rows on to the reader below, which may be a sweep. The host never
// touches the rows that the device will have.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "base/memory.h"
#include "device/row_calendar.h"
#include "gather/row_reader.h"

namespace gz {

// What the cache of one part holds; shared by the epochs of a loader, one at a time. Its methods are thread-safe.
class DeviceRows {
 public:
  struct Setting {
    uint64_t slots = 0, generation = 0;
  };

  // Planned by so many threads. Rows belong to shards, a power of two, each with a calendar of its own: row r to number
  // r % shards. Results depend on shards, not on threads.
  DeviceRows(uint64_t rows, uint32_t threads, uint32_t shards);
  DeviceRows(uint64_t rows, uint32_t threads) : DeviceRows(rows, threads, shards_for(rows)) {}
  static uint32_t shards_for(uint64_t rows);  // so that what is known of one fits into a processor's own cache

  uint64_t rows() const { return rows_; }
  uint32_t shards() const { return static_cast<uint32_t>(calendars_.size()); }

  // The size of the cache from the next batch that is planned on, which is also the first of a new generation. The
  // cache is then empty; as many slots as rows: it has all of them, at their own numbers.
  void resize(uint64_t slots);
  // The device has assembled the batch of this sequence number, and those before it. What the cache holds is known in
  // the next epoch only if the last batch that was submitted in this one was assembled.
  void confirm(uint64_t sequence);

  // From now on the device reads missing rows from the mapped file by their ids, where that is how the host would read
  // them; they are not copied for it.
  void set_reads_host(bool reads) { reads_host_ = reads; }
  bool is_mapped() const { return is_mapped_; }  // whether the host reads them so, in this epoch or the last one

  uint64_t slots() const { return setting().slots; }

 private:
  friend class DeviceReader;
  Setting setting() const;
  bool is_resident(const Setting& setting) const { return rows_ > 0 && setting.slots >= rows_; }
  bool attach();  // false if another reader is attached
  void detach();

  static constexpr uint64_t kMostShards = 256;

  const uint64_t rows_;
  const uint32_t threads_;
  std::atomic<bool> reads_host_{false}, is_mapped_{false};
  mutable std::mutex mutex_;
  Setting setting_;                     // guarded by mutex_
  bool attached_ = false;               // guarded by mutex_
  std::atomic<uint64_t> confirmed_{0};  // sequence number past the last batch that was assembled
  // Of the reader that is attached:
  struct Shard {
    explicit Shard(std::span<uint64_t> words) : calendar(words) {}
    RowCalendar calendar;
    uint64_t generation = 0;  // that it was resized for
  };
  Buffer words_;  // of all calendars: a table for itself would be too small for huge pages
  std::vector<std::unique_ptr<Shard>> calendars_;
  uint64_t sequence_ = 0;  // of batches, over all epochs
};

// Of one part, for dividing a device's memory among the caches of several.
struct SlotNeeds {
  uint64_t rows = 0, row_bytes = 0;
  uint64_t per_batch = 0;  // rows of it that a batch uses
};

// The slots of each part in so many bytes: by the bytes that batches need of each; none has more slots than rows.
std::vector<uint64_t> divide_slots(uint64_t bytes, std::span<const SlotNeeds> parts);

struct DeviceRequest;

class DeviceReader : public RowReader {
 public:
  static constexpr uint64_t kRowBytes = 12;  // of a request
  // Batches that are planned together: the words of a shard come from memory once for all of them. With 8, planning
  // takes half the time that it takes one by one.
  static constexpr uint64_t kTogether = 8;
  static constexpr uint64_t kAhead = RowCalendar::kHorizon + kTogether - 1;  // batches after the next to be planned
  // Called by its threads, without locks.
  struct Events {
    std::function<void(uint64_t number)> ready;
    std::function<uint64_t()> end;   // past the last batch that is known to come
    std::function<bool()> starving;  // whether the consumer waits for the next batch
  };
  struct Options {
    uint64_t ahead = kAhead;  // batches that can be sampled ahead
    uint64_t at_once = 1;     // that are being sampled, and not yet submitted
    uint64_t ranks = 0;       // see leave_processors()
    bool is_mapped = false;   // the reader below copies from the mapped file
    std::shared_ptr<BufferPool> pool;
  };

  // `rows` belong to this reader until it stops; null if they have another one.
  static std::shared_ptr<DeviceReader> attach(std::shared_ptr<DeviceRows> rows, std::shared_ptr<RowReader> inner,
                                              std::shared_ptr<const FeatureFile> file, const Matrix& matrix,
                                              const Options& options, Events events);
  ~DeviceReader() override;

  std::shared_ptr<RowRequest> prepare(uint64_t number, std::span<const int64_t> ids) override;
  void submit(std::shared_ptr<RowRequest> request) override;
  std::shared_ptr<OnDevice> on_device(RowRequest* request, std::span<const int64_t> ids) override;
  void copy(RowRequest* request, std::span<const int64_t> ids, std::byte* out, const GatherOptions& options,
            GatherStats* stats, Progress* progress) override;
  void cancel() override;
  void stop() override;
  bool is_on_device() const override { return rows_->is_resident(rows_->setting()); }
  uint64_t batches() const override;
  std::optional<WindowStats> stats() const override { return inner_->stats(); }

 private:
  DeviceReader(std::shared_ptr<DeviceRows> rows, std::shared_ptr<RowReader> inner,
               std::shared_ptr<const FeatureFile> file, const Matrix& matrix, const Options& options, Events events);
  void run(uint32_t thread);
  void end_threads();
  bool wait_for_work(uint32_t thread, std::unique_lock<std::mutex>& lock);
  void advance(uint32_t thread, RowCalendar::Scratch& scratch, std::unique_lock<std::mutex>& lock);
  uint64_t plan(uint32_t shard, uint64_t next, uint64_t count, uint64_t expected,
                const std::vector<std::shared_ptr<DeviceRequest>>& requests, RowCalendar::Scratch& scratch);
  void complete(DeviceRequest& request);

  const std::shared_ptr<DeviceRows> rows_;
  const std::shared_ptr<RowReader> inner_;
  const std::shared_ptr<const FeatureFile> file_;
  const Matrix matrix_;
  const Options options_;
  const Events events_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_:
  std::deque<std::shared_ptr<DeviceRequest>> requests_;  // from the first that a thread has yet to plan
  uint64_t first_ = 0;                                   // its sequence number
  std::vector<uint64_t> expected_, planned_;             // by thread: the next one, in sequence
  std::atomic<uint64_t> together_, horizon_;             // smaller where memory is short; read anywhere
  uint64_t stuck_at_ = 0;                                // requests that came before no more could be sampled
  uint32_t busy_ = 0;                                    // threads that are planning
  bool cancelling_ = false, stopping_ = false;
  // By thread, and its own: the requests that it plans, and that it plans them with.
  std::vector<std::vector<std::shared_ptr<DeviceRequest>>> at_hand_;

  std::vector<std::thread> threads_;
};

}  // namespace gz

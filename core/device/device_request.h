// device_request: the rows of one batch on their way through the calendars of a cache: grouped by shard, planned, and
// collected in the order of the batch.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/memory.h"
#include "device/device_rows.h"
#include "device/row_calendar.h"
#include "gather/row_reader.h"

namespace gz {

struct DeviceRequest : RowRequest {
  static constexpr uint64_t kMostRequested = uint64_t{1} << 32;  // rows of a matrix whose misses can be requested

  // `threads` plan it. `for_inner`: the reader below takes requests for what is missing.
  DeviceRequest(uint64_t number_, std::span<const int64_t> ids, uint32_t shards, uint32_t threads, bool for_inner);

  const uint64_t number, size;
  uint64_t largest = 0;  // of the ids; huge if one is negative

  // When the first thread begins it; guarded by the reader's mutex:
  std::optional<DeviceRows::Setting> setting;
  uint64_t together = 0;  // batches that are planned in one go, from this one on
  uint64_t known = 0;     // sequence number past the batches that it is planned with
  bool is_whole = false;
  std::exception_ptr error;

  std::atomic<uint32_t> left{0};  // threads that have not planned it
  std::atomic<uint64_t> misses{0}, admissions{0};
  std::shared_ptr<RowRequest> inner;
  std::shared_ptr<Buffer> ids;  // of the misses, as they are numbered; made by collect()

  // Numbers within the shard, in the order of the batch. Planning replaces them by what becomes of them.
  std::span<uint32_t> rows(size_t shard) const {
    return {buffer_->as<uint32_t>() + begins_[shard], begins_[shard + 1] - begins_[shard]};
  }
  // Once per shard, by one of the threads.
  void add(uint32_t thread, uint32_t shard, const RowCalendar::Planned& planned);

  // Once all shards are planned: what the device needs, and `ids`. Misses are numbered by stretches of the file, then
  // by their place in the batch: rows that are copied one after the other are on pages that the processor has
  // translations for. Those that the reader below was asked for are numbered as in missing_ids(). Throws PoolFull.
  void collect(std::span<const int64_t> batch, OnDevice& made);
  bool for_inner() const { return !missed_.empty(); }
  std::vector<int64_t> missing_ids() const;  // with for_inner()

 private:
  static constexpr uint32_t kStretches = 1024;

  uint32_t shards() const { return static_cast<uint32_t>(begins_.size() - 1); }
  std::vector<uint32_t> first_numbers() const;

  std::shared_ptr<Buffer> buffer_;             // uint32 per row
  std::vector<uint64_t> begins_;               // by shard, and the end
  std::vector<std::vector<uint32_t>> missed_;  // rows by shard, for the reader below
  std::vector<uint32_t> stretches_;            // misses of each stretch, by thread that planned them; without missed_
  int shift_ = 0;                              // an id is of stretch id >> shift_
};

}  // namespace gz

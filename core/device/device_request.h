// device_request: the rows of one batch on their way through the calendars of a cache: grouped by shard, planned, and
// turned into what the device assembles the batch by.
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

  // `for_inner_`: the reader below takes requests for what is missing.
  DeviceRequest(uint64_t number_, std::span<const int64_t> ids, uint32_t shards, bool for_inner_);

  const uint64_t number, size;
  const bool for_inner;
  uint64_t largest = 0;  // of the ids; huge if one is negative

  uint64_t sequence = 0;  // when it is submitted
  // When the first thread begins it; guarded by the reader's mutex:
  std::optional<DeviceRows::Setting> setting;
  uint64_t together = 0;  // batches that are planned in one go, from this one on
  uint64_t known = 0;     // sequence number past the batches that it is planned with
  bool is_whole = false;
  std::exception_ptr error;

  std::atomic<uint32_t> left{0};  // threads that have not planned it
  std::atomic<uint64_t> misses{0}, admissions{0};
  std::shared_ptr<RowRequest> inner;
  std::shared_ptr<OnDevice> collected;  // by the thread that finishes the batch; it may come a second time

  // Numbers within the shard, in the order of the batch. Planning replaces them by what becomes of them.
  std::span<uint32_t> rows(uint32_t shard) const { return of_shard(0, shard); }
  std::span<uint32_t> room_for_missed(uint32_t shard) const { return of_shard(2, shard); }
  // Once per shard, by one of the threads.
  void add(uint32_t shard, const RowCalendar::Planned& planned);

  // Once all shards are planned: the ids of missing rows, as collect() numbers them.
  std::vector<int64_t> missing_ids() const;
  // Afterwards, and once in all: what the device needs. Throws PoolFull, and may be called again then.
  void collect(OnDevice& made);

 private:
  // Misses are numbered by stretches of the file: rows that are copied one after the other are on pages that the
  // processor has translations for.
  static constexpr uint32_t kStretches = 1024;

  uint32_t shards() const { return static_cast<uint32_t>(begins_.size() - 1); }
  std::span<uint32_t> of_shard(uint64_t array, uint32_t shard) const {
    return {buffer_->as<uint32_t>() + array * size + begins_[shard], begins_[shard + 1] - begins_[shard]};
  }
  std::span<const uint32_t> missed(uint32_t shard) const { return room_for_missed(shard).first(missed_[shard]); }
  std::vector<uint32_t> first_numbers() const;
  // Calls use(id, number) for each missing row of a shard, in the order of the batch.
  template <class Use>
  void number_misses(uint32_t shard, std::vector<uint32_t>& next, const Use& use) const;

  // Three arrays, grouped by shard: what becomes of each row, its place in the batch, and rows that are missing.
  std::shared_ptr<Buffer> buffer_;
  std::vector<uint64_t> begins_;  // by shard, and the end
  std::vector<uint32_t> missed_;  // how many, by shard
  int shift_ = 0;                 // an id is of stretch id >> shift_
};

}  // namespace gz

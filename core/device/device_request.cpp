// device_request: grouping by shard, and the way back.
#include "device/device_request.h"

#include <algorithm>
#include <bit>

#include "base/prefetch.h"
#include "base/sort_words.h"

namespace gz {
namespace {

// A processor follows some 16 sequences of memory by itself, and shards are more. In values.
constexpr size_t kStreamAhead = 32;

std::shared_ptr<Buffer> take_words(uint64_t count) {
  return take_buffer(std::max<size_t>(count, 1) * sizeof(uint64_t));
}
std::shared_ptr<Buffer> take_ints(uint64_t count) { return take_buffer(std::max<size_t>(count, 1) * sizeof(int32_t)); }

}  // namespace

DeviceRequest::DeviceRequest(uint64_t number_, std::span<const int64_t> batch, uint32_t shards, bool for_inner)
    : number(number_), size(batch.size()), buffer_(take_ints(size)), missed_(for_inner ? shards : 0) {
  const auto shift = static_cast<uint32_t>(std::countr_zero(shards));
  std::vector<uint64_t> counts(shards + 1);
  for (const int64_t id : batch) {
    largest = std::max(largest, static_cast<uint64_t>(id));
    ++counts[(static_cast<uint64_t>(id) & (shards - 1)) + 1];
  }
  for (uint32_t i = 0; i < shards; ++i) counts[i + 1] += counts[i];
  begins_ = counts;
  uint32_t* const rows = buffer_->as<uint32_t>();
  uint64_t* const next = counts.data();
  for (const int64_t id : batch) {
    uint32_t* const to = rows + next[static_cast<uint64_t>(id) & (shards - 1)]++;
    prefetch(to + kStreamAhead);
    *to = static_cast<uint32_t>(static_cast<uint64_t>(id) >> shift);
  }
}

void DeviceRequest::add(uint32_t shard, const RowCalendar::Planned& planned) {
  misses += planned.misses.size();
  admissions += planned.admissions;
  if (for_inner()) missed_[shard].assign(planned.misses.begin(), planned.misses.end());
}

// Misses are numbered by id: copying rows of 512 bytes in the order of the file took 0.6 of the time of copying them in
// the order of the batch, perhaps because neighbours share lines of the page tables (not measured).
void DeviceRequest::collect(std::span<const int64_t> batch, OnDevice& made) {
  made.misses = misses;
  made.admissions = admissions;
  made.source = take_ints(size);
  made.positions = take_ints(made.misses);
  made.admitted = take_ints(2 * made.admissions);
  const auto spare = take_words(made.misses + 1);
  ids = take_words(made.misses + 1);  // one more: see below
  uint64_t* words = ids->as<uint64_t>();
  int32_t* const source = made.source->as<int32_t>();
  const std::span<int32_t> admitted(made.admitted->as<int32_t>(), made.admissions);
  int32_t* const slots = admitted.data() + admitted.size();

  // Each shard has its rows in the order of the batch, so one pass over the batch reads them as so many sequences.
  const uint32_t* const rows = buffer_->as<uint32_t>();
  const uint32_t count = shards();
  const int shift = std::max(0, static_cast<int>(std::bit_width(largest)) - 32);
  std::vector<uint64_t> begins = begins_;
  uint64_t* const next = begins.data();
  size_t missed = 0, put = 0;
  for (size_t i = 0; i < size; ++i) {
    const auto id = static_cast<uint64_t>(batch[i]);
    const auto shard = static_cast<uint32_t>(id) & (count - 1);
    const uint32_t* const from = rows + next[shard]++;
    prefetch(from + kStreamAhead);
    const uint32_t found = *from;
    source[i] = static_cast<int32_t>((found & (RowCalendar::kAdmitted - 1)) * count + shard);
    words[missed] = id >> shift << 32 | i;  // of hits too, and overwritten then: no processor predicts which are
    missed += (found & RowCalendar::kMiss) != 0;
    if ((found & RowCalendar::kAdmitted) != 0) {
      admitted[put] = static_cast<int32_t>(i);
      slots[put++] = source[i];
    }
  }

  words = sort_words(words, spare->as<uint64_t>(), missed, static_cast<uint32_t>(largest >> shift));
  int64_t* const missing = ids->as<int64_t>();
  int32_t* const positions = made.positions->as<int32_t>();
  for (size_t k = 0; k < missed; ++k) {
    const auto position = static_cast<uint32_t>(words[k]);
    missing[k] = batch[position];
    positions[k] = static_cast<int32_t>(position);
    source[position] = -1 - static_cast<int32_t>(k);
  }
  for (int32_t& miss : admitted) miss = -1 - source[miss];
}

std::vector<int64_t> DeviceRequest::missing_ids() const {
  std::vector<uint64_t> words, spare(misses);
  words.reserve(misses);
  for (uint32_t shard = 0; shard < shards(); ++shard) {
    for (const uint32_t row : missed_[shard]) words.push_back((uint64_t{row} * shards() + shard) << 32);
  }
  const uint64_t* const sorted = sort_words(words.data(), spare.data(), words.size(), static_cast<uint32_t>(largest));
  std::vector<int64_t> found(words.size());
  std::transform(sorted, sorted + found.size(), found.begin(), [](uint64_t word) { return int64_t(word >> 32); });
  return found;
}

}  // namespace gz

// device_request: grouping by shard, and the way back.
#include "device/device_request.h"

#include <algorithm>
#include <bit>

#include "base/prefetch.h"

namespace gz {
namespace {

// A processor follows some 16 sequences of memory by itself, and shards are more. In values.
constexpr size_t kStreamAhead = 32;

std::shared_ptr<Buffer> take_ints(uint64_t count) { return take_buffer(std::max<size_t>(count, 1) * sizeof(int32_t)); }

// `yes` if `which` is 1, `no` if it is 0, without a branch.
inline uint64_t choose(uint32_t which, uint64_t yes, uint64_t no) { return no ^ ((yes ^ no) & (0 - uint64_t{which})); }

}  // namespace

DeviceRequest::DeviceRequest(uint64_t number_, std::span<const int64_t> batch, uint32_t shards, uint32_t threads,
                             bool for_inner)
    : number(number_),
      size(batch.size()),
      buffer_(take_ints(size)),
      missed_(for_inner ? shards : 0),
      stretches_(for_inner ? 0 : threads * kStretches) {
  const auto shift = static_cast<uint32_t>(std::countr_zero(shards));
  std::vector<uint64_t> counts(shards + 1);
  for (const int64_t id : batch) {
    largest = std::max(largest, static_cast<uint64_t>(id));
    ++counts[(static_cast<uint64_t>(id) & (shards - 1)) + 1];
  }
  shift_ = std::max(0, static_cast<int>(std::bit_width(largest)) - std::countr_zero(kStretches));
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

void DeviceRequest::add(uint32_t thread, uint32_t shard, const RowCalendar::Planned& planned) {
  misses += planned.misses.size();
  admissions += planned.admissions;
  if (for_inner()) {
    missed_[shard].assign(planned.misses.begin(), planned.misses.end());
    return;
  }
  uint32_t* const stretches = stretches_.data() + size_t{thread} * kStretches;
  for (const uint32_t row : planned.misses) ++stretches[(uint64_t{row} * shards() + shard) >> shift_];
}

// Where the numbers of misses begin: by stretch, or by shard.
std::vector<uint32_t> DeviceRequest::first_numbers() const {
  std::vector<uint32_t> next(for_inner() ? shards() : kStretches);
  uint32_t sum = 0;
  for (size_t i = 0; i < next.size(); ++i) {
    next[i] = sum;
    if (for_inner()) sum += static_cast<uint32_t>(missed_[i].size());
    for (size_t at = i; at < stretches_.size(); at += kStretches) sum += stretches_[at];
  }
  return next;
}

void DeviceRequest::collect(std::span<const int64_t> batch, OnDevice& made) {
  const uint64_t missed = misses, put = admissions;
  made.misses = missed;
  made.admissions = put;
  made.source = take_ints(size);
  made.admitted = take_ints(2 * (put + 1));  // one more, here and below, for what is written and not wanted
  ids = take_buffer((missed + 1) * sizeof(int64_t));
  int64_t* const missing = ids->as<int64_t>();
  int32_t* const source = made.source->as<int32_t>();
  int32_t* const admitted = made.admitted->as<int32_t>();

  // Each shard has its rows in the order of the batch, so one pass over the batch reads them as so many sequences. What
  // is a miss, and what is admitted, no processor predicts: both outcomes are written, one of them to a spare place.
  // Masks choose, since compilers turn `?:` into branches.
  const uint32_t* const rows = buffer_->as<uint32_t>();
  const uint32_t count = shards();
  const int shift = for_inner() ? 0 : shift_;
  const uint64_t mask = for_inner() ? count - 1 : UINT64_MAX;
  std::vector<uint64_t> begins = begins_;
  std::vector<uint32_t> numbers = first_numbers();
  uint64_t* const next = begins.data();
  uint32_t* const next_number = numbers.data();
  uint64_t done = 0;
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto id = static_cast<uint64_t>(batch[i]);
    const auto shard = static_cast<uint32_t>(id) & (count - 1);
    const uint32_t* const from = rows + next[shard]++;
    prefetch(from + kStreamAhead);
    const uint32_t found = *from;
    const uint32_t is_miss = found / RowCalendar::kMiss, is_admitted = found / RowCalendar::kAdmitted & 1;
    const uint32_t slot = (found & (RowCalendar::kAdmitted - 1)) * count + shard;
    uint32_t& number = next_number[id >> shift & mask];
    const uint32_t miss = number;
    number += is_miss;
    missing[choose(is_miss, miss, missed)] = static_cast<int64_t>(id);
    source[i] = static_cast<int32_t>(choose(is_miss, ~miss, slot));
    int32_t* const pair = admitted + 2 * choose(is_admitted, done, put);
    pair[0] = static_cast<int32_t>(miss);
    pair[1] = static_cast<int32_t>(slot);
    done += is_admitted;
  }
}

std::vector<int64_t> DeviceRequest::missing_ids() const {
  std::vector<int64_t> found;
  found.reserve(misses);
  for (uint32_t shard = 0; shard < shards(); ++shard) {
    for (const uint32_t row : missed_[shard]) found.push_back(int64_t{row} * shards() + shard);
  }
  return found;
}

}  // namespace gz

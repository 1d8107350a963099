// device_request: grouping by shard, and the numbers of misses.
#include "device/device_request.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/prefetch.h"

namespace gz {
namespace {

// A processor follows some 16 sequences of memory by itself, and shards are more. In values.
constexpr size_t kStreamAhead = 32;

std::shared_ptr<Buffer> take_ints(uint64_t count) { return take_buffer(std::max<size_t>(count, 1) * sizeof(int32_t)); }

// `yes` if `which` is 1, `no` if it is 0, without a branch.
inline uint32_t choose(uint32_t which, uint32_t yes, uint32_t no) { return no ^ ((yes ^ no) & (0 - which)); }

}  // namespace

DeviceRequest::DeviceRequest(uint64_t number_, std::span<const int64_t> batch, uint32_t shards, bool for_inner_)
    : number(number_), size(batch.size()), for_inner(for_inner_), buffer_(take_ints(3 * size)), missed_(shards) {
  const auto shift = static_cast<uint32_t>(std::countr_zero(shards));
  std::vector<uint64_t> counts(shards + 1);
  for (const int64_t id : batch) {
    largest = std::max(largest, static_cast<uint64_t>(id));
    ++counts[(static_cast<uint64_t>(id) & (shards - 1)) + 1];
  }
  shift_ = std::max(0, static_cast<int>(std::bit_width(largest)) - std::countr_zero(kStretches));
  for (uint32_t i = 0; i < shards; ++i) counts[i + 1] += counts[i];
  begins_ = counts;
  uint32_t *const rows = buffer_->as<uint32_t>(), *const places = rows + size;
  uint64_t* const next = counts.data();
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto id = static_cast<uint64_t>(batch[i]);
    const uint64_t to = next[id & (shards - 1)]++;
    prefetch(rows + to + kStreamAhead);
    prefetch(places + to + kStreamAhead);
    rows[to] = static_cast<uint32_t>(id >> shift);
    places[to] = static_cast<uint32_t>(i);
  }
}

void DeviceRequest::add(uint32_t shard, const RowCalendar::Planned& planned) {
  misses += planned.misses;
  admissions += planned.admissions;
  missed_[shard] = static_cast<uint32_t>(planned.misses);
}

// Where the numbers of misses begin, by stretch.
std::vector<uint32_t> DeviceRequest::first_numbers() const {
  std::vector<uint32_t> next(kStretches);
  for (uint32_t shard = 0; shard < shards(); ++shard) {
    for (const uint32_t row : missed(shard)) ++next[(uint64_t{row} * shards() + shard) >> shift_];
  }
  uint32_t sum = 0;
  for (uint32_t& first : next) sum += std::exchange(first, sum);
  return next;
}

template <class Use>
void DeviceRequest::number_misses(uint32_t shard, std::vector<uint32_t>& next, const Use& use) const {
  const uint64_t count = shards();
  for (const uint32_t row : missed(shard)) {
    const uint64_t id = row * count + shard;
    use(static_cast<int64_t>(id), next[id >> shift_]++);
  }
}

void DeviceRequest::collect(OnDevice& made) {
  auto admitted = take_ints(2 * (admissions + 1));  // one more, for what is written and not wanted
  ids = take_buffer((misses + 1) * sizeof(int64_t));
  std::vector<uint32_t> next = first_numbers();
  std::vector<uint32_t> numbers(missed_.empty() ? 1 : *std::ranges::max_element(missed_) + 1);

  // What is a miss, and what is admitted, no processor predicts: both outcomes are computed, and a mask chooses, since
  // compilers turn `?:` into branches.
  int64_t* const missing = ids->as<int64_t>();
  uint32_t* pair = admitted->as<uint32_t>();
  const uint32_t count = shards();
  for (uint32_t shard = 0; shard < count; ++shard) {
    uint32_t* number = numbers.data();
    number_misses(shard, next, [&](int64_t id, uint32_t its) {
      missing[its] = id;
      *number++ = its;
    });
    number = numbers.data();
    for (uint32_t& row : rows(shard)) {
      const uint32_t found = row, miss = *number;
      const uint32_t is_miss = found / RowCalendar::kMiss, is_admitted = found / RowCalendar::kAdmitted & 1;
      const uint32_t slot = (found & (RowCalendar::kAdmitted - 1)) * count + shard;
      row = choose(is_miss, ~miss, slot);
      pair[0] = miss;
      pair[1] = slot;
      number += is_miss;
      pair += 2 * size_t{is_admitted};
    }
  }
  made.misses = misses;
  made.admissions = admissions;
  made.source = buffer_;
  made.admitted = std::move(admitted);
}

std::vector<int64_t> DeviceRequest::missing_ids() const {
  std::vector<int64_t> found(misses);
  std::vector<uint32_t> next = first_numbers();
  for (uint32_t shard = 0; shard < shards(); ++shard) {
    number_misses(shard, next, [&](int64_t id, uint32_t its) { found[its] = id; });
  }
  return found;
}

}  // namespace gz

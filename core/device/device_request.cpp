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
  using Target = OnDevice::Target;
  made.lists = take_buffer(OnDevice::list_bytes(size, misses));
  made.misses = misses;
  made.admissions = admissions;
  auto* const ids = made.lists->as<int64_t>();
  auto* const targets = reinterpret_cast<Target*>(ids + misses);
  Target* cached = targets + misses;
  std::vector<uint32_t> next = first_numbers();
  std::vector<Target> of_shard(missed_.empty() ? 1 : *std::ranges::max_element(missed_) + 1);

  // What is cached, and what is admitted, no processor predicts: each row is written both as one that is and as one
  // that is not, and only the right one moves its position on. So both lists need room for one more.
  const uint32_t *const outcomes = buffer_->as<uint32_t>(), *const places = outcomes + size;
  const uint32_t count = shards();
  for (uint32_t shard = 0; shard < count; ++shard) {
    Target* missed = of_shard.data();
    for (uint64_t i = begins_[shard]; i < begins_[shard + 1]; ++i) {
      const uint32_t found = outcomes[i];
      const uint32_t is_miss = found / RowCalendar::kMiss, is_admitted = found / RowCalendar::kAdmitted & 1;
      const auto place = static_cast<int32_t>(places[i]);
      const uint32_t slot = (found & (RowCalendar::kAdmitted - 1)) * count + shard;
      *cached = {place, static_cast<int32_t>(slot)};
      *missed = {place, static_cast<int32_t>(slot | (is_admitted - 1))};
      cached += 1 - is_miss;
      missed += is_miss;
    }
    missed = of_shard.data();
    number_misses(shard, next, [&](int64_t id, uint32_t its) {
      ids[its] = id;
      targets[its] = *missed++;
    });
  }
  buffer_ = nullptr;
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

// device_request_test: rows that are grouped by shard, planned at random, and collected, against a plain loop.
#include "device/device_request.h"

#include <algorithm>
#include <bit>
#include <map>
#include <random>
#include <vector>

#include "check.h"

using namespace gz;

namespace {

struct Case {
  size_t size;
  uint32_t shards;
  uint64_t rows;
};

void check_case(const Case& given, std::mt19937_64& random) {
  std::vector<int64_t> batch(given.size);
  for (int64_t& id : batch) id = static_cast<int64_t>(random() % given.rows);  // rows may repeat
  DeviceRequest request(7, batch, given.shards, false);
  for (uint32_t shard = 0; shard < given.shards; ++shard) {
    const auto missed = request.room_for_missed(shard);
    RowCalendar::Planned planned;
    for (uint32_t& row : request.rows(shard)) {
      const auto slot = static_cast<uint32_t>(random() % 1000);
      const uint64_t kind = random() % 3;
      if (kind > 0) missed[planned.misses++] = row;
      planned.admissions += kind == 2 ? 1 : 0;
      row = kind == 0 ? slot : kind == 1 ? RowCalendar::kMiss : RowCalendar::kMiss + RowCalendar::kAdmitted + slot;
    }
    request.add(shard, planned);
  }
  // The plain way: the next outcome of its shard for each row.
  std::vector<size_t> next(given.shards);
  std::vector<int64_t> missing;
  std::map<size_t, int32_t> admitted;  // slots by place
  std::vector<int32_t> hits(given.size, -1);
  for (size_t i = 0; i < batch.size(); ++i) {
    const auto shard = static_cast<uint32_t>(static_cast<uint64_t>(batch[i]) % given.shards);
    const uint32_t found = request.rows(shard)[next[shard]++];
    const auto slot = static_cast<int32_t>((found & (RowCalendar::kAdmitted - 1)) * given.shards + shard);
    if ((found & RowCalendar::kMiss) == 0) hits[i] = slot;
    if ((found & RowCalendar::kMiss) != 0) missing.push_back(batch[i]);
    if ((found & RowCalendar::kAdmitted) != 0) admitted[i] = slot;
  }

  const std::vector<int64_t> numbered = request.missing_ids();
  OnDevice made;
  made.rows = given.size;
  request.collect(made);
  CHECK_EQ(made.misses, missing.size());
  CHECK_EQ(made.admissions, admitted.size());
  std::vector<int> given_to(given.size);  // each place once
  for (const auto& [place, slot] : made.cached()) {
    const auto to = static_cast<size_t>(place);
    ++given_to.at(to);
    CHECK_EQ(slot, hits.at(to));
  }
  for (size_t k = 0; k < missing.size(); ++k) {
    const auto& [place, slot] = made.targets()[k];
    const auto to = static_cast<size_t>(place);
    ++given_to.at(to);
    CHECK_EQ(made.missing()[k], batch.at(to));
    CHECK_EQ(hits.at(to), -1);
    CHECK_EQ(slot, admitted.contains(to) ? admitted.at(to) : -1);
  }
  CHECK(std::ranges::all_of(given_to, [](int times) { return times == 1; }));
  CHECK(std::ranges::equal(numbered, made.missing()));
  const auto most = static_cast<uint64_t>(batch.empty() ? 0 : *std::ranges::max_element(batch));
  for (size_t k = 1; k < missing.size(); ++k) {
    CHECK(numbered[k - 1] <= numbered[k] + static_cast<int64_t>(most / 512));
  }
}

}  // namespace

TEST(outcomes_by_shard_come_back_with_their_places_in_the_batch) {
  std::mt19937_64 random(5);
  for (const size_t size : {0, 1, 2, 15, 16, 31, 32, 33, 255, 256, 257, 5000}) {
    for (const uint32_t shards : {1u, 2u, 16u, 256u}) {
      for (const uint64_t rows : {uint64_t{1}, uint64_t{256}, uint64_t{2047}, uint64_t{2048}, uint64_t{1} << 22,
                                  uint64_t{1} << 32, uint64_t{1} << 34}) {
        if (rows / shards >= uint64_t{1} << 32) continue;  // a row's number within its shard has 32 bits
        check_case({size, shards, rows}, random);
      }
    }
  }
}

TEST(shards_are_a_power_of_two_of_at_most_a_megabyte_where_rows_allow) {
  for (const uint64_t rows : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 17, (uint64_t{1} << 17) + 1,
                              uint64_t{10'000'000}, uint64_t{1} << 40}) {
    const uint32_t shards = DeviceRows::shards_for(rows);
    CHECK(std::has_single_bit(shards) && shards <= 256);
    CHECK(shards == 256 || rows / shards <= uint64_t{1} << 17);
    CHECK(shards == 1 || rows / shards >= uint64_t{1} << 16);
  }
}

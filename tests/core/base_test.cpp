// base_test: checksums against the table, random streams, sorts, the pool.
#include <algorithm>
#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "base/checked.h"
#include "base/checksum.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/sort_words.h"
#include "base/threads.h"
#include "check.h"

#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

using namespace gz;

namespace {

std::vector<std::byte> noise(size_t size, uint64_t seed) {
  Random random(make_key(seed));
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
  return bytes;
}

}  // namespace

TEST(crc32c_has_the_published_check_value) {
  const char* digits = "123456789";
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(digits), 9);
  CHECK_EQ(crc32c(bytes), 0xe3069283u);
  CHECK_EQ(crc32c_plain(bytes), 0xe3069283u);
}

TEST(crc32c_fast_equals_plain_at_every_length_and_cut) {
  const auto bytes = noise(20000, 1);
  for (const size_t size : {0, 1, 7, 8, 9, 1023, 3071, 3072, 3073, 6144, 10000, 20000}) {
    const auto part = std::span(bytes).first(size);
    CHECK_EQ(crc32c(part), crc32c_plain(part));
    const size_t cut = size / 3;
    CHECK_EQ(crc32c(part.subspan(cut), crc32c(part.first(cut))), crc32c_plain(part));
  }
}

TEST(digest_is_the_same_streamed_in_pieces_and_in_parallel) {
  const auto bytes = noise(5 * kBlockBytes / 2, 2);
  const uint64_t whole = digest(bytes, 1);
  CHECK_EQ(digest(bytes, 3), whole);
  StreamDigest stream;
  for (size_t at = 0; at < bytes.size(); at += 77777) {
    stream.add(std::span(bytes).subspan(at, std::min<size_t>(77777, bytes.size() - at)));
  }
  CHECK_EQ(stream.finish(), whole);
}

TEST(digest_sees_swapped_blocks) {
  auto bytes = noise(2 * kBlockBytes, 3);
  const uint64_t before = digest(bytes, 1);
  std::swap_ranges(bytes.begin(), bytes.begin() + kBlockBytes, bytes.begin() + kBlockBytes);
  CHECK(digest(bytes, 1) != before);
}

TEST(checked_arithmetic_stops_at_the_end) {
  CHECK(!checked_add(UINT64_MAX, 1));
  CHECK(!checked_mul(UINT64_MAX / 2, 3));
  CHECK(!checked_round_up(UINT64_MAX, 4096));
  CHECK_EQ(*checked_mul(0, UINT64_MAX), 0u);
  CHECK_EQ(*checked_round_up(4097, 4096), 8192u);
}

TEST(random_streams_are_pure_and_apart) {
  Random a(make_key(7, 1, 2)), b(make_key(7, 1, 2)), c(make_key(7, 2, 1));
  std::set<uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t x = a.next();
    CHECK_EQ(x, b.next());
    seen.insert(x);
    seen.insert(c.next());
  }
  CHECK_EQ(seen.size(), 2000u);
}

TEST(parallel_for_covers_every_index_once) {
  for (const int threads : {1, 2, 5}) {
    std::vector<std::atomic<int>> hits(10007);
    parallel_for(hits.size(), 100, threads, [&](size_t begin, size_t end, int worker) {
      CHECK(worker >= 0 && worker < threads);
      for (size_t i = begin; i < end; ++i) ++hits[i];
    });
    for (const auto& h : hits) CHECK_EQ(h.load(), 1);
  }
}

TEST(parallel_for_throws_the_bodys_exception_and_stays_usable) {
  for (int round = 0; round < 20; ++round) {
    CHECK_THROWS(ArgumentError, "chunk", parallel_for(1000, 1, 4, [&](size_t begin, size_t, int) {
                   if (begin == 500) fail<ArgumentError>("chunk");
                 }));
  }
}

TEST(parallel_for_serves_many_callers_and_nests) {
  std::atomic<size_t> sum{0};
  std::vector<std::thread> callers;
  for (int t = 0; t < 4; ++t) {
    callers.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        parallel_for(64, 1, 3,
                     [&](size_t, size_t, int) { parallel_for(4, 1, 2, [&](size_t, size_t, int) { ++sum; }); });
      }
    });
  }
  for (auto& c : callers) c.join();
  CHECK_EQ(sum.load(), size_t{4} * 50 * 64 * 4);
}

TEST(buffers_are_counted_while_they_live) {
  const uint64_t before = bytes_held(Purpose::kTables);
  {
    Buffer buffer(1 << 20, Purpose::kTables);
    CHECK(bytes_held(Purpose::kTables) >= before + (1 << 20));
    Buffer moved = std::move(buffer);
    CHECK(moved.data() != nullptr);
  }
  CHECK_EQ(bytes_held(Purpose::kTables), before);
}

TEST(pages_are_locked_once_and_a_buffer_that_cannot_be_is_used_as_it_is) {
  int locks = 0, unlocks = 0;
  bool may = true;
  PageLock page_lock{[&](void*, size_t) { return may && ++locks > 0; }, [&](void*) { ++unlocks; }};
  {
    BufferPool pool(uint64_t{64} << 20, BufferPool::kNoLimit, page_lock);
    for (int i = 0; i < 5; ++i) CHECK(pool.take(1 << 20)->page_locked());
    CHECK_EQ(locks, 1);  // reuse does not lock pages again
    may = false;
    const auto locked = pool.take(1 << 20);
    const auto plain = pool.take(1 << 20);
    CHECK(locked->page_locked());
    CHECK(!plain->page_locked());
    CHECK_EQ(unlocks, 0);
  }
  CHECK_EQ(unlocks, 1);  // not the one that was never locked
}

// Sizes around those at which another way is chosen; digits that differ, that are few, and that are equal.
TEST(words_are_sorted_by_some_of_their_bits) {
  for (const size_t count : {0, 1, 2, 63, 64, 65, 1000, 32767, 32768, 32769, 100'000}) {
    for (const auto& [low, bits] : {std::pair{0, 0}, {0, 1}, {40, 24}, {27, 17}, {5, 18}, {33, 19}, {13, 31}}) {
      for (const uint64_t distinct : {uint64_t{1}, uint64_t{3}, UINT64_MAX}) {
        Random random(make_key(count));
        const uint64_t mask = ((uint64_t{1} << bits) - 1) << low, above = low + bits < 64 ? 1ull << (low + bits) : 0;
        std::vector<uint64_t> words(count);
        for (uint64_t& word : words) {
          const uint64_t key = random.next() % distinct << low & mask;
          word = above | key | (random.next() & ((uint64_t{1} << low) - 1));
        }
        std::vector<uint64_t> expected = words;
        sort_by_bits(words, low, bits);
        const auto key_of = [&](uint64_t word) { return word & mask; };
        CHECK(std::ranges::is_sorted(words, {}, key_of));
        std::ranges::sort(words);
        std::ranges::sort(expected);
        CHECK(words == expected);
      }
    }
  }
}

TEST(a_buffer_that_came_back_is_handed_out_for_the_same_size) {
  // Just below the size of a huge page too, where the room for more makes it two.
  for (size_t bytes = size_t{64} << 10; bytes < size_t{9} << 20; bytes += 123457) {
    BufferPool::of_process().clear();
    const std::byte* first = take_buffer(bytes)->data();
    const auto again = take_buffer(bytes);
    CHECK(again->data() == first);
    CHECK_EQ(BufferPool::of_process().idle_bytes(), 0u);
  }
}

TEST(populating_memory_leaves_what_is_written) {
  const Buffer memory(4 << 20, Purpose::kCache);
  const std::span<std::byte> bytes(memory.data(), 3 << 20);
  bytes[5000] = std::byte{7};
  populate(bytes);
  CHECK(bytes[5000] == std::byte{7});
}

#ifdef __linux__
TEST(a_thread_lowers_its_own_priority_alone) {
  const auto priority = [] { return getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid))); };
  const int before = priority();
  int after = before;
  std::thread([&] {
    lower_thread_priority();
    after = priority();
  }).join();
  CHECK(after > before || before == 19);
  CHECK_EQ(priority(), before);
}
#endif

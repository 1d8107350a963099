// run_spill: the runs of a front become one long run of the spill file, bucket after bucket, with packed keys.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "compile/run_store.h"
#include "format/container.h"

namespace gz {
namespace {

constexpr size_t kStaging = size_t{1} << 20;

}  // namespace

// How keys of a merged run look on disk: as few bytes as its ids need.
KeyLayout RunStore::spilled_layout(const Front& front, uint32_t shift) {
  bool wide = false;
  for (const Run& run : front.runs) wide = wide || run.keys.wide();
  if (wide) return kWideKeys;
  std::lock_guard lock(mutex_);  // pieces may be added meanwhile; the largest only grows
  const auto neighbour_bits = static_cast<uint32_t>(std::bit_width(largest_neighbour_));
  const uint32_t bytes = std::max((shift + neighbour_bits + 7) / 8, 1u);
  return options_.split.by_neighbour || bytes >= 8 ? kNarrowKeys : KeyLayout{bytes, neighbour_bits, true};
}

// Bucket after bucket, all runs of a front, one column after the other.
void RunStore::spill(Front& front) {
  std::sort(front.runs.begin(), front.runs.end(), [](const Run& a, const Run& b) { return a.order < b.order; });
  Run merged;
  for (const Run& run : front.runs) {
    merged.shift = std::max(merged.shift, run.shift);
    merged.count += run.count;
  }
  if (merged.count == 0) return;
  merged.keys = spilled_layout(front, merged.shift);
  merged.order = front.runs.front().order;
  merged.file = spill_file_;
  auto offsets = std::make_shared<std::vector<uint64_t>>();
  offsets->reserve(buckets() + 1);  // it stays as long as the run does, and there may be many
  for (uint64_t b = 0; b <= buckets(); ++b) {
    uint64_t begin = 0;
    for (const Run& run : front.runs) begin += run.begin_of(b, merged.shift);
    offsets->push_back(begin);
  }
  merged.offsets = std::move(offsets);

  const size_t most_staged = round_up(std::min(kStaging, slab_bytes_), kPageBytes);
  Buffer staging(most_staged, Purpose::kCompile);
  size_t staged = 0;
  const auto flush = [&] {  // what is left of a page is never read
    const size_t whole = round_up(staged, kPageBytes);
    spill_file_->direct.write_at({staging.data(), whole}, spill_end_);
    spill_end_ += whole;
    staged = 0;
  };
  const auto put = [&](const std::byte* from, size_t bytes) {
    while (bytes > 0) {
      const size_t part = std::min(bytes, most_staged - staged);
      std::memcpy(staging.data() + staged, from, part);
      from += part;
      bytes -= part;
      staged += part;
      if (staged == most_staged) flush();
    }
  };
  const auto each_slice = [&](auto&& f) {
    for (uint64_t b = 0; b < buckets(); ++b) {
      for (const Run& run : front.runs) {
        const uint64_t begin = run.begin_of(b, merged.shift), end = run.begin_of(b + 1, merged.shift);
        if (end > begin) f(run, begin, end - begin);
      }
    }
  };
  merged.at[0] = spill_end_;
  const uint64_t row_mask = (uint64_t{1} << std::min(merged.shift, 63u)) - 1;
  each_slice([&](const Run& run, uint64_t begin, uint64_t count) {
    const std::byte* keys = run.columns[0] + begin * run.keys.bytes;
    if (run.keys.bytes == merged.keys.bytes) {
      put(keys, count * run.keys.bytes);
      return;
    }
    for_each_key({&run, begin, count}, keys, [&](uint64_t, uint64_t row, uint64_t neighbour) {
      if (merged.keys.wide()) {
        const WideKey key{row, neighbour};
        put(reinterpret_cast<const std::byte*>(&key), sizeof key);
        return;
      }
      const uint64_t in_bucket = (row - options_.split.base) & row_mask;
      const uint64_t key = in_bucket << merged.keys.neighbour_bits | neighbour;
      if (staged + sizeof key < most_staged) {  // the next key overwrites what is too much
        std::memcpy(staging.data() + staged, &key, sizeof key);
        staged += merged.keys.bytes;
      } else {
        put(reinterpret_cast<const std::byte*>(&key), merged.keys.bytes);
      }
    });
  });
  flush();
  const auto put_column = [&](size_t column, size_t width) {
    merged.at[column] = spill_end_;
    each_slice([&](const Run& run, uint64_t begin, uint64_t count) {
      put(run.columns[column] + begin * width, count * width);
    });
    flush();
  };
  if (options_.shape.times) put_column(1, 8);
  if (options_.shape.numbers) put_column(2, 8);
  if (options_.shape.weights) put_column(3, 4);
  spilled_.push_back(std::move(merged));
}

}  // namespace gz

// run_spill: the runs of a front become one long run of the spill file, bucket after bucket, with packed keys.
#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "compile/sort/run_store.h"
#include "format/container.h"

namespace gz {
namespace {

constexpr size_t kStaging = size_t{1} << 20;

// Appends bytes to the spill file at `end`, in whole pages: what is left of a page is never read.
class SpillStaging {
 public:
  SpillStaging(SpillFile& file, uint64_t& end, size_t bytes)
      : file_(file), end_(end), bytes_(bytes), buffer_(bytes, Purpose::kCompile) {}

  void put(const std::byte* from, size_t bytes) {
    while (bytes > 0) {
      const size_t part = std::min(bytes, bytes_ - staged_);
      std::memcpy(buffer_.data() + staged_, from, part);
      from += part;
      bytes -= part;
      staged_ += part;
      if (staged_ == bytes_) flush();
    }
  }

  // The lowest `bytes` bytes of a key; the next key overwrites the others.
  void put_key(uint64_t key, size_t bytes) {
    if (staged_ + sizeof key < bytes_) {
      std::memcpy(buffer_.data() + staged_, &key, sizeof key);
      staged_ += bytes;
    } else {
      put(reinterpret_cast<const std::byte*>(&key), bytes);
    }
  }

  void flush() {
    const size_t whole = round_up(staged_, kPageBytes);
    file_.direct.write_at({buffer_.data(), whole}, end_);
    end_ += whole;
    staged_ = 0;
  }

 private:
  SpillFile& file_;
  uint64_t& end_;
  const size_t bytes_;
  Buffer buffer_;
  size_t staged_ = 0;
};

}  // namespace

// The key layout of a merged run on disk: as few bytes as its ids need.
KeyLayout RunStore::spilled_layout(const Front& front, uint32_t shift) {
  bool wide = false;
  for (const Run& run : front.runs) wide = wide || run.keys.wide();
  if (wide) return kWideKeys;
  std::lock_guard lock(mutex_);  // pieces may be added concurrently; the largest id only grows
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

  SpillStaging staging(*spill_file_, spill_end_, round_up(std::min(kStaging, slab_bytes_), kPageBytes));
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
      staging.put(keys, count * run.keys.bytes);
      return;
    }
    for_each_key({&run, begin, count}, keys, [&](uint64_t, uint64_t row, uint64_t neighbour) {
      if (merged.keys.wide()) {
        const WideKey key{row, neighbour};
        staging.put(reinterpret_cast<const std::byte*>(&key), sizeof key);
        return;
      }
      const uint64_t in_bucket = (row - options_.split.base) & row_mask;
      staging.put_key(in_bucket << merged.keys.neighbour_bits | neighbour, merged.keys.bytes);
    });
  });
  staging.flush();
  const auto put_column = [&](size_t column, size_t width) {
    merged.at[column] = spill_end_;
    each_slice([&](const Run& run, uint64_t begin, uint64_t count) {
      staging.put(run.columns[column] + begin * width, count * width);
    });
    staging.flush();
  };
  if (options_.shape.times) put_column(1, 8);
  if (options_.shape.numbers) put_column(2, 8);
  if (options_.shape.weights) put_column(3, 4);
  spilled_.push_back(std::move(merged));
}

}  // namespace gz

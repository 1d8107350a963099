// drain: groups of buckets that fit the budget are read ahead; within a group the threads sort one bucket each in
// cache, and commit them in order.
#include "compile/sort/drain.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "base/error.h"
#include "base/memory.h"
#include "base/threads.h"
#include "compile/sort/radix.h"

namespace gz {
namespace {

constexpr uint64_t kMostRecords = uint64_t{1} << 31;  // places are 32-bit
constexpr size_t kSplitPiece = size_t{1} << 14;       // records in flight from a large bucket to its parts

// Admits workers one at a time, in the order of their tickets.
class Turnstile {
 public:
  bool wait(uint64_t ticket) {  // false: another worker failed
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return broken_ || turn_ == ticket; });
    return !broken_;
  }
  void next() {
    std::lock_guard lock(mutex_);
    ++turn_;
    changed_.notify_all();
  }
  void fail() {
    std::lock_guard lock(mutex_);
    broken_ = true;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t turn_ = 0;    // guarded by mutex_
  bool broken_ = false;  // guarded by mutex_
};

// The sort buffers of one worker.
class Workspace {
 public:
  void make_room(uint64_t records, const RecordShape& shape) {
    if (records <= capacity_) return;
    capacity_ = records;
    const auto grow = [&](Buffer& buffer, size_t width) {
      buffer = Buffer();  // free before allocating
      buffer = Buffer(records * width, Purpose::kCompile);
    };
    grow(keys_, 8);
    grow(spare_keys_, 8);
    if (shape.columns() == 0) return;
    grow(places_, 4);
    grow(spare_places_, 4);
    if (shape.times) grow(times_, 8);
    if (shape.numbers) grow(numbers_, 8);
    if (shape.weights) grow(weights_, 4);
  }

  Gathered columns_from(uint64_t at) const {
    return {weights_ ? weights_.as<float>() + at : nullptr, times_ ? times_.as<int64_t>() + at : nullptr,
            numbers_ ? numbers_.as<uint64_t>() + at : nullptr};
  }

  SortedBucket sort(const RunStore& store, std::span<const Slice> slices, const KeyRange& range, int neighbour_bits,
                    int row_bits) {
    uint64_t count = 0;
    for (const Slice& slice : slices) count += slice.count;
    make_room(count, store.options().shape);
    uint64_t* keys = keys_.as<uint64_t>();
    const int shift = std::min(neighbour_bits, 63);  // 64 bits of neighbour leave one row, number 0
    uint64_t at = 0;
    for (const Slice& slice : slices) {
      for_each_key(slice, store.keys_of(slice, staging_), [&](uint64_t i, uint64_t row, uint64_t neighbour) {
        keys[at + i] = (row - range.row_begin) << shift | neighbour;
      });
      if (places_) store.gather(slice, columns_from(at));
      at += slice.count;
    }
    const Sorted sorted =
        radix_sort(keys, spare_keys_.as<uint64_t>(), places_ ? places_.as<uint32_t>() : nullptr,
                   spare_places_ ? spare_places_.as<uint32_t>() : nullptr, count, row_bits + neighbour_bits);
    return {range, {sorted.keys, count}, neighbour_bits, sorted.places, columns_from(0)};
  }

 private:
  uint64_t capacity_ = 0;
  Buffer keys_, spare_keys_, places_, spare_places_, times_, numbers_, weights_;
  std::vector<std::byte> staging_;
};

struct Group {  // buckets that are processed together
  uint64_t begin, end;
  bool large;  // one bucket that must be split
};

class Drain {
 public:
  Drain(BucketConsumer& consumer, const DrainOptions& options)
      : consumer_(consumer), options_(options), workspaces_(static_cast<size_t>(options.threads)) {}

  void run(const RunStore& store, const KeyRange& range, bool top) {
    const auto groups = make_groups(store, range);
    Buffer current, next;
    std::vector<Run> runs, coming;  // of this group, and of the next one
    BackgroundTask reading;
    for (size_t g = 0; g < groups.size(); ++g) {
      const Group& group = groups[g];
      if (group.large) {
        current = Buffer();  // splitting needs the memory; no read is in flight
        next = Buffer();
        release();
        split(store, bucket_range(store, range, group.begin), group.begin);
        release();  // parts differ in shape from buckets: the buffers would grow to both maxima
        report(store.records_in(group.begin, group.end), top);
        continue;
      }
      if (reading.valid()) {
        reading.wait();
        runs = std::move(coming);
      } else {
        runs = store.load(group.begin, group.end, next);
      }
      std::swap(current, next);
      if (top && g + 1 < groups.size() && !groups[g + 1].large) {
        reading = BackgroundTask([&, ahead = groups[g + 1]] { coming = store.load(ahead.begin, ahead.end, next); });
      }
      sort_group(store, runs, range, group, top);
      if (!top) current = Buffer();  // the levels below load their own
    }
  }

  void set_total(uint64_t total) { total_ = total; }

  // Buckets end at the last row that has records; the nodes after it have empty rows.
  void finish_rows(const RunStore& store, const KeyRange& range) {
    release();
    const uint64_t step =
        std::max<uint64_t>(options_.scratch_bytes / std::max<size_t>(consumer_.bytes_per_row(), 1), 1);
    KeyRange part = range;
    part.row_begin = bucket_range(store, range, store.buckets() - 1).row_end;
    for (; part.row_begin < range.row_end; part.row_begin = part.row_end) {
      part.row_end = part.row_begin + std::min(step, range.row_end - part.row_begin);
      const SortedBucket empty{part, {}, neighbour_bits(store), nullptr, {}};
      consumer_.prepare(empty, 0);
      consumer_.commit(empty, 0);
    }
  }

 private:
  void release() {
    for (Workspace& workspace : workspaces_) workspace = Workspace();
    consumer_.release();
  }

  void report(uint64_t records, bool top) {
    if (!top) records = 0;  // the level above counts them when they are all done
    done_ += records;
    if (options_.progress != nullptr) {
      options_.progress->report(options_.phase, done_ + (top ? pending_.load() : 0), total_);
    }
  }

  static KeyRange bucket_range(const RunStore& store, const KeyRange& range, uint64_t bucket) {
    const uint32_t shift = store.shift();
    const Split& split = store.options().split;
    const auto cut = [&](uint64_t begin, uint64_t end) {  // this bucket's part of [begin, end)
      const uint64_t width = end - begin;
      const auto offset = [&](uint64_t b) { return b > (width >> shift) ? width : std::min(width, b << shift); };
      return std::pair(begin + offset(bucket), begin + offset(bucket + 1));
    };
    KeyRange part = range;
    if (split.by_neighbour) {
      std::tie(part.neighbour_begin, part.neighbour_end) = cut(range.neighbour_begin, range.neighbour_end);
      part.opens = range.opens && part.neighbour_begin == range.neighbour_begin;
      part.closes = range.closes && part.neighbour_end == range.neighbour_end;
    } else {
      std::tie(part.row_begin, part.row_end) = cut(range.row_begin, range.row_end);
    }
    return part;
  }

  // Buckets with at least one row or neighbour in the range.
  static uint64_t used_buckets(const RunStore& store, const KeyRange& range) {
    const uint64_t width =
        store.options().split.by_neighbour ? range.neighbour_end - range.neighbour_begin : range.rows();
    return width == 0 ? 0 : std::min<uint64_t>(store.buckets(), ((width - 1) >> store.shift()) + 1);
  }

  int neighbour_bits(const RunStore& store) const {
    return static_cast<int>(std::bit_width(store.largest_neighbour()));
  }
  static int row_bits(const KeyRange& range) {
    return range.rows() <= 1 ? 0 : static_cast<int>(std::bit_width(range.rows() - 1));
  }

  bool fits(const RunStore& store, const KeyRange& range, uint64_t records) const {
    const RecordShape& shape = store.options().shape;
    const uint64_t each = 16 + (shape.columns() > 0 ? 8 : 0) + shape.column_bytes() + consumer_.bytes_per_record();
    const uint64_t rows = range.rows() == 1 ? 0 : range.rows() * consumer_.bytes_per_row();
    const uint64_t room = options_.scratch_bytes - std::min(options_.scratch_bytes, rows);
    return records <= kMostRecords && rows <= options_.scratch_bytes && records * each <= room &&
           neighbour_bits(store) + row_bits(range) <= 64;
  }

  std::vector<Group> make_groups(const RunStore& store, const KeyRange& range) const {
    std::vector<Group> groups;
    for (uint64_t b = 0; b < used_buckets(store, range); ++b) {
      const KeyRange part = bucket_range(store, range, b);
      if (!fits(store, part, store.records_in(b, b + 1)) || store.load_bytes(b, b + 1) > options_.load_bytes) {
        groups.push_back({b, b + 1, true});
        continue;
      }
      if (groups.empty() || groups.back().large || store.load_bytes(groups.back().begin, b + 1) > options_.load_bytes) {
        groups.push_back({b, b, false});
      }
      groups.back().end = b + 1;
    }
    return groups;
  }

  void sort_group(const RunStore& store, const std::vector<Run>& runs, const KeyRange& range, const Group& group,
                  bool top) {
    uint64_t largest = 0;
    for (uint64_t b = group.begin; b < group.end; ++b) largest = std::max(largest, store.records_in(b, b + 1));
    std::atomic<uint64_t> next{group.begin};
    Turnstile turnstile;
    const auto seats = static_cast<size_t>(options_.threads);
    parallel_for(seats, 1, options_.threads, [&](size_t, size_t, int worker) {
      try {
        Workspace& workspace = workspaces_[static_cast<size_t>(worker)];
        workspace.make_room(largest, store.options().shape);
        for (;;) {
          const uint64_t b = next++;
          if (b >= group.end) return;
          const auto slices = store.slices(runs, b, b + 1);
          const KeyRange part = bucket_range(store, range, b);
          const SortedBucket bucket = workspace.sort(store, slices, part, neighbour_bits(store), row_bits(part));
          consumer_.prepare(bucket, worker);
          if (!turnstile.wait(b - group.begin)) return;
          consumer_.commit(bucket, worker);
          turnstile.next();
          pending_ += bucket.keys.size();
          if (worker == 0) report(0, top);
        }
      } catch (...) {
        turnstile.fail();
        throw;
      }
    });
    report(pending_.exchange(0), top);
  }

  // Splits a bucket that is too large, through a store of finer buckets on disk.
  void split(const RunStore& store, const KeyRange& range, uint64_t bucket) {
    if (range.rows() == 1 && range.neighbour_end - range.neighbour_begin == 1) {
      emit_repeats(store, range, bucket);
      return;
    }
    RunStore::Options options = store.options();
    // No thread sorts in the meantime. Half of that memory makes fewer and longer runs; the other is for pieces and
    // staging.
    options.memory = options_.load_bytes + options_.scratch_bytes * static_cast<uint64_t>(options_.threads) / 2;
    options.piece_records = std::min(options.piece_records, kSplitPiece);
    options.split.by_neighbour = range.rows() == 1;
    const uint64_t base = options.split.by_neighbour ? range.neighbour_begin : range.row_begin;
    const uint64_t width = (options.split.by_neighbour ? range.neighbour_end : range.row_end) - base;
    options.split.base = base;
    const auto bits = static_cast<uint32_t>(std::bit_width(width - 1));
    options.split.shift = bits > options.bucket_bits ? bits - options.bucket_bits : 0;
    RunStore finer(options);
    uint64_t order = 0;
    RunStore::Scratch scratch;
    for_each_piece(store, bucket, options.piece_records, [&](const Piece& piece) {
      finer.add_alone(piece, order++, scratch);
      report(0, false);
    });
    finer.seal(false);
    run(finer, range, false);
  }

  // More copies of one edge than fit at once: they are already in order.
  void emit_repeats(const RunStore& store, KeyRange range, uint64_t bucket) {
    const bool opens = range.opens, closes = range.closes;
    const uint64_t total = store.records_in(bucket, bucket + 1);
    uint64_t done = 0;
    std::vector<uint64_t> keys;
    std::vector<uint32_t> places;
    for_each_piece(store, bucket, std::min(store.options().piece_records, kSplitPiece), [&](const Piece& piece) {
      keys.assign(piece.neighbours, piece.neighbours + piece.count);
      places.resize(piece.count);
      for (size_t i = 0; i < piece.count; ++i) places[i] = static_cast<uint32_t>(i);
      range.opens = opens && done == 0;
      range.repeats = done > 0;
      done += piece.count;
      range.closes = closes && done == total;
      const SortedBucket part{
          range,
          keys,
          neighbour_bits(store),
          store.options().shape.columns() > 0 ? places.data() : nullptr,
          {const_cast<float*>(piece.weights), const_cast<int64_t*>(piece.times), const_cast<uint64_t*>(piece.numbers)}};
      consumer_.prepare(part, 0);
      consumer_.commit(part, 0);
    });
  }

  template <class F>
  static void for_each_piece(const RunStore& store, uint64_t bucket, size_t most, F&& f) {
    std::vector<uint64_t> rows(most), neighbours(most), numbers(most);
    std::vector<int64_t> times(most);
    std::vector<float> weights(most);
    std::vector<std::byte> staging;
    for (const Slice& whole : store.slices(store.runs(), bucket, bucket + 1)) {
      for (uint64_t at = 0; at < whole.count; at += most) {
        const Slice slice{whole.run, whole.begin + at, std::min<uint64_t>(most, whole.count - at), whole.row_base};
        for_each_key(slice, store.keys_of(slice, staging), [&](uint64_t i, uint64_t row, uint64_t neighbour) {
          rows[i] = row;
          neighbours[i] = neighbour;
        });
        store.gather(slice, {weights.data(), times.data(), numbers.data()});
        f(Piece{slice.count, rows.data(), neighbours.data(), weights.data(), times.data(), numbers.data()});
      }
    }
  }

  BucketConsumer& consumer_;
  const DrainOptions& options_;
  std::vector<Workspace> workspaces_;
  std::atomic<uint64_t> pending_{0};  // records of the group at work
  uint64_t done_ = 0, total_ = 0;
};

}  // namespace

void drain(const RunStore& store, const KeyRange& range, BucketConsumer& consumer, const DrainOptions& options) {
  Drain all(consumer, options);
  all.set_total(store.count());
  all.run(store, range, true);
  all.finish_rows(store, range);
}

}  // namespace gz

// run_store: counting sort of pieces by bucket, and the merge of resident runs into the spill file.
#include "compile/run_store.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace gz {
namespace {

constexpr uint64_t kNarrow = uint64_t{1} << 32;
constexpr size_t kStaging = size_t{1} << 20;
constexpr uint64_t kWriteback = uint64_t{8} << 20;
constexpr uint64_t kKept = uint64_t{32} << 20;  // spilled bytes leave the page cache this far behind the writer

// Scatters one column to the places its records got.
template <class T>
void scatter(const T* from, const std::vector<uint32_t>& places, size_t count, std::byte* to) {
  T* out = reinterpret_cast<T*>(to);
  for (size_t i = 0; i < count; ++i) out[places[i]] = from[i];
}

template <class Key, class Make>
void scatter_keys(const Piece& piece, const Split& split, uint32_t shift, RunStore::Scratch& scratch, bool keep_places,
                  std::byte* to, Make make) {
  Key* out = reinterpret_cast<Key*>(to);
  const uint64_t* by = split.by_neighbour ? piece.neighbours : piece.rows;
  uint64_t* cursors = scratch.cursors.data();
  if (keep_places) {
    scratch.places.resize(piece.count);
    for (size_t i = 0; i < piece.count; ++i) {
      const uint64_t place = cursors[(by[i] - split.base) >> shift]++;
      scratch.places[i] = static_cast<uint32_t>(place);
      out[place] = make(piece.rows[i], piece.neighbours[i]);
    }
    return;
  }
  for (size_t i = 0; i < piece.count; ++i) {
    out[cursors[(by[i] - split.base) >> shift]++] = make(piece.rows[i], piece.neighbours[i]);
  }
}

uint64_t narrow_key(uint64_t row, uint64_t neighbour) { return row << 32 | neighbour; }

}  // namespace

uint64_t Run::begin_of(uint64_t bucket, uint32_t store_shift) const {
  const uint64_t last = offsets->size() - 1;
  const uint32_t finer = store_shift - shift;
  const uint64_t index = bucket == 0 ? 0 : finer >= 32 ? last : std::min(bucket << finer, last);
  return (*offsets)[index];
}

RunStore::RunStore(Options options) : options_(std::move(options)) {
  half_ = options_.memory / 2;
  const size_t largest_run = bytes_of(options_.piece_records);
  // Slabs are large enough for huge pages, small enough that a half is many of them.
  slab_bytes_ = std::max<size_t>({std::min<size_t>(half_ / 8, size_t{32} << 20), largest_run, size_t{16} << 10});
  shift_ = options_.split.shift;
}

RunStore::~RunStore() {
  if (spilling_.valid()) spilling_.wait();
}

std::byte* RunStore::take(size_t bytes) {
  bytes = (bytes + 15) & ~size_t{15};
  if (active_.slabs.empty() || active_.used + bytes > active_.slabs.back().size()) {
    if (!idle_.empty()) {
      active_.slabs.push_back(std::move(idle_.back()));
      idle_.pop_back();
    } else {
      active_.slabs.emplace_back(slab_bytes_, Purpose::kCompile);
    }
    active_.used = 0;
  }
  std::byte* at = active_.slabs.back().data() + active_.used;
  active_.used += bytes;
  active_.bytes += bytes;
  return at;
}

void RunStore::add(const Piece& piece, uint64_t order, Scratch& scratch) {
  if (piece.count == 0) return;
  uint64_t largest_row = 0, largest_neighbour = 0;
  for (size_t i = 0; i < piece.count; ++i) {
    largest_row = std::max(largest_row, piece.rows[i]);
    largest_neighbour = std::max(largest_neighbour, piece.neighbours[i]);
  }
  const uint64_t* by = options_.split.by_neighbour ? piece.neighbours : piece.rows;
  const uint64_t largest = options_.split.by_neighbour ? largest_neighbour : largest_row;
  Run run;
  run.order = order;
  run.wide = options_.force_wide || std::max(largest_row, largest_neighbour) >= kNarrow;
  run.count = run.loaded = piece.count;
  {
    std::lock_guard lock(mutex_);
    largest_row_ = std::max(largest_row_, largest_row);
    largest_neighbour_ = std::max(largest_neighbour_, largest_neighbour);
    const auto bits = static_cast<uint32_t>(std::bit_width(largest - options_.split.base));
    if (bits > shift_ + options_.bucket_bits) shift_ = bits - options_.bucket_bits;
    run.shift = shift_;
    run.memory = take(run.count * (run.key_bytes() + options_.shape.column_bytes()));
    count_ += run.count;
  }
  const uint32_t buckets = this->buckets();
  auto offsets = std::make_shared<std::vector<uint64_t>>(buckets + 1, 0);
  for (size_t i = 0; i < piece.count; ++i) ++(*offsets)[((by[i] - options_.split.base) >> run.shift) + 1];
  for (uint32_t b = 0; b < buckets; ++b) (*offsets)[b + 1] += (*offsets)[b];
  scratch.cursors.assign(offsets->begin(), offsets->end());
  run.offsets = std::move(offsets);
  const RecordShape& shape = options_.shape;
  const bool keep_places = shape.columns() > 0;
  if (run.wide) {
    scatter_keys<WideKey>(piece, options_.split, run.shift, scratch, keep_places, run.memory,
                          [](uint64_t row, uint64_t neighbour) { return WideKey{row, neighbour}; });
  } else {
    scatter_keys<uint64_t>(piece, options_.split, run.shift, scratch, keep_places, run.memory, narrow_key);
  }
  std::byte* column = run.memory + run.count * run.key_bytes();
  if (shape.times) scatter(piece.times, scratch.places, run.count, std::exchange(column, column + 8 * run.count));
  if (shape.numbers) scatter(piece.numbers, scratch.places, run.count, std::exchange(column, column + 8 * run.count));
  if (shape.weights) scatter(piece.weights, scratch.places, run.count, column);
  std::lock_guard lock(mutex_);
  active_.runs.push_back(std::move(run));
}

bool RunStore::reserve(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  const uint64_t held = active_.bytes + reserved_;
  if (held > 0 && held + bytes > half_) return false;
  reserved_ += bytes;
  return true;
}

void RunStore::release(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  reserved_ -= bytes;
}

void RunStore::wait() {
  if (spilling_.valid()) spilling_.get();
}

void RunStore::start_spill(Front front) {
  wait();
  if (!spill_file_) spill_file_ = File::create_nameless(options_.spill_folder);
  spilling_ = std::async(std::launch::async, [this, front = std::make_shared<Front>(std::move(front))] {
    spill(*front);
    std::lock_guard lock(mutex_);
    for (Buffer& slab : front->slabs) idle_.push_back(std::move(slab));
  });
}

void RunStore::make_room(uint64_t expected_bytes) {
  if (expected_bytes > options_.memory && !eager_) {
    eager_ = true;
    const uint64_t room = free_bytes(options_.spill_folder);
    if (expected_bytes > room) {
      throw StorageError(text(options_.spill_folder, ": about ", expected_bytes, " bytes must be spilled, ", room,
                              " are free: choose another spill_dir, or a larger memory"),
                         ENOSPC, options_.spill_folder);
    }
  }
  full_.push_back(std::move(active_));
  active_ = Front{};
  if (!eager_ && full_.size() < 2) return;
  eager_ = true;
  while (!full_.empty()) {
    start_spill(std::move(full_.front()));  // waits for the one before
    full_.pop_front();
  }
}

// Bucket after bucket, all runs of a front, one column after the other.
void RunStore::spill(Front& front) {
  std::sort(front.runs.begin(), front.runs.end(), [](const Run& a, const Run& b) { return a.order < b.order; });
  Run merged;
  for (const Run& run : front.runs) {
    merged.shift = std::max(merged.shift, run.shift);
    merged.wide = merged.wide || run.wide;
    merged.count += run.count;
  }
  if (merged.count == 0) return;
  merged.order = front.runs.front().order;
  merged.at = spill_end_;
  auto offsets = std::make_shared<std::vector<uint64_t>>();
  for (uint64_t b = 0; b <= buckets(); ++b) {
    uint64_t begin = 0;
    for (const Run& run : front.runs) begin += run.begin_of(b, merged.shift);
    offsets->push_back(begin);
  }
  merged.offsets = std::move(offsets);

  std::vector<std::byte> staging;
  staging.reserve(kStaging);
  uint64_t nudged = spill_end_;
  const auto flush = [&] {
    spill_file_.write_at(staging, spill_end_);
    spill_end_ += staging.size();
    staging.clear();
    if (spill_end_ - nudged >= kWriteback) {
      spill_file_.start_writeback(nudged, spill_end_ - nudged);
      if (nudged > kKept) spill_file_.drop_cache(0, nudged - kKept);
      nudged = spill_end_;
    }
  };
  const auto put = [&](const std::byte* from, size_t bytes) {
    while (bytes > 0) {
      const size_t part = std::min(bytes, kStaging - staging.size());
      staging.insert(staging.end(), from, from + part);
      from += part;
      bytes -= part;
      if (staging.size() == kStaging) flush();
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
  each_slice([&](const Run& run, uint64_t begin, uint64_t count) {
    if (run.wide == merged.wide) {
      put(run.memory + begin * run.key_bytes(), count * run.key_bytes());
      return;
    }
    const auto* keys = reinterpret_cast<const uint64_t*>(run.memory) + begin;
    for (uint64_t i = 0; i < count; ++i) {
      const WideKey key{keys[i] >> 32, keys[i] & (kNarrow - 1)};
      put(reinterpret_cast<const std::byte*>(&key), sizeof key);
    }
  });
  size_t before = 0;  // bytes a record of the columns already written
  const auto put_column = [&](size_t width) {
    each_slice([&](const Run& run, uint64_t begin, uint64_t count) {
      put(run.memory + run.count * (run.key_bytes() + before) + begin * width, count * width);
    });
    before += width;
  };
  if (options_.shape.times) put_column(8);
  if (options_.shape.numbers) put_column(8);
  if (options_.shape.weights) put_column(4);
  flush();
  spilled_.push_back(std::move(merged));
}

void RunStore::seal(bool keep) {
  full_.push_back(std::move(active_));
  active_ = Front{};
  if (!keep) {
    while (!full_.empty()) {
      start_spill(std::move(full_.front()));
      full_.pop_front();
    }
  }
  wait();
  idle_.clear();
  runs_ = spilled_;
  for (const Front& front : full_) {
    auto sorted = front.runs;
    std::sort(sorted.begin(), sorted.end(), [](const Run& a, const Run& b) { return a.order < b.order; });
    runs_.insert(runs_.end(), sorted.begin(), sorted.end());
  }
}

uint64_t RunStore::resident_bytes() const {
  uint64_t bytes = 0;
  for (const Front& front : full_) bytes += front.slabs.size() * slab_bytes_;
  return bytes;
}

uint64_t RunStore::records_in(uint64_t begin_bucket, uint64_t end_bucket) const {
  uint64_t count = 0;
  for (const Run& run : runs_) count += run.begin_of(end_bucket, shift_) - run.begin_of(begin_bucket, shift_);
  return count;
}

std::vector<Slice> RunStore::slices(const std::vector<Run>& runs, uint64_t begin_bucket, uint64_t end_bucket) const {
  std::vector<Slice> found;
  for (const Run& run : runs) {
    const uint64_t begin = run.begin_of(begin_bucket, shift_), end = run.begin_of(end_bucket, shift_);
    if (end > begin) found.push_back({&run, begin, end - begin});
  }
  return found;
}

std::vector<Run> RunStore::load(uint64_t begin_bucket, uint64_t end_bucket, Buffer& buffer) const {
  std::vector<Run> loaded = runs_;
  size_t need = 0;
  for (Run& run : loaded) {
    if (run.memory != nullptr) continue;
    run.first = run.begin_of(begin_bucket, shift_);
    run.loaded = run.begin_of(end_bucket, shift_) - run.first;
    need += run.loaded * (run.key_bytes() + options_.shape.column_bytes()) + 16;
  }
  if (need > buffer.size()) buffer = Buffer(need, Purpose::kCompile);
  std::byte* at = buffer.data();
  for (Run& run : loaded) {
    if (run.memory != nullptr) continue;
    run.memory = at;
    uint64_t region = run.at;
    const auto read = [&](size_t width) {
      const std::span<std::byte> part(at, run.loaded * width);
      spill_file_.read_at(part, region + run.first * width);
      spill_file_.drop_cache(region + run.first * width, part.size());
      at += part.size();
      region += run.count * width;
    };
    read(run.key_bytes());
    if (options_.shape.times) read(8);
    if (options_.shape.numbers) read(8);
    if (options_.shape.weights) read(4);
    at += (16 - reinterpret_cast<uintptr_t>(at) % 16) % 16;
  }
  return loaded;
}

// The part of a column that belongs to `slice`; `before` is the bytes a record of the columns in front of it.
void RunStore::copy(const Slice& slice, size_t before, std::span<std::byte> to) const {
  const Run& run = *slice.run;
  const size_t width = to.size() / slice.count;
  if (run.memory == nullptr) {
    spill_file_.read_at(to, run.at + run.count * before + slice.begin * width);
  } else {
    std::memcpy(to.data(), run.memory + run.loaded * before + (slice.begin - run.first) * width, to.size());
  }
}

const std::byte* RunStore::keys_of(const Slice& slice, std::vector<std::byte>& staging) const {
  const Run& run = *slice.run;
  if (run.memory != nullptr) return run.memory + (slice.begin - run.first) * run.key_bytes();
  staging.resize(slice.count * run.key_bytes());
  copy(slice, 0, staging);
  return staging.data();
}

void RunStore::gather(const Slice& slice, const Gathered& to) const {
  size_t before = slice.run->key_bytes();
  const auto column = [&](auto* values) {
    copy(slice, before, std::as_writable_bytes(std::span(values, slice.count)));
    before += sizeof *values;
  };
  if (options_.shape.times) column(to.times);
  if (options_.shape.numbers) column(to.numbers);
  if (options_.shape.weights) column(to.weights);
}

}  // namespace gz

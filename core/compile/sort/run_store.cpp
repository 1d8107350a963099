// run_store: counting sort of pieces by bucket, memory for them, and reading the spill file.
#include "compile/sort/run_store.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "format/container.h"

namespace gz {
namespace {

constexpr uint64_t kNarrow = uint64_t{1} << 32;
constexpr size_t kExact = size_t{64} << 10;  // shorter reads are exact: whole pages around them would need more memory

// Scatters one column to the positions of its records.
template <class T>
void scatter(const T* from, const std::vector<uint32_t>& places, T* to) {
  for (size_t i = 0; i < places.size(); ++i) to[places[i]] = from[i];
}

// A column of a run under construction.
template <class T>
T* writable(const Run& run, size_t column) {
  return reinterpret_cast<T*>(const_cast<std::byte*>(run.columns[column]));
}

template <class Key, class Make>
void scatter_keys(const Piece& piece, const Split& split, uint32_t shift, RunStore::Scratch& scratch, bool keep_places,
                  Key* out, Make make) {
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

RunStore::RunStore(Options options) : options_(std::move(options)) {
  most_active_ = half_ = options_.memory / 2;
  const size_t largest_run = bytes_of(options_.piece_records);
  // Slabs are large enough for huge pages, and small enough that half of the memory is many of them.
  slab_bytes_ = std::max<size_t>({std::min<size_t>(half_ / 8, size_t{32} << 20), largest_run, size_t{16} << 10});
  shift_ = options_.split.shift;
}

RunStore::RunStore(Options options, std::vector<Run> runs, uint64_t largest_neighbour) : RunStore(std::move(options)) {
  runs_ = std::move(runs);
  largest_neighbour_ = largest_neighbour;
  index_buckets();
  count_ = bucket_begin_.back() - bucket_begin_.front();
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
  const bool wide = options_.force_wide || std::max(largest_row, largest_neighbour) >= kNarrow;
  run.keys = wide ? kWideKeys : kNarrowKeys;
  run.count = run.loaded = piece.count;
  {
    std::lock_guard lock(mutex_);
    largest_row_ = std::max(largest_row_, largest_row);
    largest_neighbour_ = std::max(largest_neighbour_, largest_neighbour);
    const auto bits = static_cast<uint32_t>(std::bit_width(largest - options_.split.base));
    if (bits > shift_ + options_.bucket_bits) shift_ = bits - options_.bucket_bits;
    run.shift = shift_;
    std::byte* memory = take(run.count * (run.keys.bytes + options_.shape.column_bytes()));
    const auto place = [&](size_t column, size_t width) {
      run.columns[column] = std::exchange(memory, memory + width * run.count);
    };
    place(0, run.keys.bytes);
    if (options_.shape.times) place(1, 8);
    if (options_.shape.numbers) place(2, 8);
    if (options_.shape.weights) place(3, 4);
    count_ += run.count;
    added_bytes_ += run.count * (run.keys.bytes + options_.shape.column_bytes());
  }
  const uint32_t buckets = this->buckets();
  auto offsets = std::make_shared<std::vector<uint64_t>>(buckets + 1, 0);
  for (size_t i = 0; i < piece.count; ++i) ++(*offsets)[((by[i] - options_.split.base) >> run.shift) + 1];
  for (uint32_t b = 0; b < buckets; ++b) (*offsets)[b + 1] += (*offsets)[b];
  scratch.cursors.assign(offsets->begin(), offsets->end());
  run.offsets = std::move(offsets);
  const RecordShape& shape = options_.shape;
  const bool keep_places = shape.columns() > 0;
  if (wide) {
    scatter_keys(piece, options_.split, run.shift, scratch, keep_places, writable<WideKey>(run, 0),
                 [](uint64_t row, uint64_t neighbour) { return WideKey{row, neighbour}; });
  } else {
    scatter_keys(piece, options_.split, run.shift, scratch, keep_places, writable<uint64_t>(run, 0), narrow_key);
  }
  if (shape.times) scatter(piece.times, scratch.places, writable<int64_t>(run, 1));
  if (shape.numbers) scatter(piece.numbers, scratch.places, writable<uint64_t>(run, 2));
  if (shape.weights) scatter(piece.weights, scratch.places, writable<float>(run, 3));
  std::lock_guard lock(mutex_);
  active_.runs.push_back(std::move(run));
}

void RunStore::add_alone(const Piece& piece, uint64_t order, Scratch& scratch) {
  const uint64_t bytes = bytes_of(piece.count);
  if (!reserve(bytes)) {
    make_room(0);
    reserve(bytes);
  }
  add(piece, order, scratch);
  release(bytes);
}

bool RunStore::reserve(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  // Whole slabs, since the end of one may be too short for a run, minus the free part of the last one.
  uint64_t held = active_.slabs.size() * slab_bytes_ + reserved_;
  if (!active_.slabs.empty()) held -= slab_bytes_ - active_.used;
  if (held > 0 && held + bytes > most_active_) return false;
  reserved_ += bytes;
  return true;
}

void RunStore::release(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  reserved_ -= bytes;
}

void RunStore::start_spill(Front front) {
  spilling_.wait();
  if (!spill_file_) {
    spill_file_ = std::make_shared<SpillFile>();
    spill_file_->cached =
        options_.spill_path.empty() ? File::create_nameless(options_.spill_folder) : File::create(options_.spill_path);
    spill_file_->direct = spill_file_->cached.direct();
  }
  spilling_ = BackgroundTask([this, front = std::make_shared<Front>(std::move(front))] {
    spill(*front);
    std::lock_guard lock(mutex_);
    for (Buffer& slab : front->slabs) idle_.push_back(std::move(slab));
  });
}

void RunStore::make_room(uint64_t expected_bytes) {
  full_.push_back(std::move(active_));
  active_ = Front{};
  most_active_ = half_;
  const uint64_t held = resident_bytes();
  if (expected_bytes > 0) {
    if (held + expected_bytes - std::min(expected_bytes, added_bytes_) <= options_.memory) {
      spilling_.wait();                                        // the remaining input fits next to what is in RAM
      most_active_ = std::min(half_, options_.memory - held);  // unless there is more than expected
      return;
    }
    check_spill_room(expected_bytes);
  } else if (!eager_ && full_.size() < 2) {
    return;
  }
  eager_ = true;
  while (!full_.empty()) {
    start_spill(std::move(full_.front()));  // waits for the previous one
    full_.pop_front();
  }
}

void RunStore::check_spill_room(uint64_t expected_bytes) const {
  if (eager_) return;  // checked when spilling began
  const uint64_t room = free_bytes(options_.spill_folder);
  if (expected_bytes <= room) return;
  throw StorageError(text(options_.spill_folder, ": about ", expected_bytes, " bytes must be spilled, but only ", room,
                          " are free; choose another spill_dir or raise memory"),
                     ENOSPC, options_.spill_folder);
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
  spilling_.wait();
  idle_.clear();
  runs_ = spilled_;
  for (const Front& front : full_) {
    auto sorted = front.runs;
    std::sort(sorted.begin(), sorted.end(), [](const Run& a, const Run& b) { return a.order < b.order; });
    runs_.insert(runs_.end(), sorted.begin(), sorted.end());
  }
  index_buckets();
}

void RunStore::index_buckets() {
  bucket_begin_.assign(buckets() + 1, 0);
  for (const Run& run : runs_) {
    for (uint64_t b = 0; b <= buckets(); ++b) bucket_begin_[b] += run.begin_of(b, shift_);
  }
}

uint64_t RunStore::resident_bytes() const {
  uint64_t bytes = 0;
  for (const Front& front : full_) bytes += front.slabs.size() * slab_bytes_;
  return bytes;
}

std::vector<Slice> RunStore::slices(const std::vector<Run>& runs, uint64_t begin_bucket, uint64_t end_bucket) const {
  std::vector<Slice> found;
  for (const Run& run : runs) {
    const uint64_t begin = run.begin_of(begin_bucket, shift_), end = run.begin_of(end_bucket, shift_);
    if (end == begin) continue;
    if (!run.keys.packed) {
      found.push_back({&run, begin, end - begin});
      continue;
    }
    const uint64_t last = run.own_bucket(end_bucket, shift_);
    for (uint64_t own = run.own_bucket(begin_bucket, shift_); own < last; ++own) {
      const uint64_t from = (*run.offsets)[own], to = (*run.offsets)[own + 1];
      if (to > from) found.push_back({&run, from, to - from, options_.split.base + (own << run.shift)});
    }
  }
  return found;
}

std::vector<Run> RunStore::load(uint64_t begin_bucket, uint64_t end_bucket, Buffer& buffer) const {
  std::vector<Run> loaded = runs_;
  size_t need = 0;
  for (Run& run : loaded) {
    if (run.in_memory()) continue;
    run.first = run.begin_of(begin_bucket, shift_);
    run.loaded = run.begin_of(end_bucket, shift_) - run.first;
    need += load_bytes(run, run.loaded);
  }
  if (need > buffer.size()) {
    buffer = Buffer();  // free before allocating
    buffer = Buffer(need, Purpose::kCompile);
  }
  std::byte* at = buffer.data();
  for (Run& run : loaded) {
    if (run.in_memory() || run.loaded == 0) continue;
    const auto read = [&](size_t column, size_t width) {
      const size_t bytes = run.loaded * width;
      run.columns[column] = read_column(*run.file, run.at[column] + run.first * width, bytes, at);
      at += column_room(bytes);
    };
    read(0, run.keys.bytes);
    if (options_.shape.times) read(1, 8);
    if (options_.shape.numbers) read(2, 8);
    if (options_.shape.weights) read(3, 4);
  }
  return loaded;
}

// Space for so many bytes of a column: page-aligned if it is long, so that it can be read with direct I/O.
size_t RunStore::column_room(size_t bytes) {
  return bytes < kExact ? round_up(bytes + kKeyPadding, 16) : round_up(bytes, kPageBytes) + 2 * kPageBytes;
}

uint64_t RunStore::load_bytes(const Run& run, uint64_t records) const {
  if (records == 0) return 0;
  const auto room = [&](bool there, size_t width) { return there ? column_room(records * width) : 0; };
  return room(true, run.keys.bytes) + room(options_.shape.times, 8) + room(options_.shape.numbers, 8) +
         room(options_.shape.weights, 4);
}

uint64_t RunStore::load_bytes(uint64_t begin_bucket, uint64_t end_bucket) const {
  uint64_t bytes = 0;
  for (const Run& run : runs_) {
    if (!run.in_memory()) {
      bytes += load_bytes(run, run.begin_of(end_bucket, shift_) - run.begin_of(begin_bucket, shift_));
    }
  }
  return bytes;
}

// Reads `bytes` bytes of the spill file at `at`; returns their start. `to` has column_room(bytes).
const std::byte* RunStore::read_column(const SpillFile& file, uint64_t at, size_t bytes, std::byte* to) {
  if (bytes < kExact) {
    if (bytes > 0) file.cached.read_at({to, bytes}, at);
    return to;
  }
  const auto misplaced = reinterpret_cast<uintptr_t>(to) % kPageBytes;
  std::byte* pages = misplaced == 0 ? to : to + (kPageBytes - misplaced);
  const uint64_t begin = at & ~(kPageBytes - 1), end = round_up(at + bytes, kPageBytes);
  file.direct.read_at({pages, static_cast<size_t>(end - begin)}, begin);
  return pages + (at - begin);
}

// The part of a column that belongs to `slice`.
void RunStore::copy(const Slice& slice, size_t column, size_t width, std::byte* to) const {
  const Run& run = *slice.run;
  const size_t bytes = slice.count * width;
  if (run.in_memory()) {
    std::memcpy(to, run.columns[column] + (slice.begin - run.first) * width, bytes);
    return;
  }
  const uint64_t at = run.at[column] + slice.begin * width;
  if (bytes < kExact) {
    if (bytes > 0) run.file->cached.read_at({to, bytes}, at);
    return;
  }
  Buffer pages(column_room(bytes), Purpose::kCompile);
  std::memcpy(to, read_column(*run.file, at, bytes, pages.data()), bytes);
}

const std::byte* RunStore::keys_of(const Slice& slice, std::vector<std::byte>& staging) const {
  const Run& run = *slice.run;
  if (run.in_memory()) return run.columns[0] + (slice.begin - run.first) * run.keys.bytes;
  staging.resize(slice.count * run.keys.bytes + kKeyPadding);
  copy(slice, 0, run.keys.bytes, staging.data());
  return staging.data();
}

void RunStore::gather(const Slice& slice, const Gathered& to) const {
  const auto column = [&](size_t which, auto* values) {
    copy(slice, which, sizeof *values, reinterpret_cast<std::byte*>(values));
  };
  if (options_.shape.times) column(1, to.times);
  if (options_.shape.numbers) column(2, to.numbers);
  if (options_.shape.weights) column(3, to.weights);
}

}  // namespace gz

// run_store: records divided into buckets, in RAM until its share of the budget is used, then in a spill file.
//
// A run is one piece of input, sorted by bucket and otherwise in source order. Spilled runs are merged, bucket after
// bucket, into one long run of the spill file, so that reading some buckets back takes a few long reads, however many
// pieces there were. Buckets are ranges of ids; each run stores its own shift, so when ids outgrow the range, later
// runs use a larger shift and no data moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/memory.h"
#include "base/threads.h"
#include "compile/sort/run.h"
#include "storage/file.h"

namespace gz {

// Columns to gather into; null if the shape does not have the column.
struct Gathered {
  float* weights = nullptr;
  int64_t* times = nullptr;
  uint64_t* numbers = nullptr;
};

class RunStore {
 public:
  struct Options {
    Split split;  // the initial shift
    RecordShape shape;
    uint32_t bucket_bits = 10;
    uint64_t memory = 0;       // bytes of runs in RAM
    size_t piece_records = 0;  // the most records a piece may have
    std::string spill_folder;
    std::string spill_path;   // the path of the spill file, which is then kept; empty: an unnamed file
    bool force_wide = false;  // for tests: always use 16-byte keys
  };
  explicit RunStore(Options options);
  // A sealed store over runs spilled by other processes, in source order. Bucket 0 is the first of each run's
  // `offsets`, and starts at the id options.split.base.
  RunStore(Options options, std::vector<Run> runs, uint64_t largest_neighbour);

  // Adds a piece as one run. Thread-safe; `scratch` is the caller's own.
  struct Scratch {
    std::vector<uint64_t> cursors;
    std::vector<uint32_t> places;
  };
  void add(const Piece& piece, uint64_t order, Scratch& scratch);

  // The same for a single caller that does not reserve memory.
  void add_alone(const Piece& piece, uint64_t order, Scratch& scratch);

  // Reserves `bytes`; false if make_room() must be called first. Reservations are returned with release().
  bool reserve(uint64_t bytes);
  void release(uint64_t bytes);
  uint64_t bytes_of(uint64_t records) const { return records * (16 + options_.shape.column_bytes()); }  // at most

  // Frees half of the memory. `expected_bytes` is what all input will need in RAM, 0 if unknown: if it will not fit,
  // spilling starts early, runs concurrently with parsing, and ends when the remainder fits. Not while others add.
  void make_room(uint64_t expected_bytes);

  // Ends the input. `keep`: whether runs may stay in RAM.
  void seal(bool keep);

  const Options& options() const { return options_; }
  uint64_t count() const { return count_; }
  uint64_t largest_row() const { return largest_row_; }
  uint64_t largest_neighbour() const { return largest_neighbour_; }
  uint32_t shift() const { return shift_; }
  uint32_t buckets() const { return uint32_t{1} << options_.bucket_bits; }
  uint64_t spilled_bytes() const { return spill_end_; }
  uint64_t resident_bytes() const;
  bool any_spilled() const { return spill_end_ > 0; }
  const std::vector<Run>& runs() const { return runs_; }  // sealed, in source order
  uint64_t records_in(uint64_t begin_bucket, uint64_t end_bucket) const {
    return bucket_begin_[end_bucket] - bucket_begin_[begin_bucket];
  }

  // Slices of buckets [begin, end), from `runs` (the store's own, or loaded ones).
  std::vector<Slice> slices(const std::vector<Run>& runs, uint64_t begin_bucket, uint64_t end_bucket) const;

  // The store's runs with buckets [begin, end) of those in the spill file read into `buffer`, which has load_bytes().
  std::vector<Run> load(uint64_t begin_bucket, uint64_t end_bucket, Buffer& buffer) const;
  uint64_t load_bytes(uint64_t begin_bucket, uint64_t end_bucket) const;

  // The keys of one slice, in RAM or read from the spill file into `staging`.
  const std::byte* keys_of(const Slice& slice, std::vector<std::byte>& staging) const;
  // Its columns, copied.
  void gather(const Slice& slice, const Gathered& to) const;

 private:
  struct Front {  // one half of the memory
    std::vector<Buffer> slabs;
    size_t used = 0;     // of the last slab
    uint64_t bytes = 0;  // of all runs
    std::vector<Run> runs;
  };

  std::byte* take(size_t bytes);  // mutex_ held
  void copy(const Slice& slice, size_t column, size_t width, std::byte* to) const;
  static const std::byte* read_column(const SpillFile& file, uint64_t at, size_t bytes, std::byte* to);
  static size_t column_room(size_t bytes);
  uint64_t load_bytes(const Run& run, uint64_t records) const;
  void spill(Front& front);
  KeyLayout spilled_layout(const Front& front, uint32_t shift);
  void check_spill_room(uint64_t expected_bytes) const;
  void index_buckets();
  void start_spill(Front front);

  Options options_;
  uint64_t half_ = 0;
  uint64_t most_active_ = 0;  // half_, or less if the other half holds more
  size_t slab_bytes_ = 0;
  std::mutex mutex_;
  Front active_;                                      // guarded by mutex_ while pieces are added
  std::vector<Buffer> idle_;                          // guarded by mutex_: slabs for reuse
  uint64_t reserved_ = 0;                             // guarded by mutex_
  uint64_t count_ = 0;                                // guarded by mutex_
  uint64_t added_bytes_ = 0;                          // guarded by mutex_
  uint64_t largest_row_ = 0, largest_neighbour_ = 0;  // guarded by mutex_
  uint32_t shift_ = 0;                                // guarded by mutex_
  std::deque<Front> full_;                            // waiting to be spilled, oldest first
  bool eager_ = false;
  std::shared_ptr<SpillFile> spill_file_;
  uint64_t spill_end_ = 0;              // guarded by spilling_
  std::vector<Run> spilled_;            // guarded by spilling_
  std::vector<uint64_t> bucket_begin_;  // after seal(): records of all runs before each bucket
  std::vector<Run> runs_;               // after seal()
  BackgroundTask spilling_;             // owns the front it writes; the last member, so that it ends first
};

}  // namespace gz

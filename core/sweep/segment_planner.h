// segment_planner: the rows that claims want from one segment of the file, their slots, and the reads that bring them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "storage/features.h"
#include "storage/page_reads.h"
#include "sweep/claim.h"
#include "sweep/row_window.h"
#include "sweep/sweep_peers.h"

namespace gz {

// The wanted rows of one segment of the file, and the claims that want them. Rows are counted from the first of the
// segment. Filled and cleared repeatedly, reusing its memory.
class SegmentRows {
 public:
  struct Entry {     // one row of one claim
    uint32_t claim;  // index in the caller's list
    uint32_t word;   // of the claim
    uint32_t next;   // entry of the same row
  };
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit SegmentRows(size_t rows) : heads_(rows, kNone), slots_(rows, kNone), wanted_((rows + 63) / 64, 0) {}

  void add(uint32_t row, uint32_t claim, uint32_t word) {
    wanted_[row / 64] |= uint64_t{1} << row % 64;
    entries_.push_back({claim, word, heads_[row]});
    heads_[row] = static_cast<uint32_t>(entries_.size() - 1);
  }

  // The rows that have entries, in order. Call once, after the last add().
  std::span<const uint32_t> list() {
    for (uint32_t word = 0; word < wanted_.size(); ++word) {
      for (uint64_t bits = std::exchange(wanted_[word], 0); bits != 0; bits &= bits - 1) {
        rows_.push_back(word * 64 + static_cast<uint32_t>(std::countr_zero(bits)));
      }
    }
    return rows_;
  }
  std::span<const uint32_t> rows() const { return rows_; }
  std::span<const Entry> entries() const { return entries_; }

  uint32_t slot(uint32_t row) const { return slots_[row]; }
  void set_slot(uint32_t row, uint32_t slot) { slots_[row] = slot; }

  template <class F>
  void for_each_entry(uint32_t row, const F& f) const {
    for (uint32_t e = heads_[row]; e != kNone; e = entries_[e].next) f(entries_[e]);
  }

  void clear() {
    for (const uint32_t row : rows_) heads_[row] = kNone;
    rows_.clear();
    entries_.clear();
  }

 private:
  std::vector<Entry> entries_;
  std::vector<uint32_t> heads_, slots_;  // by row: its first entry, and its slot in the window
  std::vector<uint64_t> wanted_;         // one bit per row: whether it has entries
  std::vector<uint32_t> rows_;
};

// A read, its rows, and the claims that wait for them.
struct PlannedRead {
  struct Row {
    uint32_t row, slot;
  };
  struct Waiting {
    Claim* claim;  // stays admitted until all its reads have completed
    uint32_t rows;
  };
  uint64_t offset = 0;
  uint32_t bytes = 0;
  uint64_t segment = 0;
  uint64_t number = 0;  // from 1 on
  std::vector<Row> rows;
  std::vector<Waiting> waiting;
};

// The reads of a sweep, from planning until their bytes have arrived.
class PlannedReads {
 public:
  PlannedReads(const FeatureFile& file, const Matrix& matrix, std::shared_ptr<Reader> reader,
               std::shared_ptr<ReadBuffers> buffers, uint64_t segments);

  size_t most_bytes() const { return reads_.most_bytes(); }  // of one read
  size_t in_flight() const { return reads_.in_flight(); }
  bool is_busy(uint64_t segment) const { return by_segment_[segment] > 0; }  // reads of it are planned or in flight
  // Whether the disk has enough to do, also for a while in which nothing is planned.
  bool is_saturated() const {
    if (in_flight() + planned_.size() < std::max<size_t>(reads_.depth() / 2, 1)) return false;
    return planned_bytes_ >= reads_.arena_bytes() || planned_.size() >= reads_.depth();
  }

  void add(PlannedRead&& read) {
    ++by_segment_[read.segment];
    planned_bytes_ += read.bytes;
    planned_.push_back(std::move(read));
  }
  void start();  // as many as can be in flight

  // Waits until a read in flight completes, or polls for completed ones, and says whether there may be more; calls
  // arrived(read, data, error) for each, with data or an error.
  template <class Arrived>
  void wait(const Arrived& arrived) {
    reads_.wait(delivered(arrived), failed(arrived));
  }
  template <class Arrived>
  bool poll(const Arrived& arrived) {
    return reads_.poll(delivered(arrived), failed(arrived));
  }

  // Calls dropped(read) for reads that were not started, and waits for the others.
  template <class Dropped, class Arrived>
  void cancel(const Dropped& dropped, const Arrived& arrived) {
    for (const PlannedRead& read : planned_) {
      --by_segment_[read.segment];
      dropped(read);
    }
    planned_.clear();
    planned_bytes_ = 0;
    while (in_flight() > 0) wait(arrived);
  }

  uint64_t reads() const { return reads_.reads(); }
  uint64_t bytes_read() const { return reads_.bytes_read(); }
  double waited() const { return reads_.waited(); }  // seconds

 private:
  template <class Arrived>
  auto delivered(const Arrived& arrived) {
    return [&](const PageReads::Read& read, const std::byte* data) { finish(read.first, data, nullptr, arrived); };
  }
  template <class Arrived>
  auto failed(const Arrived& arrived) {
    return [&](const PageReads::Read& read, const std::exception_ptr& error) {
      finish(read.first, nullptr, error, arrived);
    };
  }
  template <class Arrived>
  void finish(size_t at, const std::byte* data, const std::exception_ptr& error, const Arrived& arrived) {
    const PlannedRead read = std::move(started_[at]);
    free_.push_back(at);
    --by_segment_[read.segment];
    arrived(read, data, error);
  }

  std::deque<PlannedRead> planned_;
  uint64_t planned_bytes_ = 0;        // of those
  std::vector<PlannedRead> started_;  // reads in flight, by their number in PageReads
  std::vector<size_t> free_;          // numbers
  std::vector<uint32_t> by_segment_;  // planned or in flight
  PageReads reads_;
};

// Collects the wanted rows of a segment, assigns slots, and plans the reads.
class SegmentPlanner {
 public:
  using Claims = std::span<const std::shared_ptr<Claim>>;

  // `gap`: bytes worth reading to save a request. Everything passed by reference must outlive the planner.
  SegmentPlanner(const Matrix& matrix, HeldRows& rows, PlannedReads& reads, SweepPeers& peers, uint64_t gap,
                 WindowStats& stats);

  // Plans all rows that the claims want from a segment and moves their cursors past it; returns the number of rows,
  // summed over claims. Does nothing and returns nothing if too few slots are free.
  std::optional<size_t> plan(uint64_t segment, Claims claims);

 private:
  bool fits();
  void use_held_rows(Claims claims);
  void plan_reads(uint64_t segment, Claims claims);
  void add_to(PlannedRead& read, uint32_t row, uint32_t slot, Claims claims);
  bool take_from_peers(uint32_t row, uint32_t slot, Claims claims);

  uint64_t offset_of(uint64_t row) const { return matrix_.offset + row * matrix_.row_bytes; }

  const Matrix& matrix_;
  HeldRows& rows_;
  PlannedReads& reads_;
  SweepPeers& peers_;
  const uint64_t gap_;
  WindowStats& stats_;
  const uint64_t segment_rows_;
  SegmentRows wanted_;        // claims by their index in the caller's list
  uint64_t first_ = 0;        // row of the segment
  uint64_t read_number_ = 0;  // of the last one that was planned
};

}  // namespace gz

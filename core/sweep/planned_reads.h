// planned_reads: the reads of a sweep, from planning until their bytes have arrived.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "storage/features.h"
#include "storage/page_reads.h"
#include "sweep/claim.h"

namespace gz {

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

class PlannedReads {
 public:
  PlannedReads(const FeatureFile& file, const Matrix& matrix, std::shared_ptr<Reader> reader,
               std::shared_ptr<ReadRoom> room, uint64_t segments);

  size_t most_bytes() const { return reads_.most_bytes(); }  // of one read
  size_t in_flight() const { return reads_.in_flight(); }
  bool is_busy(uint64_t segment) const { return by_segment_[segment] > 0; }  // reads of it are planned or in flight
  // Whether the disk has enough to do.
  bool is_enough() const { return in_flight() + planned_.size() >= std::max<size_t>(reads_.depth() / 2, 1); }

  void add(PlannedRead&& read) {
    ++by_segment_[read.segment];
    planned_.push_back(std::move(read));
  }
  void start();  // as many as can be in flight

  // Waits until a read in flight completes, or polls for completed ones; calls arrived(read, data, error) for each,
  // with data or an error.
  template <class Arrived>
  void wait(const Arrived& arrived) {
    reads_.wait(delivered(arrived), failed(arrived));
  }
  template <class Arrived>
  void poll(const Arrived& arrived) {
    reads_.poll(delivered(arrived), failed(arrived));
  }

  // Calls dropped(read) for reads that were not started, and waits for the others.
  template <class Dropped, class Arrived>
  void cancel(const Dropped& dropped, const Arrived& arrived) {
    for (const PlannedRead& read : planned_) {
      --by_segment_[read.segment];
      dropped(read);
    }
    planned_.clear();
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
  std::vector<PlannedRead> started_;  // reads in flight, by their number in PageReads
  std::vector<size_t> free_;          // numbers
  std::vector<uint32_t> by_segment_;  // planned or in flight
  PageReads reads_;
};

}  // namespace gz

// window_sweep: the thread that goes round the file for a window, and all that is its own.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "gather/held_rows.h"
#include "gather/row_window.h"
#include "gather/shared_sweep.h"
#include "gather/window_claim.h"
#include "gather/window_size.h"
#include "storage/page_reads.h"

namespace gz {

// What passes between the sweep and everybody else. All guarded by mutex.
struct WindowPost {
  using Claims = std::vector<std::shared_ptr<RowWindow::Claim>>;
  mutable std::mutex mutex;
  std::condition_variable news;  // for the sweep: something below changed; for forget(): it is done
  Claims offered, released;
  bool stopping = false, forgetting = false, sweeping = false;
  WindowStats stats;
};

// One run of a window's sweep; the rows outlive it.
class WindowSweep {
 public:
  WindowSweep(const FeatureFile& file, const Matrix& matrix, HeldRows& rows, WindowPost& post,
              const RowWindow::SweepOptions& options, const RowWindow::Ready& ready);
  ~WindowSweep();  // ends all claims; nothing is in flight
  void run();

 private:
  using Claim = RowWindow::Claim;
  static constexpr uint32_t kNoEntry = UINT32_MAX;
  struct Entry {     // one wanted row of one claim, in the segment being planned
    uint32_t claim;  // among active_
    uint32_t word;
    uint32_t next;  // entry of the same row
  };
  // A read that is planned or in flight: what it brings, and for whom.
  struct Arrival {
    struct Row {
      uint32_t row, place;
    };
    struct Waiting {
      Claim* claim;  // admitted, and so it stays until all its reads have come back
      uint32_t rows;
    };
    uint64_t offset = 0;
    uint32_t bytes = 0;
    uint64_t segment = 0;
    uint64_t number = 0;  // of the read, from 1 on
    std::vector<Row> rows;
    std::vector<Waiting> waiting;
  };

  bool exchange_post(bool idle);  // false: the sweep shall end
  void forget_all();
  void drop_planned();
  void release(Claim& claim);
  bool may_admit() const;
  void admit();
  void share(Claim& claim);
  void complete(Claim& claim);
  void leave_active(const Claim& claim);
  bool has_enough() const;

  // With other ranks of the host (window_shared.cpp); all do nothing where there are none.
  std::unique_ptr<SharedSweep> share_sweep() const;
  std::shared_ptr<Reader> reader() const;
  void meet_others();
  void tell_others(bool held = false);
  bool others_first() { return others_ && others_->must_wait(segment_); }
  bool take_from_others(uint32_t row, uint32_t place);

  enum class Planned { kNothing, kReads, kFull, kBusy, kOthersFirst, kEnough };
  Planned plan_ahead();
  Planned plan_segment();
  struct Found {
    size_t missing = 0, unused = 0;  // rows that are not in RAM; rows that are, and that nobody holds
  };
  Found collect();  // the entries of segment_
  void place_entries();
  void wait_for(Arrival& read, uint32_t row, uint32_t place);
  void next_segment();
  void start_planned();
  void wait_for_reads(bool poll = false);  // or takes what has come
  void arrive(Arrival& read, const std::byte* data, const std::exception_ptr& error);
  void detach_first();
  void post_stats();

  uint64_t offset_of(uint64_t row) const { return matrix_.offset + row * matrix_.row_bytes; }

  const FeatureFile& file_;
  const Matrix& matrix_;
  HeldRows& rows_;
  WindowPost& post_;
  const RowWindow::SweepOptions options_;
  const RowWindow::Ready& ready_;
  const uint64_t segment_rows_, segments_;
  const std::unique_ptr<SharedSweep> others_;  // null where this rank sweeps by itself
  PageReads reads_;

  uint64_t segment_ = 0;                        // the next to be planned
  uint64_t done_ = 0;                           // segments from here to segment_ have reads planned or in flight
  uint64_t advanced_ = 0, last_admission_ = 0;  // in segments
  WindowSize size_;                             // how many claims may be admitted and not released
  uint64_t planned_reads_ = 0;
  uint64_t wanted_ = 0;  // rows of active claims that no read was planned for

  std::deque<std::shared_ptr<Claim>> offered_;   // not admitted
  std::deque<std::shared_ptr<Claim>> admitted_;  // not released, in order of their numbers
  std::vector<std::shared_ptr<Claim>> active_;   // admitted, rows still to be planned
  std::vector<Entry> entries_;                   // of the segment being planned
  std::vector<uint32_t> heads_, places_;         // by row of the segment: its first entry, its place
  std::vector<uint64_t> wanted_bits_;            // by row of the segment: whether it has entries
  std::vector<uint32_t> touched_;                // rows of the segment that have entries, in order
  std::vector<uint64_t> shared_;                 // words of the claim being admitted
  std::vector<uint32_t> in_flight_;              // by segment: reads planned or in flight
  std::deque<Arrival> planned_;
  std::vector<Arrival> arrivals_;  // of reads in flight, which know their places here
  std::vector<size_t> free_arrivals_;

  WindowStats stats_;
};

}  // namespace gz

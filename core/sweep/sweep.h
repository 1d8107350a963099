// sweep: passes over the file repeatedly, and reads the rows of many batches in file order, each page once for all of
// them.
//
// A batch claims its rows well before it needs them: rows that are in RAM for another batch are shared immediately, the
// others are read when the sweep reaches them, for all claims that want them. A row is held until the last claim that
// wants it was copied, and cached until it is evicted. A claim is complete one pass after it was admitted, so it holds
// half of its rows on average: claims are admitted evenly spaced, or they would all be complete, and hold all their
// rows, at the same time. See docs/how-reads-work.md.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "sweep/mailbox.h"
#include "sweep/planned_reads.h"
#include "sweep/row_window.h"
#include "sweep/segment_planner.h"
#include "sweep/sweep_peers.h"
#include "sweep/window_size.h"

namespace gz {

struct SweepOptions {
  uint64_t target = 8;           // initial number of claims
  uint64_t most = 8;             // the maximum
  uint64_t claims = UINT64_MAX;  // in total, if known: a short run is admitted at once
  uint64_t gap = 8 << 10;        // bytes worth reading to save a request
  Io io = Io::kAuto;
  std::function<bool()> starving;  // whether the consumer waits for the next batch
};

// One run of a sweep over a window; one run at a time. One thread calls run(), or step() repeatedly.
class Sweep {
 public:
  using Ready = std::function<void(uint64_t number)>;  // a claim is complete; called by the sweep's thread

  // `reader` replaces the one that the peers choose.
  Sweep(RowWindow& window, Mailbox& mailbox, const SweepOptions& options, std::unique_ptr<SweepPeers> peers,
        Ready ready, std::shared_ptr<Reader> reader = nullptr);
  ~Sweep();  // ends all claims; nothing is in flight

  // Returns when the mailbox requests a stop. Throws StorageError if reading is impossible, not for a single failed
  // read.
  void run();

  bool is_idle() const { return idle_; }  // step() will wait for the mailbox
  bool step();                            // false: the sweep has ended

 private:
  bool take_mail();  // waits if idle; false: stop
  void forget_all();
  void cancel_reads();
  void release(Claim& claim);

  bool may_admit() const;
  void admit();
  void share(Claim& claim);
  void complete(Claim& claim);
  void remove_active(const Claim& claim);
  bool has_enough() const;

  enum class Planned { kNothing, kReads, kFull, kBusy, kPeersFirst, kEnough };
  Planned plan_ahead();
  Planned plan_segment();
  void next_segment();

  void wait_for_reads(bool poll = false);
  void arrive(const PlannedRead& read, const std::byte* data, const std::exception_ptr& error);
  void detach_first();
  void meet_peers();
  void announce(bool held = false);
  void publish_stats();

  uint64_t first_row() const { return segment_ * segments_.rows; }
  uint64_t offset_of(uint64_t row) const { return matrix_.offset + row * matrix_.row_bytes; }

  RowWindow& window_;
  const Matrix& matrix_;
  HeldRows& rows_;
  Mailbox& mailbox_;
  const SweepOptions options_;
  const Ready ready_;
  const Segments segments_;
  const WindowStats before_;  // when this run began
  WindowStats stats_;
  const std::unique_ptr<SweepPeers> peers_;
  PlannedReads reads_;
  SegmentPlanner planner_;
  WindowSize size_;  // how many claims may be admitted and not released

  bool idle_ = true;
  uint64_t segment_ = 0;                         // the next to be planned
  uint64_t done_ = 0;                            // segments from here to segment_ have reads planned or in flight
  uint64_t advanced_ = 0, last_admission_ = 0;   // in segments
  uint64_t wanted_ = 0;                          // rows of active claims that no read was planned for
  std::deque<std::shared_ptr<Claim>> waiting_;   // submitted, not admitted
  std::deque<std::shared_ptr<Claim>> admitted_;  // not released, in order of their numbers
  std::vector<std::shared_ptr<Claim>> active_;   // admitted, with rows to be planned or to arrive
  std::vector<uint64_t> shared_;                 // words of the claim being admitted
};

}  // namespace gz

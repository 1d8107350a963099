// sweep: goes round the file, circle after circle, and reads the rows of many batches in file order, each page once for
// all of them.
//
// A batch claims its rows well before it needs them: rows that are in RAM for another batch are shared immediately, the
// others are read when the sweep reaches them, for all claims that want them. A row is held until the last claim that
// wants it was copied, and cached until it is evicted. A claim is complete one circle after it was admitted, so it
// holds half of its rows on average: claims are admitted evenly spaced, or they would all be complete, and hold all
// their rows, at the same time. See docs/how-reads-work.md.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "sweep/claim.h"
#include "sweep/row_window.h"
#include "sweep/segment_planner.h"
#include "sweep/sweep_peers.h"

namespace gz {

// How many claims a window admits at once, adapted to how full it was.
//
// The rule: a circle without stalls in which claims had to wait raises the number in proportion to the free slots, by
// at least one; a stall, when no slot was free for a row, lowers it by a sixteenth. Claims share rows, so n times the
// claims hold less than n times the rows, and the proportion does not overshoot. Claims are admitted evenly spaced, so
// the peak of the first circle is that of later ones. Overshooting by one step costs little: when the window is full,
// the claim that is read directly lacks only a few rows.
class WindowSize {
 public:
  // Starts with `target` claims, or with `learned` from an earlier sweep; never more than `most`. `capacity` is in
  // rows.
  WindowSize(uint64_t target, uint64_t most, uint64_t learned, uint64_t capacity)
      : most_(std::max({most, target, uint64_t{1}})),
        target_(std::clamp(learned, std::max<uint64_t>(target, 1), most_)),
        capacity_(capacity) {}

  uint64_t target() const { return target_; }

  // During a circle: the rows that claims hold now; a claim must wait because the limit of admitted claims is reached.
  void note_held(uint64_t rows) { peak_ = std::max(peak_, rows); }
  void note_waiting() { waited_ = true; }

  // No slot is free for a row, with so many claims admitted. A decrease takes one circle to show, so there is at most
  // one per circle.
  void stall(uint64_t claims) {
    if (stalled_) return;
    stalled_ = true;
    target_ = std::max<uint64_t>(std::min(claims, target_) * 15 / 16, kLeast);
  }

  // In the first circle, when a share `done` of it has passed and `claims` were admitted, evenly spaced. These have
  // read half of that share on average, so the rows of one claim, and with them the peak, can be estimated. Claims
  // share more rows the more there are, so the estimate errs on the safe side.
  void estimate(double done, uint64_t claims) {
    if (!stalled_ && claims > 0 && peak_ > 0) grow(done * static_cast<double>(claims), 0);
  }

  void end_circle() {
    if (!stalled_ && waited_ && peak_ > 0) grow(static_cast<double>(target_), 1);
    peak_ = 0;
    stalled_ = waited_ = false;
  }

 private:
  // `claims` held the peak: so many fit in proportion.
  void grow(double claims, uint64_t least) {
    const double room = kFull * static_cast<double>(capacity_) / static_cast<double>(peak_);
    const auto fit = static_cast<uint64_t>(std::min(claims * room, 1e18));
    target_ = std::min(std::max(fit, target_ + least), most_);
  }

  static constexpr double kFull = 0.96;  // of the slots: circles differ a little
  static constexpr uint64_t kLeast = 2;  // claims: one is copied while the other is read

  const uint64_t most_;
  uint64_t target_;
  const uint64_t capacity_;
  uint64_t peak_ = 0;  // of this circle, as are the next two
  bool waited_ = false, stalled_ = false;
};

struct SweepOptions {
  uint64_t target = 8;           // initial number of claims
  uint64_t most = 8;             // the maximum
  uint64_t claims = UINT64_MAX;  // in total, if known: a short run is admitted at once
  uint64_t gap = 8 << 10;        // bytes worth reading to save a request
  Io io = Io::kAuto;
  uint64_t ranks = 0;              // whose processors are left to threads that feed a device: see leave_processors()
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
  void drop_claims();
  void cancel_reads();
  void release(Claim& claim);

  bool may_admit() const;
  void admit();
  void share(Claim& claim);
  void complete(Claim& claim);
  void remove_active(const Claim& claim);
  bool may_pause() const;

  enum class Planned { kNothing, kReads, kFull, kBusy, kPeersFirst, kPaused };
  Planned plan_ahead();
  Planned plan_segment();
  void next_segment();

  void wait_for_reads(bool poll = false);
  void keep_reading();
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
  std::vector<uint64_t> absent_;                 // words of the claim being admitted, of rows that are not in RAM
};

}  // namespace gz

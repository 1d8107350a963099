// shared_sweep: ranks of one host that sweep the same matrix go round the file together, and each takes from the others
// what they have just read.
//
// All are at nearly the same place. Whoever is ahead reads; the others follow as soon as its reads have arrived, take
// the rows that they want from its ring, and read what is not there themselves. Who is too far ahead waits, so that its
// ring still has what the others need. Nobody waits for one that has nothing to do, that is gone, or that stands still
// for long; what is read is the same in any case, only by whom is not.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "gather/shared_ring.h"

namespace gz {

class SharedSweep {
 public:
  enum class State : uint32_t {
    kAway = 0,  // no sweep
    kIdle,      // no rows are wanted: it may go on anywhere
    kHeld,      // rows are wanted, but there is no room for them
    kMoving,
  };

  // Of the matrix with this identity, of `segments` segments. Null where there is no group, or too little to share.
  static std::unique_ptr<SharedSweep> make(std::shared_ptr<LocalGroup> group, size_t part, uint64_t identity,
                                           uint64_t segments, uint64_t segment_bytes, uint64_t ring_bytes);
  ~SharedSweep();

  const std::shared_ptr<SharedRing>& ring() const { return ring_; }

  // Tells the others: `segment` is the next to be planned, `undone` of those before it have reads in flight.
  void tell(State state, uint64_t segment, uint64_t undone);

  // The segment to go on with, for a sweep that may go on anywhere.
  uint64_t meeting_point(uint64_t segment);

  // Whether `segment` must wait for another rank; then wait() for it. `hungry`: our own consumer waits for a batch. Who
  // waits does so until there is some way to go: turns of one segment each would be all waking and falling asleep.
  bool must_wait(uint64_t segment);
  void wait(bool hungry, bool briefly = false);  // briefly: reads of our own are in flight
  double waited() const { return waited_; }      // seconds

  // Finds what the others have of these bytes of the file, and what was found.
  void find_chunks(uint64_t begin, uint64_t end);
  SharedChunks& chunks() { return chunks_; }

 private:
  using Clock = std::chrono::steady_clock;
  struct Where {
    State state;
    uint64_t undone, segment;
  };
  struct Other {
    std::shared_ptr<const LocalMember> member;
    const SweepBlock* block = nullptr;  // null while it is not there or sweeps something else
    bool is_left = false;               // it is far behind, and we could not wait any longer
    bool is_still = false;              // it stood still for long, with this news:
    uint32_t news = 0;
  };

  SharedSweep(std::shared_ptr<LocalGroup> group, size_t part, uint64_t identity, uint64_t segments,
              uint64_t segment_bytes, uint64_t ring_bytes);
  void look_around();
  static Where where(const SweepBlock& block);
  uint64_t distance(uint64_t from, uint64_t to) const { return (to + segments_ - from) % segments_; }
  uint64_t some_way() const { return std::max<uint64_t>(most_ahead_ / 5, 1); }  // worth waking up for
  enum class Reason { kNone, kReads, kTurn, kBehind };
  Reason reason_to_wait(uint32_t rank, uint64_t segment);

  const std::shared_ptr<LocalGroup> group_;
  const size_t part_;
  const uint64_t identity_, segments_;
  uint64_t most_ahead_;  // segments between the first and the last of us
  std::shared_ptr<SharedRing> ring_;
  std::vector<Other> others_;  // by rank
  SharedChunks chunks_;

  std::optional<uint32_t> blocker_;  // whom we wait for
  Reason reason_ = Reason::kNone;
  uint32_t blocker_news_ = 0;
  uint64_t until_ = 0;
  double waited_ = 0;
  Clock::time_point since_{}, hungry_since_{};
  bool was_hungry_ = false;
  Clock::time_point looked_{};
};

}  // namespace gz

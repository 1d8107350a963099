// rank_peers: ranks of one host that sweep the same matrix go round the file together, and each takes from the others
// what they have just read.
//
// All are at about the same segment. The one that is ahead reads; the others follow as soon as its reads have arrived,
// take the rows that they want from its ring, and read themselves what is not there. A rank that is too far ahead
// waits, so that its ring still has what the others need. Nobody waits for a rank that has nothing to do, that is gone,
// or that makes no progress for long; what is read is the same in any case, only by whom is not.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "sweep/shared_ring.h"
#include "sweep/sweep_peers.h"

namespace gz {

class RankPeers : public SweepPeers {
 public:
  // Of the matrix with this identity, of `segments` segments. Null where there is no group, or too little to share.
  static std::unique_ptr<RankPeers> make(std::shared_ptr<LocalGroup> group, size_t part, uint64_t identity,
                                         uint64_t segments, uint64_t segment_bytes, uint64_t ring_bytes);
  ~RankPeers() override;

  std::shared_ptr<Reader> reader(Io io) const override;
  std::shared_ptr<ReadRoom> room() const override { return ring_; }
  void publish(uint64_t offset, uint32_t bytes, const std::byte* data) override { ring_->publish(offset, bytes, data); }
  bool find(uint64_t begin, uint64_t end) override;
  bool copy(uint64_t offset, size_t bytes, std::byte* to) override { return chunks_.copy(offset, bytes, to); }
  void announce(State state, uint64_t segment, uint64_t undone) override;
  uint64_t meeting_point(uint64_t segment) override;
  // Who waits does so until there is some way to go: turns of one segment each would be all waking and falling asleep.
  bool must_wait(uint64_t segment) override;
  void wait(bool starving, bool briefly) override;
  double waited() const override { return waited_; }
  bool may_pause() const override { return false; }

  SharedRing& ring() const { return *ring_; }

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

  RankPeers(std::shared_ptr<LocalGroup> group, size_t part, uint64_t identity, uint64_t segments,
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
  Clock::time_point since_{}, starving_since_{};
  bool was_starving_ = false;
  Clock::time_point looked_{};
};

}  // namespace gz

// rank_peers: ranks of one host that sweep the same matrix pass over the file together, and each copies from the others
// what they have just read.
//
// All are at about the same segment. The rank that is ahead reads; the others follow as soon as its reads have arrived,
// copy the rows that they need from its ring, and read the missing ones themselves. A rank that is too far ahead waits,
// so that its ring still has what the others need. No rank waits for one that is idle, has exited, or makes no progress
// for long. The rows are the same in any case; only which rank reads them differs.
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
  // For the matrix with this identity and `segments` segments. Null if there is no group, or too little to share.
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
  // A waiting rank waits until it can plan several segments: waking up for each single one would cost too much.
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
    const SweepBlock* block = nullptr;  // null while it is absent or sweeps another matrix
    bool is_left = false;               // it is far behind, and this rank stopped waiting for it
    bool is_still = false;              // it made no progress for long, since this value of news:
    uint32_t news = 0;
  };

  RankPeers(std::shared_ptr<LocalGroup> group, size_t part, uint64_t identity, uint64_t segments,
            uint64_t segment_bytes, uint64_t ring_bytes);
  void look_around();
  static Where where(const SweepBlock& block);
  uint64_t distance(uint64_t from, uint64_t to) const { return (to + segments_ - from) % segments_; }
  uint64_t some_way() const { return std::max<uint64_t>(most_ahead_ / 5, 1); }  // segments worth waking up for
  enum class Reason { kNone, kReads, kTurn, kBehind };
  Reason reason_to_wait(uint32_t rank, uint64_t segment);

  const std::shared_ptr<LocalGroup> group_;
  const size_t part_;
  const uint64_t identity_, segments_;
  uint64_t most_ahead_;  // segments between the first and the last rank
  std::shared_ptr<SharedRing> ring_;
  std::vector<Other> others_;  // by rank
  SharedChunks chunks_;

  std::optional<uint32_t> blocker_;  // the rank that this one waits for
  Reason reason_ = Reason::kNone;
  uint32_t blocker_news_ = 0;
  uint64_t until_ = 0;
  double waited_ = 0;
  Clock::time_point since_{}, starving_since_{};
  bool was_starving_ = false;
  Clock::time_point looked_{};
};

}  // namespace gz

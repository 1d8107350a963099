// rank_peers: ranks of one host that sweep the same matrix go round the file together, and each copies from the others
// what they have just read.
//
// All are at about the same segment. The rank that is ahead reads and publishes its reads; the others follow as soon as
// these have arrived, copy the rows that they need, and read the missing ones themselves. A rank that is too far ahead
// waits, so that what the others need is not overwritten. No rank waits for one that is idle, has exited, or makes no
// progress for long. The rows are the same in any case; only which rank reads them differs.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "storage/local_ranks.h"
#include "storage/page_reads.h"
#include "sweep/sweep_peers.h"

namespace gz {

// The header of a sweep's part of a member's block, followed by the published bytes. Atomic, since other ranks read it
// while it changes; the identity differs for another file or layout.
struct SweepBlock {
  static constexpr size_t kChunks = 1024;
  struct Chunk {
    std::atomic<uint64_t> number;  // 0: none
    std::atomic<uint64_t> offset;  // in the file
    std::atomic<uint32_t> bytes, at;
  };
  std::atomic<uint64_t> identity;  // of file and matrix; 0: no sweep
  std::atomic<uint64_t> where;     // state and segments: see RankPeers::announce
  std::atomic<uint64_t> published_bytes;
  std::atomic<uint64_t> numbers;    // of chunks so far: never reused by a later sweep
  std::atomic<uint32_t> news;       // counts all changes: other ranks wait on it
  std::atomic<uint32_t> waits_for;  // the rank whose news its owner waits for, plus one,
  std::atomic<uint64_t> until;      // and the segment which that rank must have planned, or read if kRead is set
  static constexpr uint64_t kRead = uint64_t{1} << 63;
  Chunk chunks[kChunks];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

constexpr uint64_t kMostPublished = uint64_t{48} << 20;
constexpr uint64_t kSweepHead = uint64_t{64} << 10;            // bytes before them, in whole pages
constexpr uint64_t kSweepBytes = kSweepHead + kMostPublished;  // of each part in a member's block
static_assert(sizeof(SweepBlock) <= kSweepHead);

// The recent reads of this rank, in memory shared with the other ranks of the host; allocates space for them.
//
// A circular buffer. A chunk has a number while its bytes are valid, and loses it before they are overwritten: a rank
// that copied from it checks the number again to know whether the copy is valid. There are no locks, so a rank cannot
// die while holding one.
class PublishedReads : public ReadBuffers {
 public:
  // Over a part of this process's block, used by one sweep at a time.
  PublishedReads(std::span<std::byte> part, uint64_t published_bytes);

  std::span<std::byte> arena() const { return arena_; }
  SweepBlock& block() const { return block_; }
  size_t most_in_flight() const { return arena_.size() / 3; }  // bytes: the remainder holds earlier reads

  size_t count() const override { return SweepBlock::kChunks; }
  size_t most_bytes() const override { return std::min(FixedBuffers::kLarge, arena_.size() / 8 & ~size_t{4095}); }
  std::optional<Taken> take(size_t bytes) override;
  void give_back(uint32_t index) override;

  // Publishes a read that has arrived at `data`.
  void publish(uint64_t offset, uint32_t bytes, const std::byte* data);

 private:
  struct Held {
    uint64_t number, begin, end;  // begin and end count all bytes ever published
    bool in_flight = true;
  };
  Held& held(uint32_t index);

  SweepBlock& block_;
  const std::span<std::byte> arena_;
  std::deque<Held> held_;  // the oldest first
  uint64_t end_ = 0;
  size_t in_flight_ = 0;                 // bytes
  std::vector<uint32_t> index_of_page_;  // of the chunk that begins there
};

// The chunks of other ranks within one range of the file.
class SharedChunks {
 public:
  void clear() { chunks_.clear(); }
  // Adds those in [begin, end) of the file that a member has published.
  void add(const std::shared_ptr<const LocalMember>& member, const SweepBlock& block, uint64_t begin, uint64_t end);
  void sort();
  bool empty() const { return chunks_.empty(); }
  // Copies bytes of the file; false if no chunk contains, or still contains, all of them. Offsets ascend between sorts.
  bool copy(uint64_t offset, size_t bytes, std::byte* to);

 private:
  struct Chunk {
    uint64_t offset;
    uint32_t bytes;
    const std::byte* data;
    const std::atomic<uint64_t>* number;
    uint64_t seen;
    std::shared_ptr<const LocalMember> member;  // keeps it mapped
  };
  std::vector<Chunk> chunks_;
  size_t at_ = 0;
};

class RankPeers : public SweepPeers {
 public:
  // For the matrix with this identity and `segments` segments. Null if there is no group, or too little to share.
  static std::unique_ptr<RankPeers> make(std::shared_ptr<LocalGroup> group, size_t part, uint64_t identity,
                                         uint64_t segments, uint64_t segment_bytes, uint64_t published_bytes);
  ~RankPeers() override;

  std::shared_ptr<Reader> reader(Io io) const override;
  std::shared_ptr<ReadBuffers> buffers() const override { return published_; }
  void publish(uint64_t offset, uint32_t bytes, const std::byte* data) override {
    published_->publish(offset, bytes, data);
  }
  bool find(uint64_t begin, uint64_t end) override;
  bool copy(uint64_t offset, size_t bytes, std::byte* to) override { return chunks_.copy(offset, bytes, to); }
  void announce(State state, uint64_t segment, uint64_t undone) override;
  uint64_t meeting_point(uint64_t segment) override;
  // A waiting rank waits until it can plan several segments: waking up for each single one would cost too much.
  bool must_wait(uint64_t segment) override;
  void wait(bool starving, bool briefly) override;
  double waited() const override { return waited_; }
  bool allow_pause() const override { return false; }

  PublishedReads& published() const { return *published_; }

 private:
  struct Where {
    State state;
    uint64_t undone, segment;
  };
  struct Other {
    std::shared_ptr<const LocalMember> member;
    const SweepBlock* block = nullptr;  // null while it is absent or sweeps another matrix
    bool is_left_behind = false;        // it is far behind, and this rank stopped waiting for it
    bool is_unresponsive = false;       // it made no progress for long, since this value of news:
    uint32_t news = 0;
  };

  RankPeers(std::shared_ptr<LocalGroup> group, size_t part, uint64_t identity, uint64_t segments,
            uint64_t segment_bytes, uint64_t published_bytes);
  void refresh_members();
  static Where where(const SweepBlock& block);
  uint64_t distance(uint64_t from, uint64_t to) const { return (to + segments_ - from) % segments_; }
  uint64_t wake_distance() const { return std::max<uint64_t>(most_ahead_ / 5, 1); }  // segments worth waking up for
  enum class Reason { kNone, kReads, kTurn, kBehind };
  Reason reason_to_wait(uint32_t rank, uint64_t segment);

  const std::shared_ptr<LocalGroup> group_;
  const size_t part_;
  const uint64_t identity_, segments_;
  uint64_t most_ahead_;  // segments between the first and the last rank
  std::shared_ptr<PublishedReads> published_;
  std::vector<Other> others_;  // by rank
  SharedChunks chunks_;

  std::optional<uint32_t> blocker_;  // the rank that this one waits for
  Reason reason_ = Reason::kNone;
  uint32_t blocker_news_ = 0;
  uint64_t until_ = 0;
  double waited_ = 0;
  Clock::time_point since_{}, starving_since_{};
  bool was_starving_ = false;
  Clock::time_point refreshed_{};
};

}  // namespace gz

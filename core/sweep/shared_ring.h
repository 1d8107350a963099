// shared_ring: the recent reads of a rank, in memory shared with the other ranks of the host.
//
// A ring buffer of reads. A chunk has a number while its bytes are valid, and loses it before they are overwritten: a
// rank that copied from it checks the number again to know whether the copy is valid. There are no locks, so a rank
// cannot die while holding one.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "storage/local_ranks.h"
#include "storage/read_slots.h"

namespace gz {

// The header of a sweep's part of a member's block, followed by the ring's bytes. Atomic, since other ranks read it
// while it changes; the identity differs for another file or layout.
struct SweepBlock {
  static constexpr size_t kChunks = 1024;
  struct Chunk {
    std::atomic<uint64_t> number;  // 0: none
    std::atomic<uint64_t> offset;  // in the file
    std::atomic<uint32_t> bytes, at;
  };
  std::atomic<uint64_t> identity;  // of file and matrix; 0: no sweep
  std::atomic<uint64_t> where;     // see SharedSweep
  std::atomic<uint64_t> ring_bytes;
  std::atomic<uint64_t> numbers;    // of chunks so far: never reused by a later sweep
  std::atomic<uint32_t> news;       // counts all changes: other ranks wait on it
  std::atomic<uint32_t> waits_for;  // the rank whose news its owner waits for, plus one,
  std::atomic<uint64_t> until;      // and the segment which that rank must have planned, or read if kRead is set
  static constexpr uint64_t kRead = uint64_t{1} << 63;
  Chunk chunks[kChunks];
};
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

constexpr uint64_t kMostRing = uint64_t{48} << 20;
constexpr uint64_t kSweepHead = uint64_t{64} << 10;       // bytes before the ring, in whole pages
constexpr uint64_t kSweepBytes = kSweepHead + kMostRing;  // of each part in a member's block
static_assert(sizeof(SweepBlock) <= kSweepHead);

// This rank's own ring: allocates space for its reads.
class SharedRing : public ReadRoom {
 public:
  // Over a part of this process's block, used by one sweep at a time.
  SharedRing(std::span<std::byte> part, uint64_t ring_bytes);

  std::span<std::byte> arena() const { return arena_; }
  SweepBlock& block() const { return block_; }
  size_t most_in_flight() const { return arena_.size() / 3; }  // bytes: the remainder holds earlier reads

  size_t count() const override { return SweepBlock::kChunks; }
  size_t most_bytes() const override { return std::min(Slots::kLarge, arena_.size() / 8 & ~size_t{4095}); }
  std::optional<Slot> take(size_t bytes) override;
  void give_back(uint32_t index) override;

  // Publishes a read that has arrived at `data`.
  void publish(uint64_t offset, uint32_t bytes, const std::byte* data);

 private:
  struct Held {
    uint64_t number, begin, end;  // begin and end count all bytes ever put into the ring
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

}  // namespace gz

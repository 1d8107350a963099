// shared_ring: circular allocation, published chunks, and verified copies.
#include "sweep/shared_ring.h"

#include <algorithm>
#include <cstring>

#include "format/container.h"

namespace gz {

SharedRing::SharedRing(std::span<std::byte> part, uint64_t ring_bytes)
    : block_(*reinterpret_cast<SweepBlock*>(part.data())),
      arena_(part.subspan(kSweepHead, std::min<uint64_t>(ring_bytes, part.size() - kSweepHead))),
      index_of_page_(arena_.size() / kPageBytes) {
  for (auto& chunk : block_.chunks) chunk.number.store(0, std::memory_order_relaxed);  // of an earlier sweep
  std::atomic_thread_fence(std::memory_order_seq_cst);
  block_.ring_bytes.store(arena_.size(), std::memory_order_relaxed);
}

std::optional<ReadRoom::Slot> SharedRing::take(size_t bytes) {
  if (in_flight_ > 0 && in_flight_ + bytes > most_in_flight()) return std::nullopt;
  uint64_t begin = end_;
  if (begin % arena_.size() + bytes > arena_.size()) begin += arena_.size() - begin % arena_.size();
  while (!held_.empty() &&
         (begin + bytes - held_.front().begin > arena_.size() || held_.size() >= SweepBlock::kChunks)) {
    if (held_.front().in_flight) return std::nullopt;
    block_.chunks[held_.front().number % SweepBlock::kChunks].number.store(0, std::memory_order_relaxed);
    held_.pop_front();
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);  // clear the numbers before the bytes are overwritten
  const uint64_t number = block_.numbers.load(std::memory_order_relaxed) + 1;
  block_.numbers.store(number, std::memory_order_relaxed);
  held_.push_back({number, begin, begin + bytes});
  end_ = begin + bytes;
  in_flight_ += bytes;
  const auto index = static_cast<uint32_t>(number % SweepBlock::kChunks);
  const uint64_t at = begin % arena_.size();
  index_of_page_[at / kPageBytes] = index;
  return Slot{index, arena_.data() + at};
}

SharedRing::Held& SharedRing::held(uint32_t index) {
  const uint64_t first = held_.front().number % SweepBlock::kChunks;
  return held_[(index + SweepBlock::kChunks - first) % SweepBlock::kChunks];
}

void SharedRing::give_back(uint32_t index) {
  Held& chunk = held(index);
  chunk.in_flight = false;
  in_flight_ -= chunk.end - chunk.begin;
}

void SharedRing::publish(uint64_t offset, uint32_t bytes, const std::byte* data) {
  const auto at = static_cast<uint32_t>(data - arena_.data());
  const uint32_t index = index_of_page_[at / kPageBytes];
  SweepBlock::Chunk& chunk = block_.chunks[index];
  chunk.offset.store(offset, std::memory_order_relaxed);
  chunk.bytes.store(bytes, std::memory_order_relaxed);
  chunk.at.store(at, std::memory_order_relaxed);
  chunk.number.store(held(index).number, std::memory_order_release);
}

void SharedChunks::add(const std::shared_ptr<const LocalMember>& member, const SweepBlock& block, uint64_t begin,
                       uint64_t end) {
  const std::byte* ring = reinterpret_cast<const std::byte*>(&block) + kSweepHead;
  const uint64_t ring_bytes = std::min(block.ring_bytes.load(std::memory_order_relaxed), kMostRing);
  for (const auto& chunk : block.chunks) {
    const uint64_t seen = chunk.number.load(std::memory_order_acquire);
    if (seen == 0) continue;
    const uint64_t offset = chunk.offset.load(std::memory_order_relaxed);
    const uint32_t bytes = chunk.bytes.load(std::memory_order_relaxed), at = chunk.at.load(std::memory_order_relaxed);
    if (offset >= end || offset + bytes <= begin || uint64_t{at} + bytes > ring_bytes) continue;
    chunks_.push_back({offset, bytes, ring + at, &chunk.number, seen, member});
  }
}

void SharedChunks::sort() {
  std::sort(chunks_.begin(), chunks_.end(), [](const Chunk& a, const Chunk& b) { return a.offset < b.offset; });
  at_ = 0;
}

bool SharedChunks::copy(uint64_t offset, size_t bytes, std::byte* to) {
  // Chunks of several ranks may overlap: those that end before the row are not needed again.
  while (at_ < chunks_.size() && chunks_[at_].offset + chunks_[at_].bytes <= offset) ++at_;
  for (size_t i = at_; i < chunks_.size() && chunks_[i].offset <= offset; ++i) {
    const Chunk& chunk = chunks_[i];
    if (chunk.offset + chunk.bytes < offset + bytes) continue;
    std::memcpy(to, chunk.data + (offset - chunk.offset), bytes);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (chunk.number->load(std::memory_order_relaxed) == chunk.seen) return true;
  }
  return false;
}

}  // namespace gz

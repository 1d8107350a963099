// rank_peers: which rank goes first, and how long the others wait.
#include "sweep/rank_peers.h"

#include <algorithm>
#include <cstring>

#include "base/random.h"
#include "format/container.h"

namespace gz {
namespace {

constexpr auto kUnresponsive = std::chrono::seconds(2);  // longer than slow disks take: the process was stopped
constexpr auto kMostStarving =
    std::chrono::milliseconds(200);                       // that a rank's consumer waits for a rank that is behind
constexpr auto kRefresh = std::chrono::milliseconds(20);  // check for ranks that joined or left
constexpr int kNap = 4000, kShortNap = 300;               // microseconds between checks for other work
constexpr uint64_t kLeastSegments = 8;

}  // namespace

std::unique_ptr<RankPeers> RankPeers::make(std::shared_ptr<LocalGroup> group, size_t part, uint64_t identity,
                                           uint64_t segments, uint64_t segment_bytes, uint64_t published_bytes) {
  if (!group || group->own().size() < (part + 1) * kSweepBytes || segments < kLeastSegments || published_bytes == 0) {
    return nullptr;
  }
  return std::unique_ptr<RankPeers>(new RankPeers(std::move(group), part, identity, segments, segment_bytes,
                                                  std::min(published_bytes, kMostPublished)));
}

RankPeers::RankPeers(std::shared_ptr<LocalGroup> group, size_t part, uint64_t identity, uint64_t segments,
                     uint64_t segment_bytes, uint64_t published_bytes)
    : group_(std::move(group)),
      part_(part),
      identity_(identity | 1),
      segments_(segments),
      published_(
          std::make_shared<PublishedReads>(group_->own().subspan(part * kSweepBytes, kSweepBytes), published_bytes)),
      others_(group_->ranks().count) {
  const uint64_t kept = (published_bytes - published_->most_in_flight()) / std::max<uint64_t>(segment_bytes, 1);
  most_ahead_ = std::clamp<uint64_t>(kept > 1 ? kept - 1 : 1, 1, segments / 4);
  announce(State::kIdle, 0, 0);
  published_->block().identity.store(identity_, std::memory_order_release);
}

RankPeers::~RankPeers() {
  announce(State::kAway, 0, 0);
  published_->block().identity.store(0, std::memory_order_release);
}

void RankPeers::announce(State state, uint64_t segment, uint64_t undone) {
  SweepBlock& block = published_->block();
  const uint64_t word = static_cast<uint64_t>(state) << 62 | std::min<uint64_t>(undone, 0x3fff) << 48 | segment;
  if (block.where.exchange(word) == word) return;
  block.news.fetch_add(1);
  const uint32_t own = group_->ranks().rank + 1;
  const uint64_t done = distance(undone, segment);
  for (const Other& other : others_) {
    if (other.block == nullptr || other.block->waits_for.load() != own) continue;
    const uint64_t until = other.block->until.load(), there = (until & SweepBlock::kRead) != 0 ? done : segment;
    const uint64_t wanted = (until & ~SweepBlock::kRead) % segments_;
    if (state == State::kMoving && distance(wanted, there) > segments_ / 2) continue;
    wake_waiting(block.news);
    return;
  }
}

RankPeers::Where RankPeers::where(const SweepBlock& block) {
  const uint64_t word = block.where.load();
  return {static_cast<State>(word >> 62), word >> 48 & 0x3fff, word & ((uint64_t{1} << 48) - 1)};
}

void RankPeers::refresh_members() {
  if (Clock::now() - refreshed_ < kRefresh) return;
  refreshed_ = Clock::now();
  for (uint32_t rank = 0; rank < others_.size(); ++rank) {
    Other& other = others_[rank];
    auto member = group_->member(rank);
    if (member != other.member) {
      other = Other();
      other.member = std::move(member);
    }
    if (!other.member || other.member->block().size() < (part_ + 1) * kSweepBytes) continue;
    const auto* block = reinterpret_cast<const SweepBlock*>(other.member->block().data() + part_ * kSweepBytes);
    other.block = block->identity.load(std::memory_order_acquire) == identity_ ? block : nullptr;
  }
}

uint64_t RankPeers::meeting_point(uint64_t segment) {
  refresh_members();
  for (const Other& other : others_) {
    if (other.block == nullptr || other.member->is_gone()) continue;
    const Where at = where(*other.block);
    if (at.state < State::kHeld || at.segment >= segments_) continue;
    const uint64_t ahead = distance(segment, at.segment);
    return std::min(ahead, segments_ - ahead) <= most_ahead_ ? segment : at.segment;
  }
  return segment;
}

RankPeers::Reason RankPeers::reason_to_wait(uint32_t rank, uint64_t segment) {
  Other& other = others_[rank];
  if (other.block == nullptr || other.member->is_gone()) return Reason::kNone;
  if (other.is_unresponsive && other.block->news.load() == other.news) return Reason::kNone;
  other.is_unresponsive = false;
  const Where at = where(*other.block);
  if (at.state == State::kAway) return Reason::kNone;
  const uint64_t ahead = distance(segment, at.segment), behind = segments_ - ahead;
  const bool waits = blocker_ == rank && reason_ != Reason::kNone;  // already
  const bool moves = at.state == State::kMoving;
  if (ahead == 0 && moves && rank < group_->ranks().rank) return Reason::kTurn;
  if (ahead <= segments_ / 2) {  // it has planned this segment: wait for its reads instead of repeating them
    other.is_left_behind = false;
    const uint64_t way = waits && moves && ahead > 0 ? wake_distance() : 1;
    return ahead > 0 && ahead < at.undone + way ? Reason::kReads : Reason::kNone;
  }
  const uint64_t near = most_ahead_ - wake_distance();  // a waiting rank waits until the distance is less than that
  if (behind < near) other.is_left_behind = false;
  const uint64_t most = waits ? near : most_ahead_;
  return at.state >= State::kHeld && behind >= most && !other.is_left_behind ? Reason::kBehind : Reason::kNone;
}

bool RankPeers::must_wait(uint64_t segment) {
  refresh_members();
  for (uint32_t rank = 0; rank < others_.size(); ++rank) {
    const Reason reason = reason_to_wait(rank, segment);
    if (reason == Reason::kNone) continue;
    const uint32_t news = others_[rank].block->news.load();
    if (blocker_ != rank || blocker_news_ != news || reason_ != reason) since_ = Clock::now();
    if (blocker_ != rank || reason_ != reason) was_starving_ = false;
    until_ = reason == Reason::kBehind ? distance(most_ahead_ - wake_distance() - 1, segment)
                                       : (segment + wake_distance()) | SweepBlock::kRead;
    blocker_ = rank;
    blocker_news_ = news;
    reason_ = reason;
    return true;
  }
  blocker_.reset();
  return false;
}

void RankPeers::wait(bool starving, bool briefly) {
  if (!blocker_) return;
  Other& other = others_[*blocker_];
  const auto now = Clock::now();
  if (reason_ == Reason::kBehind) {
    if (starving && !was_starving_) starving_since_ = now;
    was_starving_ = starving;
    if (starving && now - starving_since_ > kMostStarving) other.is_left_behind = true;
  } else if (now - since_ > kUnresponsive) {
    other.is_unresponsive = true;
    other.news = blocker_news_;
  }
  published_->block().until.store(until_);
  published_->block().waits_for.store(*blocker_ + 1);
  const int nap = briefly ? kShortNap : kNap;
  if (!other.member->is_gone()) wait_for_change(other.block->news, blocker_news_, nap);
  published_->block().waits_for.store(0);
  waited_ += std::chrono::duration<double>(Clock::now() - now).count();
}

bool RankPeers::find(uint64_t begin, uint64_t end) {
  chunks_.clear();
  for (const Other& other : others_) {
    if (other.block != nullptr) chunks_.add(other.member, *other.block, begin, end);
  }
  chunks_.sort();
  return !chunks_.empty();
}

std::shared_ptr<Reader> RankPeers::reader(Io io) const {
  if (io != Io::kPread && uring_works()) {
    RingRefusal refusal;
    if (auto ring = make_ring(refusal, published_->arena())) return ring;
  }
  return make_thread_reader(published_->arena());
}

PublishedReads::PublishedReads(std::span<std::byte> part, uint64_t published_bytes)
    : block_(*reinterpret_cast<SweepBlock*>(part.data())),
      arena_(part.subspan(kSweepHead, std::min<uint64_t>(published_bytes, part.size() - kSweepHead))),
      index_of_page_(arena_.size() / kPageBytes) {
  for (auto& chunk : block_.chunks) chunk.number.store(0, std::memory_order_relaxed);  // of an earlier sweep
  std::atomic_thread_fence(std::memory_order_seq_cst);
  block_.published_bytes.store(arena_.size(), std::memory_order_relaxed);
}

std::optional<ReadBuffers::Taken> PublishedReads::take(size_t bytes) {
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
  return Taken{index, arena_.data() + at};
}

PublishedReads::Held& PublishedReads::held(uint32_t index) {
  const uint64_t first = held_.front().number % SweepBlock::kChunks;
  return held_[(index + SweepBlock::kChunks - first) % SweepBlock::kChunks];
}

void PublishedReads::give_back(uint32_t index) {
  Held& chunk = held(index);
  chunk.in_flight = false;
  in_flight_ -= chunk.end - chunk.begin;
}

void PublishedReads::publish(uint64_t offset, uint32_t bytes, const std::byte* data) {
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
  const std::byte* base = reinterpret_cast<const std::byte*>(&block) + kSweepHead;
  const uint64_t published_bytes = std::min(block.published_bytes.load(std::memory_order_relaxed), kMostPublished);
  for (const auto& chunk : block.chunks) {
    const uint64_t seen = chunk.number.load(std::memory_order_acquire);
    if (seen == 0) continue;
    const uint64_t offset = chunk.offset.load(std::memory_order_relaxed);
    const uint32_t bytes = chunk.bytes.load(std::memory_order_relaxed), at = chunk.at.load(std::memory_order_relaxed);
    if (offset >= end || offset + bytes <= begin || uint64_t{at} + bytes > published_bytes) continue;
    chunks_.push_back({offset, bytes, base + at, &chunk.number, seen, member});
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

namespace {

constexpr uint64_t kSegment = uint64_t{1} << 20;  // bytes of the file that are planned at a time

}  // namespace

std::shared_ptr<Reader> NoPeers::reader(Io io) const {
  if (io == Io::kPread || !uring_works()) return make_thread_reader();
  auto reader = take_reader(ReaderKind::kUring, arena_);
  if (reader->depth() == 1) return make_thread_reader();  // no memory for a ring
  return reader;
}

Segments::Segments(const Matrix& matrix)
    : rows(std::max<uint64_t>(kSegment / matrix.row_bytes, 1)),
      count(std::max<uint64_t>((matrix.rows + rows - 1) / rows, 1)) {}

std::unique_ptr<SweepPeers> make_peers(const FeatureFile& file, const Matrix& matrix,
                                       const std::shared_ptr<LocalGroup>& group, size_t part, uint64_t published_bytes,
                                       size_t arena) {
  if (group) {
    uint64_t identity = file.file().identity();
    for (const uint64_t word : {matrix.offset, matrix.rows, matrix.row_bytes}) identity = absorb(identity, word);
    const Segments segments(matrix);
    auto ranks =
        RankPeers::make(group, part, identity, segments.count, segments.rows * matrix.row_bytes, published_bytes);
    if (ranks) return ranks;
  }
  return std::make_unique<NoPeers>(arena);
}

}  // namespace gz

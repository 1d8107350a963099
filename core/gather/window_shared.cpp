// window_shared: what a sweep does when other ranks of the host sweep the same matrix.
#include <algorithm>

#include "base/random.h"
#include "gather/window_sweep.h"

namespace gz {

std::unique_ptr<SharedSweep> WindowSweep::share_sweep() const {
  if (!options_.group) return nullptr;
  uint64_t identity = identity_of(file_.file().file());
  for (const uint64_t word : {matrix_.offset, matrix_.rows, matrix_.row_bytes}) identity = absorb(identity, word);
  return SharedSweep::make(options_.group, options_.part, identity, segments_, segment_rows_ * matrix_.row_bytes,
                           options_.ring_bytes);
}

std::shared_ptr<Reader> WindowSweep::reader() const {
  const std::span<std::byte> arena = others_ ? others_->ring()->arena() : std::span<std::byte>();
  if (options_.io == Io::kPread || !uring_works()) return make_thread_reader(arena);
  if (others_) {
    RingRefusal refusal;
    auto ring = make_ring(refusal, arena);
    return ring ? std::move(ring) : make_thread_reader(arena);
  }
  auto reader = take_reader(ReaderKind::kUring);
  if (reader->depth() == 1) return make_thread_reader();  // there was no room for a ring
  return reader;
}

// A sweep that has no rows to come may go on anywhere: where the others are.
void WindowSweep::meet_others() {
  if (!others_ || wanted_ > 0) return;
  const uint64_t there = others_->meeting_point(segment_);
  if (there == segment_) return;
  segment_ = done_ = there;
  tell_others();
}

void WindowSweep::tell_others(bool held) {
  if (!others_) return;
  using State = SharedSweep::State;
  const State state = wanted_ == 0 ? State::kIdle : held ? State::kHeld : State::kMoving;
  while (done_ != segment_ && in_flight_[done_] == 0) done_ = done_ + 1 == segments_ ? 0 : done_ + 1;
  others_->tell(state, segment_, (segment_ + segments_ - done_) % segments_);
}

// Gives a row its bytes from a chunk that another rank has read.
bool WindowSweep::take_from_others(uint32_t row, uint32_t place) {
  if (!others_->chunks().copy(offset_of(segment_ * segment_rows_ + row), matrix_.row_bytes, rows_.row(place))) {
    return false;
  }
  rows_.arrived(place);
  ++stats_.rows_taken;
  for (uint32_t e = heads_[row]; e != kNoEntry; e = entries_[e].next) {
    Claim& claim = *active_[entries_[e].claim];
    claim.place(entries_[e].word, place);
    --claim.left;
  }
  return true;
}

}  // namespace gz

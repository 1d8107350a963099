// window_plan: which rows of a segment are wanted, where they go, and the reads that bring them.
#include <algorithm>
#include <bit>
#include <utility>

#include "base/checked.h"
#include "gather/window_sweep.h"

namespace gz {
namespace {

constexpr size_t kClaimsAhead = 4;  // prefetch distances
constexpr size_t kRowsAhead = 16;

}  // namespace

// Plans segments until enough reads wait, or none can be planned.
WindowSweep::Planned WindowSweep::plan_ahead() {
  while (wanted_ > 0) {
    if (reads_.in_flight() + planned_.size() >= std::max<size_t>(reads_.depth() / 2, 1)) return Planned::kReads;
    if (others_first()) return Planned::kOthersFirst;
    const Planned planned = plan_segment();
    if (planned == Planned::kFull || planned == Planned::kBusy) return planned;
    admit();
  }
  return Planned::kNothing;
}

WindowSweep::Planned WindowSweep::plan_segment() {
  if (in_flight_[segment_] > 0) return Planned::kBusy;  // of the circle before, in a small file
  const auto [missing, unused] = collect();
  if (missing + unused > rows_.free()) {
    for (const uint32_t row : touched_) heads_[row] = kNoEntry;
    return Planned::kFull;
  }
  place_entries();
  size_.note_held(rows_.capacity() - rows_.free());
  next_segment();
  tell_others();
  return missing > 0 ? Planned::kReads : Planned::kNothing;
}

WindowSweep::Found WindowSweep::collect() {
  const uint64_t first = segment_ * segment_rows_;
  const uint64_t end = std::min(first + segment_rows_, matrix_.rows);
  entries_.clear();
  touched_.clear();
  for (uint32_t c = 0; c < active_.size(); ++c) {
    if (c + 2 * kClaimsAhead < active_.size()) prefetch(&active_[c + 2 * kClaimsAhead]->cursor);
    if (c + kClaimsAhead < active_.size()) active_[c + kClaimsAhead]->prefetch_words();
    const Claim& claim = *active_[c];
    for (size_t i = claim.cursor; i < claim.end() && claim.value(i) < end; ++i) {
      const auto row = static_cast<uint32_t>(claim.value(i) - first);
      wanted_bits_[row / 64] |= uint64_t{1} << row % 64;
      entries_.push_back({c, static_cast<uint32_t>(i), heads_[row]});
      heads_[row] = static_cast<uint32_t>(entries_.size() - 1);
    }
  }
  for (uint32_t word = 0; word < wanted_bits_.size(); ++word) {
    for (uint64_t bits = std::exchange(wanted_bits_[word], 0); bits != 0; bits &= bits - 1) {
      touched_.push_back(word * 64 + static_cast<uint32_t>(std::countr_zero(bits)));
      rows_.prefetch_entry(first + touched_.back());
    }
  }
  for (const uint32_t row : touched_) rows_.prefetch_place_of(first + row);
  Found found;
  for (const uint32_t row : touched_) {
    places_[row] = rows_.find(first + row);
    if (places_[row] == HeldRows::kNone) {
      ++found.missing;
    } else {
      found.unused += rows_.is_unused(places_[row]) ? 1 : 0;
    }
  }
  return found;
}

// Gives each entry its row's place, and plans the reads of the rows that are not in RAM.
void WindowSweep::place_entries() {
  const uint64_t first = segment_ * segment_rows_;
  Arrival read;
  const auto flush = [&] {
    if (read.rows.empty()) return;
    ++in_flight_[segment_];
    planned_.push_back(std::move(read));
    read = {};
  };
  // Rows that are in RAM first: they must not give up their places to those that are not.
  for (const uint32_t row : touched_) {
    if (places_[row] == HeldRows::kNone) continue;
    for (uint32_t e = heads_[row]; e != kNoEntry; e = entries_[e].next) {
      Claim& claim = *active_[entries_[e].claim];
      claim.place(entries_[e].word, places_[row]);
      rows_.use(places_[row], 1);
      --claim.left;
      ++stats_.rows_shared;
    }
  }
  if (others_) others_->find_chunks(offset_of(first), offset_of(std::min(first + segment_rows_, matrix_.rows)));
  for (size_t i = 0; i < touched_.size(); ++i) {
    const uint32_t row = touched_[i];
    if (i + kRowsAhead < touched_.size()) rows_.prefetch_free_entry(first + touched_[i + kRowsAhead]);
    if (places_[row] != HeldRows::kNone) continue;
    uint32_t uses = 0;
    for (uint32_t e = heads_[row]; e != kNoEntry; e = entries_[e].next) ++uses;
    const uint32_t place = rows_.take(first + row, uses);
    if (others_ && take_from_others(row, place)) continue;
    const uint64_t begin = offset_of(first + row) & ~(kPageBytes - 1);
    const uint64_t end = round_up(offset_of(first + row) + matrix_.row_bytes, kPageBytes);
    if (!read.rows.empty() &&
        (begin > read.offset + read.bytes + options_.gap || end - read.offset > reads_.most_bytes())) {
      flush();
    }
    if (read.rows.empty()) {
      read.offset = begin;
      read.segment = segment_;
      read.number = ++planned_reads_;
    }
    read.bytes = static_cast<uint32_t>(end - read.offset);
    wait_for(read, row, place);
  }
  flush();
  for (const uint32_t row : touched_) heads_[row] = kNoEntry;
  wanted_ -= entries_.size();
  for (const Entry& entry : entries_) ++active_[entry.claim]->cursor;
  std::erase_if(active_, [&](const std::shared_ptr<Claim>& claim) {
    if (claim->left == 0 && !claim->is_complete()) complete(*claim);
    return claim->left == 0;
  });
}

void WindowSweep::wait_for(Arrival& read, uint32_t row, uint32_t place) {
  read.rows.push_back({static_cast<uint32_t>(segment_ * segment_rows_ + row), place});
  for (uint32_t e = heads_[row]; e != kNoEntry; e = entries_[e].next) {
    Claim& claim = *active_[entries_[e].claim];
    claim.place(entries_[e].word, place);
    if (claim.last_read != read.number) {
      claim.last_read = read.number;
      claim.last_waiting = static_cast<uint32_t>(read.waiting.size());
      read.waiting.push_back({&claim, 0});
    }
    ++read.waiting[claim.last_waiting].rows;
  }
}

void WindowSweep::next_segment() {
  ++advanced_;
  if (++segment_ < segments_) return;
  segment_ = 0;
  for (const auto& claim : active_) {
    if (claim->wrapped) continue;  // only reads in flight are left of it
    claim->wrapped = true;
    claim->cursor = 0;
  }
  ++stats_.circles;
  size_.end_circle();
}

}  // namespace gz

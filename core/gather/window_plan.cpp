// window_plan: which rows of a segment are wanted, where they go, and the reads that bring them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "base/checked.h"
#include "gather/window_sweep.h"

namespace gz {
namespace {

constexpr double kFull = 0.96;         // of the places: what claims may come to hold,
constexpr double kFullAtFirst = 0.92;  // and what they are expected to before they do: they are never quite even
constexpr int kFirstLooks = 32;        // at what claims hold in the first circle
constexpr size_t kFewClaims = 4;       // say nothing about what they share
constexpr size_t kClaimsAhead = 4;     // prefetch distances
constexpr size_t kRowsAhead = 16;
constexpr int kCalm = 4;  // circles without a stall, after which one more claim is tried

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
  most_held_ = std::max<uint64_t>(most_held_, rows_.capacity() - rows_.free());
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
  if (advanced_ < segments_ && advanced_ % std::max<uint64_t>(segments_ / kFirstLooks, 1) == 0) learn_at_first();
  if (++segment_ < segments_) return;
  segment_ = 0;
  for (const auto& claim : active_) {
    if (claim->wrapped) continue;  // only reads in flight are left of it
    claim->wrapped = true;
    claim->cursor = 0;
  }
  ++stats_.circles;
  learn_from_circle();
}

// n claims want R n^a different rows, a < 1: the more there are, the more they share. What the claims of the first
// circle hold so far tells a: of each part of the file, the rows of those that were admitted when the sweep passed. And
// that tells how many would fill the places later, when claims hold rows for half a circle on average: R n^a / (1 + a).
void WindowSweep::learn_at_first() {
  claims_then_.push_back(static_cast<double>(admitted_.size()));
  if (admitted_.size() < kFewClaims || stalled_ || claims_then_.size() < 2) return;
  uint64_t rows = 0;
  for (const auto& claim : admitted_) rows += claim->size();
  const double each = static_cast<double>(rows) / static_cast<double>(admitted_.size());
  const double held = static_cast<double>(rows_.capacity() - rows_.free()) / each;
  const auto held_by_now = [&](double a) {
    double sum = 0, before = 0;
    for (const double claims : claims_then_) {
      sum += std::pow((before + claims) / 2, a);
      before = claims;
    }
    return sum / kFirstLooks;
  };
  double low = 0.2, high = 1;
  for (int i = 0; i < 20; ++i) {
    const double a = (low + high) / 2;
    (held_by_now(a) < held ? low : high) = a;
  }
  const double room = kFullAtFirst * rows_.capacity() / each - 1;  // one more is complete, and being copied
  if (room <= 1) return;
  const double fit = std::pow((1 + high) * room, 1 / high);
  target_ = std::clamp(static_cast<uint64_t>(std::min(fit, 1e9)), target_, std::max(target_, most_));
}

// Who had all claims that it may have for a circle, and did not fill the places, may have more.
void WindowSweep::learn_from_circle() {
  if (!stalled_ && ++calm_circles_ % kCalm == 0 && most_ < options_.most) ++most_;
  if (!stalled_ && kept_waiting_ && most_held_ > 0) {
    const double more = kFull * rows_.capacity() / static_cast<double>(most_held_);
    const auto fit = static_cast<uint64_t>(static_cast<double>(target_) * more);
    target_ =
        std::clamp(fit, target_, std::max(target_, std::min(most_, target_ + std::max<uint64_t>(target_ / 8, 1))));
  }
  most_held_ = 0;
  stalled_ = kept_waiting_ = false;
}

}  // namespace gz

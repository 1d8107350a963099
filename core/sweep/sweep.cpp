// sweep: admit claims, plan segments, hand out what arrives. All bookkeeping is this thread's alone.
#include "sweep/sweep.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/prefetch.h"

namespace gz {
namespace {

constexpr size_t kAhead = 16;       // prefetch distances: rows in tables,
constexpr size_t kClaimsAhead = 4;  // and claims
constexpr uint64_t kCushion = 1;    // complete claims that may wait, or a sixteenth of all

}  // namespace

Sweep::Sweep(RowWindow& window, Mailbox& mailbox, const SweepOptions& options, std::unique_ptr<SweepPeers> peers,
             Ready ready, std::shared_ptr<Reader> reader)
    : window_(window),
      matrix_(window.matrix()),
      rows_(window.rows()),
      mailbox_(mailbox),
      options_(options),
      ready_(std::move(ready)),
      segments_(matrix_),
      peers_(std::move(peers)),
      reads_(*window.file(), matrix_, reader ? std::move(reader) : peers_->reader(options.io), peers_->room(),
             segments_.count),
      wanted_rows_(segments_.rows),
      size_(options.target, options.most, window.stats().target, rows_.capacity()),
      before_(window.stats()),
      stats_(before_) {
  publish_stats();
}

Sweep::~Sweep() {
  rows_.release_all();
  std::lock_guard lock(mailbox_.mutex);
  mailbox_.ended = true;
  mailbox_.submitted.clear();
  mailbox_.released.clear();
  mailbox_.changed.notify_all();
}

void Sweep::run() {
  while (step()) {
  }
}

bool Sweep::step() {
  if (!take_mail()) {
    cancel_reads();
    return false;
  }
  admit();
  const Planned planned = has_enough() ? Planned::kEnough : plan_ahead();
  reads_.start();
  idle_ = false;
  if (planned == Planned::kPeersFirst) {
    if (reads_.in_flight() > 0) wait_for_reads(true);
    peers_->wait(options_.starving && options_.starving(), reads_.in_flight() > 0);
  } else if (reads_.in_flight() > 0) {
    wait_for_reads();
  } else if (planned == Planned::kFull) {
    if (!admitted_.front()->is_complete()) detach_first();
    idle_ = true;  // until the first claim in line is released
  } else {
    idle_ = planned == Planned::kEnough || wanted_ == 0;
  }
  return true;
}

// ---- Mail

bool Sweep::take_mail() {
  Mailbox::Claims submitted, released;
  bool cancelling = false;
  {
    std::unique_lock lock(mailbox_.mutex);
    if (idle_) {
      announce(true);
      const bool room = admitted_.size() < size_.target() && wanted_ == 0;
      mailbox_.changed.wait(lock, [&] {
        return mailbox_.stopping || mailbox_.cancelling || !mailbox_.released.empty() ||
               (room && !(mailbox_.submitted.empty() && waiting_.empty()));
      });
    }
    if (mailbox_.stopping) return false;
    submitted.swap(mailbox_.submitted);
    released.swap(mailbox_.released);
    cancelling = mailbox_.cancelling;
  }
  for (const auto& claim : released) release(*claim);
  for (auto& claim : submitted) waiting_.push_back(std::move(claim));
  if (cancelling) forget_all();
  return true;
}

// Claims that are being copied stay until they are released.
void Sweep::forget_all() {
  cancel_reads();
  std::deque<std::shared_ptr<Claim>> copying;
  for (const auto& claim : waiting_) claim->end_unless_copying();
  for (const auto& claim : admitted_) {
    if (!claim->end_unless_copying()) {
      copying.push_back(claim);
      continue;
    }
    for (size_t i = 0; i < claim->size(); ++i) {
      if (claim->has_slot(i)) rows_.release(claim->value(i));
    }
  }
  waiting_.clear();
  active_.clear();
  admitted_ = std::move(copying);
  wanted_ = 0;
  std::lock_guard lock(mailbox_.mutex);
  mailbox_.cancelling = false;
  mailbox_.changed.notify_all();
}

// Reads that were not started bring nothing, those in flight come to their end.
void Sweep::cancel_reads() {
  reads_.cancel(
      [&](const PlannedRead& read) {
        for (const auto& [row, slot] : read.rows) rows_.lose(slot);
      },
      [&](const PlannedRead& read, const std::byte* data, const std::exception_ptr& error) {
        arrive(read, data, error);
      });
  publish_stats();
}

void Sweep::release(Claim& claim) {
  const size_t count = claim.size();
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) rows_.prefetch_slot(claim.value(i + kAhead));
    if (claim.has_slot(i)) rows_.release(claim.value(i));
  }
  std::erase_if(admitted_, [&](const auto& other) { return other.get() == &claim; });
}

// ---- Admission

// Evenly spaced over the circle; a run that fits as a whole need not be.
bool Sweep::may_admit() const {
  const uint64_t target = size_.target();
  if (waiting_.empty() || admitted_.size() >= target) return false;
  return wanted_ == 0 || options_.claims <= target / 2 || advanced_ - last_admission_ >= segments_.count / target;
}

void Sweep::admit() {
  if (!waiting_.empty() && admitted_.size() >= size_.target()) size_.note_waiting();
  if (may_admit()) meet_peers();
  while (may_admit()) {
    std::shared_ptr<Claim> claim = std::move(waiting_.front());
    waiting_.pop_front();
    share(*claim);
    const uint64_t* words = claim->words();
    claim->start = static_cast<size_t>(std::lower_bound(words, words + claim->wanted, first_row() << 32) - words);
    claim->cursor = claim->start;
    wanted_ += claim->wanted;
    last_admission_ = advanced_;
    admitted_.push_back(claim);
    if (claim->left == 0) {
      complete(*claim);
    } else {
      active_.push_back(std::move(claim));
    }
  }
}

// Takes the rows that are in RAM already; the others stay in order.
void Sweep::share(Claim& claim) {
  shared_.clear();
  uint64_t* words = claim.words();
  size_t kept = 0;
  for (size_t i = 0; i < claim.size(); ++i) {
    if (i + 2 * kAhead < claim.size()) rows_.prefetch_entry(claim.value(i + 2 * kAhead));
    if (i + kAhead < claim.size()) rows_.prefetch_slot_of(claim.value(i + kAhead));
    const uint32_t slot = rows_.find(claim.value(i));
    if (slot == HeldRows::kNone || rows_.is_loading(slot)) {
      words[kept++] = words[i];
    } else {
      rows_.use(slot, 1);
      shared_.push_back(uint64_t{slot} << 32 | claim.position(i));
    }
  }
  std::copy(shared_.begin(), shared_.end(), words + kept);
  claim.wanted = claim.left = kept;
  stats_.rows_shared += shared_.size();
}

void Sweep::complete(Claim& claim) {
  claim.complete();
  ready_(claim.number);
}

void Sweep::remove_active(const Claim& claim) {
  std::erase_if(active_, [&](const auto& other) { return other.get() == &claim; });
}

// The consumer is slower than the disk: a sweep that waits for it passes fewer times, each time for more claims, and
// reads less.
bool Sweep::has_enough() const {
  if (!peers_->may_pause()) return false;
  const size_t cushion = std::max(kCushion, size_.target() / 16);
  if (admitted_.size() <= cushion) return false;
  return std::all_of(admitted_.begin(), admitted_.begin() + static_cast<std::ptrdiff_t>(cushion) + 1,
                     [](const auto& claim) { return claim->is_complete(); });
}

// ---- Planning

// Plans segments until enough reads wait, or none can be planned.
Sweep::Planned Sweep::plan_ahead() {
  while (wanted_ > 0) {
    if (reads_.is_enough()) return Planned::kReads;
    if (peers_->must_wait(segment_)) return Planned::kPeersFirst;
    const Planned planned = plan_segment();
    if (planned == Planned::kFull || planned == Planned::kBusy) return planned;
    admit();
  }
  return Planned::kNothing;
}

Sweep::Planned Sweep::plan_segment() {
  if (reads_.is_busy(segment_)) return Planned::kBusy;  // of the circle before, in a small file
  const uint64_t first = first_row(), end = std::min(first + segments_.rows, matrix_.rows);
  wanted_rows_.clear();
  for (uint32_t c = 0; c < active_.size(); ++c) {
    if (c + 2 * kClaimsAhead < active_.size()) prefetch(&active_[c + 2 * kClaimsAhead]->cursor);
    if (c + kClaimsAhead < active_.size()) active_[c + kClaimsAhead]->prefetch_words();
    const Claim& claim = *active_[c];
    for (size_t i = claim.cursor; i < claim.end() && claim.value(i) < end; ++i) {
      wanted_rows_.add(static_cast<uint32_t>(claim.value(i) - first), c, static_cast<uint32_t>(i));
    }
  }
  if (!fits()) return Planned::kFull;
  use_held_rows();
  plan_reads();
  wanted_ -= wanted_rows_.entries().size();
  for (const auto& entry : wanted_rows_.entries()) ++active_[entry.claim]->cursor;
  std::erase_if(active_, [&](const std::shared_ptr<Claim>& claim) {
    if (claim->left == 0 && !claim->is_complete()) complete(*claim);
    return claim->left == 0;
  });
  size_.note_held(rows_.capacity() - rows_.free());
  next_segment();
  announce();
  return Planned::kReads;
}

bool Sweep::fits() {
  const uint64_t first = first_row();
  const auto rows = wanted_rows_.list();
  for (const uint32_t row : rows) rows_.prefetch_entry(first + row);
  for (const uint32_t row : rows) rows_.prefetch_slot_of(first + row);
  size_t needed = 0;  // slots: of rows that are not in RAM, and of rows that are, and that nobody holds
  for (const uint32_t row : rows) {
    const uint32_t slot = rows_.find(first + row);
    wanted_rows_.set_slot(row, slot);
    needed += slot == HeldRows::kNone || rows_.is_unused(slot) ? 1 : 0;
  }
  return needed <= rows_.free();
}

// Before the others are planned: the slots of these must not go to them.
void Sweep::use_held_rows() {
  for (const uint32_t row : wanted_rows_.rows()) {
    const uint32_t slot = wanted_rows_.slot(row);
    if (slot == HeldRows::kNone) continue;
    wanted_rows_.for_each_entry(row, [&](const SegmentRows::Entry& entry) {
      Claim& claim = *active_[entry.claim];
      claim.set_slot(entry.word, slot);
      rows_.use(slot, 1);
      --claim.left;
      ++stats_.rows_shared;
    });
  }
}

void Sweep::plan_reads() {
  const uint64_t first = first_row();
  const auto rows = wanted_rows_.rows();
  const bool peers_have = peers_->find(offset_of(first), offset_of(std::min(first + segments_.rows, matrix_.rows)));
  PlannedRead read;
  const auto flush = [&] {
    if (!read.rows.empty()) reads_.add(std::exchange(read, {}));
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint32_t row = rows[i];
    if (i + kAhead < rows.size()) rows_.prefetch_free_entry(first + rows[i + kAhead]);
    if (wanted_rows_.slot(row) != HeldRows::kNone) continue;
    uint32_t uses = 0;
    wanted_rows_.for_each_entry(row, [&](const SegmentRows::Entry&) { ++uses; });
    const uint32_t slot = rows_.take(first + row, uses);
    if (peers_have && take_from_peers(row, slot)) continue;
    const uint64_t begin = offset_of(first + row) & ~(kPageBytes - 1);
    const uint64_t end = round_up(offset_of(first + row) + matrix_.row_bytes, kPageBytes);
    const bool is_far = begin > read.offset + read.bytes + options_.gap || end - read.offset > reads_.most_bytes();
    if (is_far) flush();
    if (read.rows.empty()) {
      read.offset = begin;
      read.segment = segment_;
      read.number = ++planned_reads_;
    }
    read.bytes = static_cast<uint32_t>(end - read.offset);
    add_to(read, row, slot);
  }
  flush();
}

void Sweep::add_to(PlannedRead& read, uint32_t row, uint32_t slot) {
  read.rows.push_back({static_cast<uint32_t>(first_row() + row), slot});
  wanted_rows_.for_each_entry(row, [&](const SegmentRows::Entry& entry) {
    Claim& claim = *active_[entry.claim];
    claim.set_slot(entry.word, slot);
    if (claim.last_read != read.number) {
      claim.last_read = read.number;
      claim.last_waiting = static_cast<uint32_t>(read.waiting.size());
      read.waiting.push_back({&claim, 0});
    }
    ++read.waiting[claim.last_waiting].rows;
  });
}

bool Sweep::take_from_peers(uint32_t row, uint32_t slot) {
  if (!peers_->copy(offset_of(first_row() + row), matrix_.row_bytes, rows_.row(slot))) return false;
  rows_.arrived(slot);
  ++stats_.rows_taken;
  wanted_rows_.for_each_entry(row, [&](const SegmentRows::Entry& entry) {
    Claim& claim = *active_[entry.claim];
    claim.set_slot(entry.word, slot);
    --claim.left;
  });
  return true;
}

void Sweep::next_segment() {
  ++advanced_;
  if (++segment_ < segments_.count) return;
  segment_ = 0;
  for (const auto& claim : active_) {
    if (claim->wrapped) continue;  // only reads in flight are left of it
    claim->wrapped = true;
    claim->cursor = 0;
  }
  ++stats_.circles;
  size_.end_circle();
}

// ---- Reads

void Sweep::wait_for_reads(bool poll) {
  const auto arrived = [&](const PlannedRead& read, const std::byte* data, const std::exception_ptr& error) {
    arrive(read, data, error);
  };
  if (poll) {
    reads_.poll(arrived);
  } else {
    rows_.populate_ahead();
    reads_.wait(arrived);
  }
  announce();
  publish_stats();
}

void Sweep::arrive(const PlannedRead& read, const std::byte* data, const std::exception_ptr& error) {
  if (!error) peers_->publish(read.offset, read.bytes, data);
  for (const auto& [row, slot] : read.rows) {
    if (error) {
      rows_.lose(slot);
    } else {
      std::memcpy(rows_.row(slot), data + (offset_of(row) - read.offset), matrix_.row_bytes);
      rows_.arrived(slot);
    }
  }
  if (!error) stats_.rows_read += read.rows.size();
  for (const auto& [claim, rows] : read.waiting) {
    if (error) claim->error = error;
    claim->left -= rows;
    if (claim->left > 0) continue;
    remove_active(*claim);
    complete(*claim);
  }
}

// No slot is left, and none will be released before the first claim in line is copied: it reads the rest of its rows by
// itself, and from now on there are fewer claims at once.
void Sweep::detach_first() {
  const std::shared_ptr<Claim> claim = admitted_.front();
  wanted_ -= claim->end() - claim->cursor + (claim->wrapped ? 0 : claim->start);
  remove_active(*claim);
  complete(*claim);
  ++stats_.stalls;
  size_.stall(admitted_.size());
}

// ---- Peers and figures

// A sweep that has no rows to come may go on anywhere: where its peers are.
void Sweep::meet_peers() {
  if (wanted_ > 0) return;
  const uint64_t there = peers_->meeting_point(segment_);
  if (there == segment_) return;
  segment_ = done_ = there;
  announce();
}

void Sweep::announce(bool held) {
  using State = SweepPeers::State;
  const State state = wanted_ == 0 ? State::kIdle : held ? State::kHeld : State::kMoving;
  while (done_ != segment_ && !reads_.is_busy(done_)) done_ = done_ + 1 == segments_.count ? 0 : done_ + 1;
  peers_->announce(state, segment_, (segment_ + segments_.count - done_) % segments_.count);
}

void Sweep::publish_stats() {
  stats_.held = rows_.capacity() - rows_.free();
  stats_.target = size_.target();
  stats_.read_seconds = before_.read_seconds + reads_.waited();
  stats_.rank_seconds = before_.rank_seconds + peers_->waited();
  stats_.bytes_read = before_.bytes_read + reads_.bytes_read();
  stats_.reads = before_.reads + reads_.reads();
  window_.set_stats(stats_);
}

}  // namespace gz

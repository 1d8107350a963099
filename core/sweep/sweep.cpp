// sweep: admits claims, plans segments, distributes rows that arrive. All state belongs to the sweep's thread.
#include "sweep/sweep.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace gz {
namespace {

constexpr size_t kAhead = 16;     // prefetch distance in tables
constexpr size_t kAtOnce = 8192;  // rows of a claim that are looked up before the disk is given more to do
constexpr uint64_t kCushion = 1;  // complete claims that may wait, or a sixteenth of all

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
      before_(window.stats()),
      stats_(before_),
      peers_(std::move(peers)),
      reads_(*window.file(), matrix_, reader ? std::move(reader) : peers_->reader(options.io), peers_->buffers(),
             segments_.count),
      planner_(matrix_, rows_, reads_, *peers_, options.gap, stats_),
      size_(options.target, options.most, before_.target, rows_.capacity()) {
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
  const Planned planned = may_pause() ? Planned::kPaused : plan_ahead();
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
    idle_ = planned == Planned::kPaused || wanted_ == 0;
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
  if (cancelling) drop_claims();
  return true;
}

// Claims that are being copied remain until they are released.
void Sweep::drop_claims() {
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

// Drops reads that were not started, and waits for those in flight.
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
    if (i % kAtOnce == kAtOnce - 1) keep_reading();
    if (i + kAhead < count) rows_.prefetch_slot(claim.value(i + kAhead));
    if (claim.has_slot(i)) rows_.release(claim.value(i));
  }
  std::erase_if(admitted_, [&](const auto& other) { return other.get() == &claim; });
}

// ---- Admission

// Admissions are evenly spaced over a circle, unless all claims fit at once.
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

// Shares the rows that are already in RAM, mostly nearly all: they move to the end in place, and the others, which stay
// in order, to the beginning.
void Sweep::share(Claim& claim) {
  absent_.clear();
  uint64_t* const words = claim.words();
  size_t to = claim.size();
  for (size_t i = claim.size(); i-- > 0;) {
    if (i % kAtOnce == 0) keep_reading();
    if (i >= 2 * kAhead) rows_.prefetch_entry(claim.value(i - 2 * kAhead));
    if (i >= kAhead) rows_.prefetch_slot_of(claim.value(i - kAhead));
    const uint32_t slot = rows_.find(claim.value(i));
    if (slot == HeldRows::kNone || rows_.is_loading(slot)) {
      absent_.push_back(words[i]);
    } else {
      rows_.use(slot, 1);
      words[--to] = uint64_t{slot} << 32 | claim.position(i);
    }
  }
  std::reverse_copy(absent_.begin(), absent_.end(), words);
  claim.wanted = claim.left = absent_.size();
  stats_.rows_shared += claim.size() - absent_.size();
}

void Sweep::complete(Claim& claim) {
  claim.complete();
  ready_(claim.number);
}

void Sweep::remove_active(const Claim& claim) {
  std::erase_if(active_, [&](const auto& other) { return other.get() == &claim; });
}

// The consumer is slower than the disk: a sweep that pauses makes fewer circles, each for more claims, and reads less.
bool Sweep::may_pause() const {
  if (!peers_->allow_pause()) return false;
  const size_t cushion = std::max(kCushion, size_.target() / 16);
  if (admitted_.size() <= cushion) return false;
  return std::all_of(admitted_.begin(), admitted_.begin() + static_cast<std::ptrdiff_t>(cushion) + 1,
                     [](const auto& claim) { return claim->is_complete(); });
}

// ---- Planning

// Plans segments until enough reads are queued, or none can be planned.
Sweep::Planned Sweep::plan_ahead() {
  while (wanted_ > 0) {
    if (reads_.is_saturated()) return Planned::kReads;
    if (peers_->must_wait(segment_)) return Planned::kPeersFirst;
    const Planned planned = plan_segment();
    if (planned == Planned::kFull || planned == Planned::kBusy) return planned;
    admit();
  }
  return Planned::kNothing;
}

Sweep::Planned Sweep::plan_segment() {
  if (reads_.is_busy(segment_)) return Planned::kBusy;  // from the previous circle, in a small file
  const auto rows = planner_.plan(segment_, active_);
  if (!rows) return Planned::kFull;
  wanted_ -= *rows;
  std::erase_if(active_, [&](const std::shared_ptr<Claim>& claim) {
    if (claim->left == 0 && !claim->is_complete()) complete(*claim);
    return claim->left == 0;
  });
  size_.note_held(rows_.capacity() - rows_.free());
  next_segment();
  announce();
  return Planned::kReads;
}

void Sweep::next_segment() {
  ++advanced_;
  if (advanced_ == segments_.count / 2 || advanced_ == segments_.count / 4 * 3) {  // of the first circle
    size_.estimate(static_cast<double>(advanced_) / static_cast<double>(segments_.count), admitted_.size());
  }
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

// In the middle of something long: takes what has arrived and starts what is planned. A claim of 400,000 rows takes
// some 30 ms to look up, in which a disk would run out of reads.
void Sweep::keep_reading() {
  reads_.start();
  if (reads_.in_flight() == 0) return;
  reads_.poll([&](const PlannedRead& read, const std::byte* data, const std::exception_ptr& error) {
    arrive(read, data, error);
  });
  reads_.start();
}

void Sweep::wait_for_reads(bool poll) {
  const auto arrived = [&](const PlannedRead& read, const std::byte* data, const std::exception_ptr& error) {
    arrive(read, data, error);
  };
  if (poll) {
    while (reads_.poll(arrived)) reads_.start();
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

// No slot is free, and none will be released before the first claim in line is copied: that claim is detached and reads
// its remaining rows directly, and fewer claims are admitted from now on.
void Sweep::detach_first() {
  const std::shared_ptr<Claim> claim = admitted_.front();
  wanted_ -= claim->end() - claim->cursor + (claim->wrapped ? 0 : claim->start);
  remove_active(*claim);
  complete(*claim);
  ++stats_.stalls;
  size_.stall(admitted_.size());
  publish_stats();
}

// ---- Peers and figures

// A sweep without wanted rows may continue at any segment: it continues where its peers are.
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

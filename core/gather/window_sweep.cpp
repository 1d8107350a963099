// window_sweep: take claims in, start reads, hand out what arrives; all bookkeeping is this thread's alone.
#include "gather/window_sweep.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/error.h"
#include "base/prefetch.h"

namespace gz {
namespace {

constexpr uint64_t kSegment = uint64_t{1} << 20;  // bytes of the file that are planned at a time
constexpr size_t kAhead = 16;                     // prefetch distance in tables
constexpr uint64_t kCushion = 1;                  // complete claims that may wait, or a sixteenth of all

uint64_t target_before(const WindowPost& post) {
  std::lock_guard lock(post.mutex);
  return post.stats.target;
}

const File& source_of(const MountedFile& file) { return file.direct() != nullptr ? *file.direct() : file.file(); }

}  // namespace

WindowSweep::WindowSweep(const FeatureFile& file, const Matrix& matrix, HeldRows& rows, WindowPost& post,
                         const RowWindow::SweepOptions& options, const RowWindow::Ready& ready)
    : file_(file),
      matrix_(matrix),
      rows_(rows),
      post_(post),
      options_(options),
      ready_(ready),
      segment_rows_(std::max<uint64_t>(kSegment / matrix.row_bytes, 1)),
      segments_(std::max<uint64_t>((matrix.rows + segment_rows_ - 1) / segment_rows_, 1)),
      others_(share_sweep()),
      reads_(
          file.file(), source_of(file.file()), reader(),
          [this](const PageReads::Read& read) {
            return text("row ", arrivals_[read.first].rows.front().row, " of '", matrix_.name, "'");
          },
          others_ ? others_->ring() : nullptr),
      size_(options.target, options.most, target_before(post), rows.capacity()),
      heads_(segment_rows_, kNoEntry),
      places_(segment_rows_, HeldRows::kNone),
      wanted_bits_((segment_rows_ + 63) / 64, 0),
      in_flight_(segments_, 0),
      arrivals_(reads_.depth()) {
  for (size_t i = 0; i < arrivals_.size(); ++i) free_arrivals_.push_back(i);
  std::lock_guard lock(post_.mutex);
  post_.sweeping = true;
  post_.released.clear();  // of the sweep before, if it failed
  stats_ = post_.stats;
  post_.stats.target = stats_.target = size_.target();
}

WindowSweep::~WindowSweep() {
  rows_.release_all();
  std::lock_guard lock(post_.mutex);
  post_.sweeping = post_.stopping = post_.forgetting = false;
  post_.offered.clear();
  post_.released.clear();
  post_.news.notify_all();
}

void WindowSweep::run() {
  bool idle = true;
  while (exchange_post(idle)) {
    admit();
    const Planned planned = has_enough() ? Planned::kEnough : plan_ahead();
    start_planned();
    idle = false;
    if (planned == Planned::kOthersFirst) {
      if (reads_.in_flight() > 0) wait_for_reads(true);
      others_->wait(options_.hungry && options_.hungry(), reads_.in_flight() > 0);
    } else if (reads_.in_flight() > 0) {
      wait_for_reads();
    } else if (planned == Planned::kFull) {
      if (!admitted_.front()->is_complete()) detach_first();
      idle = true;  // until the first claim in line is released
    } else if (planned == Planned::kEnough) {
      idle = true;
    } else {
      idle = wanted_ == 0;
    }
  }
  drop_planned();
}

// Reads that were not started bring nothing, those in flight come to their end.
void WindowSweep::drop_planned() {
  for (const Arrival& read : planned_) {
    for (const auto& [row, place] : read.rows) rows_.lose(place);
  }
  planned_.clear();
  while (reads_.in_flight() > 0) wait_for_reads();
}

bool WindowSweep::exchange_post(bool idle) {
  WindowPost::Claims offered, released;
  bool forgetting = false;
  {
    std::unique_lock lock(post_.mutex);
    if (idle) {
      tell_others(true);
      const bool room = admitted_.size() < size_.target() && wanted_ == 0;
      post_.news.wait(lock, [&] {
        return post_.stopping || post_.forgetting || !post_.released.empty() ||
               (room && !(post_.offered.empty() && offered_.empty()));
      });
    }
    if (post_.stopping) return false;
    offered.swap(post_.offered);
    released.swap(post_.released);
    forgetting = post_.forgetting;
  }
  for (const auto& claim : released) release(*claim);
  for (auto& claim : offered) offered_.push_back(std::move(claim));
  if (forgetting) forget_all();
  return true;
}

// Claims that are being delivered stay until they are released.
void WindowSweep::forget_all() {
  drop_planned();
  std::deque<std::shared_ptr<Claim>> kept;
  for (const auto& claim : offered_) claim->end_unless_delivering();
  for (const auto& claim : admitted_) {
    if (!claim->end_unless_delivering()) kept.push_back(claim);
  }
  for (const auto& claim : admitted_) {
    if (std::find(kept.begin(), kept.end(), claim) != kept.end()) continue;
    for (size_t i = 0; i < claim->size(); ++i) {
      if (claim->is_placed(i)) rows_.release(claim->value(i));
    }
  }
  offered_.clear();
  active_.clear();
  admitted_ = std::move(kept);
  wanted_ = 0;
  std::fill(in_flight_.begin(), in_flight_.end(), 0);
  std::lock_guard lock(post_.mutex);
  post_.forgetting = false;
  post_.news.notify_all();
}

void WindowSweep::release(Claim& claim) {
  const size_t count = claim.size();
  for (size_t i = 0; i < count; ++i) {
    if (i + kAhead < count) rows_.prefetch_place(claim.value(i + kAhead));
    if (claim.is_placed(i)) rows_.release(claim.value(i));
  }
  const auto at = std::find_if(admitted_.begin(), admitted_.end(), [&](const auto& c) { return c.get() == &claim; });
  if (at != admitted_.end()) admitted_.erase(at);
}

// Evenly spaced over the circle; a run that fits as a whole need not be.
bool WindowSweep::may_admit() const {
  if (offered_.empty() || admitted_.size() >= size_.target()) return false;
  return wanted_ == 0 || options_.claims <= size_.target() / 2 ||
         advanced_ - last_admission_ >= segments_ / size_.target();
}

void WindowSweep::admit() {
  if (!offered_.empty() && admitted_.size() >= size_.target()) size_.note_waiting();
  if (may_admit()) meet_others();
  while (may_admit()) {
    std::shared_ptr<Claim> claim = std::move(offered_.front());
    offered_.pop_front();
    share(*claim);
    const uint64_t first = segment_ * segment_rows_;
    const uint64_t* words = claim->words();
    claim->start = static_cast<size_t>(std::lower_bound(words, words + claim->wanted, first << 32) - words);
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
void WindowSweep::share(Claim& claim) {
  shared_.clear();
  uint64_t* words = claim.words();
  size_t kept = 0;
  for (size_t i = 0; i < claim.size(); ++i) {
    if (i + 2 * kAhead < claim.size()) rows_.prefetch_entry(claim.value(i + 2 * kAhead));
    if (i + kAhead < claim.size()) rows_.prefetch_place_of(claim.value(i + kAhead));
    const uint32_t place = rows_.find(claim.value(i));
    if (place == HeldRows::kNone || rows_.is_loading(place)) {
      words[kept++] = words[i];
    } else {
      rows_.use(place, 1);
      shared_.push_back(uint64_t{place} << 32 | claim.position(i));
    }
  }
  std::copy(shared_.begin(), shared_.end(), words + kept);
  claim.wanted = claim.left = kept;
  stats_.rows_shared += shared_.size();
}

void WindowSweep::complete(Claim& claim) {
  claim.complete();
  ready_(claim.number);
}

void WindowSweep::leave_active(const Claim& claim) {
  std::erase_if(active_, [&](const auto& other) { return other.get() == &claim; });
}

// Whoever takes the batches is slower than the disk: a sweep that waits for him passes fewer times, each time for more
// claims, and reads less. Ranks that share their reads go at the pace of the fastest.
bool WindowSweep::has_enough() const {
  if (others_) return false;
  const size_t cushion = std::max(kCushion, size_.target() / 16);
  if (admitted_.size() <= cushion) return false;
  return std::all_of(admitted_.begin(), admitted_.begin() + static_cast<std::ptrdiff_t>(cushion) + 1,
                     [](const auto& claim) { return claim->is_complete(); });
}

void WindowSweep::start_planned() {
  while (!planned_.empty() && !reads_.full()) {
    const size_t at = free_arrivals_.back();
    if (!reads_.start({planned_.front().offset, planned_.front().bytes, at, at + 1})) return;
    free_arrivals_.pop_back();
    arrivals_[at] = std::move(planned_.front());
    planned_.pop_front();
  }
}

void WindowSweep::wait_for_reads(bool poll) {
  const auto arrived = [&](const PageReads::Read& read, const std::byte* data) {
    arrive(arrivals_[read.first], data, nullptr);
    free_arrivals_.push_back(read.first);
  };
  const auto failed = [&](const PageReads::Read& read, const std::exception_ptr& error) {
    arrive(arrivals_[read.first], nullptr, error);
    free_arrivals_.push_back(read.first);
  };
  if (poll) {
    reads_.poll(arrived, failed);
  } else {
    rows_.populate_ahead();
    reads_.wait(arrived, failed);
  }
  tell_others();
  post_stats();
}

void WindowSweep::arrive(Arrival& read, const std::byte* data, const std::exception_ptr& error) {
  if (others_ && !error) others_->ring()->publish(read.offset, read.bytes, data);
  for (const auto& [row, place] : read.rows) {
    if (error) {
      rows_.lose(place);
    } else {
      std::memcpy(rows_.row(place), data + (offset_of(row) - read.offset), matrix_.row_bytes);
      rows_.arrived(place);
    }
  }
  if (!error) stats_.rows_read += read.rows.size();
  if (read.segment < in_flight_.size() && in_flight_[read.segment] > 0) --in_flight_[read.segment];
  for (const auto& [claim, rows] : read.waiting) {
    if (error) claim->error = error;
    claim->left -= rows;
    if (claim->left > 0) continue;
    leave_active(*claim);
    complete(*claim);
  }
  read.rows.clear();
  read.waiting.clear();
}

// No place is left, and nothing will be released before the first claim in line is delivered: it reads the rest of its
// rows by itself, and from now on there are fewer claims at once.
void WindowSweep::detach_first() {
  const std::shared_ptr<Claim> claim = admitted_.front();
  wanted_ -= claim->end() - claim->cursor + (claim->wrapped ? 0 : claim->start);
  leave_active(*claim);
  complete(*claim);
  ++stats_.stalls;
  size_.stall(admitted_.size());
}

void WindowSweep::post_stats() {
  stats_.held = rows_.capacity() - rows_.free();
  stats_.target = size_.target();
  std::lock_guard lock(post_.mutex);
  const uint64_t bytes = reads_.bytes_read(), reads = reads_.reads();
  post_.stats.target = size_.target();
  post_.stats.held = stats_.held;
  post_.stats.circles = stats_.circles;
  post_.stats.stalls = stats_.stalls;
  post_.stats.rows_read = stats_.rows_read;
  post_.stats.rows_shared = stats_.rows_shared;
  post_.stats.rows_taken = stats_.rows_taken;
  post_.stats.read_seconds = stats_.read_seconds + reads_.waited();
  if (others_) post_.stats.rank_seconds = stats_.rank_seconds + others_->waited();
  post_.stats.bytes_read = stats_.bytes_read + bytes;
  post_.stats.reads = stats_.reads + reads;
}

}  // namespace gz

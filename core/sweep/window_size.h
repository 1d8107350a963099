// window_size: how many claims a window admits at once, adapted to how full it was.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gz {

// The rule: a pass without stalls in which claims had to wait raises the number in proportion to the free slots, by at
// least one; a stall, when no slot was free for a row, lowers it by a sixteenth. Claims share rows, so n times the
// claims hold less than n times the rows, and the proportion does not overshoot. Claims are admitted evenly spaced, so
// the peak of the first pass is that of later ones. Overshooting by one step costs little: when the window is full, the
// claim that is read directly lacks only a few rows.
class WindowSize {
 public:
  // Starts with `target` claims, or with `learned` from an earlier sweep; never more than `most`. `capacity` is in
  // rows.
  WindowSize(uint64_t target, uint64_t most, uint64_t learned, uint64_t capacity)
      : most_(std::max({most, target, uint64_t{1}})),
        target_(std::clamp(learned, std::max<uint64_t>(target, 1), most_)),
        capacity_(capacity) {}

  uint64_t target() const { return target_; }

  // During a pass: the rows that claims hold now; a claim must wait because the limit of admitted claims is reached.
  void note_held(uint64_t rows) { peak_ = std::max(peak_, rows); }
  void note_waiting() { waited_ = true; }

  // No slot is free for a row, with so many claims admitted. A decrease takes one pass to show, so there is at most one
  // per pass.
  void stall(uint64_t claims) {
    if (stalled_) return;
    stalled_ = true;
    target_ = std::max<uint64_t>(std::min(claims, target_) * 15 / 16, kLeast);
  }

  // In the first pass, when a share `done` of it has passed and `claims` were admitted, evenly spaced. These have read
  // half of that share on average, so the rows of one claim, and with them the peak, can be estimated. Claims share
  // more rows the more there are, so the estimate errs on the safe side.
  void estimate(double done, uint64_t claims) {
    if (!stalled_ && claims > 0 && peak_ > 0) grow(done * static_cast<double>(claims), 0);
  }

  void end_circle() {
    if (!stalled_ && waited_ && peak_ > 0) grow(static_cast<double>(target_), 1);
    peak_ = 0;
    stalled_ = waited_ = false;
  }

 private:
  // `claims` held the peak: so many fit in proportion.
  void grow(double claims, uint64_t least) {
    const double room = kFull * static_cast<double>(capacity_) / static_cast<double>(peak_);
    const auto fit = static_cast<uint64_t>(std::min(claims * room, 1e18));
    target_ = std::min(std::max(fit, target_ + least), most_);
  }

  static constexpr double kFull = 0.96;  // of the slots: passes differ a little
  static constexpr uint64_t kLeast = 2;  // claims: one is copied while the other is read

  const uint64_t most_;
  uint64_t target_;
  const uint64_t capacity_;
  uint64_t peak_ = 0;  // of this pass, as are the next two
  bool waited_ = false, stalled_ = false;
};

}  // namespace gz

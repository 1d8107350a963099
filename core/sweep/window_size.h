// window_size: how many claims a window admits at once, learned from how full it was.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gz {

// The one rule: a calm circle in which claims had to wait raises the number in proportion to the room that was left,
// and by one at least; a stall, when no slot was left for a row, lowers it by a sixteenth. Claims share rows, so n
// times the claims hold less than n times the rows: the proportion does not overshoot. Claims are admitted evenly
// spaced, so the peak of the first circle is already that of later ones. Going one step too far costs little: when the
// window is full, the claim that is read by itself lacks but a few rows.
class WindowSize {
 public:
  // Starts with `target` claims, or with `learned` by a sweep before; never more than `most`. `capacity` is in rows.
  WindowSize(uint64_t target, uint64_t most, uint64_t learned, uint64_t capacity)
      : most_(std::max({most, target, uint64_t{1}})),
        target_(std::clamp(learned, std::max<uint64_t>(target, 1), most_)),
        capacity_(capacity) {}

  uint64_t target() const { return target_; }

  // During a circle: the rows that claims hold now; a claim must wait because as many as allowed are admitted.
  void note_held(uint64_t rows) { peak_ = std::max(peak_, rows); }
  void note_waiting() { waited_ = true; }

  // There is no slot for a row, with so many claims admitted. One decrease takes a circle to show, so there is one a
  // circle at most.
  void stall(uint64_t claims) {
    if (stalled_) return;
    stalled_ = true;
    target_ = std::max<uint64_t>(std::min(claims, target_) * 15 / 16, kLeast);
  }

  void end_circle() {
    if (!stalled_ && waited_ && peak_ > 0) {
      const double room = kFull * static_cast<double>(capacity_) / static_cast<double>(peak_);
      const auto fit = static_cast<uint64_t>(std::min(static_cast<double>(target_) * room, 1e18));
      target_ = std::min(std::max(fit, target_ + 1), most_);
    }
    peak_ = 0;
    stalled_ = waited_ = false;
  }

 private:
  static constexpr double kFull = 0.96;  // of the slots: circles differ a little
  static constexpr uint64_t kLeast = 2;  // claims: one is copied while the other is read

  const uint64_t most_;
  uint64_t target_;
  const uint64_t capacity_;
  uint64_t peak_ = 0;  // of this circle, as are the next two
  bool waited_ = false, stalled_ = false;
};

}  // namespace gz

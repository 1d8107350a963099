// segment_planner: collects the wanted rows of a segment, assigns slots, and plans the reads.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "sweep/claim.h"
#include "sweep/held_rows.h"
#include "sweep/planned_reads.h"
#include "sweep/segment_rows.h"
#include "sweep/sweep_peers.h"

namespace gz {

class SegmentPlanner {
 public:
  using Claims = std::span<const std::shared_ptr<Claim>>;

  // `gap`: bytes worth reading to save a request. Everything passed by reference must outlive the planner.
  SegmentPlanner(const Matrix& matrix, HeldRows& rows, PlannedReads& reads, SweepPeers& peers, uint64_t gap,
                 WindowStats& stats);

  // Plans all rows that the claims want from a segment and moves their cursors past it; returns the number of rows,
  // summed over claims. Does nothing and returns nothing if too few slots are free.
  std::optional<size_t> plan(uint64_t segment, Claims claims);

 private:
  bool fits();
  void use_held_rows(Claims claims);
  void plan_reads(uint64_t segment, Claims claims);
  void add_to(PlannedRead& read, uint32_t row, uint32_t slot, Claims claims);
  bool take_from_peers(uint32_t row, uint32_t slot, Claims claims);

  uint64_t offset_of(uint64_t row) const { return matrix_.offset + row * matrix_.row_bytes; }

  const Matrix& matrix_;
  HeldRows& rows_;
  PlannedReads& reads_;
  SweepPeers& peers_;
  const uint64_t gap_;
  WindowStats& stats_;
  const uint64_t segment_rows_;
  SegmentRows wanted_;        // claims by their index in the caller's list
  uint64_t first_ = 0;        // row of the segment
  uint64_t read_number_ = 0;  // of the last one that was planned
};

}  // namespace gz

// segment_planner: which rows of a segment are wanted, which slots they get, and the reads that bring them.
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

  // `gap`: bytes worth reading over to save a request. All that is referred to outlives it.
  SegmentPlanner(const Matrix& matrix, HeldRows& rows, PlannedReads& reads, SweepPeers& peers, uint64_t gap,
                 WindowStats& stats);

  // Plans all that the claims want of a segment, and moves their cursors past it; returns how many rows of claims that
  // is. Nothing is done, and nothing returned, where there are too few slots.
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
  SegmentRows wanted_;        // claims are counted as the caller's
  uint64_t first_ = 0;        // row of the segment
  uint64_t read_number_ = 0;  // of the last one that was planned
};

}  // namespace gz

// segment_planner: rows that are in RAM first, then those that peers have, then reads.
#include "sweep/segment_planner.h"

#include <algorithm>
#include <utility>

#include "base/checked.h"
#include "base/error.h"
#include "base/prefetch.h"

namespace gz {
namespace {

constexpr size_t kRowsAhead = 16, kClaimsAhead = 4;  // prefetch distances

}  // namespace

PlannedReads::PlannedReads(const FeatureFile& file, const Matrix& matrix, std::shared_ptr<Reader> reader,
                           std::shared_ptr<ReadBuffers> buffers, uint64_t segments)
    : started_(reader->depth()),
      by_segment_(segments, 0),
      reads_(
          file.file(), file.file().preferred(), std::move(reader),
          [this, name = matrix.name](const PageReads::Read& read) {
            return text("row ", started_[read.first].rows.front().row, " of '", name, "'");
          },
          std::move(buffers)) {
  for (size_t i = 0; i < started_.size(); ++i) free_.push_back(i);
}

void PlannedReads::start() {
  while (!planned_.empty() && !reads_.full()) {
    const size_t at = free_.back();
    if (!reads_.start({planned_.front().offset, planned_.front().bytes, at, at + 1})) return;
    free_.pop_back();
    started_[at] = std::move(planned_.front());
    planned_bytes_ -= started_[at].bytes;
    planned_.pop_front();
  }
}

SegmentPlanner::SegmentPlanner(const Matrix& matrix, HeldRows& rows, PlannedReads& reads, SweepPeers& peers,
                               uint64_t gap, WindowStats& stats)
    : matrix_(matrix),
      rows_(rows),
      reads_(reads),
      peers_(peers),
      gap_(gap),
      stats_(stats),
      segment_rows_(Segments(matrix).rows),
      wanted_(segment_rows_) {}

std::optional<size_t> SegmentPlanner::plan(uint64_t segment, Claims claims) {
  first_ = segment * segment_rows_;
  const uint64_t end = std::min(first_ + segment_rows_, matrix_.rows);
  wanted_.clear();
  for (uint32_t c = 0; c < claims.size(); ++c) {
    if (c + 2 * kClaimsAhead < claims.size()) prefetch(&claims[c + 2 * kClaimsAhead]->cursor);
    if (c + kClaimsAhead < claims.size()) claims[c + kClaimsAhead]->prefetch_words();
    const Claim& claim = *claims[c];
    for (size_t i = claim.cursor; i < claim.end() && claim.value(i) < end; ++i) {
      wanted_.add(static_cast<uint32_t>(claim.value(i) - first_), c, static_cast<uint32_t>(i));
    }
  }
  if (!fits()) return std::nullopt;
  use_held_rows(claims);
  plan_reads(segment, claims);
  for (const auto& entry : wanted_.entries()) ++claims[entry.claim]->cursor;
  return wanted_.entries().size();
}

// Finds the rows that are in RAM. The others need slots, and so do those in RAM that no claim holds.
bool SegmentPlanner::fits() {
  const auto rows = wanted_.list();
  for (const uint32_t row : rows) rows_.prefetch_entry(first_ + row);
  for (const uint32_t row : rows) rows_.prefetch_slot_of(first_ + row);
  size_t needed = 0;
  for (const uint32_t row : rows) {
    const uint32_t slot = rows_.find(first_ + row);
    wanted_.set_slot(row, slot);
    needed += slot == HeldRows::kNone || rows_.is_unused(slot) ? 1 : 0;
  }
  return needed <= rows_.free();
}

// Before assigning slots to other rows, which must not evict these.
void SegmentPlanner::use_held_rows(Claims claims) {
  for (const uint32_t row : wanted_.rows()) {
    const uint32_t slot = wanted_.slot(row);
    if (slot == HeldRows::kNone) continue;
    wanted_.for_each_entry(row, [&](const SegmentRows::Entry& entry) {
      Claim& claim = *claims[entry.claim];
      claim.set_slot(entry.word, slot);
      rows_.use(slot, 1);
      --claim.left;
      ++stats_.rows_shared;
    });
  }
}

void SegmentPlanner::plan_reads(uint64_t segment, Claims claims) {
  const auto rows = wanted_.rows();
  const bool peers_have = peers_.find(offset_of(first_), offset_of(std::min(first_ + segment_rows_, matrix_.rows)));
  PlannedRead read;
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint32_t row = rows[i];
    if (i + kRowsAhead < rows.size()) rows_.prefetch_entry(first_ + rows[i + kRowsAhead]);
    if (wanted_.slot(row) != HeldRows::kNone) continue;
    uint32_t uses = 0;
    wanted_.for_each_entry(row, [&](const SegmentRows::Entry&) { ++uses; });
    const uint32_t slot = rows_.take(first_ + row, uses);
    if (peers_have && take_from_peers(row, slot, claims)) continue;
    const uint64_t begin = offset_of(first_ + row) & ~(kPageBytes - 1);
    const uint64_t end = round_up(offset_of(first_ + row) + matrix_.row_bytes, kPageBytes);
    const bool is_far = begin > read.offset + read.bytes + gap_ || end - read.offset > reads_.most_bytes();
    if (is_far && !read.rows.empty()) reads_.add(std::exchange(read, {}));
    if (read.rows.empty()) {
      read.offset = begin;
      read.segment = segment;
      read.number = ++read_number_;
    }
    read.bytes = static_cast<uint32_t>(end - read.offset);
    add_to(read, row, slot, claims);
  }
  if (!read.rows.empty()) reads_.add(std::move(read));
}

void SegmentPlanner::add_to(PlannedRead& read, uint32_t row, uint32_t slot, Claims claims) {
  read.rows.push_back({static_cast<uint32_t>(first_ + row), slot});
  wanted_.for_each_entry(row, [&](const SegmentRows::Entry& entry) {
    Claim& claim = *claims[entry.claim];
    claim.set_slot(entry.word, slot);
    if (claim.last_read != read.number) {
      claim.last_read = read.number;
      claim.last_waiting = static_cast<uint32_t>(read.waiting.size());
      read.waiting.push_back({&claim, 0});
    }
    ++read.waiting[claim.last_waiting].rows;
  });
}

bool SegmentPlanner::take_from_peers(uint32_t row, uint32_t slot, Claims claims) {
  if (!peers_.copy(offset_of(first_ + row), matrix_.row_bytes, rows_.row(slot))) return false;
  rows_.arrived(slot);
  ++stats_.rows_taken;
  wanted_.for_each_entry(row, [&](const SegmentRows::Entry& entry) {
    Claim& claim = *claims[entry.claim];
    claim.set_slot(entry.word, slot);
    --claim.left;
  });
  return true;
}

}  // namespace gz

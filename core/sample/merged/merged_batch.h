// merged_batch: one batch of a group while it is made: its rows, its edges, and what is still to be read.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <type_traits>

#include "base/memory.h"
#include "sample/merged/merged.h"
#include "sample/subgraph/choose.h"
#include "sample/subgraph/growing.h"

namespace gz {

constexpr uint64_t kShortRow = 512;             // edges: their ids are read together, being on one page or two
constexpr uint64_t kRowPart = 1024;             // of a longer row whose neighbours are all read
constexpr uint64_t kTaken = uint64_t{1} << 63;  // marks an edge id, which has taken the place of a position

// The bounds of a row in the file, and the first of its edges among those of the hop; a subgraph has below 2^31.
struct MergedRow {
  uint64_t begin, degree;
  uint32_t start;
};

// Place: of positions, int64_t, or uint32_t where they fit and no edge ids take their place.
template <class Csr, class Place>
struct HopBatch {
  using Id = typename Csr::Id;
  static constexpr Place kNotChosen = static_cast<Place>(-1);  // in place of a position, until the row is read

  HopBatch(const MergedBatch& batch, const SampleOptions& all)
      : number(batch.number),
        num_seeds(batch.seeds.size()),
        owner(batch.owner),
        options(all),
        graph(batch.seeds, all, 1) {
    options.seed = batch.seed;
    options.exclude = batch.exclude != nullptr && !batch.exclude->empty() ? batch.exclude : nullptr;
    options.dependent = batch.dependent;
  }

  // Whether it was begun for this one.
  bool is(const MergedBatch& batch) const {
    return number == batch.number && options.seed == batch.seed && options.dependent == batch.dependent &&
           std::ranges::equal(batch.seeds, std::span<const int64_t>(graph.node, num_seeds));
  }

  const uint64_t number;
  const size_t num_seeds;
  const std::shared_ptr<const void> owner;
  SampleOptions options;
  GrowingSubgraph graph;
  size_t hop = 0;       // the next one
  size_t frontier = 0;  // nodes from here on were reached in the previous hop
  // Of the hop in the making:
  std::optional<RowChooser<Csr>> chooser;
  std::span<MergedRow> rows;
  size_t edges = 0;
  std::shared_ptr<Buffer> memory;  // of these, one per edge:
  Place* chosen = nullptr;         // its position, then its id, where that is wanted, and kTaken
  Id* neighbours = nullptr;

  uint64_t node_of(size_t row) const { return static_cast<uint64_t>(graph.node[frontier + row]); }
  size_t end_of(size_t row) const { return row + 1 < rows.size() ? rows[row + 1].start : edges; }

  static bool is_taken(Place place) { return std::is_signed_v<Place> && place < 0; }

  // Whether a row waits for its neighbours to be chosen from.
  bool is_unread(const MergedRow& row, size_t end) const { return row.start < end && chosen[row.start] == kNotChosen; }

  // What is read is numbered: a short row with all its edges has its own number; an edge of a long row a number after
  // those of rows; and a part of a long row whose neighbours are all read, one after those of edges.
  struct LongRow {
    uint32_t row;
    uint64_t first_part;
  };
  std::shared_ptr<Buffer> long_memory;
  std::span<const LongRow> long_rows;
  size_t num_parts = 0;  // of all of them

  // Calls emit(place, number) for each. The same every time, also when some were read already.
  template <class Emit>
  void each_read(const Emit& emit) const {
    auto next_long = long_rows.begin();
    for (size_t i = 0; i < rows.size(); ++i) {
      const MergedRow& row = rows[i];
      const size_t end = end_of(i);
      if (row.start == end) continue;
      if (row.degree <= kShortRow) {
        emit(row.begin, i);
      } else if (next_long != long_rows.end() && next_long->row == i) {
        size_t number = rows.size() + edges + next_long++->first_part;
        for (uint64_t at = 0; at < row.degree; at += kRowPart) emit(row.begin + at, number++);
      } else {
        for (size_t e = row.start; e < end; ++e) {
          if (!is_taken(chosen[e])) emit(static_cast<uint64_t>(chosen[e]), rows.size() + e);
        }
      }
    }
  }
  size_t most_numbers() const { return rows.size() + edges + num_parts; }

  // Once all rows are laid out; and when all neighbours were read.
  void list_long_rows() {
    size_t count = 0;
    const auto each = [&](const auto& use) {
      for (size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].degree > kShortRow && is_unread(rows[i], end_of(i))) use(i);
      }
    };
    each([&](size_t) { ++count; });
    forget_long_rows();
    if (count == 0) return;
    LongRow* const listed = room_for<LongRow>(long_memory, count);
    long_rows = {listed, count};
    LongRow* at = listed;
    each([&](size_t i) {
      *at++ = {static_cast<uint32_t>(i), num_parts};
      num_parts += static_cast<size_t>((rows[i].degree + kRowPart - 1) / kRowPart);
    });
  }
  void forget_long_rows() {
    long_rows = {};
    num_parts = 0;
  }

  // The row of a number past those of edges.
  LongRow row_of_part(size_t number) const {
    const uint64_t part = number - rows.size() - edges;
    const auto after = [](uint64_t wanted, const LongRow& row) { return wanted < row.first_part; };
    return *(std::upper_bound(long_rows.begin(), long_rows.end(), part, after) - 1);
  }

  // The values that a number wants, from its place on.
  uint64_t length_of(size_t number) const {
    if (number < rows.size()) return rows[number].degree;
    if (number < rows.size() + edges) return 1;
    const LongRow found = row_of_part(number);
    const uint64_t before = (number - rows.size() - edges - found.first_part) * kRowPart;
    return std::min(kRowPart, rows[found.row].degree - before);
  }
};

}  // namespace gz

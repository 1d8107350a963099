// topology: an open .gl file as compressed rows that kernels can walk.
//
// The file may never have been verified: row() checks what it reads from indptr, and kernels check a neighbour id
// before they use it as an index. So no content leads out of bounds; a fault is a FormatError that names the row.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/error.h"
#include "storage/mounted.h"

namespace gz {

enum class TopologyIo {
  kAuto,  // pages that are not in RAM are requested ahead, many at a time
  kMmap,  // plain page faults, one at a time: what kAuto is measured against
};

// Throws FormatError for a row or neighbour that cannot be, naming `verify`.
[[noreturn]] void fail_row(const MountedFile& file, uint64_t node, uint64_t begin, uint64_t end);
[[noreturn]] void fail_neighbour(const MountedFile& file, uint64_t position, uint64_t neighbour, uint64_t limit);
[[noreturn]] void fail_edge_id(const MountedFile& file, uint64_t position, uint64_t id);

// The rows of a topology with deltas that are not where the base has them (FORMAT 9). For every 64 nodes, `index` has a
// word of bits, set for rows that changed, and the number of changed rows before those nodes.
struct ChangedRows {
  const uint64_t* index = nullptr;  // null without deltas
  // Four numbers for every changed row: its first position, the one after its last, where it starts among all edges in
  // order, and by how much rows after it start later than in the base.
  const uint64_t* table = nullptr;
  uint64_t count = 0;
  uint64_t base_rows = 0;  // rows that the base has: all of them without deltas

  explicit operator bool() const { return index != nullptr; }
  bool has(uint64_t node) const { return (index[2 * (node >> 6)] >> (node & 63) & 1) != 0; }
  uint64_t shift(uint64_t before) const {  // of a row with so many changed rows before it
    return before == 0 ? 0 : table[4 * std::min(before, count) - 1];
  }
  uint64_t before(uint64_t node) const {  // changed rows of lower nodes
    const uint64_t* word = index + 2 * (node >> 6);
    return word[1] + bits_of(word[0] & ((uint64_t{1} << (node & 63)) - 1));
  }

 private:
  // As std::popcount, which is a call where the processor may lack the instruction.
  static uint64_t bits_of(uint64_t x) {
    x -= x >> 1 & 0x5555555555555555;
    x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
    return ((x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f) * 0x0101010101010101 >> 56;
  }
};

// One direction of a topology. Pointers reach into the mapping that `file` keeps alive; null where the file lacks them.
template <class IdType>
struct Csr {
  using Id = IdType;  // uint32_t or uint64_t: width of a neighbour id on disk

  const MountedFile* file = nullptr;
  uint64_t num_nodes = 0, num_edges = 0;  // num_nodes: rows
  uint64_t num_others = 0;                // nodes at the other end: neighbour ids are below it
  uint64_t limit = 0;                     // of positions: num_edges, or more with deltas
  const uint64_t* indptr = nullptr;
  const Id* indices = nullptr;
  const float* weights = nullptr;
  const double* cumulative = nullptr;  // running sum of weights within each row, the row's total last
  const int64_t* times = nullptr;
  const uint32_t* edge_ids32 = nullptr;  // at most one of the two widths
  const uint64_t* edge_ids64 = nullptr;
  const uint32_t* by_time32 = nullptr;  // positions within the row, by ascending time
  const uint64_t* by_time64 = nullptr;
  bool sorted = false;  // rows ascend by neighbour id
  ChangedRows changed;

  struct Row {
    uint64_t begin, end;
    uint64_t degree() const { return end - begin; }
  };

  Row row(uint64_t node) const {  // node < num_nodes is the caller's promise
    if (changed) [[unlikely]]
      return changed_row(node);
    return checked(node, indptr + node);
  }

  // The two numbers that say where the row is.
  const uint64_t* bounds_of(uint64_t node) const {
    if (changed) [[unlikely]]
      return changed_bounds(node);
    return indptr + node;
  }

  // Where the row starts among all edges in order, without those of the base that were replaced; node <= num_nodes.
  uint64_t start_of(uint64_t node) const {
    if (changed) [[unlikely]]
      return changed_start(node);
    return indptr[node];
  }

  // For kernels that look up many rows of a topology with deltas: where the bounds of a row are, and where to find how
  // much later its edges are among all edges in order than by position. Reads the index alone.
  struct Found {
    const uint64_t* bounds;
    const uint64_t* shift;
    bool changed;
  };
  Found find(uint64_t node) const {
    const bool is_changed = changed.has(node);
    const uint64_t before = changed.before(node);
    if (is_changed ? before >= changed.count : before > changed.count || node >= changed.base_rows) [[unlikely]] {
      fail_row(*file, node, limit, limit);
    }
    static constexpr uint64_t kNone = 0;
    if (is_changed) return {changed.table + 4 * before, changed.table + 4 * before + 2, true};
    return {indptr + node, before == 0 ? &kNone : changed.table + 4 * before - 1, false};
  }
  Row row(uint64_t node, const Found& found) const { return checked(node, found.bounds); }
  // What to add to positions of the row for places among all edges in order.
  static uint64_t shift_of(const Found& found) { return found.changed ? *found.shift - *found.bounds : *found.shift; }

  uint64_t neighbour(uint64_t position) const {  // position inside a row
    const uint64_t id = indices[position];
    if (id >= num_others) [[unlikely]] {
      fail_neighbour(*file, position, id, num_others);
    }
    return id;
  }

  // The node whose row holds the edge at `place` among all edges in order; the last one for a place past the end.
  uint64_t node_at(uint64_t place) const {
    if (num_nodes == 0) fail_row(*file, 0, place, limit);
    uint64_t low = 0, high = num_nodes - 1;
    while (low < high) {
      const uint64_t middle = low + (high - low) / 2;
      if (start_of(middle + 1) > place) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  bool has_edge_ids() const { return edge_ids32 != nullptr || edge_ids64 != nullptr; }
  // The user's own number of the edge at `position`; only where has_edge_ids().
  uint64_t stored_edge_id(uint64_t position) const {
    return edge_ids32 != nullptr ? edge_ids32[position] : edge_ids64[position];
  }
  // Where the edge at `position`, in the row of `node` that begins at `begin`, is among all edges in order.
  uint64_t place_of(uint64_t node, uint64_t begin, uint64_t position) const {
    return changed ? start_of(node) + (position - begin) : position;
  }
  // The edge's own number where the file keeps those, otherwise its place.
  uint64_t edge_id(uint64_t node, uint64_t begin, uint64_t position) const {
    return has_edge_ids() ? stored_edge_id(position) : place_of(node, begin, position);
  }
  bool has_times() const { return times != nullptr && (by_time32 != nullptr || by_time64 != nullptr); }
  uint64_t by_time(uint64_t position) const { return by_time32 != nullptr ? by_time32[position] : by_time64[position]; }

 private:
  Row checked(uint64_t node, const uint64_t* bounds) const {
    const uint64_t begin = bounds[0], end = bounds[1];
    if (begin > end || end > limit) [[unlikely]] {
      fail_row(*file, node, begin, end);
    }
    return {begin, end};
  }

  // Not inline, so that they cost files without deltas nothing but a test (benchmarks/append).
  Row changed_row(uint64_t node) const;
  const uint64_t* changed_bounds(uint64_t node) const;
  uint64_t changed_start(uint64_t node) const;
};

extern template struct Csr<uint32_t>;
extern template struct Csr<uint64_t>;

class Topology {
 public:
  // `deltas`, oldest first, belong to it: the topology is that of all of them.
  static std::shared_ptr<const Topology> open(const std::string& path, std::span<const std::string> deltas = {});
  static std::shared_ptr<const Topology> of(std::shared_ptr<const MountedFile> file);  // a file of Kind::kTopology

  const MountedFile& file() const { return *file_; }
  const std::shared_ptr<const MountedFile>& shared_file() const { return file_; }
  uint64_t num_nodes() const { return file_->container().num_nodes; }  // of a square one
  uint64_t num_sources() const { return file_->container().sources(); }
  uint64_t num_targets() const { return file_->container().targets(); }
  uint64_t num_rows(Direction wanted) const {
    return resolve(wanted) == Direction::kOut ? num_sources() : num_targets();
  }
  bool square() const { return num_sources() == num_targets(); }
  // Throws ArgumentError for a rectangular topology; `what` is what cannot be done with one, as in "walks need".
  void need_square(const char* what) const;
  uint64_t num_edges() const { return file_->container().num_edges; }
  Direction direction() const { return file_->container().direction; }
  bool wide() const { return wide_; }  // 64-bit neighbour ids

  // `wanted` if the file has it, the file's first (out before in) for kNone; throws ArgumentError otherwise.
  Direction resolve(Direction wanted) const;

  // Calls f(const Csr<uint32_t>&) or f(const Csr<uint64_t>&): the one place where id width is dispatched.
  template <class F>
  decltype(auto) visit(Direction wanted, F&& f) const {
    const bool out = resolve(wanted) == Direction::kOut;
    if (wide_) return f(out ? out64_ : in64_);
    return f(out ? out32_ : in32_);
  }

 private:
  Topology() = default;
  std::shared_ptr<const MountedFile> file_;
  bool wide_ = false;
  Csr<uint32_t> out32_, in32_;
  Csr<uint64_t> out64_, in64_;
};

}  // namespace gz

// topology: an open .gl file as compressed rows that kernels can walk.
//
// The file may never have been verified: row() checks what it reads from indptr, and kernels check a neighbour id
// before they use it as an index. So no content leads out of bounds; a fault is a FormatError that names the row.
#pragma once

#include <algorithm>
#include <bit>
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
  const uint64_t* index = nullptr;   // null without deltas
  const uint64_t* bounds = nullptr;  // begin and end of every changed row
  const int64_t* shift = nullptr;    // by how much rows start later than in the base, after so many changed rows
  uint64_t count = 0;
  uint64_t base_rows = 0;  // rows that the base has: all of them without deltas

  explicit operator bool() const { return index != nullptr; }
  bool has(uint64_t node) const { return (index[2 * (node >> 6)] >> (node & 63) & 1) != 0; }
  uint64_t before(uint64_t node) const {  // changed rows of lower nodes
    const uint64_t* word = index + 2 * (node >> 6);
    return word[1] + static_cast<uint64_t>(std::popcount(word[0] & ((uint64_t{1} << (node & 63)) - 1)));
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
    const uint64_t* bounds = bounds_of(node);
    const uint64_t begin = bounds[0], end = bounds[1];
    if (begin > end || end > limit) [[unlikely]] {
      fail_row(*file, node, begin, end);
    }
    return {begin, end};
  }

  // The two numbers that say where the row is.
  const uint64_t* bounds_of(uint64_t node) const {
    if (changed) [[unlikely]]
      return changed_bounds_of(node);
    return indptr + node;
  }

  // Where the row starts among all edges in order, without those of the base that were replaced; node <= num_nodes.
  uint64_t start_of(uint64_t node) const {
    if (!changed) return indptr[node];
    const uint64_t before = std::min(changed.before(node), changed.count);
    return indptr[std::min(node, changed.base_rows)] + static_cast<uint64_t>(changed.shift[before]);
  }

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
  const uint64_t* changed_bounds_of(uint64_t node) const {
    const bool is_changed = changed.has(node);
    const uint64_t place = is_changed ? changed.before(node) : node;
    if (place >= (is_changed ? changed.count : changed.base_rows)) [[unlikely]] {
      fail_row(*file, node, limit, limit);
    }
    return is_changed ? changed.bounds + 2 * place : indptr + node;
  }
};

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

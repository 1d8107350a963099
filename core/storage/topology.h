// topology: an open .gl file as compressed rows that kernels can walk.
//
// The file may never have been verified: row() checks what it reads from indptr, and kernels check a neighbour id
// before they use it as an index. So no content leads out of bounds; a fault is a FormatError that names the row.
#pragma once

#include <cstdint>
#include <memory>
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

// One direction of a topology. Pointers reach into the mapping that `file` keeps alive; null where the file lacks them.
template <class IdType>
struct Csr {
  using Id = IdType;  // uint32_t or uint64_t: width of a neighbour id on disk

  const MountedFile* file = nullptr;
  uint64_t num_nodes = 0, num_edges = 0;  // num_nodes: rows
  uint64_t num_others = 0;                // nodes at the other end: neighbour ids are below it
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

  struct Row {
    uint64_t begin, end;
    uint64_t degree() const { return end - begin; }
  };

  Row row(uint64_t node) const {  // node < num_nodes is the caller's promise
    const uint64_t begin = indptr[node], end = indptr[node + 1];
    if (begin > end || end > num_edges) [[unlikely]] {
      fail_row(*file, node, begin, end);
    }
    return {begin, end};
  }

  uint64_t neighbour(uint64_t position) const {  // position inside a row
    const uint64_t id = indices[position];
    if (id >= num_others) [[unlikely]] {
      fail_neighbour(*file, position, id, num_others);
    }
    return id;
  }

  bool has_edge_ids() const { return edge_ids32 != nullptr || edge_ids64 != nullptr; }
  // The user's own number of the edge at `position`, the position itself where the file keeps none.
  uint64_t edge_id(uint64_t position) const {
    if (edge_ids32 != nullptr) return edge_ids32[position];
    return edge_ids64 != nullptr ? edge_ids64[position] : position;
  }
  bool has_times() const { return times != nullptr && (by_time32 != nullptr || by_time64 != nullptr); }
  uint64_t by_time(uint64_t position) const { return by_time32 != nullptr ? by_time32[position] : by_time64[position]; }
};

class Topology {
 public:
  static std::shared_ptr<const Topology> open(const std::string& path);
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

// topology_delta: the checks, the edges of each side, and the file.
#include "compile/append/topology_delta.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>

#include "base/error.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/threads.h"
#include "compile/append/side_delta.h"
#include "compile/build/graph_builder.h"

namespace gz {
namespace {

constexpr uint64_t kNarrow = uint64_t{1} << 32;
constexpr uint64_t kEdgeBytes = 64;  // of an added or removed edge in memory, per direction
constexpr size_t kSlice = size_t{1} << 14;

// Calls f(position) for every edge of these rows, in parallel.
template <class Id, class F>
void for_edges(const Csr<Id>& csr, int threads, const F& f) {
  parallel_for(csr.num_nodes, kSlice, threads, [&](size_t begin, size_t end, int) {
    for (size_t node = begin; node < end; ++node) {
      const auto row = csr.row(node);
      for (uint64_t p = row.begin; p < row.end; ++p) f(node, p);
    }
  });
}

// The first edge id that was never used.
uint64_t next_edge_id(const Topology& topology, int threads) {
  const Container& c = topology.file().container();
  if (c.delta) return c.delta->next_edge_id;
  std::atomic<uint64_t> next{0};
  topology.visit(Direction::kNone, [&](const auto& csr) {
    parallel_for(csr.limit, size_t{1} << 20, threads, [&](size_t begin, size_t end, int) {
      uint64_t most = 0;
      for (size_t p = begin; p < end; ++p) most = std::max(most, csr.stored_edge_id(p));
      raise_to(next, most + 1);
    });
  });
  return next;
}

class Delta {
 public:
  Delta(const Topology& topology, const TopologyChange& change, const AppendOptions& options)
      : topology_(topology),
        c_(topology.file().container()),
        path_(topology.file().path()),
        change_(change),
        options_(options),
        undirected_((c_.properties & kUndirected) != 0) {
    topology.visit(Direction::kNone, [&](const auto& csr) {
      has_ids_ = csr.has_edge_ids();
      has_weights_ = csr.weights != nullptr;
      has_times_ = csr.times != nullptr;
      narrow_ids_ = csr.edge_ids32 != nullptr;
    });
  }

  DeltaReport write(const std::string& out) {
    check();
    plan();
    Container container;
    container.kind = Kind::kTopology;
    container.num_nodes = change_.num_sources;
    container.num_targets = change_.num_targets;
    container.num_edges = sides_.front()->edges;
    container.direction = c_.direction;
    container.properties = c_.properties;
    const auto& deltas = topology_.file().deltas();
    const uint64_t parent = deltas.empty() ? c_.identity() : deltas.back()->container().identity();
    container.delta = {parent, deltas.size() + 1, next_id_};
    for (const auto& side : sides_) side->declare(container);
    declare_removed(container);
    ContainerWriter writer(out, std::move(container));
    for (const auto& side : sides_) side->write(writer, options_);
    write_removed(writer);
    topology_.file().check();
    report_.bytes = writer.finish(options_.threads, options_.progress);
    report_.nodes = change_.num_sources;
    report_.targets = change_.num_targets;
    report_.edges = sides_.front()->edges;
    if (has_ids_) report_.next_edge_id = next_id_;
    return report_;
  }

 private:
  void check() const {
    const auto& s = change_.sources;
    if (c_.major == 0 || (c_.properties & kSortedRows) == 0) {
      fail<ArgumentError>(path_, ": edges can be appended only to files with sorted rows; compile it again first");
    }
    if (change_.num_sources < c_.sources() || change_.num_targets < c_.targets()) {
      fail<ArgumentError>(path_, ": has ", c_.sources(), " source and ", c_.targets(),
                          " target nodes, which cannot become ", change_.num_sources, " and ", change_.num_targets);
    }
    if ((c_.properties & (kUndirected | kNoSelfLoops)) != 0 && change_.num_sources != change_.num_targets) {
      fail<ArgumentError>(path_, ": sources and targets are the same nodes, but num_sources is ", change_.num_sources,
                          " and num_targets ", change_.num_targets);
    }
    if (!topology_.wide() && std::max(change_.num_sources, change_.num_targets) > kNarrow) {
      fail<ArgumentError>(path_, ": ids have 32 bits, more than 2^32 nodes need 64; compile all edges again");
    }
    if (s.size() != change_.targets.size() || change_.removed_sources.size() != change_.removed_targets.size()) {
      fail<ArgumentError>("edges have ", s.size(), " sources and ", change_.targets.size(), " targets, removed ones ",
                          change_.removed_sources.size(), " and ", change_.removed_targets.size(),
                          "; lengths must match");
    }
    const auto match = [&](const char* what, bool given, bool has) {
      if (s.empty() || given == has) return;
      fail<ArgumentError>(path_, ": edges have ", has ? "" : "no ", what, ", and so must appended ones");
    };
    match("weights", change_.weights != nullptr, has_weights_);
    match("times", change_.times != nullptr, has_times_);
    if (!has_ids_ && (change_.edge_ids != nullptr || !change_.removed_edge_ids.empty())) {
      fail<ArgumentError>(path_, ": was compiled without edge ids, so edges can be removed only by their ends");
    }
    const IdRange sources{change_.num_sources, "nodes", path_}, targets{change_.num_targets, "nodes", path_};
    check_ids(s, "sources", sources);
    check_ids(change_.targets, "targets", targets);
    check_ids(change_.removed_sources, "removed sources", sources);
    check_ids(change_.removed_targets, "removed targets", targets);
    for (size_t i = 0; has_weights_ && i < s.size(); ++i) {
      if (change_.weights[i] >= 0 && std::isfinite(change_.weights[i])) continue;
      fail<InputError>("edge ", i, ": weight is ", change_.weights[i], ", expected finite and at least 0");
    }
    const uint64_t each = kEdgeBytes * (has_out(c_.direction) && has_in(c_.direction) ? 2 : 1) * (undirected_ ? 2 : 1);
    const uint64_t needed =
        (s.size() + change_.removed_sources.size() + change_.removed_edge_ids.size()) * each + (uint64_t{64} << 20);
    if (needed > options_.memory) {
      throw BudgetError(text("memory is ", options_.memory, " bytes, but appending ", s.size(), " edges to ", path_,
                             " needs ", needed, "; append fewer at a time"),
                        needed);
    }
  }

  void plan() {
    first_id_ = next_id_ = has_ids_ ? next_edge_id(topology_, options_.threads) : 0;
    if (change_.edge_ids == nullptr) next_id_ += has_ids_ ? change_.sources.size() : 0;
    for (size_t i = 0; change_.edge_ids != nullptr && i < change_.sources.size(); ++i) {
      if (change_.edge_ids[i] < 0)
        fail<InputError>("edge ", i, ": edge id is ", change_.edge_ids[i], ", expected 0 or more");
      next_id_ = std::max(next_id_, static_cast<uint64_t>(change_.edge_ids[i]) + 1);
    }
    if (narrow_ids_ && next_id_ > kNarrow) {
      fail<ArgumentError>(path_,
                          ": edge ids have 32 bits, those of the appended edges need 64; compile all edges again");
    }
    for (const Direction side : {Direction::kOut, Direction::kIn}) {
      const bool out = side == Direction::kOut;
      if (!(out ? has_out(c_.direction) : has_in(c_.direction))) continue;
      sides_.push_back(plan_side(topology_, side, out ? change_.num_sources : change_.num_targets, edges_of(side),
                                 change_, first_id_, options_));
      const SideDelta& made = *sides_.back();
      if (made.edges != sides_.front()->edges) {
        fail<FormatError>(path_, ": 'out' and 'in' have different edges: the file is damaged, see graphzero verify");
      }
      report_.rows_written += made.rows;
      report_.edges_written += made.counts.degree;
    }
    const RowCounts& counts = sides_.front()->counts;
    report_.removed = counts.removed;
    report_.missing += counts.missing;
    report_.duplicates_dropped = undirected_ ? (counts.duplicates + 1) / 2 : counts.duplicates;
    report_.added = sides_.front()->edges + counts.removed - c_.num_edges;
  }

  // The change in the order of the rows of a side.
  SideChange edges_of(Direction side) {
    const bool out = side == Direction::kOut;
    SideChange edges;
    report_.self_loops_dropped = 0;
    const auto for_ends = [&](std::span<const int64_t> sources, std::span<const int64_t> targets, const auto& put) {
      for (size_t i = 0; i < sources.size(); ++i) {
        auto row = static_cast<uint64_t>(sources[i]), neighbour = static_cast<uint64_t>(targets[i]);
        if (!out) std::swap(row, neighbour);
        put(row, neighbour, i);
        if (undirected_ && row != neighbour) put(neighbour, row, i);
      }
    };
    const bool loops = (c_.properties & kNoSelfLoops) == 0;
    edges.added.reserve(change_.sources.size() * (undirected_ ? 2 : 1));
    for_ends(change_.sources, change_.targets, [&](uint64_t row, uint64_t neighbour, size_t i) {
      if (!loops && row == neighbour) {
        ++report_.self_loops_dropped;
      } else {
        edges.added.push_back({row, neighbour, i});
      }
    });
    sort(edges.added);
    const uint64_t rows = topology_.num_rows(side);
    uint64_t beyond = 0;
    for_ends(change_.removed_sources, change_.removed_targets, [&](uint64_t row, uint64_t neighbour, size_t) {
      if (row < rows) {
        edges.removed.push_back({row, neighbour, RemovedEdge::kAll});
      } else {
        ++beyond;
      }
    });
    if (sides_.empty()) report_.missing = beyond;
    if (!change_.removed_edge_ids.empty()) find_ids(side, edges.removed);
    std::sort(edges.removed.begin(), edges.removed.end());
    edges.removed.erase(std::unique(edges.removed.begin(), edges.removed.end()), edges.removed.end());
    return edges;
  }

  // In pieces on all threads, which are then merged.
  void sort(std::vector<AddedEdge>& edges) const {
    if (std::is_sorted(edges.begin(), edges.end())) return;
    const auto pieces = static_cast<size_t>(options_.threads);
    const auto at = [&](size_t i) {
      return edges.begin() + static_cast<ptrdiff_t>(edges.size() * std::min(i, pieces) / pieces);
    };
    parallel_for(pieces, 1, options_.threads, [&](size_t i, size_t, int) { std::sort(at(i), at(i + 1)); });
    for (size_t width = 1; width < pieces; width *= 2) {
      for (size_t i = 0; i + width < pieces; i += 2 * width)
        std::inplace_merge(at(i), at(i + width), at(i + 2 * width));
    }
  }

  // Where the edges with the ids to remove are: one pass over all ids, most of which a small table of bits excludes.
  void find_ids(Direction side, std::vector<RemovedEdge>& removed) {
    std::vector<uint64_t> ids(change_.removed_edge_ids.begin(), change_.removed_edge_ids.end());
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    const int bits = std::min(26, static_cast<int>(std::bit_width(ids.size())) + 6);
    std::vector<bool> seen(size_t{1} << bits);
    const auto place = [&](uint64_t id) { return static_cast<size_t>(mix(id) >> (64 - bits)); };
    for (const uint64_t id : ids) seen[place(id)] = true;
    std::mutex mutex;
    std::vector<uint64_t> found;  // guarded by mutex, like `removed`
    topology_.visit(side, [&](const auto& csr) {
      for_edges(csr, options_.threads, [&](uint64_t node, uint64_t p) {
        const uint64_t id = csr.stored_edge_id(p);
        if (!seen[place(id)] || !std::binary_search(ids.begin(), ids.end(), id)) return;
        const std::lock_guard lock(mutex);
        removed.push_back({node, csr.neighbour(p), id});
        found.push_back(id);
      });
    });
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    if (sides_.empty()) report_.missing += ids.size() - found.size();
  }

  // The edges that were removed, for those who look into the file.
  template <class F>
  void each_removed(const F& f) const {
    f("removed.sources", change_.removed_sources);
    f("removed.targets", change_.removed_targets);
    f("removed.edge_ids", change_.removed_edge_ids);
  }
  void declare_removed(Container& container) const {
    each_removed([&](const char* name, std::span<const int64_t> ids) {
      if (ids.empty()) return;
      ArrayInfo array;
      array.name = name;
      array.dtype = DType::kInt64;
      array.shape = {ids.size()};
      container.arrays.push_back(std::move(array));
    });
  }
  void write_removed(ContainerWriter& writer) const {
    each_removed([&](const char* name, std::span<const int64_t> ids) {
      if (!ids.empty()) writer.append<int64_t>(writer.index_of(name), ids);
    });
  }

  const Topology& topology_;
  const Container& c_;
  const std::string& path_;
  const TopologyChange& change_;
  const AppendOptions& options_;
  const bool undirected_;
  bool has_ids_ = false, has_weights_ = false, has_times_ = false, narrow_ids_ = false;
  uint64_t first_id_ = 0, next_id_ = 0;
  std::vector<std::unique_ptr<SideDelta>> sides_;
  DeltaReport report_;
};

}  // namespace

DeltaReport write_topology_delta(const Topology& topology, const TopologyChange& change, const std::string& out,
                                 const AppendOptions& options) {
  return Delta(topology, change, options).write(out);
}

}  // namespace gz

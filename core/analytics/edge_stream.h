// edge_stream: passes over all edges of one direction by several threads, whatever way they are read.
#pragma once

#include <atomic>
#include <memory>
#include <thread>

#include "analytics/block_source.h"
#include "base/interrupt.h"
#include "base/prefetch.h"
#include "base/progress.h"
#include "base/threads.h"
#include "storage/topology.h"

namespace gz {

enum class EdgeIo {
  kAuto,    // the mapping where the topology fits into the budget, direct reads elsewhere
  kMapped,  // the mapping
  kRead,    // direct reads
};

struct AnalyticsOptions {
  int threads = 1;
  uint64_t memory = 0;  // bytes: of arrays by node, of buffers, and of the topology if it is used through the mapping
  EdgeIo io = EdgeIo::kAuto;
  Progress* progress = nullptr;
};

// Bytes of the arrays that an algorithm holds, where it uses rows through the mapping and where it reads blocks.
struct ArrayBytes {
  ArrayBytes(uint64_t both) : ArrayBytes(both, both) {}
  ArrayBytes(uint64_t mapped_, uint64_t read_) : mapped(with_slack(mapped_)), read(with_slack(read_)) {}
  uint64_t mapped, read;

 private:
  // Each of a few arrays is rounded up to pages, or to huge pages if it is large.
  static constexpr uint64_t kHugePage = uint64_t{2} << 20;
  static uint64_t with_slack(uint64_t bytes) { return bytes + 4 * (bytes < kHugePage ? kPageBytes : kHugePage); }
};

// Entries by neighbour id that a pass looks up.
template <class T>
struct NodeTable {
  const T* data;
  uint64_t nodes;
  bool atomic = false;  // changed by atomic additions, which the processor does not overlap
};

// Whole rows whose neighbour ids were checked.
template <class Id>
struct EdgeBlock {
  uint64_t number = 0, first_row = 0, end_row = 0, begin = 0, end = 0;  // positions of the edges
  const uint64_t* indptr = nullptr;
  const Id* indices = nullptr;
  const float* weights = nullptr;  // null unless requested
  const MountedFile* file = nullptr;

  struct Row {
    uint64_t node;
    const Id *begin, *end;
    const float* weights;
    uint64_t degree() const { return static_cast<uint64_t>(end - begin); }
  };
  Row row(uint64_t node) const {
    const uint64_t from = indptr[node - first_row], to = indptr[node - first_row + 1];
    if (from < begin || from > to || to > end) [[unlikely]]
      fail_row(*file, node, from, to);
    return {node, indices + (from - begin), indices + (to - begin),
            weights != nullptr ? weights + (from - begin) : nullptr};
  }
  // Calls f(row) for every row.
  template <class F>
  void for_rows(const F& f) const {
    for (uint64_t node = first_row; node < end_row; ++node) f(row(node));
  }
  // The same, with the entries of `table` for neighbours that come soon prefetched if it is larger than caches are.
  template <class T, class F>
  void for_rows(const NodeTable<T>& table, const F& f) const {
    constexpr uint64_t kAhead = 64, kCache = uint64_t{32} << 20;
    if (!table.atomic && table.nodes * sizeof(T) < kCache) return for_rows(f);
    uint64_t asked = begin;
    const uint64_t last = end;
    for (uint64_t node = first_row; node < end_row; ++node) {
      const uint64_t until = std::min(indptr[node - first_row + 1] + kAhead, last);
      for (; asked < until; ++asked) prefetch(table.data + indices[asked - begin]);
      f(row(node));
    }
  }
};

template <class Id>
class EdgeStream {
 public:
  // `what` names the algorithm in a BudgetError, as in "PageRank".
  EdgeStream(const Topology& topology, Direction side, const AnalyticsOptions& options, ArrayBytes arrays,
             const char* what, bool weights = false);

  bool mapped() const { return mapped_; }
  const Csr<Id>& csr() const { return csr_; }
  int threads() const { return options_.threads; }

  uint64_t left(uint64_t held) const { return left_ - std::min(left_, held); }  // of the budget, beside `held` bytes

  // A bound of the numbers of blocks.
  uint64_t most_blocks() const { return csr_.num_nodes / kChunkRows + 2 * csr_.num_edges / most_edges_ + 2; }

  // Calls f(const EdgeBlock<Id>&, worker) for every block; returns when all are done. One thread gets them in order.
  template <class F>
  void pass(const char* phase, const F& f) {
    const auto caller = std::this_thread::get_id();
    std::atomic<uint64_t> done{0};
    source_->start();
    const auto threads = static_cast<size_t>(options_.threads);
    parallel_for(threads, 1, options_.threads, [&](size_t, size_t, int worker) {
      try {
        RawBlock raw;
        while (source_->next(raw)) {
          const EdgeBlock<Id> block = checked(raw);
          f(block, worker);
          const uint64_t edges = done.fetch_add(block.end - block.begin) + block.end - block.begin;
          source_->release(raw);
          check_interrupt();
          if (options_.progress != nullptr && std::this_thread::get_id() == caller) {
            options_.progress->report(phase, edges, csr_.num_edges);
          }
        }
      } catch (...) {
        source_->stop();
        throw;
      }
    });
    csr_.file->check();
  }

 private:
  EdgeBlock<Id> checked(const RawBlock& raw) const;

  const Csr<Id> csr_;
  const AnalyticsOptions options_;
  bool mapped_ = true;
  uint64_t most_edges_ = 1, left_ = 0;
  std::unique_ptr<BlockSource> source_;
};

extern template class EdgeStream<uint32_t>;
extern template class EdgeStream<uint64_t>;

}  // namespace gz

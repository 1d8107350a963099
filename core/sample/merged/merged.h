// merged: the neighbourhoods of many batches at once, from a topology that is not in RAM.
//
// Hop by hop, the next reads of all batches are sorted into file order, read once in large explicit requests past the
// page cache, and handed to each batch. A page that fifty batches want is read once, and none is kept: memory is the
// unfinished edges, the read buffers and a little more. Every batch is bit for bit the same as
// sample_neighbours() would make it alone. Benchmark: benchmarks/sampling.py --only merged.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/progress.h"
#include "sample/subgraph/neighbours.h"
#include "storage/reader.h"

namespace gz {

constexpr int kMostRings = 2;  // that read at once: one keeps a disk busy, a second while the first delivers

struct MergedBatch {
  std::span<const int64_t> seeds;
  std::span<const int64_t> times;          // as in sample_neighbours()
  uint64_t seed = 0;                       // in place of SampleOptions::seed
  const ExcludedEdges* exclude = nullptr;  // in place of SampleOptions::exclude
  DependentDraws dependent{};              // in place of SampleOptions::dependent
  uint64_t number = 0;                     // for a MergedSampler
  std::shared_ptr<const void> owner = {};  // of `exclude`, if the batch may be begun ahead
};

// Batches that will be sampled after those of a call, so many at a time.
struct MergedAhead {
  std::span<const MergedBatch> batches;
  size_t group = 1;
};

struct MergedStats {
  uint64_t reads = 0, bytes_read = 0;  // explicit reads; what was in RAM is taken from there
  double read_seconds = 0;             // waited for them, by all readers together
  uint64_t scratch_bytes = 0;          // the most that was held in addition to the subgraphs, without read buffers
};

struct MergedOptions {
  uint64_t gap = uint64_t{16} << 10;  // unneeded bytes that are read to save a request: bandwidth / requests
  std::optional<ReaderKind> kind;     // none: a ring if the kernel allows one
  size_t arena = kArena;              // of each ring
  bool past_page_cache = false;       // pages that are in RAM are read from the disk too
  Progress* progress = nullptr;       // asked every few milliseconds whether to stop
  MergedStats* stats = nullptr;       // added to
  std::function<std::shared_ptr<Reader>()> reader;  // tests put their own in place
};

// Whether many batches can be merged: uniform draws, with or without replacement, shared or disjoint, and
// layer-neighbour sampling. Weights and times need further arrays; sample_merged() then makes one batch after the
// other.
bool merged_supported(const SampleOptions& options, bool with_times);

// Takes the subgraph of a batch, by its number in the group. Called as each is done: in order by one thread, else by
// several at a time.
using MergedSink = std::function<void(size_t, HeteroSubgraph&&)>;

// Throws what sample_neighbours() throws, StorageError for a read that fails, and what
// `progress` throws.
void sample_merged(const Topology& topology, std::span<const MergedBatch> batches, const SampleOptions& options,
                   const MergedOptions& merged, const MergedSink& done);
// One subgraph a batch, in order.
std::vector<HeteroSubgraph> sample_merged(const Topology& topology, std::span<const MergedBatch> batches,
                                          const SampleOptions& options, const MergedOptions& merged = {});

class AnyHops;

// Samples a long sequence of batches, group after group. Each hop of a group needs much of the topology. So a pass over
// the file that makes the last hop of one group makes the last but one of the group that comes next, and so on: in the
// long run there is one pass for each group, not one for each hop of it. Between calls it holds the batches that are
// begun. They are the same as sampled alone.
class MergedSampler {
 public:
  MergedSampler(const Topology& topology, const SampleOptions& options);  // the topology must outlive it
  ~MergedSampler();

  // Samples these batches, and begins those ahead. Numbers ascend. A batch is continued if one with its number, seeds
  // and random draws is begun, and others that are begun are dropped. Throws what sample_merged() throws; then none is
  // begun.
  void sample(std::span<const MergedBatch> batches, const MergedAhead& ahead, const MergedOptions& merged,
              const MergedSink& done);
  void forget();           // drops those that are begun
  uint64_t bytes() const;  // that these take

 private:
  const Topology& topology_;
  const SampleOptions options_;
  std::unique_ptr<AnyHops> hops_;
};

// For planners: what one more batch like this one adds at most to a group, those ahead of the group included, while it
// is sampled, without the subgraphs that are done.
uint64_t merged_bytes(const Topology& topology, const SampleOptions& options, const HeteroSubgraph& batch);

// The share of the arrays that a sample reads which is in the page cache now, 0 to 1; nothing where the system does not
// report it. Costs some milliseconds for each GB that is there.
std::optional<double> resident_share(const Topology& topology, const SampleOptions& options);

}  // namespace gz

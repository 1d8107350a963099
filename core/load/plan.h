// plan: what a loader delivers, and how its memory budget is divided before the first batch is built.
//
// The budget covers everything the engine holds for the loader: batches being built and waiting, the one in training,
// the sampler's tables, the read buffers, and the rows held for coming batches, which get the remaining memory.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/memory.h"
#include "base/progress.h"
#include "budget/ledger.h"
#include "gather/gather.h"
#include "gather/whole_rows.h"
#include "load/graph.h"
#include "load/order.h"
#include "load/seeds.h"
#include "storage/disk_speed.h"
#include "storage/features.h"
#include "storage/local_ranks.h"
#include "sweep/row_window.h"

namespace gz {

class Pipeline;

// One tensor of a batch: rows of `matrix`, by the node ids or by the edge ids of a type.
struct Part {
  std::string name;  // unique among the parts; in a typed graph it includes the type
  std::shared_ptr<const FeatureFile> file;
  std::string matrix;
  bool by_edge = false;
  std::optional<DType> out_dtype;
  size_t type = 0;  // node type, or edge type
};

// What the rows of edge features are indexed by: the graph's edge ids, or the edges in the order of the file.
enum class EdgeOrder { kIds, kFile };
enum class CacheMode { kAuto, kOff, kOn };

struct LoadOptions {
  SampleOptions sample;  // seed and threads are set per batch; a typed graph uses only the number of fanouts
  uint64_t batch_size = 1024;
  bool shuffle = false;
  bool drop_last = false;
  uint64_t seed = 0;
  uint64_t memory = 0;  // of the host; 0: chosen from the memory available to the machine and the container
  int prefetch = 0;     // finished batches that may wait, memory permitting; 0: threads + 2
  int threads = 0;      // 0: one per processor
  int held = 1;         // batches that the consumer holds while it requests the next one
  Io io = Io::kAuto;
  CacheMode cache = CacheMode::kAuto;
  EdgeOrder edge_order = EdgeOrder::kIds;
  LocalRanks local;  // the other ranks on this host: `memory` is for all of them together
};

// How the rows of a part are fetched in an epoch.
enum class Way {
  kMapped,  // copied from the mapping: the file is in the page cache, or fits
  kWhole,   // copied from a whole copy in the loader's own memory
  kWindow,  // read in the order of the file for many batches at once
  kDirect,  // read batch by batch
};
const char* way_name(Way way);

// How a budget is divided; see load/budget.h.
struct Division {
  uint64_t memory = 0;          // in total; this rank's share if ranks of one host share it
  uint64_t fixed_bytes = 0;     // read buffers
  uint64_t sampling_bytes = 0;  // the most that sampling one batch takes, including its subgraph
  uint64_t packed_bytes = 0;    // a sampled batch that waits
  uint64_t merged_bytes = 0;    // a batch of a merged group, from sampling until it is in the window
  uint64_t batch_bytes = 0;     // a finished batch
  uint64_t store_bytes = 0;     // rows held: windows and whole copies
  uint64_t ring_bytes = 0;      // shared by each sweep with other ranks of this host
  uint64_t shared_bytes = 0;    // this rank's share of rows that the ranks of the host keep in the page cache instead
  int threads = 1;              // that build batches: fewer if their buffers would not fit
  int depth = 1;                // finished or partly built batches that may exist at once
  uint64_t window = 0;          // batches whose rows are read together; 0: no window
  uint64_t direct = 0;          // the first batches, which are read individually in the meantime
  bool merges = false;          // the topology is not in RAM: many batches are sampled together
  uint64_t group = 1;           // how many
  Disk disk;                    // the speed that was assumed: decides which gaps are read over
  std::vector<Way> ways;        // one per part
  std::vector<uint64_t> rows;   // one per part: rows of a batch
  std::string why;              // in words, for stats()
};

// The state of a loader; shared by its epochs. Immutable after make_plan(), except where noted.
struct LoadPlan {
  LoadGraph graph;
  std::vector<Part> parts;
  std::shared_ptr<const SeedSource> seeds;
  LoadOptions options;
  int threads = 1;
  bool feeds_device = false;  // batches are copied to a device

  mutable std::mutex mutex;
  Division division;                                // guarded by mutex: updated by each epoch that runs alone
  std::vector<std::shared_ptr<RowWindow>> windows;  // guarded by mutex: one per part, or null
  std::vector<std::shared_ptr<WholeRows>> wholes;   // guarded by mutex: one per part, or null
  std::shared_ptr<LocalGroup> group;                // guarded by mutex: other ranks of this host, or null
  std::vector<Pipeline*> epochs;                    // guarded by mutex: those in flight
  bool outgrown = false;                            // guarded by mutex: a batch needed the memory of the held rows
  bool released = false;                            // guarded by mutex: rows were freed, divide again
  std::shared_ptr<BufferPool> pool;                 // of all batches, finished or not
  std::shared_ptr<Ledger> ledger;                   // accounts for what they hold
};

// Checks the arguments as make_plan() does. Throws ArgumentError, IndexError.
void check_load(const LoadGraph& graph, const std::vector<Part>& parts, const SeedSource& seeds,
                const LoadOptions& options);

// Checks the arguments, reads a topology into RAM if it fits and will be needed in full, samples a few batches of epoch
// 0 to measure their size, and divides the budget. `page_lock` page-locks batches for a device. `guests` are plans
// whose batches will also be built within this budget: see deliver_alike(). Throws ArgumentError, IndexError,
// BudgetError.
std::shared_ptr<LoadPlan> make_plan(LoadGraph graph, std::vector<Part> parts, std::shared_ptr<const SeedSource> seeds,
                                    const LoadOptions& options, PageLock page_lock, Progress* progress,
                                    const std::vector<std::shared_ptr<LoadPlan>>& guests = {});

// The same without dividing the budget: for estimates.
std::shared_ptr<LoadPlan> make_outline(LoadGraph graph, std::vector<Part> parts,
                                       std::shared_ptr<const SeedSource> seeds, const LoadOptions& options,
                                       PageLock page_lock);

// Frees idle buffers and held rows (whole copies only if `copies`) unless an epoch is in flight. Returns whether there
// were any. The next epoch divides the budget again.
bool release(LoadPlan& plan, bool copies = true);

// Registers an epoch, and returns whether it is the only one and whether rows were freed before; unregisters it. The
// rows of a window are held while an epoch is in flight: the last one frees them.
struct Entered {
  bool is_first = false, released = false;
};
Entered enter(LoadPlan& plan, Pipeline* epoch);
void leave(LoadPlan& plan, Pipeline* epoch);

// The batches of `epoch` that `share` delivers.
EpochBatches epoch_batches(const LoadPlan& plan, uint64_t epoch, const Share& share);

// Batch `number` of `epoch`, with the seeds at these positions.
BatchSeeds batch_seeds(const LoadPlan& plan, uint64_t epoch, uint64_t number, std::span<const int64_t> input);
HeteroSubgraph sample_batch(const LoadPlan& plan, const BatchSeeds& batch);
uint64_t array_bytes(const std::vector<BatchArray>& arrays);

GatherOptions gather_options(const Part& part);  // its dtype

// The ids whose rows `part` needs.
std::span<const int64_t> ids_of(const Part& part, const HeteroSubgraph& graph);

}  // namespace gz

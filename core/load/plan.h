// plan: what a loader delivers, and how its memory budget is divided before the first batch is made.
//
// The budget covers all that the engine holds for the loader: batches being made and waiting, the one in training, the
// sampler's tables, the read rings, and the rows that are held for coming batches, which get
// what is left.
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
  std::string name;  // unlike those of the other parts; in a typed graph it says the type too
  std::shared_ptr<const FeatureFile> file;
  std::string matrix;
  bool by_edge = false;
  std::optional<DType> out_dtype;
  size_t type = 0;  // node type, or edge type
};

// What the rows of edge features stand for: edge ids that the graph keeps, or the edges as the file stores them.
enum class EdgeOrder { kIds, kFile };
enum class CacheMode { kAuto, kOff, kOn };

struct LoadOptions {
  SampleOptions sample;  // its seed and threads are set for each batch; of fanouts, a typed graph takes their number
  uint64_t batch_size = 1024;
  bool shuffle = false;
  bool drop_last = false;
  uint64_t seed = 0;
  uint64_t memory = 0;  // of the host; 0: chosen from what the machine and the container leave
  int prefetch = 0;     // finished batches that may wait, memory permitting; 0: as many as threads, and two
  int threads = 0;      // 0: one per processor
  int held = 1;         // batches that the consumer holds while it asks for the next one
  Io io = Io::kAuto;
  CacheMode cache = CacheMode::kAuto;
  EdgeOrder edge_order = EdgeOrder::kIds;
  LocalRanks local;  // who else on this host loads the same: `memory` is for all of them together
};

// How the rows of a part are fetched in an epoch.
enum class Way {
  kMapped,  // copied from the mapping: the file is in RAM, or fits
  kWhole,   // copied from a whole copy in the loader's own memory
  kWindow,  // read in the order of the file for many batches at once
  kDirect,  // read batch by batch
};
const char* way_name(Way way);

// How a budget is divided; see load/budget.h.
struct Division {
  uint64_t memory = 0;          // all of it: this rank's share, where ranks of one host share
  uint64_t fixed_bytes = 0;     // read buffers
  uint64_t sampling_bytes = 0;  // what sampling one batch takes at most, its subgraph included
  uint64_t packed_bytes = 0;    // a sampled batch that waits
  uint64_t merged_bytes = 0;    // a batch of a group that is sampled together, from then on until it is in the window
  uint64_t batch_bytes = 0;     // a finished batch
  uint64_t store_bytes = 0;     // rows held: windows and whole copies
  uint64_t ring_bytes = 0;      // what each sweep shows to other ranks of this host
  uint64_t shared_bytes = 0;    // this rank's share of rows that the ranks of the host keep in the page cache instead
  int threads = 1;              // that make batches: fewer where their buffers would not fit
  int depth = 1;                // finished or half-made batches that may exist at once
  uint64_t window = 0;          // batches whose rows are read together, 0: none are
  uint64_t direct = 0;          // the first ones, which are read by themselves meanwhile
  bool merges = false;          // the topology is not in RAM: many batches are sampled together
  uint64_t group = 1;           // so many
  Disk disk;                    // what it was reckoned with: how far reads reach over gaps
  std::vector<Way> ways;        // one a part
  std::vector<uint64_t> rows;   // one a part: those of a batch
  std::string why;              // in words, for stats()
};

// What a loader is made of; shared by its epochs. Immutable after make_plan(), but for what says otherwise.
struct LoadPlan {
  LoadGraph graph;
  std::vector<Part> parts;
  std::shared_ptr<const SeedSource> seeds;
  LoadOptions options;
  int threads = 1;
  bool feeds_device = false;  // batches go on to one

  mutable std::mutex mutex;
  Division division;                                // guarded by mutex: learned anew at each epoch that runs alone
  std::vector<std::shared_ptr<RowWindow>> windows;  // guarded by mutex: one a part, null where there is none
  std::vector<std::shared_ptr<WholeRows>> wholes;   // guarded by mutex: likewise
  std::shared_ptr<LocalGroup> group;                // guarded by mutex: other ranks of this host, null without any
  std::vector<Pipeline*> epochs;                    // guarded by mutex: those in flight
  bool outgrown = false;                            // guarded by mutex: a batch needed the room of the rows held
  bool released = false;                            // guarded by mutex: rows were freed, divide again
  std::shared_ptr<BufferPool> pool;                 // of all batches, finished or not
  std::shared_ptr<Ledger> ledger;                   // of what they hold
};

// Throws what make_plan() would throw at once: ArgumentError, IndexError.
void check_load(const LoadGraph& graph, const std::vector<Part>& parts, const SeedSource& seeds,
                const LoadOptions& options);

// Checks the arguments, reads a topology into RAM that fits well and will be needed whole, samples a few batches of
// epoch 0 to learn their size, and divides the budget. `page_lock` makes batches known to a device. `guests` are plans
// whose batches will be made within this budget too: see deliver_alike(). Throws ArgumentError, IndexError,
// BudgetError.
std::shared_ptr<LoadPlan> make_plan(LoadGraph graph, std::vector<Part> parts, std::shared_ptr<const SeedSource> seeds,
                                    const LoadOptions& options, PageLock page_lock, Progress* progress,
                                    const std::vector<std::shared_ptr<LoadPlan>>& guests = {});

// The same without a budget that is divided: for estimates.
std::shared_ptr<LoadPlan> make_outline(LoadGraph graph, std::vector<Part> parts,
                                       std::shared_ptr<const SeedSource> seeds, const LoadOptions& options,
                                       PageLock page_lock);

// Frees idle buffers and rows that are held, whole copies only where `copies` is set, unless an epoch is in flight;
// whether there were any. The next epoch divides the budget again.
bool release(LoadPlan& plan, bool copies = true);

// An epoch begins, and says whether it is the only one and whether rows were freed before; it is over. Rows that are
// read by a window are held for an epoch in flight: the last one frees them.
struct Entered {
  bool is_first = false, released = false;
};
Entered enter(LoadPlan& plan, Pipeline* epoch);
void leave(LoadPlan& plan, Pipeline* epoch);

// The batches of `epoch` that `share` delivers.
EpochBatches epoch_batches(const LoadPlan& plan, uint64_t epoch, const Share& share);

// Batch `number` of `epoch`, around the seeds at these positions.
BatchSeeds batch_seeds(const LoadPlan& plan, uint64_t epoch, uint64_t number, std::span<const int64_t> input);
HeteroSubgraph sample_batch(const LoadPlan& plan, const BatchSeeds& batch);
uint64_t array_bytes(const std::vector<BatchArray>& arrays);

GatherOptions gather_options(const Part& part);  // its dtype

// The ids whose rows `part` needs.
std::span<const int64_t> ids_of(const Part& part, const HeteroSubgraph& graph);

}  // namespace gz

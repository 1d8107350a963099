// row_window: the rows of many batches, read in the order of the file, each page once for all of them.
//
// A sweep goes round and round the file. A batch claims its rows some time before it needs them: those that are in RAM
// for another batch are shared at once, the others are read when the sweep passes, for all batches that want them. A
// row stays until the last batch that claimed it has its copy, and its place is taken only when another row needs one.
// A batch is complete one circle after it was admitted, so rows are held for half a circle on average: batches are
// admitted evenly spaced, or they would all be complete, and hold all their rows, at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "gather/gather.h"
#include "storage/features.h"
#include "storage/local_ranks.h"

namespace gz {

struct WindowStats {
  uint64_t budget_bytes = 0;
  uint64_t capacity = 0;     // rows that there is room for
  uint64_t held = 0;         // rows that a claim waits for or has
  uint64_t target = 0;       // claims that are admitted at once, as learned so far
  uint64_t circles = 0;      // times that the sweep went round the file
  uint64_t stalls = 0;       // times that no place was left, so that the first batch in line was read by itself
  uint64_t rows_read = 0;    // that the sweep brought
  uint64_t rows_shared = 0;  // that were there for another batch
  uint64_t rows_taken = 0;   // that another rank of this host had read
  uint64_t reads = 0, bytes_read = 0;
  double read_seconds = 0;  // the sweep waiting for the disk,
  double rank_seconds = 0;  // and for other ranks of this host
};

class RowWindow {
 public:
  class Claim;
  // Called from the sweep's thread when a claim is complete, with its number.
  using Ready = std::function<void(uint64_t number)>;

  // Rows of more than 64 KiB, and files of 2^32 rows, are read batch by batch.
  static bool supports(const Matrix& matrix);
  static uint64_t row_cost(const Matrix& matrix);     // what a row takes in memory, with its entries in tables
  static uint64_t least_bytes(const Matrix& matrix);  // below which there is no window
  static uint64_t claim_cost() { return 8; }          // what a row of a claim takes

  // Takes the memory. Throws BudgetError when not even a few rows fit.
  RowWindow(std::shared_ptr<const FeatureFile> file, const Matrix& matrix, uint64_t budget_bytes);
  ~RowWindow();

  const Matrix& matrix() const;

  // The rows that batch `number` needs; its memory is the thread's pool's. Any thread. Throws IndexError.
  std::shared_ptr<Claim> claim(uint64_t number, std::span<const int64_t> ids) const;

  struct SweepOptions {
    uint64_t target = 8;           // claims to begin with
    uint64_t most = 8;             // and at most
    uint64_t claims = UINT64_MAX;  // that will come: a short run is admitted at once
    uint64_t gap = 8 << 10;        // bytes worth reading over to save a request
    Io io = Io::kAuto;
    // Ranks of this host that sweep the same matrix, each as part number `part` of its loader, share their reads.
    std::shared_ptr<LocalGroup> group;
    size_t part = 0;
    uint64_t ring_bytes = 0;
    std::function<bool()> hungry;  // whether somebody waits for the next batch
  };
  // The sweep's thread: returns after stop_sweep(), when nothing is in flight. One at a time; afterwards no claim of it
  // may be used. Throws StorageError when the machinery of reads fails, not for a failed read.
  void sweep(const SweepOptions& options, const Ready& ready);
  // Stops the sweep, also one that is about to begin; expect_sweep() before its thread is started makes sure that it
  // does not hear a stop that was meant for another, which had failed.
  void stop_sweep();
  void expect_sweep();

  // Claims come in ascending order of their numbers; they are admitted when there is room and it is their turn.
  void offer(std::shared_ptr<Claim> claim);
  // Copies the rows of a complete claim to `out` and ends it. Throws what made its reads fail, or Cancelled when
  // forget() came between.
  void deliver(Claim& claim, std::byte* out, const GatherOptions& options, GatherStats* stats, Progress* progress);
  // Ends all claims that are not being delivered.
  void forget();

  uint64_t target() const;  // claims that may be admitted at once, now
  WindowStats stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gz

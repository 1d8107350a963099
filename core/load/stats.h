// stats: how the time of an epoch was spent, and what was read.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "gather/row_reader.h"

namespace gz {

struct LoadStats {
  uint64_t batches = 0;  // delivered
  uint64_t nodes = 0, edges = 0;
  double sample_seconds = 0;         // of all threads, as are the next three
  double read_seconds = 0;           // waiting for the disk
  double copy_seconds = 0;           // planning and copying rows
  double blocked_seconds = 0;        // idle threads: the queue, the window or the budget is full
  double starved_seconds = 0;        // the consumer waiting for a batch
  double consumer_seconds = 0;       // between two calls of next(): the training step
  double depth_sum = 0;              // finished batches waiting, summed over calls of next()
  uint64_t peak_bytes = 0;           // of batches, including those that the consumer holds
  uint64_t remade = 0;               // batches that were discarded to free memory, and rebuilt
  uint64_t topology_bytes_read = 0;  // by explicit reads
  GatherStats gather;
  std::vector<WindowStats> windows;  // one per part with a window

  void add(const GatherStats& gathered);
};

// The figures of each reader so far; adds what the readers did since `before` to `stats`.
std::vector<WindowStats> reads_of(const std::vector<std::shared_ptr<RowReader>>& readers);
void add_reads(LoadStats& stats, const std::vector<std::shared_ptr<RowReader>>& readers,
               const std::vector<WindowStats>& before);

}  // namespace gz

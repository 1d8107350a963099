// stats: where the time of an epoch went, and what was read.
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
  double blocked_seconds = 0;        // threads with nothing they may do: the queue, the window or the budget is full
  double starved_seconds = 0;        // the consumer waiting for a batch
  double consumer_seconds = 0;       // between two calls of next(): the training step
  double depth_sum = 0;              // finished batches waiting, summed over calls of next()
  uint64_t peak_bytes = 0;           // of batches, with those that the consumer holds
  uint64_t remade = 0;               // batches that were thrown away for want of memory and made again
  uint64_t topology_bytes_read = 0;  // by explicit reads
  GatherStats gather;
  std::vector<WindowStats> windows;  // one a part that has one

  void add(const GatherStats& gathered);
};

// What readers did so far, one each, and what they did since then, which is added to `stats`.
std::vector<WindowStats> reads_of(const std::vector<std::shared_ptr<RowReader>>& readers);
void add_reads(LoadStats& stats, const std::vector<std::shared_ptr<RowReader>>& readers,
               const std::vector<WindowStats>& before);

}  // namespace gz

// node_vectors: two vectors per node (of the node itself, and of the node as an output of skip-gram): all of them in
// RAM, or in partitions on disk, of which two are in RAM at a time.
//
// A partition is a range of nodes. Its place in the file, which has no name and vanishes with the process, is whole
// pages, so that transfers bypass the page cache.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/checked.h"
#include "base/memory.h"
#include "base/progress.h"
#include "embed/skipgram.h"
#include "storage/file.h"

namespace gz {

struct VectorShape {
  uint64_t nodes = 0, dim = 0;
  uint32_t partitions = 1;

  uint64_t width() const { return round_up(dim, kLaneFloats); }                      // floats of a row in RAM
  uint64_t partition_rows() const { return (nodes + partitions - 1) / partitions; }  // of all but the last
  uint64_t first(uint32_t partition) const { return std::min(partition * partition_rows(), nodes); }
  uint64_t rows(uint32_t partition) const { return first(partition + 1) - first(partition); }
  uint64_t table_bytes() const;     // of one of the two vectors, for the nodes of a partition
  uint64_t resident_bytes() const;  // of one partition, or of two
  uint64_t file_bytes() const;      // on disk
};

class NodeVectors {
 public:
  // With several partitions, reserves their disk space in `folder`; throws StorageError where it is lacking.
  NodeVectors(const VectorShape& shape, uint64_t seed, const std::string& folder, int threads);

  const VectorShape& shape() const { return shape_; }

  // Brings two partitions into RAM, which may be the same; others are written back.
  void bring(uint32_t a, uint32_t b, Progress* progress);

  // Of nodes whose partitions are in RAM.
  uint64_t width() const { return width_; }
  float* own(uint64_t node) const { return row(node, 0); }
  float* output(uint64_t node) const { return row(node, 1); }
  bool is_here(uint64_t node) const { return slots_[0].has(node) || slots_[1].has(node); }

  // Throws ArgumentError if a vector in RAM is not finite, or absurdly large.
  void check(double learning_rate) const;

  // The vectors of all nodes, `dim` floats each, without padding; frees everything else. One partition only.
  Buffer take();
  // The vectors of nodes from `begin` on, into `out`: from RAM or from disk.
  void read(uint64_t begin, uint64_t count, float* out);

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Slot {
    std::array<Buffer, 2> tables;  // the nodes' own vectors, and the outputs
    uint32_t partition = kNone;
    uint64_t first = 0, count = 0;

    bool has(uint64_t node) const { return node - first < count; }
  };

  float* row(uint64_t node, size_t table) const {
    const Slot& slot = slots_[slots_[0].has(node) ? 0 : 1];
    return slot.tables[table].as<float>() + (node - slot.first) * width_;
  }
  void load(Slot& slot, uint32_t partition, Progress* progress);
  void store(Slot& slot, Progress* progress);
  void initialise(Slot& slot);
  template <class Move>
  void transfer(Slot& slot, uint32_t partition, const char* phase, Progress* progress, const Move& move);

  const VectorShape shape_;
  const uint64_t width_, seed_;
  const int threads_;
  std::array<Slot, 2> slots_;
  File file_;                  // several partitions only
  std::vector<bool> written_;  // partitions that are in the file
};

}  // namespace gz

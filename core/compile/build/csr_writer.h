// csr_writer: sorted buckets -> the arrays of one direction of a .gl file (FORMAT 5).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/memory.h"
#include "compile/sort/drain.h"
#include "compile/write/container_writer.h"
#include "format/container.h"

namespace gz {

// Which arrays a direction has, and how wide they are.
struct CsrLayout {
  bool wide_ids = false;  // neighbours of 64 bits
  bool weights = false;   // with their running sums
  bool times = false;     // with the order by time
  bool edge_ids = false;
  bool wide_edges = false;  // positions (by_time) of 64 bits
  bool wide_edge_ids = false;
  bool own_numbers = false;  // numbers are final, not provisional
  bool dedup = false;
  bool undirected = false;  // for counting: a duplicate is stored twice
};

// Declares the arrays of `side` ("out." or "in.") at the end of `container`.
void declare_csr(Container& container, const std::string& side, const CsrLayout& layout);

// The provisional number of an edge is (chunk << kLocalBits | place in it); chunk_base[chunk] makes it final.
constexpr int kLocalBits = 22;

// The first row to write: the first of the file, or the one after the rows of other processes.
struct CsrStart {
  uint64_t row = 0, edges = 0;
};

class CsrWriter : public BucketConsumer {
 public:
  CsrWriter(ArraySink& writer, const std::string& side, const CsrLayout& layout, std::span<const uint64_t> chunk_base,
            const std::string& spill_folder, const DrainOptions& options, CsrStart start = {});
  ~CsrWriter() override;

  void prepare(const SortedBucket& bucket, int worker) override;
  void commit(const SortedBucket& bucket, int worker) override;
  void release() override;
  size_t bytes_per_record() const override;
  size_t bytes_per_row() const override { return 8; }

  uint64_t edges() const { return edges_; }            // up to the last row written
  uint64_t duplicates() const { return duplicates_; }  // dropped, each source edge once

 private:
  struct Output;   // what one worker has prepared
  struct LongRow;  // a row that spans several buckets, for its order by time

  template <class Id>
  void select(const SortedBucket& bucket, Output& out);
  template <class Id>
  void number(Output& out) const;
  void sum_weights(const KeyRange& range, Output& out, double carry) const;
  void order_by_time(const KeyRange& range, Output& out) const;
  void commit_long_row(const KeyRange& range, Output& out);
  template <class Position>
  void append_positions(std::span<const uint64_t> positions);

  ArraySink& writer_;
  const CsrLayout layout_;
  const std::span<const uint64_t> chunk_base_;
  const std::string spill_folder_;
  const DrainOptions options_;
  size_t indptr_ = 0, indices_ = 0, weights_ = 0, cumulative_ = 0, edge_ids_ = 0, times_ = 0, by_time_ = 0;
  std::vector<std::unique_ptr<Output>> outputs_;  // one per worker
  // Modified only by commit():
  uint64_t edges_ = 0, duplicates_ = 0;
  double carry_ = 0;  // the running sum of a row that continues in the next bucket
  std::unique_ptr<LongRow> long_row_;
};

}  // namespace gz

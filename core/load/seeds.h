// seeds: which seeds make up which batch of which epoch, and which of the batches a rank delivers.
//
// A seed source turns the positions of a batch into seeds of one or several node types, and into arrays that are
// delivered with the batch. Node seeds are the simple case; edge seeds have two endpoints each, which are seeds of
// their node types, and arrays with the endpoints and label of each edge.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/memory.h"
#include "base/permutation.h"
#include "format/dtype.h"
#include "sample/link/link.h"
#include "sample/subgraph/graph.h"

namespace gz {

// The order of one epoch over `count` seeds: a permutation of 0 to count - 1 chosen by (seed, epoch), or the identity
// without shuffling. The same for any number of threads or machines. Eight rounds: with four, places of one column are
// visibly not independent. Counts that fit into a small table are shuffled there, since on a tiny rectangle no small
// number of rounds reaches all permutations equally often.
class EpochOrder {
 public:
  EpochOrder(uint64_t count, bool shuffle, uint64_t seed, uint64_t epoch);

  uint64_t count() const { return count_; }
  // The seed at `position` of the epoch, position < count.
  uint64_t at(uint64_t position) const {
    if (!shuffle_) return position;
    return count_ <= kShort ? table_[position] : permutation_(position);
  }

 private:
  using Shuffle = Permutation<RectangleHalves, 8>;
  static constexpr uint64_t kShort = 64;

  uint64_t count_;
  bool shuffle_;
  std::array<uint8_t, kShort> table_{};  // for counts up to kShort
  Shuffle permutation_;                  // for larger ones
};

// How many batches `count` seeds make.
uint64_t count_batches(uint64_t count, uint64_t batch_size, bool drop_last);

// What to do with the last round of batches when it has fewer of them than there are ranks: repeat batches from the
// start of the epoch, omit the round, or let some ranks deliver one batch less.
enum class Uneven { kPad, kDrop, kKeep };

// The batches of an epoch that one of `world_size` processes delivers: from batch `first` on, every world_size-th.
// Dealing out whole batches makes each of them the one that a single process would deliver under that number.
struct Share {
  uint64_t rank = 0, world_size = 1;
  Uneven uneven = Uneven::kPad;
  uint64_t first = 0;  // batches of the whole epoch that are already done

  bool operator==(const Share&) const = default;
};

// How many of `batches` this share has. Throws ArgumentError unless rank < world_size.
uint64_t count_share(uint64_t batches, const Share& share);

// The batches that a pipeline delivers, in order: its own 0 to count() - 1.
class EpochBatches {
 public:
  EpochBatches(const EpochOrder& order, uint64_t batch_size, bool drop_last, const Share& share);

  uint64_t count() const { return count_; }
  // The number in the whole epoch of the i-th batch of this share; draws are keyed by it.
  uint64_t number(uint64_t i) const;
  // The positions of its seeds among the loader's seeds.
  std::vector<int64_t> input(uint64_t i) const;

 private:
  EpochOrder order_;
  uint64_t batch_size_;
  uint64_t total_;  // batches of the whole epoch
  Share share_;
  uint64_t count_;
};

// The key of one batch's random draws.
uint64_t batch_seed(uint64_t seed, uint64_t epoch, uint64_t number);
// The key of what is drawn for several batches of an epoch: see DependentDraws.
uint64_t epoch_seed(uint64_t seed, uint64_t epoch);

// One integer for each seed of a loader: the node ids, or the timestamps.
//
// A range 0 to n - 1, which takes no memory, or an array of 32 or 64-bit integers that belongs to `owner` and is read
// in place. An array may be changed by its owner while epochs run, so each use checks the value again.
class Numbers {
 public:
  Numbers() = default;
  static Numbers range(uint64_t count) { return Numbers(nullptr, count, false, nullptr); }
  Numbers(const int64_t* data, uint64_t count, std::shared_ptr<void> owner)
      : Numbers(data, count, false, std::move(owner)) {}
  Numbers(const int32_t* data, uint64_t count, std::shared_ptr<void> owner)
      : Numbers(data, count, true, std::move(owner)) {}

  uint64_t size() const { return count_; }
  bool empty() const { return count_ == 0; }
  bool is_range() const { return data_ == nullptr; }

  int64_t at(uint64_t i) const {
    if (data_ == nullptr) return static_cast<int64_t>(i);
    return narrow_ ? static_cast<const int32_t*>(data_)[i] : static_cast<const int64_t*>(data_)[i];
  }

 private:
  Numbers(const void* data, uint64_t count, bool narrow, std::shared_ptr<void> owner)
      : data_(data), count_(count), narrow_(narrow), owner_(std::move(owner)) {}

  const void* data_ = nullptr;
  uint64_t count_ = 0;
  bool narrow_ = false;  // 32-bit
  std::shared_ptr<void> owner_;
};

// An array of a batch that was created by its seed source, with the name it has in Python.
struct BatchArray {
  std::string name;
  DType dtype = DType::kInt64;
  std::vector<size_t> shape;
  std::shared_ptr<Buffer> buffer;  // pooled: take_buffer()
};

// The seeds of one node type, with one time each if the source is timed.
struct SeedsOfType {
  size_t type = 0;
  std::vector<int64_t> nodes, times;
};

struct BatchSeeds {
  std::vector<SeedsOfType> seeds;      // each node type at most once; trees are numbered consecutively across types
  std::vector<ExcludedEdges> exclude;  // one per edge type, or empty: edges that the sample must not contain
  std::vector<BatchArray> arrays;
  uint64_t key = 0;  // of the random draws
  DependentDraws dependent;

  const ExcludedEdges* exclude_of(size_t edge_type) const { return exclude.empty() ? nullptr : &exclude[edge_type]; }
};

// Immutable, except for arrays that belong to the user; thread-safe.
class SeedSource {
 public:
  virtual ~SeedSource() = default;

  virtual uint64_t count() const = 0;                      // positions of an epoch
  virtual bool timed() const = 0;                          // whether seeds have times
  virtual std::vector<size_t> types() const = 0;           // node types that have seeds
  virtual void check(const SampleGraph& graph) const = 0;  // throws ArgumentError, IndexError
  // Sets seeds, excluded edges and arrays of the batch with these positions; random choices depend on out.key.
  // Allocations that grow with the batch come from take_buffer(), which may throw PoolFull.
  virtual void fill(std::span<const int64_t> input, BatchSeeds& out) const = 0;
};

// Nodes of one type; `times` is empty or has one value per seed.
std::shared_ptr<const SeedSource> node_seeds(Numbers nodes, Numbers times = {}, size_t type = 0);

// Seeds that are edges: an array of pairs, or some or all edges of a file, which are looked up batch by batch and never
// copied.
struct LinkSourceOptions {
  size_t edge_type = 0;
  std::optional<std::pair<Numbers, Numbers>> ends;  // sources and targets; none: edges of the file, by their
  std::optional<Numbers> positions;                 // positions in the rows that are sampled; none: all edges
  Numbers times;                                    // one per edge, or per edge id if all edges are seeds; may be empty
  bool own_times = false;                           // use the times of the file, if seeds are its edges
  LinkOptions link;
  bool disjoint = false;                   // as in the sample; implied by times
  Direction direction = Direction::kNone;  // of a homogeneous graph: the rows that are sampled
};

// Arrays of its batches: edge_label_index, or src_index, dst_pos_index and dst_neg_index; `time` of those; if the
// sample is disjoint, `tree_edge`, the positive edge of each tree; and if seeds are edges of the file, `edge`, their
// edge ids.
std::shared_ptr<const SeedSource> link_source(SampleGraph graph, LinkSourceOptions options);

}  // namespace gz

// embed: the budget, the order of partitions, and training on blocks of walks.
#include "embed/embed.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include <utility>
#include <vector>

#include "analytics/node_arrays.h"
#include "base/checked.h"
#include "base/interrupt.h"
#include "base/permutation.h"
#include "base/prefetch.h"
#include "base/threads.h"
#include "embed/alias_table.h"
#include "embed/skipgram.h"

namespace gz {
namespace {

constexpr uint64_t kOrderStream = 0x726564726f, kWalkStream = 0x736b6c6177;  // "order", "walks"
constexpr uint64_t kTrainStream = 0x6e69617274;                              // "train"
constexpr double kExponent = 0.75;   // of degrees, for negatives, as in word2vec
constexpr double kLeastRate = 1e-4;  // of the learning rate
constexpr uint64_t kMostPasses = uint64_t{1} << 20;
constexpr uint64_t kBetweenLooks = 16;  // nodes that are trained between two looks for Ctrl-C
constexpr uint32_t kMostPartitions = 64;
constexpr uint64_t kLeastRounds = 4;  // of all pairs of partitions: late ones would move what early ones learned

using Shuffle = Permutation<BitHalves, 6>;

Shuffle shuffle_of(uint64_t n, uint64_t key) {
  Shuffle::Keys keys;
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = absorb(key, i);
  return {n, keys};
}

// Two partitions that are in RAM together, and of which of them pairs inside the partition are trained too.
struct Bucket {
  uint32_t a = 0, b = 0;
  bool inside_a = true, inside_b = false;
};

// Every two partitions once, in an order in which one of them stays.
std::vector<Bucket> buckets_of(uint32_t partitions) {
  if (partitions == 1) return {{}};
  std::vector<Bucket> all;
  for (uint32_t a = 0; a + 1 < partitions; ++a) {
    for (uint32_t i = a + 1; i < partitions; ++i) {
      const uint32_t b = a % 2 == 0 ? i : partitions + a - i;
      all.push_back({a, b, b == a + 1, b == a + 1 && b + 1 == partitions});
    }
  }
  return all;
}

// Negatives by degree^0.75, apart for each partition.
class Negatives {
 public:
  Negatives(const Topology& topology, const VectorShape& shape, const EmbedOptions& o)
      : shape_(shape), table_(shape.nodes) {
    const AnalyticsOptions options{o.threads, o.memory, EdgeIo::kAuto, o.progress};
    const Buffer out = degrees(topology, Direction::kOut, options);
    const Buffer in = is_undirected(topology) ? Buffer() : degrees(topology, Direction::kIn, options);
    const auto weight = [&](uint64_t node) {
      const int64_t edges = out.as<int64_t>()[node] + (in ? in.as<int64_t>()[node] : 0);
      return static_cast<float>(std::pow(static_cast<double>(edges), kExponent));
    };
    std::vector<float> weights;
    for (uint32_t part = 0; part < shape.partitions; ++part) {
      const uint64_t first = shape.first(part);
      weights.resize(static_cast<size_t>(shape.rows(part)));
      for_nodes(weights.size(), o.threads, [&](uint64_t i) { weights[i] = weight(first + i); });
      masses_.push_back(table_.build(first, weights));
    }
  }

  uint64_t draw(const Bucket& bucket, Random& random) const {
    uint32_t part = bucket.a;
    if (bucket.a != bucket.b) {
      const double masses = masses_[bucket.a] + masses_[bucket.b];
      if (random.unit() * masses >= masses_[bucket.a]) part = bucket.b;
    }
    return table_.draw(random, shape_.first(part), shape_.rows(part));
  }

  // While it is made: two degrees, a weight and a share of each node.
  static constexpr uint64_t kWorkBytes = 28;

 private:
  const VectorShape shape_;
  AliasTable table_;
  std::vector<double> masses_;  // by partition
};

// Walks that a thread draws at once, whatever the number of threads: 16 K nodes, unless walks are very long.
uint64_t walks_of_block(uint64_t walk_length) {
  return std::clamp<uint64_t>((uint64_t{1} << 14) / (walk_length + 1), 8, 4096);
}

// What a thread needs for its blocks, kept between them.
struct Scratch {
  std::vector<int64_t> starts, walks;
  std::vector<uint64_t> negatives, next_negatives;
};

class Trainer {
 public:
  Trainer(const Topology& topology, const EmbedOptions& options, NodeVectors& vectors, const Negatives& negatives)
      : topology_(topology),
        o_(options),
        vectors_(vectors),
        negatives_(negatives),
        kernel_(skipgram_kernel(options.plain)),
        nodes_(topology.num_nodes()),
        stride_(options.walk_length + 1),
        block_walks_(walks_of_block(options.walk_length)),
        blocks_((nodes_ + block_walks_ - 1) / block_walks_),
        passes_(options.epochs * options.walks_per_node),
        scratch_(static_cast<size_t>(options.threads)) {}

  static uint64_t scratch_bytes(const EmbedOptions& o) {
    const uint64_t nodes = walks_of_block(o.walk_length) * (o.walk_length + 2);  // starts too
    return static_cast<uint64_t>(o.threads) * (nodes + 2 * o.negatives) * sizeof(int64_t);
  }

  void run() {
    const std::vector<Bucket> buckets = buckets_of(vectors_.shape().partitions);
    const uint64_t rounds = buckets.size() == 1 ? 1 : std::min(passes_, std::max(o_.epochs, kLeastRounds));
    total_ = passes_ * nodes_ * buckets.size();
    for (uint64_t round = 0; round < rounds; ++round) {
      const uint64_t first = passes_ * round / rounds, end = passes_ * (round + 1) / rounds;
      for (const Bucket& bucket : buckets) {
        vectors_.bring(bucket.a, bucket.b, o_.progress);
        train(bucket, first, end - first);
        vectors_.check(o_.learning_rate);
      }
    }
  }

 private:
  void train(const Bucket& bucket, uint64_t first_pass, uint64_t passes) {
    const auto caller = std::this_thread::get_id();
    parallel_for(static_cast<size_t>(passes * blocks_), 1, o_.threads, [&](size_t begin, size_t, int worker) {
      const uint64_t pass = first_pass + begin / blocks_, block = begin % blocks_;
      train_block(bucket, pass, block, scratch_[static_cast<size_t>(worker)]);
      const uint64_t walks = std::min(block_walks_, nodes_ - block * block_walks_);
      const uint64_t done = done_.fetch_add(walks) + walks;
      if (o_.progress != nullptr && std::this_thread::get_id() == caller) {
        o_.progress->report("training", done, total_);
      }
    });
  }

  void train_block(const Bucket& bucket, uint64_t pass, uint64_t block, Scratch& scratch) {
    const uint64_t first = block * block_walks_;
    const auto count = static_cast<size_t>(std::min(block_walks_, nodes_ - first));
    const Shuffle order = shuffle_of(nodes_, make_key(o_.seed, kOrderStream, pass));
    scratch.starts.resize(count);
    for (size_t i = 0; i < count; ++i) scratch.starts[i] = static_cast<int64_t>(order(first + i));
    scratch.walks.resize(count * stride_);
    const WalkOptions walk{.length = o_.walk_length,
                           .p = o_.p,
                           .q = o_.q,
                           .weighted = o_.weighted,
                           .direction = o_.direction,
                           .seed = make_key(o_.seed, kWalkStream, pass, block),
                           .threads = 1};
    random_walks(topology_, scratch.starts, walk, scratch.walks);
    const double done = static_cast<double>(pass * blocks_ + block) / static_cast<double>(passes_ * blocks_);
    const auto rate = static_cast<float>(o_.learning_rate * std::max(1 - done, kLeastRate));
    Random random(make_key(o_.seed, kTrainStream, pass, block, bucket.a, bucket.b));
    for (size_t i = 0; i < count; ++i) {
      train_walk(bucket, {scratch.walks.data() + i * stride_, stride_}, rate, random, scratch);
    }
    // All vectors are checked at the end; this ends most runs that diverge soon after they do.
    const auto start = static_cast<uint64_t>(scratch.starts[0]);
    if (vectors_.is_here(start) && !std::isfinite(*vectors_.own(start))) vectors_.check(o_.learning_rate);
  }

  // The part of a walk before it only repeats its last node, which has no way on.
  static size_t length_of(std::span<const int64_t> walk) {
    size_t length = walk.size();
    while (length > 1 && walk[length - 1] == walk[length - 2]) --length;
    return length;
  }

  void train_walk(const Bucket& bucket, std::span<const int64_t> walk, float rate, Random& random, Scratch& scratch) {
    const size_t length = length_of(walk);
    if (length < 2) return;
    const auto node_at = [&](size_t i) { return static_cast<uint64_t>(walk[i]); };
    const auto ask_own = [&](size_t i) {
      if (i < length && vectors_.is_here(node_at(i))) prefetch_row(vectors_.own(node_at(i)));
    };
    for (size_t i = 0; i <= o_.window; ++i) ask_own(i);
    draw_negatives(bucket, node_at(0), random, scratch.negatives);
    for (size_t at = 0; at < length; ++at) {
      if (at % kBetweenLooks == 0) check_interrupt();
      if (at + 1 < length) draw_negatives(bucket, node_at(at + 1), random, scratch.next_negatives);
      ask_own(at + o_.window + 1);
      const auto window = static_cast<size_t>(random.below(o_.window) + 1);
      const size_t begin = at - std::min(at, window), end = std::min(length, at + window + 1);
      if (vectors_.is_here(node_at(at))) {
        SkipGramStep step;
        step.width = vectors_.width();
        step.rate = rate;
        for (size_t i = begin; i < end; ++i) {
          if (i == at || !trains(bucket, node_at(at), node_at(i))) continue;
          step.contexts[step.num_contexts++] = vectors_.own(node_at(i));
          if (step.num_contexts == step.contexts.size()) train_outputs(step, node_at(at), scratch.negatives);
        }
        train_outputs(step, node_at(at), scratch.negatives);
      }
      std::swap(scratch.negatives, scratch.next_negatives);
    }
  }

  // All outputs for the contexts of the step: the node and its negatives.
  void train_outputs(SkipGramStep& step, uint64_t node, const std::vector<uint64_t>& negatives) {
    if (step.num_contexts == 0) return;
    step.positive = true;
    step.outputs[0] = vectors_.output(node);
    step.num_outputs = 1;
    for (const uint64_t negative : negatives) {
      step.outputs[step.num_outputs++] = vectors_.output(negative);
      if (step.num_outputs < step.outputs.size()) continue;
      kernel_(step);
      step.positive = false;
      step.num_outputs = 0;
    }
    if (step.num_outputs > 0) kernel_(step);
    step.num_contexts = 0;
  }

  bool trains(const Bucket& bucket, uint64_t a, uint64_t b) const {
    if (vectors_.shape().partitions == 1) return true;
    if (!vectors_.is_here(b)) return false;
    const uint64_t part = a / vectors_.shape().partition_rows();
    if (part != b / vectors_.shape().partition_rows()) return true;
    return part == bucket.a ? bucket.inside_a : bucket.inside_b;
  }

  // Different ones, and not the node itself: fewer than asked for where a draw repeats.
  void draw_negatives(const Bucket& bucket, uint64_t node, Random& random, std::vector<uint64_t>& out) {
    out.clear();
    if (!vectors_.is_here(node)) return;
    for (uint64_t i = 0; i < o_.negatives; ++i) {
      const uint64_t drawn = negatives_.draw(bucket, random);
      if (drawn == node || std::find(out.begin(), out.end(), drawn) != out.end()) continue;
      out.push_back(drawn);
      prefetch_row(vectors_.output(drawn));
    }
    prefetch_row(vectors_.output(node));
  }

  void prefetch_row(const float* row) const {
    const uint64_t floats = vectors_.width();
    for (uint64_t d = 0; d < floats; d += 16) prefetch(row + d);
  }

  const Topology& topology_;
  const EmbedOptions& o_;
  NodeVectors& vectors_;
  const Negatives& negatives_;
  const SkipGramKernel kernel_;
  const uint64_t nodes_, stride_, block_walks_, blocks_, passes_;
  std::vector<Scratch> scratch_;
  std::atomic<uint64_t> done_{0};
  uint64_t total_ = 0;
};

void check_range(const char* name, uint64_t value, uint64_t most) {
  if (value < 1 || value > most) fail<ArgumentError>(name, " is ", value, ", expected 1 to ", most);
}

void check_options(const Topology& topology, const EmbedOptions& o) {
  topology.need_square("embeddings need");
  check_countable(topology);
  check_range("dim", o.dim, 1 << 16);
  check_range("walk_length", o.walk_length, 1 << 20);
  check_range("walks_per_node", o.walks_per_node, kMostPasses);
  check_range("epochs", o.epochs, kMostPasses / o.walks_per_node);
  check_range("window", o.window, 1 << 10);
  check_range("negatives", o.negatives, 1 << 10);
  if (!(o.learning_rate > 0) || !std::isfinite(o.learning_rate)) {
    fail<ArgumentError>("learning_rate is ", o.learning_rate, ", expected a positive, finite number");
  }
  // The walk's own options are checked before any work.
  WalkOptions walk{.length = 1, .p = o.p, .q = o.q, .weighted = o.weighted, .direction = o.direction, .threads = 1};
  random_walks(topology, {}, walk, {});
}

// The rows that walks read, which the operating system keeps in RAM if there is room.
uint64_t row_bytes(const Topology& topology, const EmbedOptions& o) {
  return topology.visit(o.direction, [&](const auto& csr) {
    const uint64_t weights = o.weighted ? sizeof(double) : 0;
    return (csr.num_nodes + 1) * sizeof(uint64_t) + csr.num_edges * (sizeof(*csr.indices) + weights);
  });
}

VectorShape shape_for(const Topology& topology, const EmbedOptions& o) {
  VectorShape shape{topology.num_nodes(), o.dim, 1};
  const uint64_t nodes = shape.nodes;
  if (o.partitions > 0) {
    shape.partitions = static_cast<uint32_t>(std::clamp<uint64_t>(o.partitions, 1, std::max<uint64_t>(nodes, 1)));
    return shape;
  }
  const uint64_t result = nodes * o.dim * sizeof(float);
  if (o.beside == 0 && result > o.memory) {
    throw BudgetError(text("memory is ", o.memory, " bytes, but ", nodes, " vectors of ", o.dim, " numbers take ",
                           result, "; with out='vectors.gd' they are written to a file"),
                      result);
  }
  // Rows of the graph are cached by the system: they count for at most half. Degrees and the work of the alias table
  // are freed before vectors are made.
  const uint64_t rows = row_bytes(topology, o);
  const auto needed = [&] {
    const uint64_t held = o.beside + AliasTable::bytes(nodes) + Trainer::scratch_bytes(o) +
                          std::max(shape.resident_bytes(), nodes * Negatives::kWorkBytes) +
                          (o.beside == 0 && shape.partitions > 1 ? result : 0);
    return held + std::min(rows, held);
  };
  const uint64_t whole = needed();
  if (whole <= o.memory) return shape;
  for (shape.partitions = 3; shape.partitions < kMostPartitions; ++shape.partitions) {  // two would be all of them
    if (needed() <= o.memory) return shape;
  }
  const uint64_t least = needed();
  if (least <= o.memory) return shape;
  throw BudgetError(text("memory is ", o.memory, " bytes, but embedding ", nodes, " nodes of ", topology.file().path(),
                         " in ", o.dim, " dimensions needs at least ", least, ", and ", whole, " to stay in RAM"),
                    least);
}

}  // namespace

NodeVectors embed(const Topology& topology, const EmbedOptions& options) {
  check_options(topology, options);
  const VectorShape shape = shape_for(topology, options);
  const Negatives negatives(topology, shape, options);
  NodeVectors vectors(shape, options.seed, options.folder, options.threads);
  if (shape.nodes > 0) Trainer(topology, options, vectors, negatives).run();
  return vectors;
}

}  // namespace gz

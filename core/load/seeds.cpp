// seeds: the order of an epoch, batches dealt out to ranks, and the two kinds of seeds.
#include "load/seeds.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"
#include "base/ids.h"
#include "base/random.h"
#include "sample/link/link.h"

namespace gz {
namespace {

constexpr uint64_t kShuffle = 0x73687566666c65ull;  // keeps the two uses of (seed, epoch) apart
constexpr uint64_t kBatch = 0x6261746368ull, kDependent = 0x646570656eull;

// Throws IndexError for the first number that is out of range.
void check_numbers(const Numbers& numbers, const std::string& name, const IdRange& range) {
  const uint64_t count = numbers.size();
  for (uint64_t i = numbers.is_range() ? std::min(range.size, count) : 0; i < count; ++i) {
    if (static_cast<uint64_t>(numbers.at(i)) >= range.size) check_id(numbers.at(i), text(name, "[", i, "]"), range);
  }
}

class NodeSeeds final : public SeedSource {
 public:
  NodeSeeds(Numbers nodes, Numbers times, size_t type)
      : nodes_(std::move(nodes)), times_(std::move(times)), type_(type) {}

  uint64_t count() const override { return nodes_.size(); }
  bool timed() const override { return !times_.empty(); }
  std::vector<size_t> types() const override { return {type_}; }

  void check(const SampleGraph& graph) const override {
    if (type_ >= graph.node_types().size()) fail<ArgumentError>("node type ", type_, " of the seeds does not exist");
    if (timed() && times_.size() != nodes_.size()) {
      fail<ArgumentError>("time has ", times_.size(), " values for ", nodes_.size(), " seeds, expected one per seed");
    }
    const std::string where = graph.where(type_);
    check_numbers(nodes_, "seeds", {graph.node_types()[type_].num_nodes, "nodes", where});
  }

  void fill(std::span<const int64_t> input, BatchSeeds& out) const override {
    SeedsOfType& seeds = out.seeds.emplace_back();
    seeds.type = type_;
    seeds.nodes = values_of(nodes_, input);
    if (timed()) seeds.times = values_of(times_, input);
  }

 private:
  static std::vector<int64_t> values_of(const Numbers& numbers, std::span<const int64_t> input) {
    std::vector<int64_t> values(input.size());
    for (size_t i = 0; i < input.size(); ++i) values[i] = numbers.at(static_cast<uint64_t>(input[i]));
    return values;
  }

  const Numbers nodes_, times_;
  const size_t type_;
};

BatchArray array_of(const char* name, const std::vector<int64_t>& values, std::vector<size_t> shape) {
  BatchArray array{name, DType::kInt64, std::move(shape), take_buffer(std::max<size_t>(values.size(), 1) * 8)};
  std::copy(values.begin(), values.end(), array.buffer->as<int64_t>());
  return array;
}

// The edges of one batch.
struct Ends {
  std::vector<int64_t> source, target, times, edge;
};

class LinkSource final : public SeedSource {
 public:
  LinkSource(SampleGraph graph, LinkSourceOptions options) : graph_(std::move(graph)), o_(std::move(options)) {
    if (o_.edge_type >= graph_.edge_types().size()) {
      fail<ArgumentError>("edge type ", o_.edge_type, " of the seeds does not exist");
    }
    for (const size_t other : o_.link.reverse_types) {
      if (other >= graph_.edge_types().size()) fail<ArgumentError>("reverse edge type ", other, " does not exist");
    }
    edge_types_ = graph_.edge_types();
    if (!graph_.typed()) edge_types_[0].direction = edge_types_[0].topology->resolve(o_.direction);
  }

  uint64_t count() const override {
    if (o_.ends) return o_.ends->first.size();
    return o_.positions ? o_.positions->size() : own().topology->num_edges();
  }
  bool timed() const override { return o_.own_times || !o_.times.empty(); }
  std::vector<size_t> types() const override {
    if (own().source == own().target) return {own().source};
    return {own().source, own().target};
  }

  void check(const SampleGraph&) const override {
    check_link_options(o_.link);
    if (o_.ends && o_.ends->second.size() != count()) {
      fail<ArgumentError>("edges have ", count(), " sources and ", o_.ends->second.size(),
                          " targets; lengths must match");
    }
    if (!o_.times.empty() && !all() && o_.times.size() != count()) {
      fail<ArgumentError>("time has ", o_.times.size(), " values for ", count(), " edges, expected one per edge");
    }
    for (uint64_t i = 0; i < count() && o_.positions; ++i) {
      if (static_cast<uint64_t>(o_.positions->at(i)) < own().topology->num_edges()) continue;
      fail<IndexError>("edges[", i, "]: position ", o_.positions->at(i), " is out of range for ",
                       own().topology->file().path(), " with ", own().topology->num_edges(), " edges");
    }
    if (o_.ends) {
      check_ends(o_.ends->first, own().source, "edges[0]");
      check_ends(o_.ends->second, own().target, "edges[1]");
    }
    if (count() == 0) return;
    const int64_t first = 0;  // one batch suffices to check the options against the graph
    BatchSeeds probe;
    fill({&first, 1}, probe);
  }

  void fill(std::span<const int64_t> input, BatchSeeds& out) const override {
    const Ends ends = ends_of(input);
    const Links links{o_.edge_type, ends.source, ends.target, ends.times};
    LinkSeeds made = link_seeds(graph_.node_types(), own(), links, o_.link, o_.disjoint || timed(), out.key, 1);
    for (auto& [number, edges] : link_exclusion(edge_types_, links, o_.link)) {
      out.exclude.resize(edge_types_.size());
      out.exclude[number] = std::move(edges);
    }
    const size_t positives = made.num_positive;
    if (o_.link.negatives == LinkNegatives::kTriplet) {
      out.arrays.push_back(array_of("src_index", made.src_index, {positives}));
      out.arrays.push_back(array_of("dst_pos_index", made.dst_pos_index, {positives}));
      std::vector<size_t> shape{positives};
      if (made.num_each > 1) shape.push_back(made.num_each);
      out.arrays.push_back(array_of("dst_neg_index", made.dst_neg_index, std::move(shape)));
    } else {
      const size_t all = made.edge_label_index.size() / 2;
      out.arrays.push_back(array_of("edge_label_index", made.edge_label_index, {2, all}));
    }
    if (timed()) out.arrays.push_back(array_of("time", made.times, {made.times.size()}));
    if (!made.tree_edge.empty()) out.arrays.push_back(array_of("tree_edge", made.tree_edge, {made.tree_edge.size()}));
    if (!o_.ends) out.arrays.push_back(array_of("edge", ends.edge, {ends.edge.size()}));
    out.seeds.push_back({own().source, std::move(made.source), std::move(made.source_times)});
    if (own().source != own().target) {
      out.seeds.push_back({own().target, std::move(made.target), std::move(made.target_times)});
    }
  }

 private:
  const EdgeType& own() const { return edge_types_[o_.edge_type]; }
  bool all() const { return !o_.ends && !o_.positions; }

  Ends ends_of(std::span<const int64_t> input) const {
    Ends ends;
    ends.source.resize(input.size());
    ends.target.resize(input.size());
    if (o_.ends) {
      for (size_t i = 0; i < input.size(); ++i) {
        ends.source[i] = o_.ends->first.at(static_cast<uint64_t>(input[i]));
        ends.target[i] = o_.ends->second.at(static_cast<uint64_t>(input[i]));
      }
    } else {
      ends.edge.resize(input.size());
      if (o_.own_times) ends.times.resize(input.size());
      std::vector<int64_t> positions(input.begin(), input.end());
      for (size_t i = 0; i < input.size() && o_.positions; ++i) {
        positions[i] = o_.positions->at(static_cast<uint64_t>(input[i]));
      }
      edges_at(*own().topology, own().direction, positions, {ends.source, ends.target, ends.edge, ends.times});
    }
    for (size_t i = 0; i < input.size() && !o_.times.empty(); ++i) {
      const auto at = static_cast<uint64_t>(all() ? ends.edge[i] : input[i]);
      if (at >= o_.times.size()) [[unlikely]] {
        fail<IndexError>("edge id ", at, " of ", own().topology->file().path(), " is out of range for time with ",
                         o_.times.size(), " values");
      }
      ends.times.push_back(o_.times.at(at));
    }
    return ends;
  }

  void check_ends(const Numbers& ends, size_t type, const char* name) const {
    const std::string where = graph_.where(type);
    check_numbers(ends, name, {graph_.node_types()[type].num_nodes, "nodes", where});
  }

  const SampleGraph graph_;
  const LinkSourceOptions o_;
  std::vector<EdgeType> edge_types_;  // the graph's, with the direction that is sampled
};

}  // namespace

EpochOrder::EpochOrder(uint64_t count, bool shuffle, uint64_t seed, uint64_t epoch) : count_(count), shuffle_(shuffle) {
  if (count >> 62 != 0) fail<ArgumentError>("an epoch of ", count, " seeds is too long, expected less than 2^62");
  if (!shuffle || count == 0) return;
  Random random(make_key(seed, kShuffle, epoch));
  if (count <= kShort) {  // Fisher and Yates
    std::iota(table_.begin(), table_.end(), uint8_t{0});
    for (uint64_t i = count; i > 1; --i) std::swap(table_[i - 1], table_[random.below(i)]);
    return;
  }
  Shuffle::Keys keys;
  for (uint64_t& key : keys) key = random.next();
  permutation_ = Shuffle(count, keys);
}

uint64_t count_batches(uint64_t count, uint64_t batch_size, bool drop_last) {
  return drop_last ? count / batch_size : count / batch_size + (count % batch_size != 0 ? 1 : 0);
}

uint64_t count_share(uint64_t batches, const Share& share) {
  const uint64_t world = share.world_size;
  if (world == 0) fail<ArgumentError>("world_size is 0, expected at least 1");
  if (share.rank >= world) fail<ArgumentError>("rank is ", share.rank, ", expected less than world_size = ", world);
  const uint64_t left = batches - std::min(share.first, batches);
  const uint64_t rounds = left / world, over = left % world;
  switch (share.uneven) {
    case Uneven::kPad:
      return rounds + (over > 0 ? 1 : 0);
    case Uneven::kKeep:
      return rounds + (share.rank < over ? 1 : 0);
    case Uneven::kDrop:
      break;
  }
  return rounds;
}

EpochBatches::EpochBatches(const EpochOrder& order, uint64_t batch_size, bool drop_last, const Share& share)
    : order_(order),
      batch_size_(batch_size),
      total_(count_batches(order.count(), batch_size, drop_last)),
      share_(share),
      count_(count_share(total_, share)) {}

uint64_t EpochBatches::number(uint64_t i) const {
  // Past the end, the epoch starts again: that is what pads the last round.
  return (share_.first + i * share_.world_size + share_.rank) % total_;
}

std::vector<int64_t> EpochBatches::input(uint64_t i) const {
  const uint64_t begin = number(i) * batch_size_;
  std::vector<int64_t> positions(std::min(batch_size_, order_.count() - begin));
  for (size_t k = 0; k < positions.size(); ++k) positions[k] = static_cast<int64_t>(order_.at(begin + k));
  return positions;
}

uint64_t epoch_seed(uint64_t seed, uint64_t epoch) { return make_key(seed, kDependent, epoch); }

uint64_t batch_seed(uint64_t seed, uint64_t epoch, uint64_t number) { return make_key(seed, kBatch, epoch, number); }

std::shared_ptr<const SeedSource> node_seeds(Numbers nodes, Numbers times, size_t type) {
  return std::make_shared<NodeSeeds>(std::move(nodes), std::move(times), type);
}

std::shared_ptr<const SeedSource> link_source(SampleGraph graph, LinkSourceOptions options) {
  return std::make_shared<LinkSource>(std::move(graph), std::move(options));
}

}  // namespace gz

// seeds: node seeds.
#include "load/seeds.h"

#include <algorithm>

#include "base/error.h"

namespace gz {
namespace {

class NodeSeeds final : public SeedSource {
 public:
  NodeSeeds(Numbers nodes, Numbers times, size_t type)
      : nodes_(std::move(nodes)), times_(std::move(times)), type_(type) {}

  uint64_t count() const override { return nodes_.size(); }
  bool timed() const override { return !times_.empty(); }
  std::vector<size_t> types() const override { return {type_}; }

  void check(const LoadGraph& graph) const override {
    if (type_ >= graph.node_types().size()) fail<ArgumentError>("node type ", type_, " of the seeds does not exist");
    if (timed() && times_.size() != nodes_.size()) {
      fail<ArgumentError>("time has ", times_.size(), " values for ", nodes_.size(), " seeds, expected one per seed");
    }
    const uint64_t nodes = graph.node_types()[type_].num_nodes;
    for (uint64_t i = nodes_.is_range() ? std::min(nodes, count()) : 0; i < count(); ++i) {
      const int64_t seed = nodes_.at(i);
      if (seed < 0 || static_cast<uint64_t>(seed) >= nodes) {
        fail<IndexError>("seeds[", i, "] = ", seed, " is out of range for ", graph.where(type_), " with ", nodes,
                         " nodes");
      }
    }
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

}  // namespace

std::shared_ptr<const SeedSource> node_seeds(Numbers nodes, Numbers times, size_t type) {
  return std::make_shared<NodeSeeds>(std::move(nodes), std::move(times), type);
}

}  // namespace gz

// link_source: edges -> seeds, excluded edges, and the arrays of a batch.
#include "load/link_source.h"

#include <algorithm>

#include "base/error.h"
#include "sample/link/edges_at.h"

namespace gz {
namespace {

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
  LinkSource(LoadGraph graph, LinkSourceOptions options) : graph_(std::move(graph)), o_(std::move(options)) {
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

  void check(const LoadGraph&) const override {
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
    if (o_.ends) check_ends(o_.ends->first, own().source, 0), check_ends(o_.ends->second, own().target, 1);
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

  void check_ends(const Numbers& ends, size_t type, int row) const {
    const uint64_t nodes = graph_.node_types()[type].num_nodes;
    for (uint64_t i = 0; i < ends.size(); ++i) {
      const int64_t node = ends.at(i);
      if (node >= 0 && static_cast<uint64_t>(node) < nodes) continue;
      fail<IndexError>("edges[", row, "][", i, "] = ", node, " is out of range for ", graph_.where(type), " with ",
                       nodes, " nodes");
    }
  }

  const LoadGraph graph_;
  const LinkSourceOptions o_;
  std::vector<EdgeType> edge_types_;  // the graph's, with the direction that is sampled
};

}  // namespace

std::shared_ptr<const SeedSource> link_source(LoadGraph graph, LinkSourceOptions options) {
  return std::make_shared<LinkSource>(std::move(graph), std::move(options));
}

}  // namespace gz

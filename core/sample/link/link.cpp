// link: negatives, deduplication, exclusion.
#include "sample/link/link.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/ids.h"
#include "base/open_table.h"
#include "base/prefetch.h"
#include "base/random.h"
#include "base/threads.h"
#include "sample/link/negatives.h"
#include "sample/rows/row_search.h"
#include "sample/subgraph/growing.h"
#include "storage/page_requests.h"

namespace gz {
namespace {

constexpr double kMostRatio = 1 << 20;
constexpr uint64_t kRounds = 32;  // in which a negative that exists at its edge's time is looked for

// Numbers nodes by first appearance.
class Numbered {
 public:
  Numbered(std::vector<int64_t>& nodes, size_t most) : nodes_(nodes), table_(most) {}

  int64_t operator()(int64_t node) {
    uint32_t& index = table_.find(nodes_, node);
    if (index == IndexTable::kNone) {
      index = static_cast<uint32_t>(nodes_.size());
      nodes_.push_back(node);
    }
    return index;
  }

 private:
  std::vector<int64_t>& nodes_;
  IndexTable table_;
};

// Pairs, and the positive edge that each goes with.
struct Pairs {
  std::vector<int64_t> source, target;
  std::vector<size_t> edge;
};

// Draws negatives; with node times, such as exist at the time of their positive edge.
class Drawing {
 public:
  Drawing(std::span<const NodeType> node_types, const EdgeType& edge_type, const Links& links,
          const LinkOptions& options, uint64_t key, int threads)
      : topology_(*edge_type.topology), links_(links) {
    if (options.negatives == LinkNegatives::kTriplet) sources_ = links.source;
    how_ = {.by_degree = options.by_degree,
            .exponent = options.exponent,
            .exclude_edges = options.strict,
            .exclude_self = options.strict && edge_type.source == edge_type.target,
            .seed = key,
            .threads = threads};
    if (links.times.empty()) return;
    if (!sources_) source_times_ = node_types[edge_type.source].times;
    target_times_ = node_types[edge_type.target].times;
  }

  void run(Pairs& pairs) const {
    draw(how_, pairs.source, pairs.target);
    if (source_times_.empty() && target_times_.empty()) return;
    NegativeOptions again = how_;
    std::vector<int64_t> source(pairs.source.size()), target(pairs.target.size());
    for (uint64_t round = 1; round <= kRounds; ++round) {
      std::vector<size_t> late;
      for (size_t i = 0; i < pairs.edge.size(); ++i) {
        if (too_late(source_times_, pairs.source, pairs, i) || too_late(target_times_, pairs.target, pairs, i)) {
          late.push_back(i);
        }
      }
      if (late.empty()) return;
      again.seed = absorb(how_.seed, round);
      draw(again, source, target);
      for (const size_t i : late) pairs.source[i] = source[i], pairs.target[i] = target[i];
    }
    for (size_t i = 0; i < pairs.edge.size(); ++i) {  // hardly any node is early enough: the earliest is taken
      if (too_late(source_times_, pairs.source, pairs, i)) pairs.source[i] = earliest(source_times_);
      if (too_late(target_times_, pairs.target, pairs, i)) pairs.target[i] = earliest(target_times_);
    }
  }

 private:
  void draw(const NegativeOptions& how, std::vector<int64_t>& source, std::vector<int64_t>& target) const {
    if (!source.empty()) negative_edges(topology_, sources_, how, source, target);
  }
  bool too_late(std::span<const int64_t> times, const std::vector<int64_t>& ends, const Pairs& pairs, size_t i) const {
    return !times.empty() && times[static_cast<size_t>(ends[i])] > links_.times[pairs.edge[i]];
  }
  static int64_t earliest(std::span<const int64_t> times) {
    return std::min_element(times.begin(), times.end()) - times.begin();
  }

  const Topology& topology_;
  const Links& links_;
  NegativeOptions how_;
  std::optional<std::span<const int64_t>> sources_;       // of triplets
  std::span<const int64_t> source_times_, target_times_;  // of the nodes that are drawn; empty where they do not matter
};

void check_links(std::span<const NodeType> node_types, const EdgeType& edge_type, const Links& links) {
  if (links.source.size() != links.target.size()) {
    fail<ArgumentError>("edges have ", links.source.size(), " sources and ", links.target.size(), " targets");
  }
  if (!links.times.empty() && links.times.size() != links.source.size()) {
    fail<ArgumentError>("time has ", links.times.size(), " values for ", links.source.size(),
                        " edges, expected one per edge");
  }
  const auto check = [&](std::span<const int64_t> ends, size_t type, const char* what) {
    const std::string& name = node_types[type].name;
    const auto where = name.empty() ? edge_type.topology->file().path() : "node type '" + name + "'";
    check_ids(ends, what, {node_types[type].num_nodes, "nodes", where});
  };
  check(links.source, edge_type.source, "edges[0]");
  check(links.target, edge_type.target, "edges[1]");
}

// The seeds that ends are, and their places; in a disjoint sample each end is one.
class Seeds {
 public:
  Seeds(LinkSeeds& out, const Links& links, bool one_type, bool disjoint, size_t most)
      : out_(out),
        links_(links),
        disjoint_(disjoint),
        target_(one_type ? out.source : out.target),
        target_times_(one_type ? out.source_times : out.target_times),
        number_source_(out.source, disjoint ? 0 : most),
        number_target_(target_, disjoint || one_type ? 0 : most),
        one_type_(one_type) {}

  int64_t source(int64_t node, size_t edge) {
    return disjoint_ ? tree(out_.source, out_.source_times, node, edge) : number_source_(node);
  }
  int64_t target(int64_t node, size_t edge) {
    if (disjoint_) return tree(target_, target_times_, node, edge);
    return one_type_ ? number_source_(node) : number_target_(node);
  }

 private:
  int64_t tree(std::vector<int64_t>& nodes, std::vector<int64_t>& times, int64_t node, size_t edge) {
    nodes.push_back(node);
    out_.tree_edge.push_back(static_cast<int64_t>(edge));
    if (!links_.times.empty()) times.push_back(links_.times[edge]);
    return static_cast<int64_t>(nodes.size()) - 1;
  }

  LinkSeeds& out_;
  const Links& links_;
  const bool disjoint_;
  std::vector<int64_t>&target_, &target_times_;
  Numbered number_source_, number_target_;
  const bool one_type_;
};

constexpr size_t kLanes = 64;  // searches in flight over a warm file

// The rows that hold the edges at these places, and the positions of those edges, which differ from their places only
// with deltas.
template <class Id>
void find_rows(const Csr<Id>& csr, std::span<const int64_t> places, int64_t* rows, int64_t* positions,
               PagePrefetcher* pages) {
  std::vector<NodeSearch> searches(places.size());
  std::vector<NodeSearch*> busy;
  for (size_t i = 0; i < places.size(); ++i) {
    searches[i].begin(csr, static_cast<uint64_t>(places[i]));
    busy.push_back(&searches[i]);
  }
  while (!busy.empty()) {
    if (pages != nullptr) {
      for (NodeSearch* search : busy) search->ask_pages(csr, *pages);
      pages->request_added();
    }
    std::erase_if(busy, [&](NodeSearch* search) { return search->step(csr); });
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const uint64_t row = searches[i].node(), place = static_cast<uint64_t>(places[i]);
    if (row >= csr.num_nodes) fail_row(*csr.file, row, csr.start_of(csr.num_nodes), csr.num_edges);
    const auto found = csr.row(row);
    const uint64_t start = csr.start_of(row);
    if (place < start || place - start >= found.degree()) fail_row(*csr.file, row, found.begin, found.end);
    rows[i] = static_cast<int64_t>(row);
    positions[i] = static_cast<int64_t>(found.begin + (place - start));
  }
}

template <class Id>
void find_edges(const Csr<Id>& csr, std::span<const int64_t> places, bool by_source, const EdgesAt& out) {
  PagePrefetcher pages(*csr.file, 1);
  const auto at = [&](size_t i) {  // with deltas, about there
    const uint64_t begin = pages.offset_of(csr.indices + places[i]);
    return ByteRange{begin, begin + sizeof(Id)};
  };
  const bool cold = pages.request(places.size(), at);
  const size_t grain = cold ? places.size() : kLanes;
  auto &row = by_source ? out.source : out.target, &other = by_source ? out.target : out.source;
  std::vector<int64_t> positions(places.size());
  for (size_t i = 0; i < places.size(); i += grain) {
    const auto some = places.subspan(i, std::min(grain, places.size() - i));
    for (const int64_t place : some) prefetch(csr.indices + place);
    find_rows(csr, some, row.data() + i, positions.data() + i, cold ? &pages : nullptr);
  }
  for (size_t i = 0; i < places.size(); ++i) {
    const auto position = static_cast<uint64_t>(positions[i]);
    other[i] = static_cast<int64_t>(csr.neighbour(position));
    if (!out.edge.empty()) {
      out.edge[i] = csr.has_edge_ids() ? static_cast<int64_t>(csr.stored_edge_id(position)) : places[i];
    }
    if (!out.time.empty()) out.time[i] = csr.times[position];
  }
}

}  // namespace

void check_link_options(const LinkOptions& options) {
  if (options.negatives == LinkNegatives::kNone) return;
  const bool triplet = options.negatives == LinkNegatives::kTriplet;
  if (!(options.ratio > 0 && options.ratio <= kMostRatio)) {
    fail<ArgumentError>("neg_ratio is ", options.ratio, ", expected more than 0 and at most ", kMostRatio);
  }
  if (triplet && options.ratio != std::floor(options.ratio)) {
    fail<ArgumentError>("neg_ratio is ", options.ratio, ", expected a whole number of negatives for each triplet");
  }
}

LinkSeeds link_seeds(std::span<const NodeType> node_types, const EdgeType& edge_type, const Links& links,
                     const LinkOptions& options, bool disjoint, uint64_t key, int threads) {
  check_link_options(options);
  check_links(node_types, edge_type, links);
  const size_t positives = links.source.size();
  const bool triplet = options.negatives == LinkNegatives::kTriplet;
  LinkSeeds seeds;
  seeds.num_positive = positives;
  if (triplet) seeds.num_each = static_cast<size_t>(options.ratio);
  Pairs negatives;
  if (options.negatives != LinkNegatives::kNone) {
    const double wanted = std::ceil(static_cast<double>(positives) * options.ratio);
    if (wanted >= static_cast<double>(kMostLabels)) {
      fail<ArgumentError>(wanted, " negatives, expected below ", kMostLabels,
                          "; take fewer edges or a lower neg_ratio");
    }
    const auto count = static_cast<size_t>(wanted);
    negatives.source.resize(count);
    negatives.target.resize(count);
    for (size_t i = 0; i < count; ++i) negatives.edge.push_back(triplet ? i / seeds.num_each : i % positives);
    Drawing(node_types, edge_type, links, options, key, threads).run(negatives);
  }
  const size_t all = positives + negatives.edge.size();
  Seeds found(seeds, links, edge_type.source == edge_type.target, disjoint, 2 * all);
  auto& sources = triplet ? seeds.src_index : seeds.edge_label_index;
  auto& targets = triplet ? seeds.dst_pos_index : seeds.edge_label_index;
  auto& others = triplet ? seeds.dst_neg_index : seeds.edge_label_index;
  sources.reserve(triplet ? positives : 2 * all);
  for (size_t i = 0; i < positives; ++i) sources.push_back(found.source(links.source[i], i));
  for (size_t i = 0; i < negatives.edge.size() && !triplet; ++i) {
    sources.push_back(found.source(negatives.source[i], negatives.edge[i]));
  }
  for (size_t i = 0; i < positives; ++i) targets.push_back(found.target(links.target[i], i));
  for (size_t i = 0; i < negatives.edge.size(); ++i) {
    others.push_back(found.target(negatives.target[i], negatives.edge[i]));
  }
  seeds.times.assign(links.times.begin(), links.times.end());
  for (size_t i = 0; i < negatives.edge.size() && !triplet && !links.times.empty(); ++i) {
    seeds.times.push_back(links.times[negatives.edge[i]]);
  }
  return seeds;
}

std::map<size_t, ExcludedEdges> link_exclusion(std::span<const EdgeType> edge_types, const Links& links,
                                               const LinkOptions& options) {
  std::map<size_t, ExcludedEdges> excluded;
  if (options.exclude == LinkExclude::kNone) return excluded;
  const EdgeType& own = edge_types[links.edge_type];
  const bool reverse = options.exclude == LinkExclude::kReverse;
  excluded[links.edge_type].add(*own.topology, own.direction, links.source, links.target,
                                reverse && own.source == own.target);
  for (const size_t number : options.reverse_types) {
    if (!reverse) break;
    const EdgeType& type = edge_types[number];
    excluded[number].add(*type.topology, type.direction, links.target, links.source, false);
  }
  for (auto& [number, edges] : excluded) edges.build();
  return excluded;
}

void number_by_edge(const LinkSeeds& seeds, std::span<int64_t> batch) {
  for (int64_t& tree : batch) tree = seeds.tree_edge[static_cast<size_t>(tree)];
}

LinkSubgraph sample_links(std::span<const NodeType> node_types, std::span<const EdgeType> edge_types,
                          const Links& links, const LinkOptions& link_options, const SampleOptions& options) {
  const EdgeType& own = edge_types[links.edge_type];
  const bool timed = !links.times.empty(), disjoint = options.disjoint || timed;
  LinkSubgraph made;
  made.seeds =
      link_seeds(node_types, own, links, link_options, disjoint, options.seed, resolve_threads(options.threads));
  const auto excluded = link_exclusion(edge_types, links, link_options);
  std::vector<EdgeType> types(edge_types.begin(), edge_types.end());
  for (const auto& [number, edges] : excluded) types[number].exclude = &edges;
  std::vector<TypedSeeds> seeds{{own.source, made.seeds.source, made.seeds.source_times}};
  if (own.source != own.target) seeds.push_back({own.target, made.seeds.target, made.seeds.target_times});
  made.graph = sample_hetero(node_types, types, seeds, timed, options);
  if (!disjoint) return made;
  for (const SampledNodes& nodes : made.graph.nodes) number_by_edge(made.seeds, nodes.batch.span());
  return made;
}

void edges_at(const Topology& topology, Direction direction, std::span<const int64_t> positions, const EdgesAt& out) {
  const std::string& path = topology.file().path();
  check_ids(positions, "positions", {topology.num_edges(), "edges", path});
  if (positions.empty()) return;
  const bool by_source = topology.resolve(direction) == Direction::kOut;
  topology.visit(direction, [&](const auto& csr) {
    if (!out.time.empty() && csr.times == nullptr) {
      fail<ArgumentError>(path, ": edges have no times; compile the graph with times to take those of the seed edges");
    }
    find_edges(csr, positions, by_source, out);
  });
  topology.file().check();
}

}  // namespace gz

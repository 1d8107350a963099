// bind_hetero: neighbourhoods in graphs of several node and edge types, around nodes or edges; edge seeds of a loader.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "base/threads.h"
#include "bindings.h"
#include "load/seeds.h"
#include "sample/link/link.h"
#include "sample/subgraph/hgt.h"
#include "sample/subgraph/induce.h"
#include "sample/subgraph/neighbours.h"

namespace gz::bindings {
namespace {

// The options for negatives of a batch of edges, and for its edges in the sample.
LinkNegatives parse_negatives(const std::optional<std::string>& name) {
  if (!name) return LinkNegatives::kNone;
  return parse_choice<LinkNegatives>(
      "neg_sampling", *name, {{"binary", LinkNegatives::kBinary}, {"triplet", LinkNegatives::kTriplet}}, "None");
}

LinkExclude parse_link_exclude(const std::string& name) {
  return parse_choice<LinkExclude>(
      "exclude", name,
      {{"none", LinkExclude::kNone}, {"self", LinkExclude::kSelf}, {"reverse", LinkExclude::kReverse}});
}

nb::list nodes_of(const HeteroSubgraph& s) {
  nb::list list;
  for (const SampledNodes& part : s.nodes) {
    nb::object batch = nb::none();
    if (part.batch.buffer) batch = nb::cast(vector_of(part.batch));
    list.append(nb::make_tuple(vector_of(part.node), batch, part.num_sampled_nodes));
  }
  return list;
}

nb::list edges_of(const std::vector<SampledEdges>& edges) {
  nb::list list;
  for (const SampledEdges& part : edges) {
    list.append(nb::make_tuple(edge_index_of(part), vector_of(part.edge), part.num_sampled_edges));
  }
  return list;
}

Array array_of(const std::vector<int64_t>& values, std::initializer_list<size_t> shape) {
  const Result<int64_t> out(values.size());
  std::copy(values.begin(), values.end(), out.data);
  return out.array(shape);
}

// PyG's fields, by name.
nb::dict fields_of(const LinkSeeds& seeds, bool triplets) {
  nb::dict fields;
  if (triplets) {
    fields["src_index"] = array_of(seeds.src_index, {seeds.num_positive});
    fields["dst_pos_index"] = array_of(seeds.dst_pos_index, {seeds.num_positive});
    fields["dst_neg_index"] = seeds.num_each == 1 ? array_of(seeds.dst_neg_index, {seeds.num_positive})
                                                  : array_of(seeds.dst_neg_index, {seeds.num_positive, seeds.num_each});
  } else {
    fields["edge_label_index"] = array_of(seeds.edge_label_index, {size_t{2}, seeds.edge_label_index.size() / 2});
  }
  fields["time"] = array_of(seeds.times, {seeds.times.size()});
  return fields;
}

void check_type(size_t type, size_t count, const char* kind) {
  if (type >= count) fail<ArgumentError>(kind, " type ", type, " is out of range, there are ", count);
}

// A graph of several types, and the arguments of one call. Arrays are borrowed for the duration of the call.
struct TypedCall {
  std::vector<NodeType> node_types;
  std::vector<EdgeType> edge_types;
  std::vector<TypedSeeds> seeds;
  std::vector<Ids> arrays;                   // the memory of the spans above
  std::map<size_t, ExcludedEdges> excluded;  // by edge type
  std::optional<Links> links;                // instead of seeds
  LinkOptions link_options;

  void add_node_type(std::string name, uint64_t num_nodes, const std::optional<Ids>& times) {
    node_types.push_back({std::move(name), num_nodes, {}});
    if (!times) return;
    arrays.push_back(*times);
    node_types.back().times = span_of(*times);
  }

  void add_edge_type(const Topology& topology, const std::string& direction, size_t source, size_t target,
                     std::vector<int64_t> fanouts) {
    check_type(std::max(source, target), node_types.size(), "node");
    edge_types.push_back({&topology, parse_direction(direction), source, target, std::move(fanouts), nullptr});
  }

  void exclude(size_t number, const Ids& source, const Ids& target, bool reverse) {
    check_type(number, edge_types.size(), "edge");
    EdgeType& type = edge_types[number];
    excluded[number].add(*type.topology, type.direction, span_of(source), span_of(target), reverse);
    type.exclude = &excluded[number];
  }

  void add_seeds(size_t type, const Ids& nodes, const std::optional<Ids>& times) {
    check_type(type, node_types.size(), "node");
    arrays.push_back(nodes);
    seeds.push_back({type, span_of(nodes), {}});
    if (!times) return;
    arrays.push_back(*times);
    seeds.back().times = span_of(*times);
  }

  void set_links(size_t edge_type, const Ids& source, const Ids& target, const std::optional<Ids>& times,
                 const std::optional<std::string>& negatives, double ratio, bool strict, bool by_degree,
                 double exponent, const std::string& exclude_, const std::vector<size_t>& reverse_types) {
    check_type(edge_type, edge_types.size(), "edge");
    links = Links{edge_type, span_of(source), span_of(target), {}};
    arrays.insert(arrays.end(), {source, target});
    if (times) links->times = span_of(arrays.emplace_back(*times));
    link_options = {.negatives = parse_negatives(negatives),
                    .ratio = ratio,
                    .strict = strict,
                    .by_degree = by_degree,
                    .exponent = exponent,
                    .exclude = parse_link_exclude(exclude_),
                    .reverse_types = reverse_types};
    check_link_options(link_options);
  }

  nb::tuple sample(const SampleOptions& options, bool timed) {
    LinkSubgraph made;
    {
      WithoutGil work;
      for (auto& [number, edges] : excluded) edges.build();
      if (links) {
        made = sample_links(node_types, edge_types, *links, link_options, options);
      } else {
        made.graph = sample_hetero(node_types, edge_types, seeds, timed, options);
      }
    }
    if (!links) return nb::make_tuple(nodes_of(made.graph), edges_of(made.graph.edges));
    return nb::make_tuple(nodes_of(made.graph), edges_of(made.graph.edges),
                          fields_of(made.seeds, link_options.negatives == LinkNegatives::kTriplet));
  }

  // All edges between these nodes, which are listed by node type.
  nb::list induce(const std::vector<Ids>& nodes, int threads) {
    std::vector<std::span<const int64_t>> lists;
    for (const Ids& list : nodes) lists.push_back(span_of(list));
    if (lists.size() != node_types.size())
      fail<ArgumentError>("nodes has ", lists.size(), " node types, expected ", node_types.size());
    std::vector<SampledEdges> found;
    {
      WithoutGil work;
      for (auto& [number, edges] : excluded) edges.build();
      found = induced_edges(edge_types, lists, resolve_threads(threads));
    }
    return edges_of(found);
  }

  nb::tuple hgt(const std::vector<std::vector<int64_t>>& counts, uint64_t seed, int threads) const {
    const HeteroSubgraph found =
        interruptible([&] { return sample_hgt(node_types, edge_types, seeds, counts, seed, threads); });
    return nb::make_tuple(nodes_of(found), edges_of(found.edges));
  }
};

}  // namespace

void bind_hetero(nb::module_& m) {
  nb::class_<TypedCall>(m, "TypedCall")
      .def(nb::init<>())
      .def("add_node_type", &TypedCall::add_node_type, nb::arg("name"), nb::arg("num_nodes"), nb::arg("times").none())
      .def("add_edge_type", &TypedCall::add_edge_type, nb::arg("topology"), nb::arg("direction"), nb::arg("source"),
           nb::arg("target"), nb::arg("fanouts"), nb::keep_alive<1, 2>())
      .def("add_seeds", &TypedCall::add_seeds, nb::arg("type"), nb::arg("nodes"), nb::arg("times").none())
      .def("exclude", &TypedCall::exclude, nb::arg("edge_type"), nb::arg("source"), nb::arg("target"),
           nb::arg("reverse"))
      .def("induce", &TypedCall::induce, nb::arg("nodes"), nb::arg("threads"))
      .def("sample_hgt", &TypedCall::hgt, nb::arg("counts"), nb::arg("seed"), nb::arg("threads"))
      .def("set_links", &TypedCall::set_links, nb::kw_only(), nb::arg("edge_type"), nb::arg("source"),
           nb::arg("target"), nb::arg("times").none(), nb::arg("negatives").none(), nb::arg("ratio"), nb::arg("strict"),
           nb::arg("by_degree"), nb::arg("exponent"), nb::arg("exclude"), nb::arg("reverse_types"))
      .def(
          "sample",
          [](TypedCall& call, size_t hops, bool timed, bool replace, bool weighted, bool disjoint,
             const std::string& temporal, const std::string& method, const std::optional<uint64_t>& window,
             uint64_t seed, int threads, const std::string& io) {
            SampleOptions options =
                sample_options(std::vector<int64_t>(hops), replace, weighted, disjoint, temporal, method, std::nullopt);
            options.window = window;
            options.seed = seed;
            options.threads = threads;
            options.io = parse_topology_io(io);
            return call.sample(options, timed);
          },
          nb::kw_only(), nb::arg("hops"), nb::arg("timed"), nb::arg("replace"), nb::arg("weighted"),
          nb::arg("disjoint"), nb::arg("temporal"), nb::arg("method"), nb::arg("window").none(), nb::arg("seed"),
          nb::arg("threads"), nb::arg("io"));
  m.def(
      "link_source",
      [](const SampleGraph& graph, size_t edge_type, const std::optional<std::pair<Numbers, Numbers>>& ends,
         const std::optional<Numbers>& positions, const std::optional<Numbers>& times, bool own_times,
         const std::optional<std::string>& negatives, double ratio, bool strict, bool by_degree, double exponent,
         const std::string& exclude, std::vector<size_t> reverse_types, bool disjoint,
         const std::optional<std::string>& direction) {
        LinkSourceOptions options{.edge_type = edge_type,
                                  .ends = ends,
                                  .positions = positions,
                                  .times = times.value_or(Numbers{}),
                                  .own_times = own_times,
                                  .link = {.negatives = parse_negatives(negatives),
                                           .ratio = ratio,
                                           .strict = strict,
                                           .by_degree = by_degree,
                                           .exponent = exponent,
                                           .exclude = parse_link_exclude(exclude),
                                           .reverse_types = std::move(reverse_types)},
                                  .disjoint = disjoint,
                                  .direction = parse_direction(direction)};
        return std::const_pointer_cast<SeedSource>(link_source(graph, std::move(options)));
      },
      nb::kw_only(), nb::arg("graph"), nb::arg("edge_type"), nb::arg("ends").none(), nb::arg("positions").none(),
      nb::arg("times").none(), nb::arg("own_times"), nb::arg("negatives").none(), nb::arg("ratio"), nb::arg("strict"),
      nb::arg("by_degree"), nb::arg("exponent"), nb::arg("exclude"), nb::arg("reverse_types"), nb::arg("disjoint"),
      nb::arg("direction").none());
}

}  // namespace gz::bindings

// bind_hetero: neighbourhoods in graphs of several node and edge types.
#include <map>

#include "base/error.h"
#include "bindings.h"
#include "sample/hetero.h"

namespace gz::bindings {
namespace {

Array vector_of(const Int64Array& array) {
  if (!array.buffer) return Result<int64_t>(0).array({size_t{0}});
  return array_over(array.data(), {array.size}, nb::dtype<int64_t>(), array.buffer);
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

nb::list edges_of(const HeteroSubgraph& s) {
  nb::list list;
  for (const SampledEdges& part : s.edges) {
    const auto buffer = part.edge_index.buffer ? part.edge_index.buffer : take_buffer(1);
    list.append(nb::make_tuple(array_over(buffer->data(), {size_t{2}, part.edge.size}, nb::dtype<int64_t>(), buffer),
                               vector_of(part.edge), part.num_sampled_edges));
  }
  return list;
}

// A graph of several types, and what one call says about each. Arrays are borrowed: they live as long as the call.
struct TypedCall {
  std::vector<NodeType> node_types;
  std::vector<EdgeType> edge_types;
  std::vector<TypedSeeds> seeds;
  std::vector<Ids> arrays;                   // what the spans above point into
  std::map<size_t, ExcludedEdges> excluded;  // by edge type; built when all are there

  void add_node_type(std::string name, uint64_t num_nodes, const std::optional<Ids>& times) {
    node_types.push_back({std::move(name), num_nodes, {}});
    if (!times) return;
    arrays.push_back(*times);
    node_types.back().times = span_of(*times);
  }

  void add_edge_type(const Topology& topology, const std::string& direction, size_t source, size_t target,
                     std::vector<int64_t> fanouts) {
    if (source >= node_types.size() || target >= node_types.size()) fail<ArgumentError>("no such node type");
    edge_types.push_back({&topology, parse_direction(direction), source, target, std::move(fanouts), nullptr});
  }

  void exclude(size_t number, const Ids& source, const Ids& target, bool reverse) {
    if (number >= edge_types.size()) fail<ArgumentError>("no such edge type");
    EdgeType& type = edge_types[number];
    excluded[number].add(*type.topology, type.direction, span_of(source), span_of(target), reverse);
    type.exclude = &excluded[number];
  }

  void add_seeds(size_t type, const Ids& nodes, const std::optional<Ids>& times) {
    if (type >= node_types.size()) fail<ArgumentError>("no such node type");
    arrays.push_back(nodes);
    seeds.push_back({type, span_of(nodes), {}});
    if (!times) return;
    arrays.push_back(*times);
    seeds.back().times = span_of(*times);
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
            HeteroSubgraph subgraph;
            {
              WithoutGil work;
              for (auto& [number, edges] : call.excluded) edges.build();
              subgraph = sample_hetero(call.node_types, call.edge_types, call.seeds, timed, options);
            }
            return nb::make_tuple(nodes_of(subgraph), edges_of(subgraph));
          },
          nb::kw_only(), nb::arg("hops"), nb::arg("timed"), nb::arg("replace"), nb::arg("weighted"),
          nb::arg("disjoint"), nb::arg("temporal"), nb::arg("method"), nb::arg("window").none(), nb::arg("seed"),
          nb::arg("threads"), nb::arg("io"));
}

}  // namespace gz::bindings

// bind_sample: multi-hop neighbourhoods, and the derivation of random keys.
#include "base/error.h"
#include "base/random.h"
#include "bindings.h"
#include "sample/merged/merged.h"
#include "sample/subgraph/neighbours.h"

namespace gz::bindings {
namespace {

// The one node type and the one edge type of a homogeneous sample.
nb::tuple as_tuple(const HeteroSubgraph& graph) {
  const SampledNodes& nodes = graph.nodes[0];
  const SampledEdges& edges = graph.edges[0];
  nb::object batch = nb::none();
  if (nodes.batch.buffer) batch = nb::cast(vector_of(nodes.batch));
  return nb::make_tuple(vector_of(nodes.node), edge_index_of(edges), vector_of(edges.edge), batch,
                        nodes.num_sampled_nodes, edges.num_sampled_edges);
}

// Private: for tests and benchmarks; the loader calls the core.
nb::tuple merged_in_python(const Topology& topology, const std::vector<Ids>& seeds, const std::vector<uint64_t>& keys,
                           const std::vector<int64_t>& fanouts, bool replace, bool weighted, bool disjoint,
                           const std::string& method, const std::optional<std::string>& direction, bool edge_ids,
                           int threads, const std::string& io, bool past_page_cache, nb::object progress,
                           const EdgeEnds& exclude) {
  SampleOptions options = sample_options(fanouts, replace, weighted, disjoint, "uniform", method, direction);
  options.edge_ids = edge_ids;
  options.threads = threads;
  MergedOptions merged;
  MergedStats stats;
  merged.stats = &stats;
  merged.past_page_cache = past_page_cache;
  const std::optional<ReaderKind> none;
  if (io == "mmap") options.io = TopologyIo::kMmap;
  merged.kind = parse_choice<std::optional<ReaderKind>>(
      "io", io, {{"auto", none}, {"mmap", none}, {"uring", ReaderKind::kUring}, {"pread", ReaderKind::kPread}});
  if (seeds.size() != keys.size()) fail<ArgumentError>(keys.size(), " keys for ", seeds.size(), " batches");
  const ExcludedEdges excluded = excluded_edges(topology, options.direction, exclude, false);
  std::vector<MergedBatch> batches;
  for (size_t i = 0; i < seeds.size(); ++i) batches.push_back({span_of(seeds[i]), {}, keys[i], &excluded});
  PyProgress report(std::move(progress));
  merged.progress = &report;
  const std::vector<HeteroSubgraph> made =
      without_gil([&] { return sample_merged(topology, batches, options, merged); });
  nb::list subgraphs;
  for (const HeteroSubgraph& subgraph : made) subgraphs.append(as_tuple(subgraph));
  nb::dict facts;
  facts["reads"] = stats.reads;
  facts["bytes_read"] = stats.bytes_read;
  facts["read_seconds"] = stats.read_seconds;
  facts["scratch_bytes"] = stats.scratch_bytes;
  return nb::make_tuple(subgraphs, facts);
}

void bind_merged(nb::module_& m) {
  m.def("sample_merged", merged_in_python, nb::arg("topology"), nb::arg("seeds"), nb::arg("keys"), nb::arg("fanouts"),
        nb::arg("replace") = false, nb::arg("weighted") = false, nb::arg("disjoint") = false,
        nb::arg("method") = "uniform", nb::arg("direction") = nb::none(), nb::arg("edge_ids") = true,
        nb::arg("threads") = 0, nb::arg("io") = "auto", nb::arg("past_page_cache") = false,
        nb::arg("progress") = nb::none(), nb::arg("exclude") = nb::none());
  m.def(
      "resident_share",
      [](const Topology& topology, const std::optional<std::string>& direction) {
        SampleOptions options;
        options.direction = parse_direction(direction);
        return resident_share(topology, options);
      },
      nb::arg("topology"), nb::arg("direction") = nb::none());
}

}  // namespace

TopologyIo parse_topology_io(const std::string& name) {
  return parse_choice<TopologyIo>("io", name, {{"auto", TopologyIo::kAuto}, {"mmap", TopologyIo::kMmap}});
}

ExcludedEdges excluded_edges(const Topology& topology, Direction direction, const EdgeEnds& ends, bool reverse) {
  ExcludedEdges excluded;
  if (!ends) return excluded;
  excluded.add(topology, direction, span_of(ends->first), span_of(ends->second), reverse);
  excluded.build();
  return excluded;
}

SampleOptions sample_options(std::vector<int64_t> fanouts, bool replace, bool weighted, bool disjoint,
                             const std::string& temporal, const std::string& method,
                             const std::optional<std::string>& direction) {
  SampleOptions options;
  options.fanouts = std::move(fanouts);
  options.replace = replace;
  options.weighted = weighted;
  options.disjoint = disjoint;
  options.choice = parse_choice<Choice>("method", method, {{"uniform", Choice::kUniform}, {"labor", Choice::kLabor}});
  options.temporal =
      parse_choice<Temporal>("temporal", temporal, {{"uniform", Temporal::kUniform}, {"last", Temporal::kLast}});
  options.direction = parse_direction(direction);
  return options;
}

void bind_sample(nb::module_& m) {
  m.def(
      "make_key",
      [](uint64_t seed, const std::vector<uint64_t>& words) {
        uint64_t key = make_key(seed);
        for (const uint64_t word : words) key = absorb(key, word);
        return key;
      },
      nb::arg("seed"), nb::arg("words"));
  m.def(
      "sample_hood",
      [](const Topology& topology, const Ids& seeds, const std::vector<int64_t>& fanouts, bool replace, bool weighted,
         bool disjoint, const std::optional<Ids>& times, const std::string& temporal, const std::string& method,
         const std::optional<std::string>& direction, uint64_t seed, int threads, const std::string& io,
         const EdgeEnds& exclude, bool reverse) {
        SampleOptions options =
            sample_options(fanouts, replace, weighted, disjoint || times.has_value(), temporal, method, direction);
        options.io = parse_topology_io(io);
        options.seed = seed;
        options.threads = threads;
        HeteroSubgraph subgraph;
        {
          WithoutGil work;
          if (times) check_options(topology, options, true);  // also without seeds, and so without times
          const ExcludedEdges excluded = excluded_edges(topology, options.direction, exclude, reverse);
          options.exclude = &excluded;
          subgraph = sample_neighbours(topology, span_of(seeds), times ? span_of(*times) : std::span<const int64_t>(),
                                       options);
        }
        return as_tuple(subgraph);
      },
      nb::arg("topology"), nb::arg("seeds"), nb::arg("fanouts"), nb::arg("replace"), nb::arg("weighted"),
      nb::arg("disjoint"), nb::arg("times").none(), nb::arg("temporal"), nb::arg("method"), nb::arg("direction").none(),
      nb::arg("seed"), nb::arg("threads"), nb::arg("io"), nb::arg("exclude") = nb::none(), nb::arg("reverse") = false);
  bind_merged(m);
}

}  // namespace gz::bindings

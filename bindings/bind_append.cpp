// bind_append: deltas of files, and files without them.
#include "base/error.h"
#include "base/threads.h"
#include "bindings.h"
#include "compile/append/compact.h"
#include "compile/append/feature_delta.h"
#include "compile/append/topology_delta.h"

namespace gz::bindings {
namespace {

using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Rows = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Paths = std::vector<std::string>;
using OptionalIds = std::optional<Ids>;

std::span<const int64_t> span_of(const OptionalIds& ids) {
  if (!ids) return {};
  return {ids->data(), ids->size()};
}

const int64_t* values_of(const OptionalIds& ids, size_t count, const char* name) {
  if (!ids) return nullptr;
  if (ids->size() != count) fail<ArgumentError>(name, " has ", ids->size(), " values for ", count, " edges");
  return ids->data();
}

nb::dict as_dict(const DeltaReport& r) {
  nb::dict d;
  d["nodes"] = r.nodes;
  d["targets"] = r.targets;
  d["edges"] = r.edges;
  d["added"] = r.added;
  d["removed"] = r.removed;
  d["missing"] = r.missing;
  d["duplicates_dropped"] = r.duplicates_dropped;
  d["self_loops_dropped"] = r.self_loops_dropped;
  d["rows_written"] = r.rows_written;
  d["edges_written"] = r.edges_written;
  d["bytes"] = r.bytes;
  d["next_edge_id"] = r.next_edge_id;
  return d;
}

nb::dict topology_delta(const std::string& path, const Paths& deltas, const std::string& out, uint64_t num_sources,
                        uint64_t num_targets, const Ids& sources, const Ids& targets,
                        const std::optional<Floats>& weights, const OptionalIds& times, const OptionalIds& edge_ids,
                        const OptionalIds& removed_sources, const OptionalIds& removed_targets,
                        const OptionalIds& removed_edge_ids, uint64_t memory, int threads, nb::object progress) {
  TopologyChange change;
  change.num_sources = num_sources;
  change.num_targets = num_targets;
  change.sources = {sources.data(), sources.size()};
  change.targets = {targets.data(), targets.size()};
  if (weights && weights->size() != sources.size()) {
    fail<ArgumentError>("weights has ", weights->size(), " values for ", sources.size(), " edges");
  }
  change.weights = weights ? weights->data() : nullptr;
  change.times = values_of(times, sources.size(), "times");
  change.edge_ids = values_of(edge_ids, sources.size(), "edge_ids");
  change.removed_sources = span_of(removed_sources);
  change.removed_targets = span_of(removed_targets);
  change.removed_edge_ids = span_of(removed_edge_ids);
  PyProgress report(std::move(progress));
  return as_dict(without_gil([&] {
    return write_topology_delta(*Topology::open(path, deltas), change, out,
                                {memory, resolve_threads(threads), &report});
  }));
}

// Rows by name: as many of each.
uint64_t feature_delta(const std::string& path, const Paths& deltas, const std::string& out,
                       const std::vector<std::pair<std::string, Rows>>& rows, int threads, nb::object progress) {
  const auto features = without_gil([&] { return FeatureFile::open(path, deltas); });
  std::vector<AppendedRows> arrays;
  std::optional<uint64_t> count;
  for (const auto& [name, values] : rows) {
    const Matrix& x = features->matrix(name);
    const bool fits = values.ndim() == (x.is_vector ? 1u : 2u) && (x.is_vector || values.shape(1) == x.columns);
    if (!fits || values.dtype() != dlpack_dtype(x.dtype)) {
      fail<ArgumentError>(path, ": rows of '", name, "' must be ", dtype_name(x.dtype), " with ", x.columns,
                          x.is_vector ? " value each, a vector" : " columns");
    }
    if (values.shape(0) != count.value_or(values.shape(0))) {
      fail<ArgumentError>("'", name, "' has ", values.shape(0), " rows, but another array has ", *count);
    }
    count = values.shape(0);
    arrays.push_back({name, {static_cast<const std::byte*>(values.data()), values.nbytes()}});
  }
  PyProgress report(std::move(progress));
  return without_gil([&] {
    return write_feature_delta(*features, count.value_or(0), arrays, out, {0, resolve_threads(threads), &report});
  });
}

}  // namespace

void bind_append(nb::module_& m) {
  m.def("write_topology_delta", &topology_delta, nb::arg("path"), nb::arg("deltas"), nb::arg("out"), nb::kw_only(),
        nb::arg("num_sources"), nb::arg("num_targets"), nb::arg("sources"), nb::arg("targets"),
        nb::arg("weights") = nb::none(), nb::arg("times") = nb::none(), nb::arg("edge_ids") = nb::none(),
        nb::arg("removed_sources") = nb::none(), nb::arg("removed_targets") = nb::none(),
        nb::arg("removed_edge_ids") = nb::none(), nb::arg("memory") = uint64_t{1} << 30, nb::arg("threads") = 0,
        nb::arg("progress") = nb::none());
  m.def("write_feature_delta", &feature_delta, nb::arg("path"), nb::arg("deltas"), nb::arg("out"), nb::arg("rows"),
        nb::kw_only(), nb::arg("threads") = 0, nb::arg("progress") = nb::none());
  m.def(
      "compact_topology",
      [](const std::string& path, const Paths& deltas, const std::string& out, int threads, nb::object progress) {
        PyProgress report(std::move(progress));
        return without_gil([&] {
          return compact_topology(*Topology::open(path, deltas), out, {0, resolve_threads(threads), &report});
        });
      },
      nb::arg("path"), nb::arg("deltas"), nb::arg("out"), nb::kw_only(), nb::arg("threads") = 0,
      nb::arg("progress") = nb::none());
  m.def(
      "compact_features",
      [](const std::string& path, const Paths& deltas, const std::string& out, int threads, nb::object progress) {
        PyProgress report(std::move(progress));
        return without_gil([&] {
          return compact_features(*FeatureFile::open(path, deltas), out, {0, resolve_threads(threads), &report});
        });
      },
      nb::arg("path"), nb::arg("deltas"), nb::arg("out"), nb::kw_only(), nb::arg("threads") = 0,
      nb::arg("progress") = nb::none());
}

}  // namespace gz::bindings

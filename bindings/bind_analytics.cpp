// bind_analytics: algorithms on a whole topology, as methods of one call's options.
#include "analytics/analytics.h"
#include "base/checked.h"
#include "base/threads.h"
#include "bindings.h"

namespace gz::bindings {
namespace {

using Weights = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using GivenWeights = std::optional<std::pair<Ids, Weights>>;  // nodes and their weights

template <class T>
Array as_array(Buffer&& buffer, uint64_t count) {
  auto owner = std::make_shared<Buffer>(std::move(buffer));
  return array_over(owner->data(), {static_cast<size_t>(count)}, nb::dtype<T>(), owner);
}

NodeWeights weights_of(const GivenWeights& given) {
  if (!given) return {};
  return {span_of(given->first), {given->second.data(), given->second.size()}};
}

Direction parse_way(const std::string& name) {
  return parse_choice<Direction>("direction", name,
                                 {{"out", Direction::kOut}, {"in", Direction::kIn}, {"both", Direction::kBoth}});
}

class Analytics {
  // f(options) without the GIL, with progress and Ctrl-C.
  template <class F>
  auto run(const F& f) const {
    PyProgress listener(progress_);
    WithoutGil work;
    AnalyticsOptions options = options_;
    options.progress = &listener;
    return f(options);
  }

 public:
  Analytics(const Topology& topology, int threads, uint64_t memory, const std::string& io, nb::object progress)
      : topology_(topology), progress_(std::move(progress)) {
    options_.threads = resolve_threads(threads);
    options_.memory = memory;
    options_.io =
        parse_choice<EdgeIo>("io", io, {{"auto", EdgeIo::kAuto}, {"mmap", EdgeIo::kMapped}, {"read", EdgeIo::kRead}});
  }

  Array degrees(const std::string& way) const {
    const Direction direction = parse_way(way);
    Buffer found = run([&](const AnalyticsOptions& o) { return gz::degrees(topology_, direction, o); });
    return as_array<int64_t>(std::move(found),
                             direction == Direction::kOut ? topology_.num_sources() : topology_.num_targets());
  }

  std::pair<Array, uint64_t> weak_components() const {
    Labels found = run([&](const AnalyticsOptions& o) { return gz::weak_components(topology_, o); });
    const uint64_t nodes = topology_.num_sources() + (topology_.square() ? 0 : topology_.num_targets());
    return {as_array<int32_t>(std::move(found.labels), nodes), found.count};
  }

  std::pair<Array, uint64_t> strong_components() const {
    Labels found = run([&](const AnalyticsOptions& o) { return gz::strong_components(topology_, o); });
    return {as_array<int32_t>(std::move(found.labels), topology_.num_nodes()), found.count};
  }

  template <class Real>
  std::tuple<Array, int, double> pagerank(const std::string& way, double damping, int iterations, double tolerance,
                                          bool weighted, const GivenWeights& personalization,
                                          const GivenWeights& dangling, const GivenWeights& start) const {
    const PageRankOptions how{
        parse_way(way),       damping,          iterations, tolerance, weighted, weights_of(personalization),
        weights_of(dangling), weights_of(start)};
    PageRankResult found = run([&](const AnalyticsOptions& o) { return gz::pagerank<Real>(topology_, how, o); });
    return {as_array<Real>(std::move(found.ranks), topology_.num_nodes()), found.iterations, found.change};
  }

  Array levels(const Ids& sources, const std::string& way, int64_t limit) const {
    const SearchOptions how{parse_way(way), limit};
    Buffer found = run([&](const AnalyticsOptions& o) { return search_levels(topology_, span_of(sources), how, o); });
    return as_array<int32_t>(std::move(found), topology_.num_nodes());
  }

  Array hops(const Ids& sources, const std::string& way, int64_t limit) const {
    const SearchOptions how{parse_way(way), limit};
    const auto nodes = static_cast<size_t>(topology_.num_nodes());
    const auto bytes = checked_mul(sources.size() * sizeof(int32_t), nodes);
    if (!bytes || *bytes > options_.memory) {
      throw BudgetError(text("memory is ", options_.memory, " bytes, but hop counts from ", sources.size(),
                             " sources are ", sources.size() * sizeof(int32_t), " bytes for each of ", nodes, " nodes"),
                        bytes.value_or(UINT64_MAX));
    }
    const Result<int32_t> out(sources.size() * nodes);
    run([&](const AnalyticsOptions& o) {
      count_hops(topology_, span_of(sources), how, o, out.data);
      return 0;
    });
    return out.array({sources.size(), nodes});
  }

  Array core_numbers() const {
    Buffer found = run([&](const AnalyticsOptions& o) { return gz::core_numbers(topology_, o); });
    return as_array<int32_t>(std::move(found), topology_.num_nodes());
  }

  std::pair<Array, Array> triangles() const {
    Triangles found = run([&](const AnalyticsOptions& o) { return count_triangles(topology_, o); });
    return {as_array<int64_t>(std::move(found.triangles), topology_.num_nodes()),
            as_array<int32_t>(std::move(found.degrees), topology_.num_nodes())};
  }

  double sample_wedges(const std::string& mean, uint64_t samples, uint64_t seed) const {
    const WedgeMean of =
        parse_choice<WedgeMean>("mean", mean, {{"nodes", WedgeMean::kNodes}, {"wedges", WedgeMean::kWedges}});
    return run([&](const AnalyticsOptions& o) { return gz::sample_wedges(topology_, of, samples, seed, o); });
  }

  std::tuple<Array, uint64_t, int, bool> propagate_labels(const std::optional<std::string>& direction, int iterations,
                                                          uint64_t seed) const {
    const PropagationOptions how{parse_direction(direction), iterations, seed};
    PropagatedLabels found = run([&](const AnalyticsOptions& o) { return gz::propagate_labels(topology_, how, o); });
    return {as_array<int32_t>(std::move(found.labels), topology_.num_nodes()), found.count, found.iterations,
            found.stable};
  }

  nb::dict edge_facts(uint64_t samples, uint64_t seed) const {
    const EdgeFacts found = run([&](const AnalyticsOptions& o) { return gz::edge_facts(topology_, samples, seed, o); });
    nb::dict d;
    d["self_loops"] = found.self_loops;
    d["duplicates"] = found.duplicates;
    d["distinct"] = found.distinct;
    d["checked"] = found.checked;
    d["mutual"] = found.mutual;
    return d;
  }

 private:
  const Topology& topology_;
  const nb::object progress_;
  AnalyticsOptions options_;
};

}  // namespace

void bind_analytics(nb::module_& m) {
  nb::class_<Analytics>(m, "Analytics")
      .def(nb::init<const Topology&, int, uint64_t, const std::string&, nb::object>(), nb::keep_alive<1, 2>(),
           nb::arg("topology"), nb::arg("threads"), nb::arg("memory"), nb::arg("io"), nb::arg("progress").none())
      .def("degrees", &Analytics::degrees, nb::arg("way"))
      .def("weak_components", &Analytics::weak_components)
      .def("strong_components", &Analytics::strong_components)
      .def("pagerank32", &Analytics::pagerank<float>, nb::arg("way"), nb::arg("damping"), nb::arg("iterations"),
           nb::arg("tolerance"), nb::arg("weighted"), nb::arg("personalization").none(), nb::arg("dangling").none(),
           nb::arg("start").none())
      .def("pagerank64", &Analytics::pagerank<double>, nb::arg("way"), nb::arg("damping"), nb::arg("iterations"),
           nb::arg("tolerance"), nb::arg("weighted"), nb::arg("personalization").none(), nb::arg("dangling").none(),
           nb::arg("start").none())
      .def("levels", &Analytics::levels, nb::arg("sources"), nb::arg("way"), nb::arg("limit"))
      .def("hops", &Analytics::hops, nb::arg("sources"), nb::arg("way"), nb::arg("limit"))
      .def("core_numbers", &Analytics::core_numbers)
      .def("triangles", &Analytics::triangles)
      .def("sample_wedges", &Analytics::sample_wedges, nb::arg("mean"), nb::arg("samples"), nb::arg("seed"))
      .def("propagate_labels", &Analytics::propagate_labels, nb::arg("direction").none(), nb::arg("iterations"),
           nb::arg("seed"))
      .def("edge_facts", &Analytics::edge_facts, nb::arg("samples"), nb::arg("seed"));
}

}  // namespace gz::bindings

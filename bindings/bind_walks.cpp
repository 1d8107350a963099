// bind_walks: walks, their skip-gram pairs, one-hop fanouts and negative edges over a mounted topology.
#include "base/checked.h"
#include "base/error.h"
#include "bindings.h"
#include "sample/link/negatives.h"
#include "sample/rows/fanout.h"
#include "sample/walk/pairs.h"
#include "sample/walk/walk.h"
#include "storage/topology.h"

namespace gz::bindings {
namespace {

// A matrix of ids to fill: the caller's, checked in graphzero/sample/walks.py, or a new one on pooled memory.
using Out = nb::ndarray<int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

struct Matrix64 {
  Matrix64(size_t rows_, uint64_t columns_, const std::optional<Out>& out) : rows(rows_), columns(columns_) {
    const auto count = checked_mul(rows, columns);
    const auto bytes = count ? checked_mul(*count, sizeof(int64_t)) : count;
    if (!bytes || *bytes > SIZE_MAX / 2) throw std::bad_alloc();
    if (out) {
      data = out->data();
    } else {
      fresh.emplace(static_cast<size_t>(*count));
      data = fresh->data;
    }
  }
  std::span<int64_t> span() const { return {data, static_cast<size_t>(rows * columns)}; }
  std::optional<Array> array() const {  // nothing if the caller provided it
    if (!fresh) return std::nullopt;
    return fresh->array({rows, static_cast<size_t>(columns)});
  }

  size_t rows;
  uint64_t columns;
  std::optional<Result<int64_t>> fresh;
  int64_t* data;
};

std::optional<Array> walk(const Topology& t, const Ids& starts, int64_t length, double p, double q, bool weighted,
                          double restart, const std::optional<std::string>& direction, uint64_t seed, int threads,
                          bool plain, const std::optional<Out>& out, const std::string& io) {
  if (length < 0) fail<ArgumentError>("walk_length is ", length, ", expected 0 or more");
  const WalkOptions options{.length = static_cast<uint64_t>(length),
                            .p = p,
                            .q = q,
                            .weighted = weighted,
                            .restart = restart,
                            .direction = parse_direction(direction),
                            .seed = seed,
                            .threads = threads,
                            .io = parse_topology_io(io),
                            .plain = plain};
  const Matrix64 matrix(starts.size(), options.length + 1, out);
  {
    WithoutGil work;
    random_walks(t, span_of(starts), options, matrix.span());
  }
  return matrix.array();
}

std::optional<Array> fanout(const Topology& t, const Ids& nodes, int64_t count, const std::optional<int64_t>& pad,
                            bool weighted, const std::optional<std::string>& direction, uint64_t seed, int threads,
                            bool plain, const std::optional<Out>& out, const std::string& io) {
  if (count <= 0) fail<ArgumentError>("K is ", count, ", expected 1 or more");
  const FanoutOptions options{.count = static_cast<uint64_t>(count),
                              .pad = pad,
                              .weighted = weighted,
                              .direction = parse_direction(direction),
                              .seed = seed,
                              .threads = threads,
                              .io = parse_topology_io(io),
                              .plain = plain};
  const Matrix64 matrix(nodes.size(), options.count, out);
  {
    WithoutGil work;
    random_fanout(t, span_of(nodes), options, matrix.span());
  }
  return matrix.array();
}

Array neighbours(const Topology& t, int64_t node, int64_t count, bool weighted,
                 const std::optional<std::string>& direction, uint64_t seed, const std::string& io) {
  if (count <= 0) fail<ArgumentError>("K is ", count, ", expected 1 or more");
  const FanoutOptions options{.count = static_cast<uint64_t>(count),
                              .pad = std::nullopt,
                              .weighted = weighted,
                              .direction = parse_direction(direction),
                              .seed = seed,
                              .io = parse_topology_io(io)};
  const std::vector<int64_t> found = interruptible([&] { return random_neighbours(t, node, options); });
  const Result<int64_t> out(found.size());
  std::copy(found.begin(), found.end(), out.data);
  return out.array({found.size()});
}

using Walks = nb::ndarray<const int64_t, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

Array pairs(const Walks& walks, int64_t window, bool shuffle, const std::optional<int64_t>& limit, uint64_t seed,
            int threads) {
  if (window <= 0) fail<ArgumentError>("window is ", window, ", expected 1 or more");
  if (limit && *limit < 0) fail<ArgumentError>("limit is ", *limit, ", expected 0 or more");
  const PairOptions options{.window = static_cast<uint64_t>(window),
                            .shuffle = shuffle,
                            .limit = limit ? std::optional<uint64_t>(*limit) : std::nullopt,
                            .seed = seed,
                            .threads = threads};
  std::optional<Result<int64_t>> out;
  size_t count = 0;
  {
    WithoutGil work;
    const WalkPairs found({walks.data(), walks.shape(0), walks.shape(1)}, options);
    count = static_cast<size_t>(found.size());
    if (found.size() > SIZE_MAX / 32) throw std::bad_alloc();
    out.emplace(2 * count);
    found.fill({out->data, count}, {out->data + count, count});
  }
  return out->array({2, count});
}

Array negatives(const Topology& t, int64_t count, const std::optional<Ids>& sources, bool by_degree, double exponent,
                bool exclude_edges, bool exclude_self, uint64_t seed, int threads, bool plain, const std::string& io) {
  if (count < 0) fail<ArgumentError>("num_samples is ", count, ", expected 0 or more");
  const NegativeOptions options{.by_degree = by_degree,
                                .exponent = exponent,
                                .exclude_edges = exclude_edges,
                                .exclude_self = exclude_self,
                                .seed = seed,
                                .threads = threads,
                                .io = parse_topology_io(io),
                                .plain = plain};
  const auto total = checked_mul(static_cast<uint64_t>(count), sources ? sources->size() : 1);
  if (!total || *total > SIZE_MAX / 32) throw std::bad_alloc();
  const auto each = static_cast<size_t>(*total);
  const Result<int64_t> out(2 * each);
  {
    WithoutGil work;
    const std::optional<std::span<const int64_t>> given =
        sources ? std::optional(span_of(*sources)) : std::optional<std::span<const int64_t>>();
    negative_edges(t, given, options, {out.data, each}, {out.data + each, each});
  }
  return out.array({2, each});
}

}  // namespace

void bind_walks(nb::module_& m) {
  m.def("walk", &walk, nb::arg("topology"), nb::arg("starts"), nb::arg("length"), nb::arg("p") = 1.0,
        nb::arg("q") = 1.0, nb::arg("weighted") = false, nb::arg("restart") = 0.0, nb::arg("direction") = nb::none(),
        nb::arg("seed") = 0, nb::arg("threads") = 0, nb::arg("plain") = false, nb::arg("out") = nb::none(),
        nb::arg("io") = "auto");
  m.def("fanout", &fanout, nb::arg("topology"), nb::arg("nodes"), nb::arg("count"), nb::arg("pad") = nb::none(),
        nb::arg("weighted") = false, nb::arg("direction") = nb::none(), nb::arg("seed") = 0, nb::arg("threads") = 0,
        nb::arg("plain") = false, nb::arg("out") = nb::none(), nb::arg("io") = "auto");
  m.def("neighbours", &neighbours, nb::arg("topology"), nb::arg("node"), nb::arg("count"), nb::arg("weighted") = false,
        nb::arg("direction") = nb::none(), nb::arg("seed") = 0, nb::arg("io") = "auto");
  m.def("walk_pairs", &pairs, nb::arg("walks"), nb::arg("window"), nb::arg("shuffle") = false,
        nb::arg("limit") = nb::none(), nb::arg("seed") = 0, nb::arg("threads") = 0);
  m.def("negative_edges", &negatives, nb::arg("topology"), nb::arg("count"), nb::arg("sources") = nb::none(),
        nb::arg("by_degree") = false, nb::arg("exponent") = 0.75, nb::arg("exclude_edges") = true,
        nb::arg("exclude_self") = true, nb::arg("seed") = 0, nb::arg("threads") = 0, nb::arg("plain") = false,
        nb::arg("io") = "auto");
}

}  // namespace gz::bindings

// relabel: passes the edges of a file through the builder, in file order.
#include "compile/order/relabel.h"

#include <algorithm>

#include "base/error.h"

namespace gz {
namespace {

GraphOptions builder_options(const Topology& topology, const RelabelOptions& options, bool weights, bool times,
                             bool edge_ids, bool wide_numbers) {
  const Container& container = topology.file().container();
  GraphOptions out;
  // Edges of an undirected graph are already stored in both directions: each stored edge is copied as it is.
  out.direction = container.direction;
  out.promises = container.properties & (kUndirected | kDeduplicated | kNoSelfLoops);
  out.weights = weights;
  out.times = times;
  out.edge_ids = out.own_numbers = edge_ids;
  out.wide_numbers = wide_numbers;
  out.num_nodes = container.num_nodes;
  out.memory = options.memory;
  out.threads = options.threads;
  out.spill_folder = options.spill_folder;
  return out;
}

// The edges [begin, end) of one direction, in order, renamed.
template <class Csr, class Id>
void fill(const Csr& csr, bool out_rows, std::span<const Id> to_new, uint64_t begin, uint64_t end,
          ChunkWriter& writer) {
  const auto renamed = [&](uint64_t node) {
    const auto id = static_cast<uint64_t>(static_cast<int64_t>(to_new[node]));
    if (id >= csr.num_nodes)
      fail<FormatError>("new id of node ", node, " is ", static_cast<int64_t>(id), ", expected less than ",
                        csr.num_nodes);
    return id;
  };
  uint64_t node = csr.node_at(begin), start = csr.start_of(node);
  auto row = csr.row(node);
  uint64_t own = renamed(node);
  for (uint64_t place = begin; place < end; ++place) {
    while (place - start >= row.degree() && node + 1 < csr.num_nodes) {
      start += row.degree();
      row = csr.row(++node);
      own = renamed(node);
    }
    const uint64_t p = row.begin + (place - start);
    if (p < row.begin || p >= row.end) fail_row(*csr.file, node, row.begin, row.end);
    if (writer.full()) writer.flush();
    const size_t at = writer.count++;
    const uint64_t other = renamed(csr.neighbour(p));
    writer.src[at] = out_rows ? own : other;
    writer.dst[at] = out_rows ? other : own;
    if (csr.weights != nullptr) writer.weights[at] = csr.weights[p];
    if (csr.times != nullptr) writer.times[at] = csr.times[p];
    if (writer.numbers != nullptr) writer.numbers[at] = csr.edge_id(node, row.begin, p);
  }
}

}  // namespace

template <class Id>
GraphReport relabel(const Topology& topology, std::span<const Id> to_new, const std::string& path,
                    const RelabelOptions& options, Progress* progress) {
  topology.need_square("relabelling needs");
  if (to_new.size() != topology.num_nodes()) {
    fail<ArgumentError>("found ", to_new.size(), " new ids, expected ", topology.num_nodes());
  }
  const bool out_rows = has_out(topology.direction());
  const Direction side = out_rows ? Direction::kOut : Direction::kIn;
  return topology.visit(side, [&](const auto& csr) {
    const bool edge_ids = csr.has_edge_ids() || options.number_edges;
    const bool wide = csr.edge_ids64 != nullptr || (!csr.has_edge_ids() && csr.num_edges > (uint64_t{1} << 32));
    GraphBuilder builder(
        builder_options(topology, options, csr.weights != nullptr, csr.times != nullptr, edge_ids, wide), progress);
    builder.expect(csr.num_edges);
    const uint64_t piece = builder.piece_edges();
    const size_t chunks = static_cast<size_t>((csr.num_edges + piece - 1) / piece);
    builder.ingest({chunks, static_cast<size_t>(piece), piece}, [&](size_t chunk, ChunkWriter& writer) {
      const uint64_t begin = chunk * piece;
      fill(csr, out_rows, to_new, begin, std::min(begin + piece, csr.num_edges), writer);
      return true;
    });
    topology.file().check();
    return builder.finish(path);
  });
}

template GraphReport relabel(const Topology&, std::span<const int32_t>, const std::string&, const RelabelOptions&,
                             Progress*);
template GraphReport relabel(const Topology&, std::span<const int64_t>, const std::string&, const RelabelOptions&,
                             Progress*);

}  // namespace gz

// induce: rows are read whole, many at a time, and put together in order.
#include "sample/subgraph/induce.h"

#include "base/error.h"
#include "base/interrupt.h"
#include "base/prefetch.h"
#include "base/threads.h"
#include "sample/rows/row_search.h"
#include "sample/subgraph/growing.h"
#include "storage/page_requests.h"

namespace gz {
namespace {

constexpr size_t kRows = 64;  // a chunk

struct Found {
  std::vector<int64_t> row, col, edge;
};

template <class Csr>
void search_row(const Csr& csr, const EdgeType& type, const NodePlaces& sources, uint64_t node, int64_t label,
                Found& found) {
  const auto row = csr.row(node);
  const auto refused = type.exclude != nullptr ? type.exclude->of(node) : std::span<const uint64_t>();
  for (uint64_t at = row.begin; at < row.end; ++at) {
    if ((at - row.begin) % 65536 == 65535) check_interrupt();
    const uint64_t neighbour = csr.neighbour(at);
    const int64_t place = sources[neighbour];
    if (place < 0 || std::binary_search(refused.begin(), refused.end(), neighbour)) continue;
    found.row.push_back(place);
    found.col.push_back(label);
    found.edge.push_back(static_cast<int64_t>(csr.edge_id(node, row.begin, at)));
  }
}

SampledEdges together(const std::vector<Found>& chunks) {
  size_t count = 0;
  for (const Found& found : chunks) count += found.row.size();
  if (count >= kMostLabels)
    fail<ArgumentError>(count, " edges between the nodes, a subgraph holds below ", kMostLabels);
  SampledEdges edges;
  edges.edge_index = {take_buffer(std::max<size_t>(2 * count, 1) * sizeof(int64_t)), 2 * count};
  edges.edge = {take_buffer(std::max<size_t>(count, 1) * sizeof(int64_t)), count};
  int64_t *row = edges.edge_index.data(), *col = row + count, *edge = edges.edge.data();
  for (const Found& found : chunks) {
    row = std::copy(found.row.begin(), found.row.end(), row);
    col = std::copy(found.col.begin(), found.col.end(), col);
    edge = std::copy(found.edge.begin(), found.edge.end(), edge);
  }
  return edges;
}

}  // namespace

std::vector<SampledEdges> induced_edges(std::span<const EdgeType> edge_types,
                                        std::span<const std::span<const int64_t>> nodes, int threads) {
  std::vector<NodePlaces> places;
  for (const auto& list : nodes) {
    if (list.size() >= kMostLabels) fail<ArgumentError>(list.size(), " nodes, expected below ", kMostLabels);
    places.emplace_back(list);
  }
  std::vector<SampledEdges> edges;
  for (const EdgeType& type : edge_types) {
    const auto targets = nodes[type.target];
    std::vector<Found> chunks((targets.size() + kRows - 1) / kRows);
    type.topology->visit(type.direction, [&](const auto& csr) {
      PagePrefetcher pages(*csr.file, threads);
      pages.request(targets.size(), [&](size_t i) {
        const uint64_t at = pages.offset_of(csr.bounds_of(static_cast<uint64_t>(targets[i])));
        return ByteRange{at, at + 2 * sizeof(uint64_t)};
      });
      pages.request(csr.num_edges == 0 ? 0 : targets.size(), [&](size_t i) {
        const auto row = csr.row(static_cast<uint64_t>(targets[i]));
        const uint64_t at = pages.offset_of(csr.indices + std::min(row.begin, csr.limit - 1));
        return ByteRange{at, at + std::max<uint64_t>(row.degree(), 1) * sizeof(*csr.indices)};
      });
      parallel_for(targets.size(), kRows, threads, [&](size_t begin, size_t end, int) {
        for (size_t i = begin; i < end; ++i) {
          if (i + 8 < end) prefetch_row(csr, static_cast<uint64_t>(targets[i + 8]));
          search_row(csr, type, places[type.source], static_cast<uint64_t>(targets[i]), static_cast<int64_t>(i),
                     chunks[begin / kRows]);
        }
      });
    });
    type.topology->file().check();
    edges.push_back(together(chunks));
  }
  return edges;
}

}  // namespace gz

// edges_at: searches side by side, so that their cache misses, or reads, overlap.
#include "sample/link/edges_at.h"

#include <algorithm>
#include <vector>

#include "base/ids.h"
#include "base/prefetch.h"
#include "sample/rows/row_search.h"
#include "storage/page_requests.h"

namespace gz {
namespace {

constexpr size_t kLanes = 64;  // searches in flight over a warm file

// The rows that hold these positions.
template <class Id>
void find_rows(const Csr<Id>& csr, std::span<const int64_t> positions, int64_t* rows, PagePrefetcher* pages) {
  std::vector<NodeSearch> searches(positions.size());
  std::vector<NodeSearch*> busy;
  for (size_t i = 0; i < positions.size(); ++i) {
    searches[i].begin(csr, static_cast<uint64_t>(positions[i]));
    busy.push_back(&searches[i]);
  }
  while (!busy.empty()) {
    if (pages != nullptr) {
      for (NodeSearch* search : busy) search->ask_pages(csr, *pages);
      pages->request_added();
    }
    std::erase_if(busy, [&](NodeSearch* search) { return search->step(csr); });
  }
  for (size_t i = 0; i < positions.size(); ++i) {
    const uint64_t row = searches[i].node(), position = static_cast<uint64_t>(positions[i]);
    if (row >= csr.num_nodes) fail_row(*csr.file, row, csr.indptr[row], csr.num_edges);
    const auto found = csr.row(row);
    if (position < found.begin || position >= found.end) fail_row(*csr.file, row, found.begin, found.end);
    rows[i] = static_cast<int64_t>(row);
  }
}

template <class Id>
void find_edges(const Csr<Id>& csr, std::span<const int64_t> positions, bool by_source, const EdgesAt& out) {
  PagePrefetcher pages(*csr.file, 1);
  const auto at = [&](size_t i) {
    const uint64_t begin = pages.offset_of(csr.indices + positions[i]);
    return ByteRange{begin, begin + sizeof(Id)};
  };
  const bool cold = pages.request(positions.size(), at);
  const size_t grain = cold ? positions.size() : kLanes;
  auto &row = by_source ? out.source : out.target, &other = by_source ? out.target : out.source;
  for (size_t i = 0; i < positions.size(); i += grain) {
    const auto some = positions.subspan(i, std::min(grain, positions.size() - i));
    for (const int64_t position : some) prefetch(csr.indices + position);
    find_rows(csr, some, row.data() + i, cold ? &pages : nullptr);
  }
  for (size_t i = 0; i < positions.size(); ++i) {
    const auto position = static_cast<uint64_t>(positions[i]);
    other[i] = static_cast<int64_t>(csr.neighbour(position));
    if (!out.edge.empty()) out.edge[i] = static_cast<int64_t>(csr.edge_id(position));
    if (!out.time.empty()) out.time[i] = csr.times[position];
  }
}

}  // namespace

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

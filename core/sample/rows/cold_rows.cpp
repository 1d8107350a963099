// cold_rows: a few probes; sparse or whole.
#include "sample/rows/cold_rows.h"

#include "base/system.h"

namespace gz {
namespace {

template <class Id>
uint64_t bytes_read(const Csr<Id>& csr, bool weighted) {
  const uint64_t edge = sizeof(Id) + (weighted ? (csr.cumulative != nullptr ? sizeof(double) : sizeof(float)) : 0);
  return (csr.num_nodes + 1) * sizeof(uint64_t) + csr.num_edges * edge;
}

}  // namespace

template <class Id>
bool look_cold(const Csr<Id>& csr, const ColdReads& reads) {
  if (reads.io == TopologyIo::kMmap || reads.nodes.empty() || csr.num_edges == 0) return false;
  const PagePrefetcher pages(*csr.file, 1);
  const auto probes = static_cast<size_t>(std::clamp<uint64_t>(reads.rows / 512, 2, 24));
  const auto at = [&](const auto* address) { return ByteRange{pages.offset_of(address), 0}; };
  const auto bounds = [&](size_t i) { return at(csr.indptr + reads.nodes[i]); };
  if (pages.any_cold(reads.nodes.size(), bounds, probes)) return true;
  if (reads.each == 0) return false;
  // The bounds that are read here were just found in RAM.
  const auto edge = [&](size_t i) { return std::min(csr.indptr[reads.nodes[i]], csr.num_edges - 1); };
  return pages.any_cold(reads.nodes.size(), [&](size_t i) { return at(csr.indices + edge(i)); }, probes);
}

bool better_whole(uint64_t touches, uint64_t bytes) {
  // A page costs a third as much in order as at random (benchmarks/walks), and half as many touches as there are pages
  // meet 39 % of them.
  return touches >= bytes / kPageBytes / 2 && bytes <= available_memory() / 2;
}

template <class Id>
bool ask_ahead(const Csr<Id>& csr, const ColdReads& reads, int threads) {
  if (!look_cold(csr, reads)) return false;
  const uint64_t bytes = bytes_read(csr, reads.weighted);
  const uint64_t row_pages = 1 + csr.num_edges / csr.num_nodes * sizeof(Id) / kPageBytes;
  // A row's bounds are a touch too.
  if (!better_whole(reads.rows * (1 + std::min(reads.each, row_pages)), bytes)) return true;
  PagePrefetcher pages(*csr.file, threads);
  pages.request_whole(csr.indptr, (csr.num_nodes + 1) * sizeof(uint64_t));
  pages.request_whole(csr.indices, csr.num_edges * sizeof(Id));
  if (reads.weighted && csr.cumulative != nullptr) {
    pages.request_whole(csr.cumulative, csr.num_edges * sizeof(double));
  } else if (reads.weighted) {
    pages.request_whole(csr.weights, csr.num_edges * sizeof(float));
  }
  return false;
}

template bool look_cold(const Csr<uint32_t>&, const ColdReads&);
template bool look_cold(const Csr<uint64_t>&, const ColdReads&);
template bool ask_ahead(const Csr<uint32_t>&, const ColdReads&, int);
template bool ask_ahead(const Csr<uint64_t>&, const ColdReads&, int);

}  // namespace gz

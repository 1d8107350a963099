// cold_walk: ask for the rows, draw; ask for the neighbours, go.
#include "sample/cold_walk.h"

#include <algorithm>
#include <vector>

#include "base/prefetch.h"
#include "base/threads.h"
#include "sample/row_search.h"
#include "storage/prefetch.h"

namespace gz {
namespace {

constexpr size_t kTogether = size_t{1} << 16;  // walks that step together: their lanes are 2 MB
constexpr size_t kGrain = 1024;
constexpr size_t kAhead = 32;    // lanes whose cache lines are in flight: most pages are soon in RAM
constexpr uint64_t kSparse = 8;  // pages of the file for each walk, at least
constexpr uint64_t kStay = ~uint64_t{0};

struct Lane {
  Random random{0};
  uint64_t node = 0, position = 0;
};

template <class Id>
ByteRange bounds_of(const PagePrefetcher& pages, const Csr<Id>& csr, uint64_t node) {
  const uint64_t at = pages.offset_of(csr.indptr + node);
  return {at, at + 2 * sizeof(uint64_t)};
}

template <class Id>
ByteRange edge_at(const PagePrefetcher& pages, const Csr<Id>& csr, uint64_t position) {
  const uint64_t at = pages.offset_of(csr.indices + position);
  return {at, at + sizeof(Id)};
}

// One step of all lanes: the draws of walk_uniform, in its order.
template <class Id>
void step_together(const Csr<Id>& csr, const WalkBatch& batch, size_t first, std::vector<Lane>& lanes,
                   PagePrefetcher& pages, int threads) {
  const double restart = batch.options.restart;
  pages.request(lanes.size(), [&](size_t i) { return bounds_of(pages, csr, lanes[i].node); });
  parallel_for(lanes.size(), kGrain, threads, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      if (i + kAhead < end) prefetch_row(csr, lanes[i + kAhead].node);
      Lane& lane = lanes[i];
      lane.position = kStay;
      if (restart > 0 && lane.random.unit() < restart) {
        lane.node = batch.start(first + i);
        continue;
      }
      const auto row = csr.row(lane.node);
      if (row.begin < row.end) lane.position = row.begin + lane.random.below(row.degree());
    }
  });
  pages.request(lanes.size(),
                [&](size_t i) { return edge_at(pages, csr, lanes[i].position == kStay ? 0 : lanes[i].position); });
  parallel_for(lanes.size(), kGrain, threads, [&](size_t begin, size_t end, int) {
    for (size_t i = begin; i < end; ++i) {
      if (i + kAhead < end && lanes[i + kAhead].position != kStay) prefetch(csr.indices + lanes[i + kAhead].position);
      if (lanes[i].position != kStay) lanes[i].node = csr.neighbour(lanes[i].position);
    }
  });
}

}  // namespace

template <class Id>
bool starts_cold(const Csr<Id>& csr, const WalkBatch& batch, int threads) {
  PagePrefetcher pages(*csr.file, threads);
  const size_t count = batch.starts.size();
  // A batch that touches a good part of the pages reads the file nearly whole: readahead does that better.
  const uint64_t file_pages = csr.file->container().file_bytes / kPageBytes;
  if (csr.num_edges == 0 || count > file_pages / kSparse) return false;
  if (pages.request(count, [&](size_t i) { return bounds_of(pages, csr, batch.start(i)); })) return true;
  return pages.request(
      count, [&](size_t i) { return edge_at(pages, csr, std::min(csr.row(batch.start(i)).begin, csr.num_edges - 1)); });
}

template <class Id>
void walk_cold(const Csr<Id>& csr, const WalkBatch& batch, int threads, Progress* progress) {
  PagePrefetcher pages(*csr.file, threads);
  const uint64_t length = batch.options.length;
  std::vector<Lane> lanes;
  for (size_t first = 0; first < batch.starts.size(); first += kTogether) {
    lanes.resize(std::min(kTogether, batch.starts.size() - first));
    for (size_t i = 0; i < lanes.size(); ++i) {
      lanes[i] = {batch.random(first + i), batch.start(first + i), 0};
      batch.row(first + i)[0] = static_cast<int64_t>(lanes[i].node);
    }
    for (uint64_t step = 1; step <= length; ++step) {
      step_together(csr, batch, first, lanes, pages, threads);
      for (size_t i = 0; i < lanes.size(); ++i) batch.row(first + i)[step] = static_cast<int64_t>(lanes[i].node);
      if (progress != nullptr) progress->report("walk", first, batch.starts.size());
    }
  }
}

template bool starts_cold(const Csr<uint32_t>&, const WalkBatch&, int);
template bool starts_cold(const Csr<uint64_t>&, const WalkBatch&, int);
template void walk_cold(const Csr<uint32_t>&, const WalkBatch&, int, Progress*);
template void walk_cold(const Csr<uint64_t>&, const WalkBatch&, int, Progress*);

}  // namespace gz

// sweep_peers: a sweep without peers, and the choice between both kinds.
#include "sweep/sweep_peers.h"

#include <algorithm>

#include "base/random.h"
#include "sweep/rank_peers.h"

namespace gz {
namespace {

constexpr uint64_t kSegment = uint64_t{1} << 20;  // bytes of the file that are planned at a time

}  // namespace

std::shared_ptr<Reader> NoPeers::reader(Io io) const {
  if (io == Io::kPread || !uring_works()) return make_thread_reader();
  auto reader = take_reader(ReaderKind::kUring);
  if (reader->depth() == 1) return make_thread_reader();  // no memory for a ring
  return reader;
}

Segments::Segments(const Matrix& matrix)
    : rows(std::max<uint64_t>(kSegment / matrix.row_bytes, 1)),
      count(std::max<uint64_t>((matrix.rows + rows - 1) / rows, 1)) {}

std::unique_ptr<SweepPeers> make_peers(const FeatureFile& file, const Matrix& matrix,
                                       const std::shared_ptr<LocalGroup>& group, size_t part, uint64_t ring_bytes) {
  if (group) {
    uint64_t identity = identity_of(file.file().file());
    for (const uint64_t word : {matrix.offset, matrix.rows, matrix.row_bytes}) identity = absorb(identity, word);
    const Segments segments(matrix);
    auto ranks = RankPeers::make(group, part, identity, segments.count, segments.rows * matrix.row_bytes, ring_bytes);
    if (ranks) return ranks;
  }
  return std::make_unique<NoPeers>();
}

}  // namespace gz

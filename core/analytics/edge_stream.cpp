// edge_stream: which way edges are read, and the check of their ids.
#include "analytics/edge_stream.h"

#include "analytics/merged_blocks.h"
#include "base/error.h"

namespace gz {
namespace {

RowArrays arrays_of(const Topology& topology, Direction side, bool weights) {
  const Container& container = topology.file().container();
  const std::string prefix = topology.resolve(side) == Direction::kOut ? "out." : "in.";
  RowArrays arrays;
  arrays.file = &topology.file();
  arrays.indptr = container.find(prefix + "indptr");
  arrays.indices = container.find(prefix + "indices");
  if (weights) arrays.weights = container.find(prefix + "weights");
  if (weights && arrays.weights == nullptr) {
    fail<ArgumentError>(topology.file().path(), ": no array '", prefix, "weights'; compile the graph with weights");
  }
  arrays.rows = topology.num_rows(side);
  arrays.edges = topology.num_edges();
  arrays.id_bytes = dtype_bytes(arrays.indices->dtype);
  return arrays;
}

}  // namespace

template <class Id>
EdgeStream<Id>::EdgeStream(const Topology& topology, Direction side, const AnalyticsOptions& options, ArrayBytes held,
                           const char* what, bool weights)
    : csr_(topology.visit(side,
                          [](const auto& csr) {
                            if constexpr (std::is_same_v<typename std::decay_t<decltype(csr)>::Id, Id>) return csr;
                            return Csr<Id>{};  // not reached: the caller dispatched by the same width
                          })),
      options_(options) {
  const RowArrays arrays = arrays_of(topology, side, weights);
  const uint64_t all_mapped = held.mapped + arrays.bytes(), all_read = held.read + read_blocks_bytes(arrays);
  const uint64_t least = options.io == EdgeIo::kMapped ? all_mapped
                         : options.io == EdgeIo::kRead ? all_read
                                                       : std::min(all_mapped, all_read);
  if (least > options.memory) {
    throw BudgetError(text("memory is ", options.memory, " bytes, but ", what, " of ", topology.file().path(),
                           " needs at least ", least),
                      least);
  }
  mapped_ = options.io == EdgeIo::kMapped || (options.io == EdgeIo::kAuto && all_mapped <= options.memory);
  left_ = options.memory - std::min(options.memory, mapped_ ? arrays.bytes() : read_blocks_bytes(arrays));
  most_edges_ = arrays.most_edges();
  if (csr_.changed) {
    source_ = std::make_unique<MergedBlocks<Id>>(csr_, arrays);
  } else {
    source_ = mapped_ ? mapped_blocks(arrays) : read_blocks(arrays);
  }
}

template <class Id>
EdgeBlock<Id> EdgeStream<Id>::checked(const RawBlock& raw) const {
  EdgeBlock<Id> block{raw.number,
                      raw.first_row,
                      raw.end_row,
                      raw.begin,
                      raw.end,
                      raw.indptr,
                      reinterpret_cast<const Id*>(raw.indices),
                      reinterpret_cast<const float*>(raw.weights),
                      csr_.file};
  const uint64_t count = raw.end - raw.begin;
  Id largest = 0;
  for (uint64_t i = 0; i < count; ++i) largest = std::max(largest, block.indices[i]);  // vectorises
  if (count > 0 && largest >= csr_.num_others) [[unlikely]] {
    uint64_t at = 0;
    while (block.indices[at] < csr_.num_others) ++at;
    fail_neighbour(*csr_.file, raw.begin + at, block.indices[at], csr_.num_others);
  }
  return block;
}

template class EdgeStream<uint32_t>;
template class EdgeStream<uint64_t>;

}  // namespace gz

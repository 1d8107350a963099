// edge_blocks: blocks of arrays for the builder, and the checks that the parser does for text.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "compile/build/graph_builder.h"

namespace gz {
namespace {

constexpr uint64_t kMostEdgeIds = uint64_t{1} << 62;

template <class T>
void copy_ids(const IdColumn& column, size_t from, size_t count, uint64_t base, uint64_t* out) {
  const T* data = static_cast<const T*>(column.data) + static_cast<ptrdiff_t>(from) * column.stride;
  // A negative id wraps to a huge one here, and is rejected by the range check.
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<uint64_t>(static_cast<int64_t>(data[static_cast<ptrdiff_t>(i) * column.stride])) - base;
  }
}

}  // namespace

void copy_ids(const IdColumn& column, size_t from, size_t count, uint64_t base, uint64_t* out) {
  switch (column.type) {
    case IdColumn::Type::kInt64:
      return copy_ids<int64_t>(column, from, count, base, out);
    case IdColumn::Type::kUInt64:
      return copy_ids<uint64_t>(column, from, count, base, out);
    case IdColumn::Type::kInt32:
      return copy_ids<int32_t>(column, from, count, base, out);
    case IdColumn::Type::kUInt32:
      return copy_ids<uint32_t>(column, from, count, base, out);
  }
}

// Ids and weights of a block of arrays; text is checked by its parser, which knows the line.
void GraphBuilder::check(const ChunkWriter& writer, uint64_t first_edge) {
  first_edge += options_.first_edge;
  const IdLimits limits = id_limits();
  for (size_t i = 0; i < writer.count; ++i) {
    if (writer.src[i] < limits.src && writer.dst[i] < limits.dst) continue;
    const bool src = writer.src[i] >= limits.src;
    const uint64_t limit = src ? limits.src : limits.dst;
    const auto found = static_cast<int64_t>((src ? writer.src[i] : writer.dst[i]) + options_.id_base);
    if (limit == 0) {
      fail<InputError>("edge ", first_edge + i, ": found ", src ? "src " : "dst ", found, ", expected no edges since ",
                       options_.count_name(src), " = 0");
    }
    const uint64_t last = limit + options_.id_base - 1;
    const std::string range = text("from ", options_.id_base, " to ", last);
    fail<InputError>("edge ", first_edge + i, ": found ", src ? "src " : "dst ", found, ", expected a node id ",
                     options_.declared(src) ? text(range, " (", options_.count_name(src), " = ", limit, ")")
                     : found < static_cast<int64_t>(options_.id_base) ? text("of at least ", options_.id_base)
                                                                      : range + "; ids='map' accepts any integer");
  }
  for (size_t i = 0; shape_.weights && i < writer.count; ++i) {
    if (writer.weights[i] >= 0 && std::isfinite(writer.weights[i])) continue;
    fail<InputError>("edge ", first_edge + i, ": found weight ", writer.weights[i],
                     ", expected a finite number, 0 or more");
  }
  for (size_t i = 0; shape_.times && i < writer.count; ++i) {
    if (writer.times[i] == INT64_MAX) fail<InputError>("edge ", first_edge + i, ": time is 2^63 - 1, expected less");
  }
  uint64_t largest = 0;
  for (size_t i = 0; options_.own_numbers && i < writer.count; ++i) {
    largest = std::max(largest, writer.numbers[i]);
    if (writer.numbers[i] < kMostEdgeIds) continue;
    fail<InputError>("edge ", first_edge + i, ": found edge id ", static_cast<int64_t>(writer.numbers[i]),
                     ", expected 0 to 2^62 - 1");
  }
  raise_to(largest_edge_id_, largest);
}

}  // namespace gz

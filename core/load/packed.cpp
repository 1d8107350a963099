// packed: narrowing and widening.
#include "load/packed.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "load/graph.h"

namespace gz {
namespace {

bool fits_narrow(std::span<const int64_t> values) {
  uint64_t bits = 0;
  for (const int64_t value : values) bits |= static_cast<uint64_t>(value);
  return bits <= UINT32_MAX;
}

}  // namespace

PackedSubgraph::PackedSubgraph(HeteroSubgraph&& graph) {
  size_t bytes = 0;
  for_each_array(graph, [&](const Int64Array& source) {
    Array& array = arrays_.emplace_back();
    array.present = source.buffer != nullptr;
    array.size = source.size;
    array.wide = !fits_narrow(source.span());
    array.offset = bytes;
    bytes = static_cast<size_t>(round_up(bytes + array.size * (array.wide ? 8 : 4), 8));
  });
  memory_ = take_buffer(bytes, Purpose::kTables);
  auto array = arrays_.begin();
  for_each_array(graph, [&](Int64Array& source) {
    std::byte* to = memory_->data() + array->offset;
    if (array->wide) {
      std::memcpy(to, source.data(), array->size * 8);
    } else {
      std::transform(source.data(), source.data() + array->size, reinterpret_cast<uint32_t*>(to),
                     [](int64_t value) { return static_cast<uint32_t>(value); });
    }
    source = {};
    ++array;
  });
  rest_ = std::move(graph);
}

uint64_t PackedSubgraph::unpacked_bytes() const {
  uint64_t values = 0;
  for (const Array& array : arrays_) values += array.size;
  return values * sizeof(int64_t);
}

HeteroSubgraph PackedSubgraph::unpack() const {
  HeteroSubgraph graph = rest_;
  auto array = arrays_.begin();
  for_each_array(graph, [&](Int64Array& target) {
    const Array& from = *array++;
    if (!from.present) return;
    target.buffer = take_buffer(from.size * sizeof(int64_t));
    target.size = from.size;
    const std::byte* data = memory_->data() + from.offset;
    if (from.wide) {
      std::memcpy(target.data(), data, from.size * 8);
    } else {
      const auto* narrow = reinterpret_cast<const uint32_t*>(data);
      std::copy(narrow, narrow + from.size, target.data());
    }
  });
  return graph;
}

}  // namespace gz

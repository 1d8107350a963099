// narrow: int64 -> int32, with a check for ids that do not fit.
#include "load/narrow.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

#if defined(__x86_64__) || defined(_M_X64)
#define GZ_SSE2 1
#include <emmintrin.h>
#endif

namespace gz {
namespace {

uint64_t narrow_some(std::span<const int64_t> from, int32_t* to) {
  uint64_t bits = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    bits |= static_cast<uint64_t>(from[i]);
    to[i] = static_cast<int32_t>(from[i]);
  }
  return bits;
}

// Returns the bits that do not fit, of all values together.
uint64_t narrow(std::span<const int64_t> from, int32_t* to) {
#ifdef GZ_SSE2
  // Past the caches: only the device reads it, many batches later. A fifth faster with 15 threads on a Xeon.
  constexpr size_t kLine = 64 / sizeof(int32_t);
  const size_t head =
      std::min(from.size(), (kLine - reinterpret_cast<uintptr_t>(to) / sizeof(int32_t) % kLine) % kLine);
  uint64_t bits = narrow_some(from.first(head), to);
  size_t i = head;
  __m128i all = _mm_setzero_si128();
  for (; i + 4 <= from.size(); i += 4) {
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&from[i]));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(&from[i + 2]));
    all = _mm_or_si128(all, _mm_or_si128(low, high));
    const __m128 four = _mm_shuffle_ps(_mm_castsi128_ps(low), _mm_castsi128_ps(high), _MM_SHUFFLE(2, 0, 2, 0));
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + i), _mm_castps_si128(four));
  }
  _mm_sfence();
  alignas(16) std::array<uint64_t, 2> halves{};
  _mm_store_si128(reinterpret_cast<__m128i*>(halves.data()), all);
  bits |= halves[0] | halves[1] | narrow_some(from.subspan(i), to + i);
#else
  const uint64_t bits = narrow_some(from, to);
#endif
  return bits >> 31;
}

uint64_t num_ids(const HeteroSubgraph& graph) {
  uint64_t count = 0;
  for (const SampledEdges& type : graph.edges) count += 3 * type.edge.size;
  for (const SampledNodes& type : graph.nodes) count += type.node.size;
  return count;
}

}  // namespace

NarrowIds narrow_ids(const HeteroSubgraph& graph) {
  NarrowIds made;
  made.count = num_ids(graph);
  const size_t bytes = std::max<size_t>(made.count * sizeof(int32_t), 1);
  const bool behind = graph.edges.size() == 1 && graph.edges[0].narrow && graph.edges[0].narrow->size() >= bytes;
  made.buffer = behind ? graph.edges[0].narrow : take_buffer(bytes);
  int32_t* to = made.buffer->as<int32_t>();
  uint64_t excess = 0;
  const auto add = [&](std::span<const int64_t> ids) {
    excess |= narrow(ids, to);
    to += ids.size();
  };
  for (const SampledEdges& type : graph.edges) {
    if (type.narrow) {
      if (!behind) std::memcpy(to, type.narrow->data(), 3 * type.edge.size * sizeof(int32_t));
      to += 3 * type.edge.size;
    } else {
      add({type.edge_index.data(), 2 * type.edge.size});
      add(type.edge.span());
    }
  }
  for (const SampledNodes& type : graph.nodes) add(type.node.span());
  if (excess != 0) made.buffer = nullptr;
  return made;
}

void release_edges(HeteroSubgraph& graph) {
  for (SampledEdges& type : graph.edges) type.edge.buffer = type.edge_index.buffer = type.narrow = nullptr;
}

}  // namespace gz

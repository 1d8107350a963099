// hops: hop counts from each of many sources, 64 at a time: a bit of a word for each (Then et al. 2014).
#include <bit>

#include "analytics/node_arrays.h"
#include "analytics/search.h"
#include "base/ids.h"

namespace gz {
namespace {

constexpr size_t kTogether = 64;

void or_into(uint64_t& word, uint64_t bits) {
  if ((load_relaxed(word) & bits) != bits) or_relaxed(word, bits);
}

// One level: `next` gets the bits of `now` that come along an edge.
template <class Stream>
void step(Stream& stream, const Ways& ways, const NodeArray<uint64_t>& now, const NodeArray<uint64_t>& next) {
  stream.pass("hop counts", [&](const auto& block, int) {
    block.for_rows([&](const auto& row) {
      const uint64_t own = now[row.node];
      if (ways.along && own != 0) {
        for (auto at = row.begin; at < row.end; ++at) or_into(next[*at], own);
      }
      if (!ways.against) return;
      uint64_t found = 0;
      for (auto at = row.begin; at < row.end; ++at) found |= now[*at];
      if (found != 0) or_into(next[row.node], found);
    });
  });
}

}  // namespace

void count_hops(const Topology& topology, std::span<const int64_t> sources, const SearchOptions& how,
                const AnalyticsOptions& options, int32_t* out) {
  const Ways ways(topology, how.way);
  const uint64_t nodes = topology.num_nodes();
  check_ids(sources, "sources", {nodes, "nodes", topology.file().path()});
  const uint64_t held = nodes * (24 + sources.size() * sizeof(int32_t));
  with_stream(topology, ways.side, options, held, "hop counts", [&](auto& stream) {
    NodeArray<uint64_t> seen(nodes), now(nodes), next(nodes);
    for (size_t first = 0; first < sources.size(); first += kTogether) {
      const size_t count = std::min(kTogether, sources.size() - first);
      int32_t* const rows = out + first * nodes;
      for_nodes(nodes, options.threads, [&](uint64_t node) {
        seen[node] = now[node] = next[node] = 0;
        for (size_t i = 0; i < count; ++i) rows[i * nodes + node] = -1;
      });
      for (size_t i = 0; i < count; ++i) {
        const auto source = static_cast<uint64_t>(sources[first + i]);
        seen[source] |= uint64_t{1} << i;
        now[source] |= uint64_t{1} << i;
        rows[i * nodes + source] = 0;
      }
      std::atomic<bool> more{true};
      for (int32_t depth = 1; more && (how.limit < 0 || depth <= how.limit); ++depth) {
        more = false;
        step(stream, ways, now, next);
        for_nodes(nodes, options.threads, [&](uint64_t node) {
          const uint64_t fresh = next[node] & ~seen[node];
          next[node] = 0;
          now[node] = fresh;
          if (fresh == 0) return;
          seen[node] |= fresh;
          more.store(true, std::memory_order_relaxed);
          for (uint64_t bits = fresh; bits != 0; bits &= bits - 1) {
            rows[static_cast<size_t>(std::countr_zero(bits)) * nodes + node] = depth;
          }
        });
      }
    }
  });
}

}  // namespace gz

// search: breadth-first levels. With mapped rows from a queue, or by all nodes looking for a reached neighbour where
// that is less work (Beamer, Asanovic, Patterson 2012); where edges are read, by a pass for each level.
#include "analytics/search.h"

#include <bit>

#include "analytics/node_arrays.h"
#include "base/error.h"
#include "base/ids.h"

namespace gz {

Ways::Ways(const Topology& topology, Direction way) {
  topology.need_square("a search needs");
  side = topology.resolve(Direction::kNone);
  if (is_undirected(topology)) {
    pushed = pulled = {side};
    return;
  }
  along = way == Direction::kBoth || way == side;
  against = way == Direction::kBoth || way != side;
  for (const Direction one : {Direction::kOut, Direction::kIn}) {
    if (way != Direction::kBoth && way != one) continue;
    const bool has = topology.direction() == Direction::kBoth || topology.direction() == one;
    const bool has_back = topology.direction() == Direction::kBoth || topology.direction() == opposite(one);
    if (has) pushed.push_back(one);
    if (has_back) pulled.push_back(opposite(one));
    push_complete = push_complete && has;
    pull_complete = pull_complete && has_back;
  }
}

namespace {

constexpr uint64_t kMoreEdges = 14;  // Beamer's alpha: pull if the queue has more than this share of the edges left
constexpr uint64_t kFewNodes = 24;   // and beta: push again if it has fewer than this share of the nodes
constexpr size_t kQueueGrain = 256;
constexpr size_t kAhead = 8;  // rows that are fetched ahead of the one in use

// Nodes as bits; threads set bits of different words.
class Bits {
 public:
  explicit Bits(uint64_t nodes) : words_(nodes / 64 + 1) {}
  bool operator[](uint64_t node) const { return (words_[node / 64] >> (node % 64) & 1) != 0; }
  void set(uint64_t node) { words_[node / 64] |= uint64_t{1} << (node % 64); }
  // The same while other threads set bits of the same word; returns whether this call did it.
  bool set_shared(uint64_t node) {
    const uint64_t bit = uint64_t{1} << (node % 64);
    uint64_t& word = words_[node / 64];
    return (load_relaxed(word) & bit) == 0 && (or_relaxed(word, bit) & bit) == 0;
  }
  void clear(int threads) {
    for_nodes(words_.size(), threads, [&](uint64_t word) { words_[word] = 0; });
  }
  void swap(Bits& other) { std::swap(words_, other.words_); }
  uint64_t words() const { return words_.size(); }
  uint64_t word(uint64_t at) const { return words_[at]; }

 private:
  NodeArray<uint64_t> words_;
};

template <class Id>
class MappedSearch {
 public:
  MappedSearch(const Topology& topology, const Ways& ways, const NodeArray<int32_t>& level, int threads)
      : ways_(ways),
        level_(level),
        threads_(threads),
        found_(static_cast<size_t>(threads)),
        now_(level.size()),
        next_(level.size()),
        seen_(level.size()) {
    seen_.clear(threads);
    const auto add = [&](Direction side, std::vector<const Csr<Id>*>& to) {
      topology.visit(side, [&](const auto& csr) {
        if constexpr (std::is_same_v<typename std::decay_t<decltype(csr)>::Id, Id>) to.push_back(&csr);
      });
    };
    for (const Direction side : ways.pushed) add(side, pushed_);
    for (const Direction side : ways.pulled) add(side, pulled_);
    for (const auto* csr : pushed_) edges_left_ += csr->num_edges;
  }

  void run(std::span<const int64_t> sources, int64_t limit) {
    for (const int64_t source : sources) {
      if (level_[static_cast<uint64_t>(source)] == 0) continue;
      level_[static_cast<uint64_t>(source)] = 0;
      seen_.set(static_cast<uint64_t>(source));
      queue_.push_back(static_cast<uint32_t>(source));
    }
    bool as_bits = false;
    uint64_t count = queue_.size();
    for (int32_t depth = 0; count > 0 && (limit < 0 || depth < limit); ++depth) {
      const bool pull = !ways_.push_complete || (ways_.pull_complete && prefers_pull(count, as_bits));
      if (pull && !as_bits) to_bits();
      if (!pull && as_bits) to_queue();
      as_bits = pull;
      const uint64_t pulled = pull ? pull_level(depth + 1) : 0;
      if (pull && !ways_.pull_complete) {  // each way has only a part of the edges
        to_queue();
        const uint64_t pushed = push_level(depth + 1);
        for (const uint32_t node : queue_) next_.set(node);
        now_.swap(next_);
        count = pulled + pushed;
      } else if (pull) {
        now_.swap(next_);
        count = pulled;
      } else {
        count = push_level(depth + 1);
      }
    }
  }

 private:
  bool prefers_pull(uint64_t count, bool pulling) {
    if (pulling) return count > level_.size() / kFewNodes;
    uint64_t edges = 0;
    for (const uint32_t node : queue_) {
      for (const auto* csr : pushed_) edges += csr->row(node).degree();
    }
    edges_left_ -= std::min(edges, edges_left_);
    return edges > edges_left_ / kMoreEdges && count > 1024;
  }

  void to_bits() {
    now_.clear(threads_);
    for (const uint32_t node : queue_) now_.set(node);
  }

  void to_queue() {
    queue_.clear();
    for (uint64_t at = 0; at < now_.words(); ++at) {
      for (uint64_t word = now_.word(at); word != 0; word &= word - 1) {
        queue_.push_back(static_cast<uint32_t>(at * 64 + static_cast<uint64_t>(std::countr_zero(word))));
      }
    }
  }

  // From the nodes of the queue to their neighbours, who are the next queue. Returns how many there are.
  uint64_t push_level(int32_t depth) {
    parallel_for(queue_.size(), kQueueGrain, threads_, [&](size_t begin, size_t end, int worker) {
      std::vector<uint32_t>& found = found_[static_cast<size_t>(worker)];
      for (const auto* csr : pushed_) {
        for (size_t i = begin; i < end; ++i) {
          if (i + 2 * kAhead < end) prefetch(csr->indptr + queue_[i + 2 * kAhead]);
          if (i + kAhead < end) prefetch(csr->indices + csr->row(queue_[i + kAhead]).begin);
          const auto row = csr->row(queue_[i]);
          for (uint64_t p = row.begin; p < row.end; ++p) {
            const uint64_t node = csr->neighbour(p);
            if (!seen_.set_shared(node)) continue;
            level_[node] = depth;
            found.push_back(static_cast<uint32_t>(node));
          }
        }
      }
    });
    queue_.clear();
    for (std::vector<uint32_t>& found : found_) {
      queue_.insert(queue_.end(), found.begin(), found.end());
      found.clear();
    }
    return queue_.size();
  }

  // Every node that was not reached yet looks for a neighbour in now_; those that find one are next_.
  uint64_t pull_level(int32_t depth) {
    std::atomic<uint64_t> count{0};
    next_.clear(threads_);
    parallel_for(static_cast<size_t>(level_.size()), kNodeGrain, threads_, [&](size_t begin, size_t end, int) {
      uint64_t found = 0;
      for (uint64_t node = begin; node < end; ++node) {
        if (level_[node] != -1 || !sees_now(node)) continue;
        level_[node] = depth;
        next_.set(node);
        seen_.set(node);
        ++found;
      }
      count += found;
    });
    return count;
  }

  bool sees_now(uint64_t node) const {
    for (const auto* csr : pulled_) {
      const auto row = csr->row(node);
      for (uint64_t p = row.begin; p < row.end; ++p) {
        if (now_[csr->neighbour(p)]) return true;
      }
    }
    return false;
  }

  const Ways& ways_;
  const NodeArray<int32_t>& level_;
  const int threads_;
  std::vector<const Csr<Id>*> pushed_, pulled_;
  uint64_t edges_left_ = 0;
  std::vector<uint32_t> queue_;
  std::vector<std::vector<uint32_t>> found_;  // by worker
  Bits now_, next_, seen_;                    // seen_: all that were reached, a table small enough for a core's cache
};

// Reaches nodes of the next level by the edges of a block; returns whether there were any.
template <class Block>
bool reach_in_block(const Block& block, const NodeArray<int32_t>& level, int32_t depth, const Ways& ways) {
  bool more = false;
  block.for_rows(level.table(), [&](const auto& row) {
    const int32_t own = load_relaxed(level[row.node]);
    if (ways.along && own == depth) {
      for (auto at = row.begin; at < row.end; ++at) {
        if (load_relaxed(level[*at]) != -1) continue;
        store_relaxed(level[*at], depth + 1);
        more = true;
      }
    }
    if (ways.against && own == -1) {
      for (auto at = row.begin; at < row.end; ++at) {
        if (load_relaxed(level[*at]) != depth) continue;
        store_relaxed(level[row.node], depth + 1);
        more = true;
        break;
      }
    }
  });
  return more;
}

}  // namespace

Buffer search_levels(const Topology& topology, std::span<const int64_t> sources, const SearchOptions& how,
                     const AnalyticsOptions& options) {
  check_countable(topology);
  const Ways ways(topology, how.way);
  const uint64_t nodes = topology.num_nodes();
  check_ids(sources, "sources", {nodes, "nodes", topology.file().path()});
  const ArrayBytes arrays{nodes * 13, nodes * 4};
  return with_stream(topology, ways.side, options, arrays, "a search", [&](auto& stream) {
    using Id = typename std::decay_t<decltype(stream.csr())>::Id;
    NodeArray<int32_t> level = filled<int32_t>(nodes, options.threads, -1);
    if (stream.mapped()) {
      MappedSearch<Id>(topology, ways, level, options.threads).run(sources, how.limit);
      topology.file().check();
      return level.take();
    }
    for (const int64_t source : sources) level[static_cast<uint64_t>(source)] = 0;
    std::atomic<bool> more{true};
    for (int32_t depth = 0; more && (how.limit < 0 || depth < how.limit); ++depth) {
      more = false;
      stream.pass("search", [&](const auto& block, int) {
        if (reach_in_block(block, level, depth, ways)) more = true;
      });
    }
    return level.take();
  });
}

}  // namespace gz

// strong_components: Pearce's algorithm where rows are mapped; forward and backward passes where edges are read.
#include <deque>

#include "analytics/node_arrays.h"
#include "base/interrupt.h"

namespace gz {
namespace {

// D. J. Pearce, "A Space-Efficient Algorithm for Finding Strongly Connected Components" (2016), without recursion.
template <class Csr>
class DepthFirst {
 public:
  DepthFirst(const Csr& csr, const NodeArray<uint32_t>& mark, const NodeArray<uint32_t>& stack)
      : csr_(csr), mark_(mark), stack_(stack), component_(static_cast<uint32_t>(csr.num_nodes)) {}

  void run(Progress* progress) {
    uint64_t steps = 0;
    for (uint64_t root = 0; root < csr_.num_nodes; ++root) {
      if (mark_[root] != 0) continue;
      enter(root);
      while (!frames_.empty()) {
        step();
        if ((++steps & 0xfff) == 0) check_interrupt();
      }
      if (progress != nullptr && (root & 0xfff) == 0) progress->report("strong components", root, csr_.num_nodes);
    }
  }

 private:
  struct Frame {
    uint64_t at, end;  // positions of its row
    uint32_t node;
    bool root;
  };

  void enter(uint64_t node) {
    const auto row = csr_.row(node);
    mark_[node] = ++index_;
    frames_.push_back({row.begin, row.end, static_cast<uint32_t>(node), true});
  }

  void lower(Frame& frame, uint64_t other) {
    if (mark_[other] >= mark_[frame.node]) return;
    mark_[frame.node] = mark_[other];
    frame.root = false;
  }

  void step() {
    Frame& frame = frames_.back();
    while (frame.at < frame.end) {
      const uint64_t other = csr_.neighbour(frame.at++);
      if (mark_[other] == 0) {
        enter(other);  // `frame` is not valid any more
        return;
      }
      lower(frame, other);
    }
    const Frame done = frame;
    frames_.pop_back();
    if (done.root) {
      finish(done.node);
    } else {
      stack_[top_++] = done.node;
    }
    if (!frames_.empty()) lower(frames_.back(), done.node);
  }

  // Components are numbered downwards from the number of nodes, so that they compare larger than open nodes.
  void finish(uint32_t node) {
    const uint32_t own = mark_[node];
    --index_;
    while (top_ > 0 && mark_[stack_[top_ - 1]] >= own) {
      mark_[stack_[--top_]] = component_;
      --index_;
    }
    mark_[node] = component_--;
  }

  const Csr& csr_;
  const NodeArray<uint32_t>& mark_;
  const NodeArray<uint32_t>& stack_;
  uint64_t top_ = 0;
  uint32_t index_ = 0, component_;
  std::deque<Frame> frames_;  // grows without copying: an interrupt would wait for that
};

// Colours by passes: a node takes the largest id that reaches it; nodes of a colour that reach its origin are one
// component. Nodes that nothing reaches, or that reach nothing, are components of their own and removed first.
template <class Stream>
class Colouring {
 public:
  Colouring(Stream& stream, bool out_rows, const NodeArray<uint32_t>& component)
      : stream_(stream),
        out_rows_(out_rows),
        component_(component),
        colour_(component.size()),
        reached_(component.size()) {
    for_nodes(component.size(), stream.threads(), [&](uint64_t node) { component[node] = kNoLabel; });
  }

  const NodeArray<uint32_t>& scratch() const { return colour_; }

  void run() {
    const uint64_t nodes = component_.size();
    uint64_t left = nodes;
    while (left > 0) {
      for (uint64_t trimmed = left; left > 0 && trimmed > left / 64; left -= trimmed) trimmed = trim();
      for_nodes(nodes, stream_.threads(), [&](uint64_t node) { colour_[node] = static_cast<uint32_t>(node); });
      spread_colours();
      collect();
      left = 0;
      for_nodes(nodes, 1, [&](uint64_t node) { left += component_[node] == kNoLabel ? 1 : 0; });
    }
  }

 private:
  // Calls f(source, target) for edges between nodes without a component; returns whether any call returned true.
  template <class F>
  bool any_edge(const F& f) {
    std::atomic<bool> any{false};
    stream_.pass("strong components", [&](const auto& block, int) {
      bool found = false;
      block.for_rows(component_.table(), [&](const auto& row) {
        if (component_[row.node] != kNoLabel && !include_done_) return;
        for (auto at = row.begin; at < row.end; ++at) {
          found |= out_rows_ ? f(row.node, uint64_t{*at}) : f(uint64_t{*at}, row.node);
        }
      });
      if (found) any = true;
    });
    return any;
  }

  bool open(uint64_t node) const { return load_relaxed(component_[node]) == kNoLabel; }

  uint64_t trim() {
    const int threads = stream_.threads();
    for_nodes(component_.size(), threads, [&](uint64_t node) { reached_[node] = 0; });
    any_edge([&](uint64_t u, uint64_t v) {
      if (u == v || !open(u) || !open(v)) return false;
      or_relaxed(reached_[u], uint8_t{1});
      or_relaxed(reached_[v], uint8_t{2});
      return false;
    });
    std::atomic<uint64_t> trimmed{0};
    for_nodes(component_.size(), threads, [&](uint64_t node) {
      if (component_[node] != kNoLabel || reached_[node] == 3) return;
      component_[node] = static_cast<uint32_t>(node);
      ++trimmed;
    });
    return trimmed;
  }

  void spread_colours() {
    while (any_edge([&](uint64_t u, uint64_t v) {
      if (!open(u) || !open(v)) return false;
      const uint32_t from = load_relaxed(colour_[u]);
      uint32_t to = load_relaxed(colour_[v]);
      while (to < from) {
        if (swap_relaxed(colour_[v], to, from)) return true;
      }
      return false;
    })) {
    }
  }

  void collect() {
    for_nodes(component_.size(), stream_.threads(), [&](uint64_t node) {
      if (component_[node] == kNoLabel && colour_[node] == node) component_[node] = static_cast<uint32_t>(node);
    });
    include_done_ = true;
    while (any_edge([&](uint64_t u, uint64_t v) {
      const uint32_t colour = colour_[v];
      if (!open(u) || colour_[u] != colour || load_relaxed(component_[v]) != colour) return false;
      store_relaxed(component_[u], colour);
      return true;
    })) {
    }
    include_done_ = false;
  }

  Stream& stream_;
  const bool out_rows_;
  bool include_done_ = false;  // rows of nodes that have a component matter too
  const NodeArray<uint32_t>& component_;
  NodeArray<uint32_t> colour_;
  NodeArray<uint8_t> reached_;
};

}  // namespace

Labels strong_components(const Topology& topology, const AnalyticsOptions& options) {
  check_countable(topology);
  topology.need_square("strongly connected components need");
  if (is_undirected(topology)) return weak_components(topology, options);
  const uint64_t nodes = topology.num_nodes();
  const bool out_rows = topology.resolve(Direction::kNone) == Direction::kOut;
  const ArrayBytes arrays{nodes * 32, nodes * 9};  // 24 of the 32: the frames of a search that is as deep as can be
  return with_stream(topology, Direction::kNone, options, arrays, "strong components", [&](auto& stream) {
    NodeArray<uint32_t> component = filled<uint32_t>(nodes, options.threads, 0);
    if (stream.mapped()) {
      NodeArray<uint32_t> scratch(nodes);
      DepthFirst(stream.csr(), component, scratch).run(options.progress);
      topology.file().check();
      for_nodes(nodes, options.threads, [&](uint64_t node) { --component[node]; });
      const uint64_t count = number_labels(component, scratch, options.threads);
      return Labels{component.take(), count};
    }
    Colouring colouring(stream, out_rows, component);
    colouring.run();
    const uint64_t count = number_labels(component, colouring.scratch(), options.threads);
    return Labels{component.take(), count};
  });
}

}  // namespace gz

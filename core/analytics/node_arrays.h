// node_arrays: what the algorithms share: arrays by node, rows without repeated neighbours.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "analytics/analytics.h"
#include "base/prefetch.h"
#include "base/relaxed.h"
#include "base/threads.h"

namespace gz {

constexpr size_t kNodeGrain = size_t{1} << 14;  // nodes that a thread takes at a time; a multiple of 64
constexpr uint32_t kNoLabel = UINT32_MAX;

template <class T>
class NodeArray {
 public:
  NodeArray() = default;
  explicit NodeArray(uint64_t nodes)
      : buffer_(std::max<size_t>(static_cast<size_t>(nodes) * sizeof(T), 1), Purpose::kTables), size_(nodes) {}

  T* data() const { return buffer_.as<T>(); }
  uint64_t size() const { return size_; }
  NodeTable<T> table() const { return {data(), size_}; }
  T& operator[](uint64_t node) const { return data()[node]; }
  Buffer take() { return std::move(buffer_); }

 private:
  Buffer buffer_;
  uint64_t size_ = 0;
};

// Calls f(node) for every node, in parallel; in order by one thread. An interrupt ends it.
template <class F>
void for_nodes(uint64_t nodes, int threads, const F& f) {
  parallel_for(static_cast<size_t>(nodes), kNodeGrain, threads, [&](size_t begin, size_t end, int) {
    for (size_t node = begin; node < end; ++node) f(node);
  });
}

// The sum of f(node), by blocks of nodes in their order, so that it does not depend on the number of threads.
template <class F>
double sum_nodes(uint64_t nodes, int threads, const F& f) {
  std::vector<double> sums(static_cast<size_t>(nodes) / kNodeGrain + 1);
  parallel_for(static_cast<size_t>(nodes), kNodeGrain, threads, [&](size_t begin, size_t end, int) {
    double sum = 0;
    for (size_t node = begin; node < end; ++node) sum += f(node);
    sums[begin / kNodeGrain] = sum;
  });
  double all = 0;
  for (const double sum : sums) all += sum;
  return all;
}

template <class T>
NodeArray<T> filled(uint64_t nodes, int threads, T value) {
  NodeArray<T> array(nodes);
  for_nodes(nodes, threads, [&](uint64_t node) { array[node] = value; });
  return array;
}

// Calls f(neighbour) for the distinct neighbours of a sorted row, without `self`.
template <class Id, class F>
void for_distinct(const Id* begin, const Id* end, uint64_t self, const F& f) {
  for (const Id* at = begin; at < end; ++at) {
    if (*at != self && (at == begin || *at != at[-1])) f(*at);
  }
}

// Adds 1 to the entry of each neighbour in a block.
template <class Block, class T>
void count_neighbours_of(const Block& block, const NodeArray<T>& counts) {
  constexpr uint64_t kAhead = 16;  // additions do not overlap by themselves
  const uint64_t edges = block.end - block.begin;
  for (uint64_t i = 0; i < edges; ++i) {
    if (i + kAhead < edges) prefetch(counts.data() + block.indices[i + kAhead]);
    add_relaxed(counts[block.indices[i]], T{1});
  }
}

// Distinct neighbours of each node.
template <class Stream>
NodeArray<uint32_t> distinct_degrees(Stream& stream) {
  NodeArray<uint32_t> degree(stream.csr().num_nodes);
  stream.pass("counting degrees", [&](const auto& block, int) {
    block.for_rows([&](const auto& row) {
      uint32_t count = 0;
      for_distinct(row.begin, row.end, row.node, [&](uint64_t) { ++count; });
      degree[row.node] = count;
    });
  });
  return degree;
}

// Numbers the labels of `array`, nodes or other values below its size, 0, 1, 2, ... by first appearance; `scratch` has
// the same size. Returns how many there are.
inline uint64_t number_labels(const NodeArray<uint32_t>& array, const NodeArray<uint32_t>& scratch, int threads) {
  for_nodes(array.size(), threads, [&](uint64_t node) { scratch[node] = kNoLabel; });
  uint32_t count = 0;
  for_nodes(array.size(), 1, [&](uint64_t node) {
    uint32_t& number = scratch[array[node]];
    if (number == kNoLabel) number = count++;
    array[node] = number;
  });
  return count;
}

// Calls f(EdgeStream<Id>&) with a stream of the width of the file's ids.
template <class F>
decltype(auto) with_stream(const Topology& topology, Direction side, const AnalyticsOptions& options, ArrayBytes arrays,
                           const char* what, const F& f, bool weights = false) {
  if (topology.wide()) {
    EdgeStream<uint64_t> stream(topology, side, options, arrays, what, weights);
    return f(stream);
  }
  EdgeStream<uint32_t> stream(topology, side, options, arrays, what, weights);
  return f(stream);
}

}  // namespace gz

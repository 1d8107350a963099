// non_edges: the pairs of nodes that may be drawn as negatives, enumerated. What rejection falls back on where nearly
// every pair is an edge: it costs a pass over the rows it is asked about, and then always finds something.
//
// Gaps between refused nodes are weighed by running sums: nothing is subtracted from a total, so a node with no partner
// left weighs exactly zero.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "base/interrupt.h"
#include "base/memory.h"
#include "base/random.h"
#include "base/threads.h"
#include "sample/rows/row_search.h"
#include "storage/topology.h"

namespace gz {

// How much each node counts, as running sums: below(i) is the mass of the nodes before i. Without a table each
// counts 1.
class NodeMass {
 public:
  NodeMass() = default;
  template <class Id>
  static NodeMass of_degrees(const Csr<Id>& csr, double exponent);  // degree^exponent, 0 for a degree of 0

  double below(uint64_t i) const { return sums_ ? sums_.as<double>()[i] : static_cast<double>(i); }
  double of(uint64_t node) const { return below(node + 1) - below(node); }
  // The node in [begin, end) whose share holds `target`, counted from the start of `begin`'s; the range has mass.
  uint64_t find(uint64_t begin, uint64_t end, double target) const;

 private:
  Buffer sums_;
};

template <class Id>
class NonEdges {
 public:
  // Partners of a row's node are the nodes that its row does not hold (edges), itself apart (self).
  NonEdges(const Csr<Id>& rows, const NodeMass& row_mass, const NodeMass& partner_mass, bool edges, bool self)
      : rows_(rows), row_mass_(row_mass), partner_mass_(partner_mass), edges_(edges), self_(self) {}

  // The partners of one node. Kept between calls for the same node; not for use by two threads. `of_column`: the node
  // is one of those in the rows, and its partners are those that have rows: that takes a search in every row.
  class Partners {
   public:
    explicit Partners(const NonEdges& all, bool of_column = false) : all_(all), of_column_(of_column) {}
    void of(uint64_t node);
    double mass() const { return mass_; }
    uint64_t draw(Random& random) const;  // mass() > 0

   private:
    template <class F>
    void each_gap(F&& f) const;  // f(begin, end) for runs of allowed nodes, until it returns true

    uint64_t limit() const { return of_column_ ? all_.rows_.num_nodes : all_.rows_.num_others; }
    const NodeMass& masses() const { return of_column_ ? all_.row_mass_ : all_.partner_mass_; }

    const NonEdges& all_;
    const bool of_column_;
    uint64_t node_ = ~uint64_t{0};
    std::vector<uint64_t> refused_;  // ascending, each once
    double mass_ = 0;
  };

  // Sums up every row, so that draw_row() can choose one by the mass of its pairs. Returns the mass of all.
  double prepare(int threads);
  uint64_t draw_row(Random& random) const;

 private:
  const Csr<Id>& rows_;
  const NodeMass& row_mass_;
  const NodeMass& partner_mass_;
  const bool edges_, self_;
  Buffer sums_;  // num_nodes running sums, after prepare()
};

template <class Id>
NodeMass NodeMass::of_degrees(const Csr<Id>& csr, double exponent) {
  NodeMass mass;
  mass.sums_ = Buffer((csr.num_nodes + 1) * sizeof(double), Purpose::kTables);
  double* sums = mass.sums_.as<double>();
  sums[0] = 0;
  for (uint64_t i = 0; i < csr.num_nodes; ++i) {
    if (i % 65536 == 0) check_interrupt();
    const auto degree = static_cast<double>(csr.row(i).degree());
    sums[i + 1] = sums[i] + (degree > 0 ? std::pow(degree, exponent) : 0.0);
  }
  return mass;
}

inline uint64_t NodeMass::find(uint64_t begin, uint64_t end, double target) const {
  if (!sums_) return std::min(begin + static_cast<uint64_t>(target), end - 1);
  const double* sums = sums_.as<double>();
  const double* last = sums + end + 1;
  const double* at = std::upper_bound(sums + begin + 1, last, sums[begin] + target);
  if (at == last) at = std::lower_bound(sums + begin + 1, last, sums[end]);  // rounding: the last that has mass
  return static_cast<uint64_t>(at - sums) - 1;
}

template <class Id>
void NonEdges<Id>::Partners::of(uint64_t node) {
  if (node == node_) return;
  const Csr<Id>& rows = all_.rows_;
  refused_.clear();
  if (all_.edges_ && of_column_) {
    for (uint64_t other = 0; other < rows.num_nodes; ++other) {
      if (other % 4096 == 0) check_interrupt();
      if (row_holds(rows, rows.row(other), node)) refused_.push_back(other);
    }
  } else if (all_.edges_) {
    const auto row = rows.row(node);
    for (uint64_t i = row.begin; i < row.end; ++i) refused_.push_back(rows.neighbour(i));
  }
  if (all_.self_) refused_.push_back(node);
  std::sort(refused_.begin(), refused_.end());
  refused_.erase(std::unique(refused_.begin(), refused_.end()), refused_.end());
  mass_ = 0;
  each_gap([&](uint64_t begin, uint64_t end) {
    mass_ += masses().below(end) - masses().below(begin);
    return false;
  });
  node_ = node;
}

template <class Id>
template <class F>
void NonEdges<Id>::Partners::each_gap(F&& f) const {
  uint64_t begin = 0;
  for (const uint64_t refused : refused_) {
    if (begin < refused && f(begin, refused)) return;
    begin = refused + 1;
  }
  if (begin < limit()) f(begin, limit());
}

template <class Id>
uint64_t NonEdges<Id>::Partners::draw(Random& random) const {
  double target = random.unit() * mass_;
  uint64_t drawn = 0;
  each_gap([&](uint64_t begin, uint64_t end) {
    const double mass = masses().below(end) - masses().below(begin);
    if (mass == 0) return false;
    drawn = masses().find(begin, end, target);  // kept if rounding leads past the last gap
    target -= mass;
    return target < 0;
  });
  return drawn;
}

template <class Id>
double NonEdges<Id>::prepare(int threads) {
  constexpr size_t kGrain = 64;
  const auto count = static_cast<size_t>(rows_.num_nodes);
  sums_ = Buffer(std::max<size_t>(count, 1) * sizeof(double), Purpose::kTables);
  double* sums = sums_.as<double>();
  parallel_for(count, kGrain, threads, [&](size_t begin, size_t end, int) {
    Partners partners(*this);
    for (size_t i = begin; i < end; ++i) {
      partners.of(i);
      sums[i] = row_mass_.of(i) * partners.mass();
    }
  });
  for (size_t i = 1; i < count; ++i) sums[i] += sums[i - 1];
  return count == 0 ? 0.0 : sums[count - 1];
}

template <class Id>
uint64_t NonEdges<Id>::draw_row(Random& random) const {
  const double* sums = sums_.as<double>();
  const double* end = sums + rows_.num_nodes;
  const double total = *(end - 1);
  const double* at = std::upper_bound(sums, end, random.unit() * total);
  if (at == end) at = std::lower_bound(sums, end, total);
  return static_cast<uint64_t>(at - sums);
}

}  // namespace gz

// non_edges: the pairs of nodes that may be drawn as negatives, enumerated. What rejection falls back on where nearly
// every pair is an edge: it costs a pass over the rows it is asked about, and then always finds something.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/memory.h"
#include "base/random.h"
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

}  // namespace gz

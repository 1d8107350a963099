// pagerank: power iteration. Pulls over the rows of targets; pushes where the file has only rows of sources.
//
// A pulled rank is summed in double by one thread, in the order of its row. Pushed ranks are summed as integers, in
// units of 2^-62: integer sums do not depend on their order, so that threads can share them.
#include <cmath>

#include "analytics/node_arrays.h"
#include "base/error.h"
#include "base/ids.h"

namespace gz {
namespace {

constexpr double kUnits = 0x1.0p62;

template <class Real>
class Power {
 public:
  Power(const Topology& topology, const PageRankOptions& how, const AnalyticsOptions& options)
      : topology_(topology),
        how_(how),
        options_(options),
        nodes_(topology.num_nodes()),
        pull_side_(rows_along(topology, opposite(how.way))),
        push_side_(rows_along(topology, how.way)) {}

  PageRankResult run() {
    const Direction side = pulls() ? pull_side_ : push_side_;
    PageRankResult result;
    with_stream(
        topology_, side, options_, nodes_ * node_bytes(), "PageRank",
        [&](auto& stream) {
          prepare(stream);
          iterate(stream, result);
        },
        how_.weighted);
    result.ranks = rank_.take();
    return result;
  }

 private:
  bool pulls() const { return pull_side_ != Direction::kNone; }

  uint64_t node_bytes() const {
    const int vectors = 3 + (how_.personalization.empty() ? 0 : 1) + (how_.dangling.empty() ? 0 : 1);
    const int sums = push_side_ != Direction::kNone ? 0 : how_.weighted ? 8 : 4;  // freed before the iterations
    return vectors * sizeof(Real) + (pulls() ? 0 : 8) + sums;
  }

  template <class Stream>
  void prepare(Stream& stream) {
    rank_ = NodeArray<Real>(nodes_);
    share_ = NodeArray<Real>(nodes_);
    inverse_ = NodeArray<Real>(nodes_);
    if (!pulls()) pushed_ = NodeArray<uint64_t>(nodes_);
    if (!how_.personalization.empty()) teleport_ = dense(how_.personalization, "personalization");
    if (!how_.dangling.empty()) dangling_ = dense(how_.dangling, "dangling");
    measure(stream);
    if (how_.start.empty()) {
      for_nodes(nodes_, options_.threads, [&](uint64_t node) { rank_[node] = static_cast<Real>(uniform()); });
    } else {
      rank_ = dense(how_.start, "start");
    }
  }

  double uniform() const { return 1.0 / static_cast<double>(nodes_); }

  NodeArray<Real> dense(const NodeWeights& given, const char* name) const {
    check_ids(given.nodes, name, {nodes_, "nodes", topology_.file().path()});
    double sum = 0;
    for (const double weight : given.weights) sum += weight;
    if (!(sum > 0) || !std::isfinite(sum)) {
      fail<ArgumentError>(name, ": weights sum to ", sum, ", expected more than 0");
    }
    NodeArray<Real> all = filled<Real>(nodes_, options_.threads, Real{0});
    for (size_t i = 0; i < given.nodes.size(); ++i) {
      all[static_cast<uint64_t>(given.nodes[i])] += static_cast<Real>(given.weights[i] / sum);
    }
    return all;
  }

  // 1 / the sum of weights (or the number) of the edges that leave each node; 0 where there are none.
  template <class Stream>
  void measure(Stream& stream) {
    const auto invert = [](double sum) { return static_cast<Real>(sum > 0 ? 1.0 / sum : 0.0); };
    if (!how_.weighted && push_side_ != Direction::kNone) {
      topology_.visit(push_side_, [&](const auto& csr) {
        for_nodes(nodes_, options_.threads,
                  [&](uint64_t node) { inverse_[node] = invert(static_cast<double>(csr.row(node).degree())); });
      });
    } else if (!how_.weighted) {
      NodeArray<uint32_t> counts = filled<uint32_t>(nodes_, options_.threads, 0);
      stream.pass("counting degrees", [&](const auto& block, int) { count_neighbours_of(block, counts); });
      for_nodes(nodes_, options_.threads, [&](uint64_t node) { inverse_[node] = invert(counts[node]); });
    } else if (push_side_ != Direction::kNone) {
      const auto sum_rows = [&](auto& rows) {
        rows.pass("summing weights", [&](const auto& block, int) {
          block.for_rows([&](const auto& row) {
            double sum = 0;
            for (uint64_t i = 0; i < row.degree(); ++i) sum += row.weights[i];
            inverse_[row.node] = invert(sum);
          });
        });
      };
      if (push_side_ == pull_side_ || !pulls()) {
        sum_rows(stream);
      } else {
        with_stream(topology_, push_side_, options_, nodes_ * node_bytes(), "PageRank", sum_rows, true);
      }
    } else {
      scatter_weights();
      for_nodes(nodes_, options_.threads, [&](uint64_t node) { inverse_[node] = invert(sums_[node]); });
      sums_ = {};
    }
  }

  // By one thread: the order of a sum of doubles is that of the file.
  void scatter_weights() {
    AnalyticsOptions alone = options_;
    alone.threads = 1;
    sums_ = filled<double>(nodes_, options_.threads, 0.0);
    with_stream(
        topology_, pull_side_, alone, nodes_ * node_bytes(), "PageRank",
        [&](auto& stream) {
          stream.pass("summing weights", [&](const auto& block, int) {
            for (uint64_t i = 0; i < block.end - block.begin; ++i) sums_[block.indices[i]] += block.weights[i];
          });
        },
        true);
  }

  template <class Stream>
  void iterate(Stream& stream, PageRankResult& result) {
    for (result.iterations = 0; result.iterations < how_.iterations;) {
      const double lost = sum_nodes(nodes_, options_.threads, [&](uint64_t node) {
        share_[node] = rank_[node] * inverse_[node];
        return inverse_[node] == 0 ? static_cast<double>(rank_[node]) : 0.0;
      });
      ++result.iterations;
      result.change = pulls() ? pull(stream, lost) : push(stream, lost);
      if (how_.tolerance > 0 && result.change < how_.tolerance) return;
    }
  }

  // What a node gets that does not come along edges.
  struct Base {
    Base(const Power& power, double lost)
        : teleport(power.teleport_.size() > 0 ? power.teleport_.data() : nullptr),
          dangling(power.dangling_.size() > 0 ? power.dangling_.data() : teleport),
          jump(1.0 - power.how_.damping),
          found(power.how_.damping * lost),
          uniform(power.uniform()),
          constant((jump + found) * uniform) {}
    double operator()(uint64_t node) const {
      if (teleport == nullptr && dangling == nullptr) return constant;
      return jump * (teleport != nullptr ? teleport[node] : uniform) + found * dangling[node];
    }
    const Real *teleport, *dangling;
    const double jump, found, uniform, constant;
  };

  double replace(uint64_t node, double received, const Base& base) {
    const Real next = static_cast<Real>(base(node) + how_.damping * received);
    const double change = std::abs(static_cast<double>(next) - static_cast<double>(rank_[node]));
    rank_[node] = next;
    return change;
  }

  template <class Stream>
  double pull(Stream& stream, double lost) {
    const Real* const share = share_.data();
    const Base base(*this, lost);
    std::vector<double> changes(static_cast<size_t>(stream.most_blocks()));
    stream.pass("PageRank", [&](const auto& block, int) {
      double change = 0;
      block.for_rows(share_.table(), [&](const auto& row) {
        double sum = 0;
        if (how_.weighted) {
          for (uint64_t i = 0; i < row.degree(); ++i) sum += static_cast<double>(share[row.begin[i]]) * row.weights[i];
        } else {
          for (auto at = row.begin; at < row.end; ++at) sum += share[*at];
        }
        change += replace(row.node, sum, base);
      });
      changes[static_cast<size_t>(block.number)] = change;
    });
    double all = 0;
    for (const double change : changes) all += change;
    return all;
  }

  template <class Stream>
  double push(Stream& stream, double lost) {
    const Base base(*this, lost);
    for_nodes(nodes_, options_.threads, [&](uint64_t node) { pushed_[node] = 0; });
    stream.pass("PageRank", [&](const auto& block, int) {
      block.for_rows(NodeTable<uint64_t>{pushed_.data(), nodes_, true}, [&](const auto& row) {
        const double share = static_cast<double>(share_[row.node]) * kUnits;
        const auto whole = static_cast<uint64_t>(share);
        for (uint64_t i = 0; i < row.degree(); ++i) {
          const uint64_t part = how_.weighted ? static_cast<uint64_t>(share * row.weights[i]) : whole;
          add_relaxed(pushed_[row.begin[i]], part);
        }
      });
    });
    return sum_nodes(nodes_, options_.threads,
                     [&](uint64_t node) { return replace(node, static_cast<double>(pushed_[node]) / kUnits, base); });
  }

  const Topology& topology_;
  const PageRankOptions& how_;
  const AnalyticsOptions& options_;
  const uint64_t nodes_;
  const Direction pull_side_, push_side_;  // kNone: not in the file
  NodeArray<Real> rank_, share_, inverse_, teleport_, dangling_;
  NodeArray<uint64_t> pushed_;
  NodeArray<double> sums_;
};

}  // namespace

template <class Real>
PageRankResult pagerank(const Topology& topology, const PageRankOptions& how, const AnalyticsOptions& options) {
  topology.need_square("PageRank needs");
  check_countable(topology);
  return Power<Real>(topology, how, options).run();
}

template PageRankResult pagerank<float>(const Topology&, const PageRankOptions&, const AnalyticsOptions&);
template PageRankResult pagerank<double>(const Topology&, const PageRankOptions&, const AnalyticsOptions&);

}  // namespace gz

// negatives: draw and refuse, many pairs in flight; then enumerate for the few that found nothing.
#include "sample/link/negatives.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/ids.h"
#include "base/interrupt.h"
#include "base/prefetch.h"
#include "base/random.h"
#include "base/threads.h"
#include "sample/link/non_edges.h"
#include "sample/rows/cold_rows.h"
#include "sample/rows/draw.h"
#include "sample/rows/row_search.h"

namespace gz {
namespace {

constexpr uint64_t kStream = 0x67656e;           // "neg": separate from other draws of the same seed
constexpr uint64_t kExactStream = 0x7463617865;  // "exact"
constexpr uint64_t kProbeStream = 0x65626f7270;  // "probe"
constexpr uint64_t kSearchPages = 24;            // read by a search for a node and by few others
constexpr size_t kLanes = 32;                    // pairs in flight
constexpr size_t kGrain = size_t{1} << 12;
constexpr uint64_t kRoundsALook = 256;
constexpr int64_t kNothing = -1;  // a target that rejection did not find
constexpr uint64_t kNoNode = ~uint64_t{0};

// The rows that a call reads. Both directions of a file have ids of one width.
template <class Id>
struct Sides {
  const Csr<Id>* rows = nullptr;  // edges are looked up here
  bool by_source = true;          // a row holds the targets of its node, not the sources
  const Csr<Id>* source_degrees = nullptr;
  const Csr<Id>* target_degrees = nullptr;
  uint64_t num_sources = 0, num_targets = 0;
};

template <class Id>
Sides<Id> sides_of(const Topology& topology) {
  const auto side = [&](Direction direction) -> const Csr<Id>* {
    const Csr<Id>* found = nullptr;
    topology.visit(direction, [&](const auto& csr) {
      if constexpr (std::is_same_v<std::decay_t<decltype(csr)>, Csr<Id>>) found = &csr;
    });
    return found;
  };
  const Csr<Id>* rows = side(Direction::kNone);
  const bool out = has_out(topology.direction()), in = has_in(topology.direction());
  return {rows,
          out,
          out ? side(Direction::kOut) : rows,
          in ? side(Direction::kIn) : rows,
          topology.num_sources(),
          topology.num_targets()};
}

template <class Id>
class Negatives {
 public:
  Negatives(const Sides<Id>& sides, std::optional<std::span<const int64_t>> sources, const NegativeOptions& options,
            std::span<int64_t> source, std::span<int64_t> target)
      : sides_(sides), rows_(*sides.rows), sources_(sources), o_(options), source_(source), target_(target) {
    if (sources && !sources->empty()) each_ = source.size() / sources->size();
  }

  void run() {
    const int threads = resolve_threads(o_.threads);
    const Ahead ahead = o_.plain || hopeless() ? Ahead{} : look_ahead(threads);
    const bool cold = ahead.rows || ahead.nodes;
    const size_t grain = cold ? cold_grain(target_.size(), threads) : kGrain;
    parallel_for(target_.size(), grain, threads, [&](size_t begin, size_t end, int) {
      PagePrefetcher pages(*rows_.file, 1);
      if (hopeless()) {
        std::fill(target_.begin() + begin, target_.begin() + end, kNothing);
      } else if (o_.plain) {
        for (size_t i = begin; i < end; ++i) reject_plainly(i);
      } else {
        reject_abreast(begin, end, ahead.nodes ? &pages : nullptr, ahead.rows ? &pages : nullptr);
      }
    });
    std::vector<size_t> missing;
    for (size_t i = 0; i < target_.size(); ++i) {
      if (target_[i] == kNothing) missing.push_back(i);
    }
    if (!missing.empty()) enumerate(missing, threads);
  }

 private:
  struct Pair {
    uint64_t source, target;
  };
  struct Lane {
    size_t sample = 0;
    Random random{0};
    Pair pair{0, 0};
    uint64_t tries = 0;
    NodeSearch node;
    RowSearch search;
  };

  // Refusals after which enumeration is the cheaper way; by degree one of those costs more.
  uint64_t most_tries() const { return o_.by_degree ? 2048 : 128; }

  // Nearly every pair is an edge: rejection would only waste its tries.
  bool hopeless() const {
    const double pairs = static_cast<double>(rows_.num_nodes) * static_cast<double>(rows_.num_others);
    return !sources_ && o_.exclude_edges && static_cast<double>(rows_.num_edges) >= pairs * (1 - 1.0 / 64);
  }

  // What the kernel should ask for ahead.
  struct Ahead {
    bool rows = false, nodes = false;
  };

  Ahead look_ahead(int threads) const {
    std::array<int64_t, 24> some;  // rows like those that will be drawn
    Random random(make_key(o_.seed, kProbeStream));
    const auto draw_some = [&](const Csr<Id>& csr) {
      for (int64_t& node : some) node = static_cast<int64_t>(random.below(csr.num_nodes));
    };
    draw_some(rows_);
    Ahead ahead;
    ahead.rows = o_.exclude_edges && ask_ahead(rows_, {some, target_.size(), 1, false, o_.io}, threads);
    if (!o_.by_degree) return ahead;
    for (const Csr<Id>* csr : {sides_.source_degrees, sides_.target_degrees}) {
      draw_some(*csr);
      if (!look_cold(*csr, {some, target_.size(), 0, false, o_.io})) continue;
      const uint64_t bytes = (csr->changed.base_rows + 1) * sizeof(uint64_t);
      if (better_whole(kSearchPages * target_.size(), bytes)) {
        PagePrefetcher(*csr->file, threads).request_whole(csr->indptr, bytes);
      } else {
        ahead.nodes = true;
      }
    }
    return ahead;
  }

  Random random(size_t sample, uint64_t stream) const { return Random(make_key(o_.seed, stream, sample)); }
  uint64_t given(size_t sample) const { return static_cast<uint64_t>((*sources_)[sample / each_]); }
  uint64_t row_node(const Pair& pair) const { return sides_.by_source ? pair.source : pair.target; }
  uint64_t partner(const Pair& pair) const { return sides_.by_source ? pair.target : pair.source; }

  void record(size_t sample, const Pair& pair) {
    source_[sample] = static_cast<int64_t>(pair.source);
    target_[sample] = static_cast<int64_t>(pair.target);
  }

  // A node uniformly; or the node that a random edge belongs to, kept with probability degree^(exponent - 1).
  uint64_t draw_node(const Csr<Id>& csr, uint64_t count, Random& random) const {
    if (!o_.by_degree) return random.below(count);
    const uint64_t edge = random.below(csr.num_edges);
    NodeSearch search;
    search.begin(csr, edge);
    while (!search.step(csr)) {
    }
    return keep_node(csr, search.node(), random);
  }

  uint64_t keep_node(const Csr<Id>& csr, uint64_t node, Random& random) const {
    if (node == csr.num_nodes) fail_row(*csr.file, node - 1, csr.start_of(node - 1), csr.start_of(node));
    if (o_.exponent == 1) return node;
    const auto degree = static_cast<double>(std::max<uint64_t>(csr.row(node).degree(), 1));
    return random.unit() < std::pow(degree, o_.exponent - 1) ? node : kNoNode;
  }

  // One try. False when a draw came to nothing or the pair is a node with itself.
  bool draw_pair(size_t sample, Random& random, Pair& pair) const {
    pair.source = sources_ ? given(sample) : draw_node(*sides_.source_degrees, sides_.num_sources, random);
    if (pair.source == kNoNode) return false;
    pair.target = draw_node(*sides_.target_degrees, sides_.num_targets, random);
    return pair.target != kNoNode && !(o_.exclude_self && pair.source == pair.target);
  }

  void reject_plainly(size_t sample) {
    Random random = this->random(sample, kStream);
    for (uint64_t tries = 0; tries < most_tries(); ++tries) {
      Pair pair;
      if (!draw_pair(sample, random, pair)) continue;
      if (o_.exclude_edges && row_holds(rows_, rows_.row(row_node(pair)), partner(pair))) continue;
      return record(sample, pair);
    }
    target_[sample] = kNothing;
  }

  using List = std::vector<Lane*>;

  // The same for many samples at a time: a round draws a pair in every lane, then looks the rows up, then searches them
  // a probe at a time. A lane that is done takes the next sample. Over a cold file all samples are in flight at once,
  // and what each pass will read is prefetched.
  void reject_abreast(size_t begin, size_t end, PagePrefetcher* node_pages, PagePrefetcher* row_pages) {
    const bool cold = node_pages != nullptr || row_pages != nullptr;
    std::vector<Lane> lanes(cold ? end - begin : std::min(kLanes, end - begin));
    List busy, still;
    size_t next = begin;
    const auto take_next = [&](Lane& lane) {
      if (next == end) return false;
      lane.sample = next++;
      lane.random = random(lane.sample, kStream);
      lane.tries = 0;
      return true;
    };
    const auto settle = [&](Lane& lane, bool good) {  // keeps the lane busy while there is work for it
      if (good) {
        record(lane.sample, lane.pair);
      } else if (++lane.tries == most_tries()) {
        target_[lane.sample] = kNothing;
      } else {
        return still.push_back(&lane);
      }
      if (take_next(lane)) still.push_back(&lane);
    };
    for (Lane& lane : lanes) {
      if (take_next(lane)) busy.push_back(&lane);
    }
    uint64_t rounds = 0;
    for (; !busy.empty(); busy.swap(still), still.clear()) {
      if (++rounds % kRoundsALook == 0 || cold) check_interrupt();  // samples may take thousands of tries
      if (sources_) {
        for (Lane* lane : busy) lane->pair.source = given(lane->sample);
      } else {
        draw_nodes(*sides_.source_degrees, sides_.num_sources, &Pair::source, busy, node_pages, settle);
      }
      draw_nodes(*sides_.target_degrees, sides_.num_targets, &Pair::target, busy, node_pages, settle);
      std::erase_if(busy, [&](Lane* lane) {
        const bool self = o_.exclude_self && lane->pair.source == lane->pair.target;
        if (self || !o_.exclude_edges) settle(*lane, !self);
        return self || !o_.exclude_edges;
      });
      search_rows(busy, row_pages, settle);
    }
  }

  // One end of the pair of every lane; lanes whose draw came to nothing are settled and leave the list.
  template <class Settle>
  void draw_nodes(const Csr<Id>& csr, uint64_t count, uint64_t Pair::*end, List& list, PagePrefetcher* pages,
                  const Settle& settle) {
    if (!o_.by_degree) {
      for (Lane* lane : list) lane->pair.*end = lane->random.below(count);
      return;
    }
    for (Lane* lane : list) lane->node.begin(csr, lane->random.below(csr.num_edges));
    List searching = list;
    while (!searching.empty()) {
      if (pages != nullptr) {
        for (Lane* lane : searching) lane->node.ask_pages(csr, *pages);
        pages->request_added();
      }
      std::erase_if(searching, [&](Lane* lane) { return lane->node.step(csr); });
    }
    std::erase_if(list, [&](Lane* lane) {
      lane->pair.*end = keep_node(csr, lane->node.node(), lane->random);
      const bool nothing = lane->pair.*end == kNoNode;
      if (nothing) settle(*lane, false);
      return nothing;
    });
  }

  // Settles the lanes by whether their pairs are edges; empties the list.
  template <class Settle>
  void search_rows(List& list, PagePrefetcher* pages, const Settle& settle) {
    for (Lane* lane : list) {
      prefetch_row(rows_, row_node(lane->pair));
      if (pages != nullptr) add_bounds(*pages, rows_, row_node(lane->pair));
    }
    if (pages != nullptr) pages->request_added();
    for (Lane* lane : list) {
      lane->search = {};
      lane->search.begin(rows_, rows_.row(row_node(lane->pair)), partner(lane->pair));
    }
    while (!list.empty()) {
      if (pages != nullptr) {
        for (Lane* lane : list) lane->search.ask_pages(rows_, *pages);
        pages->request_added();
      }
      std::erase_if(list, [&](Lane* lane) {
        const bool done = lane->search.step(rows_);
        if (done) settle(*lane, !lane->search.found());
        return done;
      });
    }
  }

  void enumerate(const std::vector<size_t>& missing, int threads) {
    const auto mass_of = [&](const Csr<Id>& csr) {
      return o_.by_degree ? NodeMass::of_degrees(csr, o_.exponent) : NodeMass();
    };
    const NodeMass sources = mass_of(*sides_.source_degrees), targets = mass_of(*sides_.target_degrees);
    NonEdges<Id> all(rows_, sides_.by_source ? sources : targets, sides_.by_source ? targets : sources,
                     o_.exclude_edges, o_.exclude_self);
    if (!sources_ && !(all.prepare(threads) > 0)) {
      fail<ArgumentError>(rows_.file->path(), ": every pair of nodes that may be drawn is an edge or excluded: ",
                          "there is no negative edge to draw");
    }
    const bool of_column = sources_ && !sides_.by_source;
    parallel_for(missing.size(), 16, threads, [&](size_t begin, size_t end, int) {
      typename NonEdges<Id>::Partners partners(all, of_column);
      for (size_t i = begin; i < end; ++i) {
        Random random = this->random(missing[i], kExactStream);
        const uint64_t node = sources_ ? given(missing[i]) : all.draw_row(random);
        partners.of(node);
        if (!(partners.mass() > 0)) {
          fail<ArgumentError>(rows_.file->path(), ": node ", node,
                              " has an edge to every node that may be drawn: there is no negative edge for it");
        }
        const uint64_t partner = partners.draw(random);
        record(missing[i], sides_.by_source || of_column ? Pair{node, partner} : Pair{partner, node});
      }
    });
  }

  const Sides<Id>& sides_;
  const Csr<Id>& rows_;
  const std::optional<std::span<const int64_t>> sources_;
  const NegativeOptions& o_;
  const std::span<int64_t> source_, target_;
  size_t each_ = 1;
};

void check_options(const Topology& topology, const NegativeOptions& o, bool with_sources, size_t wanted) {
  const std::string& path = topology.file().path();
  if (!(o.exponent > 0 && o.exponent <= 1)) {
    fail<ArgumentError>("exponent is ", o.exponent, ", expected more than 0 and at most 1");
  }
  if (wanted == 0) return;
  if (topology.num_sources() == 0 || topology.num_targets() == 0) {
    fail<ArgumentError>(path, ": the graph has no nodes to draw");
  }
  if (o.by_degree && topology.num_edges() == 0) {
    fail<ArgumentError>(path, ": the graph has no edges, so no node has a degree to be drawn by");
  }
  // Degrees of nodes that have no rows are not known; in a square graph, those of the other direction serve.
  if (!o.by_degree || topology.square()) return;
  if (!has_in(topology.direction()) || (!with_sources && !has_out(topology.direction()))) {
    fail<ArgumentError>(path, ": drawing by degree needs the degrees of ", with_sources ? "targets" : "both ends",
                        "; compile the graph with direction=\"", with_sources ? "in\" or \"both\"" : "both\"");
  }
}

}  // namespace

void negative_edges(const Topology& topology, std::optional<std::span<const int64_t>> sources,
                    const NegativeOptions& asked, std::span<int64_t> source, std::span<int64_t> target) {
  NegativeOptions options = asked;
  options.exclude_self = options.exclude_self && topology.square();
  check_options(topology, options, sources.has_value(), target.size());
  if (sources) check_ids(*sources, "src", {topology.num_sources(), "nodes", topology.file().path()});
  if (target.empty()) return;
  const bool undirected = (topology.file().container().properties & kUndirected) != 0;
  const auto run = [&]<class Id>(Id) {
    Sides<Id> sides = sides_of<Id>(topology);
    if (sources && undirected) sides.by_source = true;  // its rows serve for both
    Negatives<Id>(sides, sources, options, source, target).run();
  };
  if (topology.wide()) {
    run(uint64_t{});
  } else {
    run(uint32_t{});
  }
  topology.file().check();
}

}  // namespace gz

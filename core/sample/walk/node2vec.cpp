// node2vec: the interleaved kernel. Every lane holds one walk; a round gives each lane one attempt at a step, in passes
// that each touch memory prefetched in the previous pass. Lanes are at different steps, and a finished one takes the
// next walk, so a refused candidate delays no other walk.
#include "sample/walk/node2vec.h"

#include <vector>

#include "base/interrupt.h"
#include "base/prefetch.h"
#include "sample/rows/cold_rows.h"

namespace gz {
namespace {

constexpr size_t kLanes = 64;  // walks in flight (benchmarks/walks)
constexpr uint64_t kRoundsALook = 1024;

template <class Id, bool kWeighted>
class Lanes {
  using Row = typename Csr<Id>::Row;

  struct Lane {
    Random random{0};
    size_t walk = 0;
    uint64_t step = 0;  // the column that the next accepted node fills
    uint64_t start = 0, node = 0, previous = kNoNode;
    Row row{0, 0}, previous_row{0, 0};
    double total = 0;  // of the row's weights, below 0 before it was read
    uint64_t position = 0, candidate = 0;
    double limit = 0;              // the candidate is accepted when its bias is above
    uint64_t low = 0, length = 0;  // what is left of a search by weight
    RowSearch search;
    SearchPages sums;
    double target = 0;
    uint64_t refusals = 0;
    bool fresh = true;  // is on a node whose row was not looked up yet
  };

  // Lanes that a pass works on, by number.
  struct List {
    explicit List(size_t most) : lanes(most) {}
    std::vector<uint32_t> lanes;
    size_t count = 0;
    void add(size_t lane) { lanes[count++] = static_cast<uint32_t>(lane); }
  };

 public:
  Lanes(const Csr<Id>& csr, const WalkBatch& batch, size_t begin, size_t end, PagePrefetcher* pages)
      : csr_(csr),
        batch_(batch),
        bias_(batch.options.p, batch.options.q),
        next_(begin),
        end_(end),
        pages_(pages),
        lanes_(pages == nullptr ? kLanes : end - begin),
        busy_(lanes_.size()),
        drawn_(lanes_.size()),
        searching_(lanes_.size()) {}

  void run() {
    size_t filled = 0;
    uint64_t rounds = 0;
    while (filled < lanes_.size() && take_next(lanes_[filled])) busy_.add(filled++);
    while (busy_.count > 0) {
      ask_pages(busy_, [&](Lane& lane) {
        if (lane.fresh) add_bounds(*pages_, csr_, lane.node);
      });
      draw();
      if constexpr (kWeighted) find_positions();
      ask_pages(drawn_, [&](Lane& lane) { pages_->add(csr_.indices + lane.position); });
      judge();
      search();
      drop_finished();
      if (++rounds % kRoundsALook == 0 || pages_ != nullptr) check_interrupt();  // a round over a cold file is long
    }
  }

 private:
  // Over a cold file: requests what `add` adds for the lanes of a list.
  template <class Add>
  void ask_pages(const List& list, const Add& add) {
    if (pages_ == nullptr) return;
    for (size_t i = 0; i < list.count; ++i) add(lanes_[list.lanes[i]]);
    pages_->request_added();
  }

  bool take_next(Lane& lane) {
    while (next_ < end_) {
      lane = Lane{};
      lane.walk = next_++;
      lane.random = batch_.random(lane.walk);
      lane.start = lane.node = batch_.start(lane.walk);
      batch_.row(lane.walk)[0] = static_cast<int64_t>(lane.start);
      lane.step = 1;
      if (batch_.options.length == 0) continue;
      prefetch_row(csr_, lane.node);
      return true;
    }
    lane.step = 0;  // nothing left to do
    return false;
  }

  // Writes the lane's node as its next step; the lane is then on it, or on the start of another walk.
  void record(Lane& lane) {
    batch_.row(lane.walk)[lane.step] = static_cast<int64_t>(lane.node);
    lane.fresh = true;
    lane.refusals = 0;
    prefetch_row(csr_, lane.node);
    if (++lane.step > batch_.options.length) take_next(lane);
  }

  void stay(Lane& lane) {
    if (batch_.options.restart == 0) {  // no other way out
      int64_t* out = batch_.row(lane.walk);
      std::fill(out + lane.step, out + batch_.options.length, static_cast<int64_t>(lane.node));
      lane.step = batch_.options.length;
    }
    record(lane);
  }

  // Looks the row up where the lane is new to its node. False: the step was made without a draw from the row.
  bool arrive(Lane& lane) {
    const double restart = batch_.options.restart;
    if (restart > 0 && lane.random.unit() < restart) {
      lane.node = lane.start;
      lane.previous = kNoNode;
      record(lane);
      return false;
    }
    lane.row = csr_.row(lane.node);
    if (lane.row.begin == lane.row.end) {
      stay(lane);
      return false;
    }
    lane.fresh = false;
    if constexpr (kWeighted) {
      lane.total = -1;
      if (csr_.cumulative != nullptr) prefetch(csr_.cumulative + lane.row.end - 1);
    }
    return true;
  }

  // Pass 1: a candidate's position, or by weight, where in the row's sum it lies.
  void draw() {
    drawn_.count = 0;
    for (size_t i = 0; i < busy_.count; ++i) {
      Lane& lane = lanes_[busy_.lanes[i]];
      if (lane.fresh && !arrive(lane)) continue;
      if (lane.refusals == most_refusals(lane.row.degree())) [[unlikely]] {
        const std::span<const double> weights = kWeighted ? row_weights_.of(csr_, lane.row) : std::span<const double>();
        accept(lane, csr_.neighbour(draw_enumerated(csr_, lane.row, weights, lane.previous, lane.previous_row, bias_,
                                                    lane.random)));
        continue;
      }
      drawn_.add(busy_.lanes[i]);
      if constexpr (!kWeighted) {
        lane.position = lane.row.begin + lane.random.below(lane.row.degree());
        prefetch(csr_.indices + lane.position);
      }
    }
  }

  // Pass 2, by weight: binary searches in the running sums, all lanes a probe at a time.
  void find_positions() {
    ask_pages(drawn_, [&](Lane& lane) {
      if (lane.total < 0) add_weights(*pages_, csr_, lane.row, 1);
    });
    searching_.count = 0;
    size_t kept = 0;
    for (size_t i = 0; i < drawn_.count; ++i) {
      Lane& lane = lanes_[drawn_.lanes[i]];
      if (csr_.cumulative == nullptr) {
        if (find_plainly(lane)) drawn_.lanes[kept++] = drawn_.lanes[i];
        continue;
      }
      if (lane.total < 0) lane.total = total_weight({csr_.cumulative + lane.row.end - 1, 1}, csr_.file->path());
      if (!(lane.total > 0)) {
        stay(lane);
        continue;
      }
      lane.target = lane.random.unit() * lane.total;
      lane.low = lane.row.begin;
      lane.length = lane.row.degree();
      lane.sums = {};
      drawn_.lanes[kept++] = drawn_.lanes[i];
      searching_.add(drawn_.lanes[i]);
      prefetch(csr_.cumulative + lane.low + lane.length / 2);
    }
    drawn_.count = kept;
    while (searching_.count > 0) {
      ask_pages(searching_, [&](Lane& lane) { lane.sums.ask(*pages_, csr_.cumulative, lane.low, lane.length); });
      kept = 0;
      for (size_t i = 0; i < searching_.count; ++i) {
        Lane& lane = lanes_[searching_.lanes[i]];
        const uint64_t half = lane.length / 2;
        const bool above = csr_.cumulative[lane.low + half] > lane.target;  // the answer is at or before the probe
        lane.low = above ? lane.low : lane.low + half + 1;
        lane.length = above ? half : lane.length - half - 1;
        if (lane.length > 0) {
          prefetch(csr_.cumulative + lane.low + lane.length / 2);
          searching_.lanes[kept++] = searching_.lanes[i];
        } else {
          lane.position = lane.low < lane.row.end ? lane.low : last_weight(lane);
          prefetch(csr_.indices + lane.position);
        }
      }
      searching_.count = kept;
    }
  }

  // A file of 0.2 keeps no running sums: they are made for the row, and searched on the spot.
  bool find_plainly(Lane& lane) {
    const std::span<const double> weights = row_weights_.of(csr_, lane.row);
    if (!(total_weight(weights, csr_.file->path()) > 0)) {
      stay(lane);
      return false;
    }
    lane.position = lane.row.begin + draw_weighted(lane.random, weights);
    prefetch(csr_.indices + lane.position);
    return true;
  }

  // Where a target that was rounded up to the total belongs, as in draw_weighted().
  uint64_t last_weight(const Lane& lane) const {
    const double* at = std::lower_bound(csr_.cumulative + lane.row.begin, csr_.cumulative + lane.row.end, lane.total);
    return static_cast<uint64_t>(at - csr_.cumulative);
  }

  // Pass 3: read the candidates; most are accepted or refused without a search.
  void judge() {
    searching_.count = 0;
    const bool free = bias_.first_order();
    for (size_t i = 0; i < drawn_.count; ++i) {
      Lane& lane = lanes_[drawn_.lanes[i]];
      lane.candidate = csr_.neighbour(lane.position);
      if (free || lane.previous == kNoNode) {
        accept(lane, lane.candidate);
        continue;
      }
      lane.limit = lane.random.unit() * bias_.most;
      if (lane.candidate == lane.previous) {
        decide(lane, lane.limit < bias_.back);
      } else if (lane.limit < bias_.surely() || lane.limit >= bias_.never()) {
        decide(lane, lane.limit < bias_.surely());
      } else {
        lane.search = {};
        lane.search.begin(csr_, lane.previous_row, lane.candidate);
        searching_.add(drawn_.lanes[i]);
      }
    }
  }

  // Pass 4: does the node before have an edge to the candidate? All lanes a probe at a time.
  void search() {
    while (searching_.count > 0) {
      ask_pages(searching_, [&](Lane& lane) { lane.search.ask_pages(csr_, *pages_); });
      size_t kept = 0;
      for (size_t i = 0; i < searching_.count; ++i) {
        Lane& lane = lanes_[searching_.lanes[i]];
        if (lane.search.step(csr_)) {
          decide(lane, lane.limit < bias_.of(false, lane.search.found()));
        } else {
          searching_.lanes[kept++] = searching_.lanes[i];
        }
      }
      searching_.count = kept;
    }
  }

  void decide(Lane& lane, bool accepted) {
    if (accepted) {
      accept(lane, lane.candidate);
    } else {
      ++lane.refusals;
    }
  }

  void accept(Lane& lane, uint64_t node) {
    lane.previous = lane.node;
    lane.previous_row = lane.row;
    lane.node = node;
    record(lane);
  }

  void drop_finished() {
    size_t kept = 0;
    for (size_t i = 0; i < busy_.count; ++i) {
      if (lanes_[busy_.lanes[i]].step != 0) busy_.lanes[kept++] = busy_.lanes[i];
    }
    busy_.count = kept;
  }

  const Csr<Id>& csr_;
  const WalkBatch& batch_;
  const Bias bias_;
  size_t next_;
  const size_t end_;
  PagePrefetcher* const pages_;  // over a cold file only
  std::vector<Lane> lanes_;
  List busy_, drawn_, searching_;
  RowWeights row_weights_;
};

}  // namespace

template <class Id>
void walk_searching(const Csr<Id>& csr, const WalkBatch& batch, size_t begin, size_t end, PagePrefetcher* pages) {
  if (batch.options.weighted) {
    Lanes<Id, true>(csr, batch, begin, end, pages).run();
  } else {
    Lanes<Id, false>(csr, batch, begin, end, pages).run();
  }
}

template void walk_searching(const Csr<uint32_t>&, const WalkBatch&, size_t, size_t, PagePrefetcher*);
template void walk_searching(const Csr<uint64_t>&, const WalkBatch&, size_t, size_t, PagePrefetcher*);

}  // namespace gz

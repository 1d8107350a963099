// divide_test: the choice between ways to divide a budget, by numbers alone.
#include "budget/divide.h"

#include <cmath>

#include "base/error.h"
#include "check.h"

using namespace gz;
using gz::test::fail_at;

namespace {

constexpr uint64_t kMB = 1'000'000, kGB = 1000 * kMB;

// 12.3 GB of rows, of which a batch takes 56,000, as [10, 5] from 1,024 seeds do.
class Setting {
 public:
  Setting() {
    matrix_.rows = 24'000'000;
    matrix_.columns = 128;
    matrix_.row_bytes = 512;
    facts_.prefetch = 4;
    facts_.threads = 2;
    facts_.parts = {&matrix_};
    facts_.may_merge = true;
    facts_.rows_looked_up = 11'264;
    facts_.batches = 235;
    sizes_ = {.sampling = 4'400'000, .packed = 1'550'000, .merged = 1'357'056, .batch = 35'300'000, .rows = {56'000}};
  }

  // By memory="auto", or by a fixed budget.
  Division divided(uint64_t available, uint64_t topology, const Disk& disk, uint64_t memory = 0) {
    facts_.available = available;
    facts_.topology = topology;
    facts_.disk = disk;
    facts_.memory = memory;
    return divide(facts_, sizes_);
  }
  void hold_one_more() { ++facts_.held; }
  uint64_t batch_bytes() const { return sizes_.batch; }

  double seconds(const Division& d) {
    facts_.memory = 0;
    return disk_seconds(facts_, sizes_, d);
  }

 private:
  Matrix matrix_;
  Facts facts_;
  Sizes sizes_;
};

const Disk kDisks[] = {{.reads = 200e3, .bytes = 3e9}, {.reads = 63e3, .bytes = 1.9e9}, {.reads = 800e3, .bytes = 6e9}};
const uint64_t kTopologies[] = {100 * kMB, 600 * kMB, 1800 * kMB, 5 * kGB, 13 * kGB};

}  // namespace

TEST(a_topology_that_just_fits_does_not_take_the_room_of_the_rows) {
  Setting one;
  const Division d = one.divided(2405 * kMB, 1793 * kMB, {.reads = 63e3, .bytes = 1.9e9});
  CHECK(d.ways.at(0) == Way::kWindow);
  CHECK(d.window >= 32);
}

TEST(more_memory_is_never_divided_to_be_slower) {
  Setting one;
  for (const Disk& disk : kDisks) {
    for (const uint64_t topology : kTopologies) {
      double before = 1e9;
      for (uint64_t available = 400 * kMB; available < 24 * kGB; available += available / 16) {
        const double now = one.seconds(one.divided(available, topology, disk));
        if (now > before * 1.1) {
          fail_at(__FILE__, __LINE__,
                  text("with ", amount(available), " and a topology of ", amount(topology), " a batch takes ", now,
                       " s, with less memory ", before, " s"));
        }
        before = std::min(before, now);
      }
    }
  }
}

TEST(the_chosen_budget_is_near_the_best_fixed_one) {
  Setting one;
  for (const Disk& disk : kDisks) {
    for (const uint64_t topology : kTopologies) {
      for (const uint64_t available : {600 * kMB, kGB, 2 * kGB, 3 * kGB, 6 * kGB, 12 * kGB}) {
        const Division choice = one.divided(available, topology, disk);
        const double chosen = one.seconds(choice);
        for (const double share : {0.25, 0.35, 0.5, 0.65, 0.72}) {
          const auto memory = static_cast<uint64_t>(share * static_cast<double>(available));
          if (memory > std::max(choice.memory, available / 2)) continue;  // it leaves a training step too little
          const double fixed = one.seconds(one.divided(available, topology, disk, memory));
          if (fixed * 1.1 < chosen) {
            fail_at(__FILE__, __LINE__,
                    text("of ", amount(available), ", with a topology of ", amount(topology), ", ", amount(memory),
                         " would take ", fixed, " s a batch, the choice takes ", chosen));
          }
        }
      }
    }
  }
}

TEST(a_consumer_that_keeps_batches_gets_memory_for_one_more) {
  Setting one;
  const auto rest = [&] {  // for batches and samples
    const Division d = one.divided(8 * kGB, 600 * kMB, kDisks[0], kGB);
    CHECK(d.window > 0);
    return d.memory - d.store_bytes - d.fixed_bytes - sure_window(d.window) * d.sizes.packed;
  };
  const uint64_t before = rest();
  one.hold_one_more();
  CHECK_EQ(rest() - before, one.batch_bytes());
}

TEST(a_way_that_does_not_fit_leaves_the_others) {
  Setting one;  // the budget holds the batches, and not the buffers for a topology that stays on disk
  const Division d = one.divided(26'200 * kMB, 13 * kGB, kDisks[0], 115 * kMB);
  CHECK(d.ways.at(0) == Way::kMapped);
  CHECK(!d.merges);
}

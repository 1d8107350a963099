// divide_test: the choice between ways to divide a budget, over files whose sizes are real and whose bytes are holes.
#include "load/divide.h"

#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "check.h"
#include "load_files.h"
#include "storage/disk_speed.h"

using namespace gz;
using namespace gz::test;

namespace {

constexpr uint64_t kMB = 1'000'000, kGB = 1000 * kMB;

std::shared_ptr<const FeatureFile> hollow_rows(const std::string& name, uint64_t rows, uint64_t columns) {
  Container c;
  c.kind = Kind::kFeatures;
  c.num_nodes = rows;
  c.arrays = {{"x", DType::kFloat32, {rows, columns}, 0, 0, 0}};
  lay_out(c);
  const auto header = serialize_header(c);
  const std::string path = scratch(name);
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(header.data()), static_cast<std::streamsize>(header.size()));
  std::filesystem::resize_file(path, c.file_bytes);
  return FeatureFile::open(path);
}

// 12.3 GB of rows, of which a batch takes 56,000, as [10, 5] from 1,024 seeds do; the graph is small, its size is
// given.
class Setting {
 public:
  Setting() {
    const Relation shape{.sources = 64, .targets = 64};
    const auto topology = write_relation("divide.gl", shape, [](uint64_t row, std::vector<uint32_t>& indices) {
      for (uint32_t k = 1; k <= 16; ++k) indices.push_back(static_cast<uint32_t>((row + k) % 64));
    });
    LoadOptions options;
    options.sample.fanouts = {10, 5};
    options.batch_size = 1024;
    options.threads = 2;
    const Part part{.name = "x", .file = hollow_rows("divide.gd", 24'000'000, 128), .matrix = "x", .out_dtype = {}};
    plan_ = make_outline(topology, {part}, node_seeds(Numbers::range(64)), options, {});
    facts_.topology_cached = {0};
    facts_.cached = {0};
    facts_.batches = 235;
    sizes_ = {.sampling = 4'400'000, .packed = 1'550'000, .batch = 35'300'000, .rows = {56'000}};
  }

  // By memory="auto", or by a fixed budget.
  Division divided(uint64_t available, uint64_t topology, const Disk& disk, uint64_t memory = 0) {
    facts_.available = available;
    facts_.topology = topology;
    facts_.disk = disk;
    plan_->options.memory = memory;
    return divide(*plan_, facts_, sizes_);
  }
  // As a consumer that holds two batches when it asks for the next one.
  void keep_batches() {
    const auto kept = take_buffer(4096);
    for (int i = 0; i < 2; ++i) plan_->ledger->hand_out(this, {kept});
    plan_->ledger->next_is_asked_for(this);
  }
  uint64_t batch_bytes() const { return sizes_.batch; }

  double seconds(const Division& d) {
    plan_->options.memory = 0;
    return disk_seconds(*plan_, facts_, sizes_, d, facts_.disk);
  }

 private:
  std::shared_ptr<LoadPlan> plan_;
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

TEST(who_keeps_batches_gets_room_for_one_more) {
  Setting one;
  const auto rest = [&] {  // for batches and samples
    const Division d = one.divided(8 * kGB, 600 * kMB, kDisks[0], kGB);
    CHECK(d.window > 0);
    return d.memory - d.store_bytes - d.fixed_bytes - sure_window(d.window) * d.packed_bytes;
  };
  const uint64_t before = rest();
  one.keep_batches();
  CHECK_EQ(rest() - before, one.batch_bytes());
}

TEST(a_way_that_does_not_fit_leaves_the_others) {
  Setting one;  // the budget holds the batches, and not the buffers for a topology that stays on disk
  const Division d = one.divided(26'200 * kMB, 13 * kGB, kDisks[0], 115 * kMB);
  CHECK(d.ways.at(0) == Way::kMapped);
  CHECK(!d.merges);
}

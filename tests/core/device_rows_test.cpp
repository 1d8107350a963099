// device_rows_test: epochs whose rows a device caches: a device that is made up assembles each batch from what it has.
#include "device/device_rows.h"

#include <algorithm>
#include <chrono>
#include <span>
#include <thread>
#include <vector>

#include "check.h"
#include "hub_plan.h"

using namespace gz;
using namespace gz::test;

namespace {

// Has rows of one number each, and does with a batch what the loader says.
struct Device {
  std::vector<float> cache;
  uint64_t generation = UINT64_MAX, hits = 0, plain = 0, whole = 0, reads = 0;

  void take(const LoadedBatch& batch, DeviceRows* rows) {
    assemble(batch);
    const auto& given = batch.parts.at(0).device;
    if (given && !given->is_whole) rows->confirm(given->sequence);
  }

  void assemble(const LoadedBatch& batch) {
    const GatheredPart& part = batch.parts.at(0);
    const auto ids = batch.graph.nodes[0].node.span();
    const auto* rows = reinterpret_cast<const float*>(part.buffer->data());
    std::vector<float> made;
    if (!part.device) {
      ++plain;
      for (size_t i = 0; i < part.rows; ++i) made.push_back(rows[i * part.columns]);
    } else if (part.device->is_whole) {
      ++whole;
      CHECK_EQ(part.rows, 0u);
      return;
    } else if (part.device->reads_host) {
      ++reads;
      CHECK_EQ(part.rows, 0u);
      const auto missing = part.device->missing();
      const std::vector<float> read(missing.begin(), missing.end());  // the row of a node is its number
      made = assemble(*part.device, read.data(), 1);
    } else {
      made = assemble(*part.device, rows, part.columns);
    }
    CHECK(std::ranges::equal(made, ids, [](float value, int64_t id) { return value == static_cast<float>(id); }));
  }

 private:
  std::vector<float> assemble(const OnDevice& given, const float* missed, uint64_t columns) {
    if (given.generation != generation) cache.assign(given.slots, -1);
    generation = given.generation;
    std::vector<float> made(given.rows);
    for (const auto& [place, slot] : given.cached()) {
      made.at(static_cast<size_t>(place)) = cache.at(static_cast<size_t>(slot));
    }
    hits += given.cached().size();
    uint64_t admissions = 0;
    for (size_t i = 0; i < given.misses; ++i) {
      const auto& [place, slot] = given.targets()[i];
      const float value = missed[i * columns];
      made.at(static_cast<size_t>(place)) = value;
      if (slot >= 0) cache.at(static_cast<size_t>(slot)) = value;
      admissions += slot >= 0 ? 1 : 0;
    }
    CHECK_EQ(admissions, given.admissions);
    return made;
  }
};

LoadStats::Device run_epoch(Device& device, const std::shared_ptr<LoadPlan>& plan, uint64_t epoch,
                            uint64_t most = UINT64_MAX) {
  Pipeline pipeline(plan, epoch, Share{});
  uint64_t seen = 0;
  for (LoadedBatch batch; seen < most && next_batch(pipeline, batch); ++seen) {
    CHECK_EQ(batch.number, seen);
    device.take(batch, plan->device_rows[0].get());
  }
  CHECK_EQ(seen, std::min(most, pipeline.num_batches()));
  return pipeline.stats().device.at(0);
}

std::shared_ptr<LoadPlan> make(const std::string& name, uint64_t slots, uint32_t threads = 1, uint32_t shards = 1,
                               uint64_t seeds = 400) {
  auto plan = hub_plan(name, {.cache = CacheMode::kOff, .seeds = seeds, .device_bytes = LoadOptions::kFreeBytes});
  plan->device_rows[0] = std::make_shared<DeviceRows>(kHubNodes, threads, shards);
  plan->device_rows[0]->resize(slots);
  return plan;
}

}  // namespace

TEST(slots_go_to_the_parts_of_which_batches_need_most_bytes) {
  using Slots = std::vector<uint64_t>;
  const auto divided = [](uint64_t bytes, std::vector<SlotNeeds> parts) { return divide_slots(bytes, parts); };
  CHECK(divided(1000, {}) == Slots{});
  CHECK(divided(1009, {{200, 10, 5}}) == Slots{100});
  CHECK(divided(1000, {{200, 10, 5}, {200, 10, 15}}) == (Slots{25, 75}));
  CHECK(divided(1000, {{200, 30, 5}, {200, 10, 5}}) == (Slots{25, 25}));
  CHECK(divided(1000, {{200, 10, 0}, {200, 10, 0}}) == (Slots{50, 50}));  // none is known to be needed
  // What a part cannot use is for the others.
  CHECK(divided(1000, {{10, 10, 5}, {200, 10, 5}}) == (Slots{10, 90}));
  CHECK(divided(1000, {{200, 10, 5}, {40, 10, 5}, {10, 10, 5}}) == (Slots{50, 40, 10}));
  CHECK(divided(UINT64_MAX, {{200, 10, 5}, {uint64_t{1} << 40, 512, 5}}) == (Slots{200, uint64_t{1} << 40}));
  CHECK(divided(0, {{200, 10, 5}, {0, 10, 0}}) == (Slots{0, 0}));
  CHECK(divided(1000, {{200, 0, 5}}) == Slots{200});  // rows without bytes
}

TEST(a_device_has_the_rows_that_it_is_said_to_have) {
  for (const auto& [threads, shards] : {std::pair{1u, 1u}, {3u, 1u}, {1u, 4u}, {2u, 4u}, {3u, 8u}}) {
    const auto plan = make("device", 800, threads, shards);
    Device device;
    LoadStats::Device stats;
    for (uint64_t epoch = 0; epoch < 3; ++epoch) stats = run_epoch(device, plan, epoch);
    CHECK_EQ(device.plain, 0u);
    CHECK(stats.hits > 0 && stats.hits < stats.rows);  // of the last epoch
    CHECK(device.hits > stats.hits);
    CHECK(stats.admitted <= stats.rows - stats.hits);
  }
}

TEST(a_device_that_reads_the_host_gets_ids_instead_of_rows) {
  const auto plan = make("reads", 800, 2, 4);
  Device device;
  run_epoch(device, plan, 0);
  CHECK_EQ(device.reads, 0u);
  plan->device_rows[0]->set_reads_host(true);
  Pipeline pipeline(plan, 1, Share{});
  uint64_t seen = 0;
  for (LoadedBatch batch; next_batch(pipeline, batch); ++seen) {
    device.take(batch, plan->device_rows[0].get());
    CHECK(bytes_of(batch) >= batch.parts[0].device->misses * sizeof(int64_t));
  }
  CHECK_EQ(device.reads, seen);
  const LoadStats stats = pipeline.stats();
  CHECK_EQ(stats.gather.rows, stats.device.at(0).rows - stats.device.at(0).hits);
  plan->device_rows[0]->set_reads_host(false);
  run_epoch(device, plan, 2);
  CHECK_EQ(device.reads, seen);
}

TEST(misses_do_not_depend_on_timing_or_threads) {
  std::vector<uint64_t> hits;
  for (const uint32_t threads : {1, 2, 3}) {
    const auto plan = make("timing", 500, threads, 4);
    Device device;
    run_epoch(device, plan, 0);
    hits.push_back(device.hits);
  }
  CHECK_EQ(hits[0], hits[1]);
  CHECK_EQ(hits[0], hits[2]);
}

TEST(an_epoch_that_is_left_early_leaves_nothing_that_the_device_lacks) {
  const auto plan = make("left", 800);
  Device device;
  for (uint64_t epoch = 0; epoch < 6; ++epoch) run_epoch(device, plan, epoch, epoch % 2 == 0 ? 3 + epoch : UINT64_MAX);
}

TEST(what_the_device_did_not_assemble_is_not_expected_in_the_next_epoch) {
  for (const uint64_t left_out : {0, 1, 5}) {
    const auto plan = make("left out", 800, 2, 4);
    DeviceRows* const rows = plan->device_rows[0].get();
    Device device;
    LoadedBatch batch;
    {
      Pipeline pipeline(plan, 0, Share{});
      const uint64_t all = pipeline.num_batches();
      for (uint64_t seen = 0; next_batch(pipeline, batch); ++seen) {
        if (seen < all - left_out) device.take(batch, rows);
      }
    }
    rows->confirm(0);  // late, and for an early batch
    device.hits = 0;
    Pipeline pipeline(plan, 1, Share{});
    next_batch(pipeline, batch);
    device.take(batch, rows);
    CHECK_EQ(device.hits > 0, left_out == 0);
    while (next_batch(pipeline, batch)) device.take(batch, rows);
  }
}

TEST(a_cache_can_be_resized_between_any_two_batches) {
  const auto plan = make("resized", 0, 2, 4, 2400);  // far more batches than are planned ahead
  Device device;
  Pipeline pipeline(plan, 0, Share{});
  uint64_t seen = 0;
  for (LoadedBatch batch; next_batch(pipeline, batch); ++seen) {
    device.take(batch, plan->device_rows[0].get());
    if (seen < 200 && seen % 8 == 1) plan->device_rows[0]->resize(seen % 16 == 1 ? 600 : 90);
    if (seen == 200) plan->device_rows[0]->resize(kHubNodes);
  }
  CHECK_EQ(seen, pipeline.num_batches());
  CHECK(device.hits > 0);
  CHECK(device.whole > 0);
}

TEST(all_rows_on_the_device_leave_the_host_nothing_to_copy) {
  const auto plan = make("whole", kHubNodes);
  Device device;
  const LoadStats::Device stats = run_epoch(device, plan, 0);
  CHECK_EQ(device.whole, epoch_batches(*plan, 0, {}).count());
  CHECK(stats.rows > 0);
  CHECK_EQ(stats.hits, stats.rows);
}

TEST(a_sweep_is_asked_only_for_what_the_device_lacks) {
  const auto plan = make("swept", 800, 2, 4);
  put_window(*plan);
  Device device;
  uint64_t rows = 0;
  Pipeline pipeline(plan, 0, Share{});
  for (LoadedBatch batch; next_batch(pipeline, batch);) {
    device.take(batch, plan->device_rows[0].get());
    rows += batch.graph.nodes[0].node.size;
  }
  CHECK_EQ(pipeline.stats().windows.size(), 1u);
  CHECK(device.hits > rows / 4);
  CHECK_EQ(pipeline.stats().gather.rows, rows - device.hits);
}

TEST(a_second_epoch_at_the_same_time_has_no_cache) {
  const auto plan = make("two", 800);
  Device device, other;
  Pipeline first(plan, 0, Share{}), second(plan, 1, Share{});
  LoadedBatch batch;
  while (next_batch(first, batch)) {
    device.take(batch, plan->device_rows[0].get());
    if (next_batch(second, batch)) other.take(batch, plan->device_rows[0].get());
  }
  CHECK(device.hits > 0);
  CHECK(other.plain > 0 && other.hits == 0);
}

TEST(batches_that_are_short_of_memory_are_assembled_all_the_same) {
  for (const bool windowed : {false, true}) {
    const auto plan = make("short", 800, 2, 2);
    const uint64_t room = 3 * plan->division.sizes.batch + plan->division.sizes.sampling;
    plan->division.sizes.sampling = plan->division.sizes.batch = 1 << 16;
    plan->division.depth = 8;
    if (windowed) put_window(*plan);
    plan->pool->set_limit(room);
    Device device;
    run_epoch(device, plan, 0);
  }
}

TEST(more_batches_wait_if_their_rows_are_on_the_device) {
  const auto most_ready = [](uint64_t slots) {
    auto plan = hub_plan("waiting", {.threads = 8, .cache = CacheMode::kOff, .device_bytes = LoadOptions::kFreeBytes});
    plan->device_rows[0]->resize(slots);
    Pipeline pipeline(plan, 0, Share{});
    double most = 0;
    for (LoadedBatch batch; most < 24 && next_batch(pipeline, batch);) {
      const double before = pipeline.stats().depth_sum;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      if (next_batch(pipeline, batch)) most = std::max(most, pipeline.stats().depth_sum - before);
    }
    return most;
  };
  CHECK_EQ(most_ready(kHubNodes), 24.0);
  CHECK_EQ(most_ready(0), 10.0);
}

// A reader below that cannot take a request.
class Refusing : public RowReader {
 public:
  std::shared_ptr<RowRequest> prepare(uint64_t, std::span<const int64_t>) override { throw std::bad_alloc(); }
  void copy(RowRequest*, std::span<const int64_t>, std::byte*, const GatherOptions&, GatherStats*, Progress*) override {
  }
  uint64_t batches() const override { return 4; }
};

TEST(an_error_of_the_reader_below_is_that_of_the_batch) {
  const auto file = write_numbered_rows("refusing", 1000, 1);
  const Matrix matrix = file->matrix("x");
  const auto rows = std::make_shared<DeviceRows>(1000, 3, 4);
  rows->resize(10);
  std::atomic<bool> ready{false};
  const DeviceReader::Events events{[&](uint64_t) { ready = true; }, [] { return uint64_t{1}; }, [] { return true; }};
  const auto reader = DeviceReader::attach(rows, std::make_shared<Refusing>(), file, matrix,
                                           {.ahead = 4, .pool = std::make_shared<BufferPool>()}, events);
  const std::vector<int64_t> ids{1, 2, 3};
  const auto request = reader->prepare(0, ids);
  reader->submit(request);
  while (!ready) std::this_thread::yield();
  CHECK_THROWS(std::bad_alloc, "", reader->on_device(request.get(), ids));
}

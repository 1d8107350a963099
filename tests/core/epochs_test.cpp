// epochs_test: a pipeline that continues from one epoch to the next delivers what a pipeline for each would.
#include <atomic>
#include <thread>

#include "base/error.h"
#include "check.h"
#include "hub_plan.h"
#include "load/plan.h"

using namespace gz;
using namespace gz::test;

namespace {

uint64_t six(uint64_t) { return 6; }

// Next to the read buffers of the threads a part of the file's 24 MB fits: it is read through a window, also
// when the budget is divided anew.
constexpr HubSetting windowed(int threads) {
  const uint64_t memory = (30 + 9 * static_cast<uint64_t>(threads)) << 20;
  return {.memory = memory, .threads = threads, .cache = CacheMode::kOn, .degree = six, .columns = 2000};
}
constexpr HubSetting kWindowed = windowed(3);

struct Expected {
  std::shared_ptr<LoadPlan> plan;
  uint64_t epoch;
  Share share = {};
};

bool expect(Pipeline& pipeline, const Expected& next) { return pipeline.expect(next.plan, next.epoch, next.share); }
bool continue_with(Pipeline& pipeline, const Expected& next) {
  return pipeline.continue_with(*next.plan, next.epoch, next.share);
}

// The epoch that the pipeline is in, from its first batch or a later one.
void check_epoch(Pipeline& pipeline, const Expected& now, uint64_t seen = 0) {
  for (LoadedBatch batch; next_batch(pipeline, batch); ++seen) {
    CHECK_EQ(batch.number, seen);
    check_batch(*now.plan, now.epoch, batch, now.share);
  }
  CHECK_EQ(seen, pipeline.num_batches());
  CHECK_EQ(seen, epoch_batches(*now.plan, now.epoch, now.share).count());
  CHECK_EQ(pipeline.stats().batches, seen);
}

void check_all(const std::vector<Expected>& epochs) {
  Pipeline pipeline(epochs[0].plan, epochs[0].epoch, epochs[0].share);
  for (size_t i = 1; i < epochs.size(); ++i) CHECK(expect(pipeline, epochs[i]));
  for (size_t i = 0; i < epochs.size(); ++i) {
    CHECK(i == 0 || continue_with(pipeline, epochs[i]));
    check_epoch(pipeline, epochs[i]);
    CHECK_EQ(pipeline.has_next_epoch(), i + 1 < epochs.size());
  }
}

// Nodes of which one batch cannot be had.
class FailingSeeds : public SeedSource {
 public:
  explicit FailingSeeds(int64_t at) : at_(at) {}
  uint64_t count() const override { return nodes_->count(); }
  bool timed() const override { return false; }
  std::vector<size_t> types() const override { return {0}; }
  void check(const SampleGraph&) const override {}
  void fill(std::span<const int64_t> input, BatchSeeds& out) const override {
    if (std::ranges::find(input, at_) != input.end()) fail<ArgumentError>("seed ", at_, " fails");
    nodes_->fill(input, out);
  }

 private:
  const int64_t at_;
  const std::shared_ptr<const SeedSource> nodes_ = node_seeds(Numbers::range(80));
};

}  // namespace

TEST(epochs_that_follow_are_those_of_pipelines_of_their_own) {
  const HubFiles files = hub_files("follow", kWindowed);
  for (const Io io : {Io::kAuto, Io::kPread}) {
    for (const int threads : {1, 2, 3}) {
      HubSetting setting = windowed(threads);
      setting.io = io;
      const auto plan = hub_plan(files, setting);
      CHECK(plan->division.ways[0] == Way::kWindow);
      check_all({{plan, 0}, {plan, 1}, {plan, 2}, {plan, 7}});
    }
  }
}

TEST(a_later_epoch_begins_in_the_middle_of_its_epoch_or_has_no_batches) {
  const auto plan = hub_plan("middle", kWindowed);
  check_all({{plan, 0, {.first = 45}}, {plan, 1, {.first = 50}}, {plan, 2, {.rank = 1, .world_size = 3, .first = 7}}});
}

TEST(groups_of_batches_end_where_an_epoch_does) {
  const auto plan = hub_plan("merged_epochs", kWindowed);
  plan->division.merges = true;
  plan->division.group = 16;
  Pipeline pipeline(plan, 0, {});
  CHECK(pipeline.expect(plan, 1, {}));
  check_epoch(pipeline, {plan, 0});
  // The division says that nothing is merged: a pipeline that merges is not gone on with.
  CHECK(!pipeline.continue_with(*plan, 1, {}));
}

TEST(epochs_of_other_loaders_use_the_budget_of_the_first) {
  const HubFiles files = hub_files("guests", kWindowed);
  const auto train = hub_plan(files, kWindowed);
  std::vector<std::shared_ptr<LoadPlan>> guests;
  for (const auto [seeds, batch_size] : {std::pair{90, 7}, {1, 8}, {333, 5}}) {
    HubSetting other = kWindowed;
    other.seeds = static_cast<uint64_t>(seeds);
    other.batch_size = static_cast<uint64_t>(batch_size);
    other.seed = other.seeds;
    other.memory = uint64_t{500} << 20;  // which is not used
    guests.push_back(hub_plan(files, other));
  }
  check_all({{train, 0}, {guests[0], 0}, {guests[1], 0}, {train, 1}, {guests[2], 5}, {guests[0], 0}, {train, 2}});
}

TEST(a_loader_of_other_rows_cannot_share_a_pipeline) {
  const HubFiles files = hub_files("unlike", kWindowed), other = hub_files("other_unlike", kWindowed);
  const auto plan = hub_plan(files, kWindowed);
  Pipeline pipeline(plan, 0, {});
  CHECK(!pipeline.expect(hub_plan({other.topology, files.rows}, kWindowed), 0, {}));
  CHECK(!pipeline.expect(hub_plan({files.topology, other.rows}, kWindowed), 0, {}));
  CHECK(!pipeline.has_next_epoch());
  const auto in_ram = hub_plan(files, {.degree = six, .columns = 2000});
  Pipeline without_window(in_ram, 0, {});
  CHECK(!without_window.expect(in_ram, 1, {}));
}

TEST(only_the_expected_epoch_can_follow) {
  const HubFiles files = hub_files("order", kWindowed);
  const auto plan = hub_plan(files, kWindowed), other = hub_plan(files, kWindowed);
  Pipeline pipeline(plan, 0, {});
  CHECK(!pipeline.continue_with(*plan, 1, {}));  // nothing is expected
  CHECK(pipeline.expect(plan, 1, {}));
  CHECK(pipeline.expect(other, 2, {}));
  LoadedBatch batch;
  CHECK(next_batch(pipeline, batch));
  CHECK(!pipeline.continue_with(*plan, 1, {}));  // too soon
  check_epoch(pipeline, {plan, 0}, 1);
  CHECK(!pipeline.continue_with(*plan, 2, {}));
  CHECK(!pipeline.continue_with(*other, 1, {}));
  CHECK(!pipeline.continue_with(*plan, 1, {.first = 3}));
  CHECK(!pipeline.continue_with(*plan, 1, {.rank = 0, .world_size = 2}));
  CHECK(!pipeline.continue_with(*other, 2, {}));  // that comes after
  CHECK(!next_batch(pipeline, batch));
  CHECK(pipeline.continue_with(*plan, 1, {}));
  check_epoch(pipeline, {plan, 1});
  CHECK(pipeline.continue_with(*other, 2, {}));
  check_epoch(pipeline, {other, 2});
  pipeline.stop();
  CHECK(!pipeline.expect(plan, 3, {}));
  CHECK(!pipeline.has_next_epoch());
}

TEST(an_error_of_a_coming_epoch_is_its_own) {
  const HubFiles files = hub_files("failing", kWindowed);
  const auto plan = hub_plan(files, kWindowed);
  const Part part = plan->parts[0];
  LoadOptions options = plan->options;
  options.shuffle = false;
  const auto failing = make_outline(files.topology, {part}, std::make_shared<FailingSeeds>(27), options, {});
  Pipeline pipeline(plan, 0, {});
  CHECK(pipeline.expect(failing, 0, {}));
  CHECK(pipeline.expect(plan, 1, {}));
  check_epoch(pipeline, {plan, 0});
  CHECK(pipeline.continue_with(*failing, 0, {}));
  LoadedBatch batch;
  for (uint64_t seen = 0; seen < 3; ++seen) {  // seed 27 is of batch 3
    CHECK(next_batch(pipeline, batch));
    CHECK_EQ(batch.number, seen);
  }
  for (int i = 0; i < 2; ++i) {
    CHECK_EQ(message_of<ArgumentError>([&] { next_batch(pipeline, batch); }, __FILE__, __LINE__), "seed 27 fails");
  }
  CHECK(!pipeline.continue_with(*plan, 1, {}));
  pipeline.stop();
  Pipeline again(plan, 1, {});
  check_epoch(again, {plan, 1});
}

TEST(a_pipeline_is_left_at_any_moment) {
  const auto plan = hub_plan("left", kWindowed);
  for (const uint64_t taken : {0, 1, 20, 49, 50, 51, 70, 100}) {
    Pipeline pipeline(plan, 0, {});
    CHECK(pipeline.expect(plan, 1, {}));
    CHECK(pipeline.expect(plan, 2, {}));
    uint64_t seen = 0;
    LoadedBatch batch;
    for (uint64_t epoch = 0; epoch < 3 && seen < taken; ++epoch) {
      CHECK(epoch == 0 || pipeline.continue_with(*plan, epoch, {}));
      for (; seen < taken && next_batch(pipeline, batch); ++seen) check_batch(*plan, epoch, batch);
    }
    CHECK_EQ(seen, taken);
  }
  check_all({{plan, 3}, {plan, 4}});
}

// While threads make batches, others say what follows and ask for figures.
TEST(following_epochs_are_announced_while_batches_are_built) {
  const auto plan = hub_plan("said", kWindowed);
  constexpr uint64_t kEpochs = 6;
  Pipeline pipeline(plan, 0, {});
  std::atomic<bool> over{false}, wrong{false};
  std::thread says([&] {
    for (uint64_t epoch = 1; epoch < kEpochs; ++epoch) pipeline.expect(plan, epoch, {});
  });
  std::thread asks([&] {
    while (!over) {
      if (pipeline.stats().batches > pipeline.num_batches()) wrong = true;
      std::this_thread::yield();
    }
  });
  const auto end = [&] {
    over = true;
    says.join();
    asks.join();
  };
  try {
    for (uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
      for (int i = 0; epoch > 0 && !pipeline.continue_with(*plan, epoch, {}); ++i) {
        CHECK(i < 30'000);  // it is said soon
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
      check_epoch(pipeline, {plan, epoch});
    }
  } catch (...) {
    end();
    throw;
  }
  end();
  CHECK(!wrong);
}

TEST(a_pipeline_that_gave_up_its_rows_is_not_gone_on_with) {
  const auto plan = hub_plan("given_up", {.threads = 2, .cache = CacheMode::kOff, .degree = node_27_is_a_hub});
  put_window(*plan);
  plan->pool->set_limit(uint64_t{2} << 20);  // too little for batch 3; with the window's memory there is enough
  plan->division.sizes.sampling = plan->division.sizes.batch = 1 << 16;
  Pipeline pipeline(plan, 0, {});
  CHECK(pipeline.expect(plan, 1, {}));
  check_epoch(pipeline, {plan, 0});
  CHECK(plan->outgrown);
  plan->options.memory = 1;  // a budget that cannot be divided anew would stay as it is
  CHECK(pipeline.has_next_epoch());
  CHECK(!pipeline.continue_with(*plan, 1, {}));
}

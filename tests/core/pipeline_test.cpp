// pipeline_test: epochs that are short of memory: batches that do not fit, are discarded, rebuilt or built exclusively.
#include "load/pipeline.h"

#include <atomic>
#include <thread>

#include "base/error.h"
#include "base/per_process.h"
#include "check.h"
#include "hub_plan.h"
#include "load/budget.h"
#include "sweep/rank_peers.h"

using namespace gz;
using namespace gz::test;

namespace {

struct Ran {
  uint64_t remade = 0;
  bool refused = false;  // by a BudgetError, which ends the epoch
};

Ran run_epoch(const std::shared_ptr<LoadPlan>& plan, uint64_t epoch) {
  Pipeline pipeline(plan, epoch, Share{});
  uint64_t seen = 0;
  try {
    for (LoadedBatch batch; next_batch(pipeline, batch); ++seen) {
      CHECK_EQ(batch.number, seen);
      check_batch(*plan, epoch, batch);
    }
  } catch (const BudgetError&) {
    return {pipeline.stats().remade, true};
  }
  CHECK_EQ(seen, pipeline.num_batches());
  return {pipeline.stats().remade, false};
}

// What one batch and the two before it take at most, and what making it takes.
uint64_t least_room(const LoadPlan& plan) { return 3 * plan.division.sizes.batch + plan.division.sizes.sampling; }

// As a plan that saw only small batches: nothing keeps the threads from starting too much.
void underestimate(LoadPlan& plan) {
  plan.division.sizes.sampling = plan.division.sizes.batch = 1 << 16;
  plan.division.depth = 8;
}

}  // namespace

TEST(batches_without_memory_are_rebuilt) {
  uint64_t remade = 0, whole = 0;
  for (const int threads : {2, 4}) {
    const auto plan = hub_plan("tight", {.threads = threads, .cache = CacheMode::kOff});
    const uint64_t room = least_room(*plan);
    underestimate(*plan);
    for (uint64_t part = 8; part >= 2; --part) {
      plan->pool->set_limit(room / 8 * part);
      const Ran ran = run_epoch(plan, 0);
      remade += ran.remade;
      whole += ran.refused ? 0 : 1;
      CHECK(part < 8 || !ran.refused);
    }
  }
  CHECK(remade > 0);
  CHECK(whole > 2);
}

// Batches are dropped, and room comes and goes, while a thread decides what to do next.
TEST(room_that_changes_at_any_moment_changes_no_batch) {
  const auto plan = hub_plan("coming", {.threads = 4, .cache = CacheMode::kOff});
  plan->division.depth = 16;
  const uint64_t room = least_room(*plan);
  std::atomic<bool> over{false};
  std::thread changes([&] {
    for (uint64_t i = 0; !over; ++i) plan->pool->set_limit(i % 2 == 0 ? room : room + 16 * plan->division.sizes.batch);
  });
  bool refused = false;
  for (int i = 0; i < 20 && !refused; ++i) refused = run_epoch(plan, 0).refused;
  over = true;
  changes.join();
  CHECK(!refused);
}

TEST(windows_cancel_batches_without_memory) {
  uint64_t remade = 0, whole = 0, gave_up = 0;
  for (const Io io : {Io::kAuto, Io::kPread}) {
    const auto plan = hub_plan("window", {.threads = 2, .cache = CacheMode::kOn, .io = io});
    const uint64_t room = least_room(*plan);
    underestimate(*plan);
    for (uint64_t part = 8; part >= 2; --part) {
      put_window(*plan);
      plan->pool->set_limit(room / 8 * part);
      const Ran ran = run_epoch(plan, 0);
      remade += ran.remade;
      whole += ran.refused ? 0 : 1;
      gave_up += plan->outgrown ? 1 : 0;
    }
  }
  CHECK(remade > 0);
  CHECK(whole > 2);
  CHECK(gave_up > 0);
}

TEST(batches_after_one_that_found_no_room_are_delivered) {
  for (const bool windowed : {false, true}) {
    const auto plan = hub_plan("later", {.cache = CacheMode::kOff, .degree = node_27_is_a_hub});
    if (windowed) put_window(*plan);
    {
      const BufferPool::Use use(*plan->pool);
      plan->pool->reset_peak();
      sample_batch(*plan, batch_seeds(*plan, 0, 3, epoch_batches(*plan, 0, Share{}).input(3)));
    }
    plan->pool->set_limit(plan->pool->peak_bytes() + (uint64_t{1} << 20));
    auto other = plan->pool->take((uint64_t{1} << 20) - (uint64_t{64} << 10));
    plan->division.sizes.sampling = plan->division.sizes.batch = 1;
    plan->division.depth = 8;
    Pipeline pipeline(plan, 0, Share{});
    std::this_thread::sleep_for(
        std::chrono::milliseconds(50));  // batch 3 is tried next to those after it, and does not fit
    other.reset();
    std::vector<LoadedBatch> batches;
    for (LoadedBatch batch; next_batch(pipeline, batch);) batches.push_back(std::move(batch));
    CHECK_EQ(batches.size(), pipeline.num_batches());
    for (const LoadedBatch& batch : batches) check_batch(*plan, 0, batch);
  }
}

TEST(rows_that_are_held_again_take_the_room_of_idle_buffers) {
  const uint64_t others = bytes_held();
  const HubSetting setting{.threads = 1, .cache = CacheMode::kOn, .degree = no_node_is_a_hub, .columns = 2048};
  const auto plan = hub_plan("held_again", setting);
  CHECK(plan->division.ways[0] == Way::kWhole);
  // As an epoch leaves it, one of whose batches needed the room of the rows.
  plan->wholes[0] = nullptr;
  plan->pool->set_limit(setting.memory);
  plan->pool->take(setting.memory / 4 * 3).reset();
  reset_bytes_held_peak();
  divide_again(*plan, nullptr);
  CHECK(plan->wholes[0] != nullptr);
  CHECK(bytes_held_peak() - others <= setting.memory);
}

TEST(merged_groups_are_the_same_batches_and_shrink_where_there_is_no_room) {
  for (const bool windowed : {false, true}) {
    const auto plan = hub_plan("merged", {.threads = 2, .cache = CacheMode::kOff});
    const uint64_t room = least_room(*plan);
    uint64_t whole = 0;
    for (uint64_t part = 16; part >= 2; part /= 2) {
      if (windowed) put_window(*plan);
      underestimate(*plan);
      plan->division.merges = true;
      plan->division.group = 16;
      plan->pool->set_limit(room / 8 * part);
      whole += run_epoch(plan, 0).refused ? 0 : 1;
    }
    CHECK(whole >= 2);
    plan->pool->set_limit(uint64_t{64} << 20);
    Pipeline pipeline(plan, 0, Share{});
    pipeline.stop();  // in the middle of a group
  }
}

TEST(held_rows_are_released_next_to_another_epoch) {
  const auto plan = hub_plan("second", {.threads = 2, .cache = CacheMode::kOff, .degree = node_27_is_a_hub});
  put_window(*plan);
  underestimate(*plan);
  plan->pool->set_limit(uint64_t{2} << 20);  // too little for batch 3; with the window's memory there is enough
  Pipeline first(plan, 0, Share{}), second(plan, 0, Share{});
  uint64_t seen = 0;
  for (LoadedBatch batch; next_batch(first, batch); ++seen) check_batch(*plan, 0, batch);
  CHECK_EQ(seen, first.num_batches());
  LoadedBatch batch;
  CHECK(next_batch(second, batch));
}

// A sweep publishes the held memory to other ranks, also while another epoch waits for it to drop its claims.
TEST(an_epoch_that_sweeps_with_other_ranks_pauses_for_another) {
  const auto plan = hub_plan("paused", {.threads = 2, .cache = CacheMode::kOff, .degree = node_27_is_a_hub});
  underestimate(*plan);
  plan->group = LocalGroup::join({0, 2, text("pipeline_test ", process_id())}, "paused", kSweepBytes + kPageBytes);
  const uint64_t room = plan->pool->limit();
  for (int i = 0; i < 30; ++i) {
    put_window(*plan);
    plan->pool->set_limit(uint64_t{2} << 20);  // too little for batch 3, unless it has all the room
    Pipeline sweeping(plan, 0, Share{}), other(plan, 0, Share{});
    LoadedBatch batch;
    for (int k = 0; k < 3; ++k) CHECK(next_batch(other, batch));
    std::thread takes([&] {
      for (LoadedBatch taken; sweeping.next(taken, 1) != Pipeline::State::kEnd;) {
      }
    });
    try {
      next_batch(other, batch);
    } catch (const BudgetError&) {  // a batch that was taken meanwhile may hold too much
    }
    sweeping.stop();
    takes.join();
    plan->pool->set_limit(room);
  }
}

TEST(two_epochs_at_once_share_too_little_room) {
  for (const bool windowed : {false, true}) {
    const auto plan = hub_plan("shared", {.threads = 2, .cache = windowed ? CacheMode::kOn : CacheMode::kOff});
    plan->pool->set_limit(least_room(*plan));
    underestimate(*plan);
    if (windowed) put_window(*plan);
    std::vector<std::thread> threads;
    std::vector<std::exception_ptr> errors(2);
    for (size_t i = 0; i < 2; ++i) {
      threads.emplace_back([&, i] {
        try {
          CHECK(!run_epoch(plan, 0).refused);
        } catch (...) {
          errors[i] = std::current_exception();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& error : errors) {
      if (error) std::rethrow_exception(error);
    }
  }
}

TEST(batches_kept_from_many_epochs_are_written_off) {
  const auto plan = hub_plan("kept", {.threads = 2, .cache = CacheMode::kOff});
  std::vector<LoadedBatch> kept;
  for (int epoch = 0; epoch < 12; ++epoch) {
    Pipeline pipeline(plan, 0, Share{});
    for (int i = 0; i < 2; ++i) CHECK(next_batch(pipeline, kept.emplace_back()));
    pipeline.stop();
    if (epoch > 0) continue;
    plan->pool->set_limit(plan->pool->used_bytes() * 4);
    plan->division.memory = plan->division.fixed_bytes + plan->pool->limit();
  }
  for (const LoadedBatch& batch : kept) check_batch(*plan, 0, batch);
  kept.clear();
  CHECK_EQ(plan->pool->used_bytes(), 0u);
}

TEST(a_pool_never_passes_its_limit) {
  for (const size_t bytes : {size_t{1}, size_t{5000}, size_t{70'000}, (size_t{2} << 20) + 1, size_t{5} << 20}) {
    BufferPool pool(uint64_t{21} << 20);
    std::vector<std::shared_ptr<Buffer>> taken;
    try {
      for (;;) taken.push_back(pool.take(bytes));
    } catch (const PoolFull& full) {
      CHECK(full.needed > pool.limit());
    }
    CHECK(!taken.empty());
    CHECK(pool.used_bytes() <= pool.limit());
  }
}

TEST(an_epoch_that_is_over_holds_no_rows) {
  const auto plan = hub_plan("over", {.threads = 2, .cache = CacheMode::kOn});
  Pipeline pipeline(plan, 0, Share{});
  LoadedBatch batch;
  CHECK(next_batch(pipeline, batch));
  pipeline.stop();
  const auto rows = std::exchange(plan->wholes[0], nullptr);
  CHECK(rows != nullptr);
  CHECK_EQ(rows.use_count(), 1);
}

TEST(a_later_epoch_gets_the_memory_of_the_first) {
  const auto plan = hub_plan("later", {.memory = uint64_t{20} << 20, .threads = 1});
  plan->ledger->note_batch(uint64_t{10} << 20);  // three of which do not fit
  CHECK(!run_epoch(plan, 1).refused);
}

// A consumer that keeps batches gets them intact, and is planned for from the next epoch on.
TEST(a_consumer_that_keeps_batches_is_served_and_remembered) {
  for (const bool windowed : {false, true}) {
    const auto plan = hub_plan("keeps", {.threads = 2, .cache = CacheMode::kOff, .degree = no_node_is_a_hub});
    if (windowed) put_window(*plan);
    CHECK(!run_epoch(plan, 0).refused);
    CHECK(!plan->ledger->keeps_more());
    {
      Pipeline pipeline(plan, 0, Share{});
      std::vector<LoadedBatch> kept;
      for (LoadedBatch batch; next_batch(pipeline, batch);) {
        kept.push_back(batch);
        for (const LoadedBatch& old : kept) check_batch(*plan, 0, old);
      }
      CHECK_EQ(kept.size(), pipeline.num_batches());
    }
    CHECK(plan->ledger->keeps_more());
    CHECK(!run_epoch(plan, 1).refused);
  }
}

// The consumer of each epoch holds a batch of it, and at first the last one of an epoch that is over.
TEST(batches_that_consumers_hold_count_and_those_they_keep_do_not) {
  const auto shared = std::make_shared<BufferPool>(uint64_t{1} << 20);
  BufferPool& pool = *shared;
  Ledger ledger(shared, 1);
  const auto deliver = [&](const void* epoch) {
    const auto buffer = pool.take(4096);
    ledger.deliver(epoch, {buffer});
    return buffer;
  };
  const int one = 1, two = 2, three = 3;  // epochs
  auto a = deliver(&one), b = deliver(&two);
  const uint64_t bytes = a->size();
  ledger.request_next(&one);
  ledger.request_next(&two);
  CHECK(!ledger.keeps_more());
  CHECK_EQ(pool.used_bytes(), 2 * bytes);
  CHECK_EQ(ledger.leaving_bytes(&one), 0u);
  auto c = deliver(&one);  // as `for` does: the one before goes a moment later
  CHECK_EQ(ledger.leaving_bytes(&one), bytes);
  CHECK_EQ(ledger.leaving_bytes(&two), 0u);
  a = nullptr;
  CHECK_EQ(ledger.leaving_bytes(&one), 0u);
  ledger.request_next(&one);
  ledger.end_epoch(&one);
  ledger.request_next(&three);  // c is still what the loop holds
  CHECK_EQ(pool.used_bytes(), 2 * bytes);
  auto d = deliver(&three);
  CHECK_EQ(ledger.leaving_bytes(&three), bytes);
  CHECK(!ledger.keeps_more());
  ledger.request_next(&three);  // c was kept
  CHECK(ledger.keeps_more());
  CHECK_EQ(pool.used_bytes(), 2 * bytes);
  const auto e = deliver(&three);  // who keeps batches is not waited for: d counts no more
  CHECK_EQ(pool.used_bytes(), 2 * bytes);
  ledger.count_together();  // b, of another consumer, neither
  CHECK_EQ(pool.used_bytes(), bytes);
  const auto f = deliver(&two);
  CHECK_EQ(ledger.leaving_bytes(&three), 0u);
  CHECK_EQ(pool.used_bytes(), bytes);
}

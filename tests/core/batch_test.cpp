// batch_test: the ways of batches from one state to another, without threads.
#include "load/batch.h"

#include <stdexcept>
#include <vector>

#include "check.h"
#include "hub_plan.h"

using namespace gz;
using namespace gz::test;
using enum BatchState;

namespace {

const EpochQueue& epochs() {
  static const EpochQueue of(hub_plan("batch_queue", {.threads = 1, .cache = CacheMode::kOff}), 0, Share{});
  return of;
}

// Samples batches, each with a request for rows.
void sample_batches(BatchQueue& queue, uint64_t first, uint64_t count) {
  const auto batches = queue.begin_sampling(first, count, epochs());
  for (Batch* batch : batches) batch->requests = {std::make_shared<RowRequest>()};
  queue.end_sampling(batches, true);
}

std::vector<uint64_t> request(BatchQueue& queue) {
  std::vector<uint64_t> submitted;
  queue.request([&](const Batch& batch) { submitted.push_back(batch.number); });
  return submitted;
}

void finish_batch(BatchQueue& queue, uint64_t number) {
  queue.at(number).missing = 0;
  queue.end_finishing(queue.begin_finishing(number), LoadedBatch{.number = number});
}

std::vector<BatchState> states(const BatchQueue& queue) {
  std::vector<BatchState> found;
  for (const Batch& batch : queue.batches()) found.push_back(batch.state);
  return found;
}

uint64_t next_of(BatchQueue& queue) {
  ScheduleView view;
  queue.fill(view);
  return view.next;
}

}  // namespace

TEST(rows_are_requested_in_the_order_of_batches) {
  BatchQueue queue;
  queue.start_requests_at(1);
  sample_batches(queue, 2, 2);
  CHECK(request(queue).empty());  // batch 1 is missing
  CHECK(states(queue) == std::vector({kPlanned, kPlanned, kSampled, kSampled}));
  CHECK_EQ(next_of(queue), 0u);
  const auto direct = queue.begin_sampling(0, 1, epochs());
  CHECK_EQ(next_of(queue), 1u);
  queue.end_sampling(direct, true);  // it requests nothing, so that its rows may be read at once
  sample_batches(queue, 1, 1);
  CHECK(request(queue) == std::vector<uint64_t>({1, 2, 3}));
  CHECK(states(queue) == std::vector(4, kRequested));
  CHECK(request(queue).empty());
}

TEST(batches_are_delivered_from_the_front) {
  BatchQueue queue;
  sample_batches(queue, 0, 3);
  request(queue);
  finish_batch(queue, 1);
  CHECK(queue.front_state() == kRequested);
  finish_batch(queue, 0);
  CHECK_EQ(queue.num_ready(), 2u);
  for (uint64_t number = 0; number < 2; ++number) {
    CHECK(queue.front_state() == kReady);
    CHECK_EQ(queue.deliver().number, number);
  }
  CHECK_EQ(queue.front(), 2u);
  CHECK(queue.has(2) && !queue.has(1) && !queue.has(3));
}

TEST(cancelled_batches_are_rebuilt_when_their_thread_is_done) {
  BatchQueue queue;
  sample_batches(queue, 0, 4);
  request(queue);
  finish_batch(queue, 0);
  Batch& finishing = queue.begin_finishing(1);
  const auto sampling = queue.begin_sampling(4, 1, epochs());
  CHECK_EQ(queue.cancel_all(), 4u);  // the last was not sampled yet
  CHECK(states(queue) == std::vector({kPlanned, kRequested, kPlanned, kPlanned, kPlanned}));
  CHECK(finishing.cancelled && sampling.front()->cancelled && !queue.is_idle());
  queue.end_finishing(finishing, LoadedBatch{});
  queue.end_sampling(sampling, true);
  CHECK(states(queue) == std::vector(5, kPlanned));
  CHECK(queue.is_idle() && !finishing.cancelled);
  CHECK_EQ(next_of(queue), 0u);
  sample_batches(queue, 0, 2);
  CHECK(request(queue) == std::vector<uint64_t>({0, 1}));  // from the front on
}

TEST(only_batches_that_wait_behind_one_are_rebuilt) {
  BatchQueue queue;
  sample_batches(queue, 0, 2);
  request(queue);
  sample_batches(queue, 3, 2);
  CHECK_EQ(queue.cancel_after(2), 2u);
  CHECK(states(queue) == std::vector({kRequested, kRequested, kPlanned, kPlanned, kPlanned}));
  CHECK_EQ(next_of(queue), 2u);
}

TEST(a_batch_that_failed_stays_failed) {
  BatchQueue queue;
  sample_batches(queue, 0, 1);
  request(queue);
  Batch& batch = queue.begin_finishing(0);
  queue.fail(0, std::make_exception_ptr(std::runtime_error("a read")));
  CHECK(batch.state == kRequested);  // until its thread is done
  queue.end_finishing(batch, LoadedBatch{});
  CHECK(batch.state == kFailed);
  queue.cancel_all();
  CHECK(batch.state == kFailed);
  ScheduleView view;
  queue.fill(view);
  CHECK_EQ(view.failed, 0u);
}

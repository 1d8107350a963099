// ring_test: the ways of batches from one state to another, without threads.
#include "load/ring.h"

#include <stdexcept>
#include <vector>

#include "check.h"
#include "hub_plan.h"

using namespace gz;
using namespace gz::test;
using enum BatchState;

namespace {

const Passes& passes() {
  static const Passes of(hub_plan("ring", {.threads = 1, .cache = CacheMode::kOff}), 0, Share{});
  return of;
}

// Samples batches, each with a request for rows.
void sample_batches(BatchRing& ring, uint64_t first, uint64_t count) {
  const auto batches = ring.begin_sampling(first, count, passes());
  for (Batch* batch : batches) batch->requests = {std::make_shared<RowRequest>()};
  ring.end_sampling(batches, true);
}

std::vector<uint64_t> request(BatchRing& ring) {
  std::vector<uint64_t> submitted;
  ring.request([&](const Batch& batch) { submitted.push_back(batch.number); });
  return submitted;
}

void finish_batch(BatchRing& ring, uint64_t number) {
  ring.at(number).missing = 0;
  ring.end_finishing(ring.begin_finishing(number), LoadedBatch{.number = number});
}

std::vector<BatchState> states(const BatchRing& ring) {
  std::vector<BatchState> found;
  for (const Batch& batch : ring.slots()) found.push_back(batch.state);
  return found;
}

uint64_t next_of(BatchRing& ring) {
  ScheduleView view;
  ring.look(view);
  return view.next;
}

}  // namespace

TEST(rows_are_requested_in_the_order_of_batches) {
  BatchRing ring;
  ring.start_requests_at(1);
  sample_batches(ring, 2, 2);
  CHECK(request(ring).empty());  // batch 1 is missing
  CHECK(states(ring) == std::vector({kPlanned, kPlanned, kSampled, kSampled}));
  CHECK_EQ(next_of(ring), 0u);
  const auto direct = ring.begin_sampling(0, 1, passes());
  CHECK_EQ(next_of(ring), 1u);
  ring.end_sampling(direct, true);  // it requests nothing, so that its rows may be read at once
  sample_batches(ring, 1, 1);
  CHECK(request(ring) == std::vector<uint64_t>({1, 2, 3}));
  CHECK(states(ring) == std::vector(4, kRequested));
  CHECK(request(ring).empty());
}

TEST(batches_are_delivered_from_the_front) {
  BatchRing ring;
  sample_batches(ring, 0, 3);
  request(ring);
  finish_batch(ring, 1);
  CHECK(ring.front_state() == kRequested);
  finish_batch(ring, 0);
  CHECK_EQ(ring.num_ready(), 2u);
  for (uint64_t number = 0; number < 2; ++number) {
    CHECK(ring.front_state() == kReady);
    CHECK_EQ(ring.deliver().number, number);
  }
  CHECK_EQ(ring.front(), 2u);
  CHECK(ring.has(2) && !ring.has(1) && !ring.has(3));
}

TEST(what_is_cancelled_is_made_again_when_its_thread_is_done) {
  BatchRing ring;
  sample_batches(ring, 0, 4);
  request(ring);
  finish_batch(ring, 0);
  Batch& finishing = ring.begin_finishing(1);
  const auto sampling = ring.begin_sampling(4, 1, passes());
  CHECK_EQ(ring.cancel_all(), 4u);  // the last was not sampled yet
  CHECK(states(ring) == std::vector({kPlanned, kRequested, kPlanned, kPlanned, kPlanned}));
  CHECK(finishing.cancelled && sampling.front()->cancelled && !ring.is_idle());
  ring.end_finishing(finishing, LoadedBatch{});
  ring.end_sampling(sampling, true);
  CHECK(states(ring) == std::vector(5, kPlanned));
  CHECK(ring.is_idle() && !finishing.cancelled);
  CHECK_EQ(next_of(ring), 0u);
  sample_batches(ring, 0, 2);
  CHECK(request(ring) == std::vector<uint64_t>({0, 1}));  // from the front on
}

TEST(only_batches_that_wait_behind_one_are_made_again) {
  BatchRing ring;
  sample_batches(ring, 0, 2);
  request(ring);
  sample_batches(ring, 3, 2);
  CHECK_EQ(ring.cancel_after(2), 2u);
  CHECK(states(ring) == std::vector({kRequested, kRequested, kPlanned, kPlanned, kPlanned}));
  CHECK_EQ(next_of(ring), 2u);
}

TEST(a_batch_that_failed_stays_failed) {
  BatchRing ring;
  sample_batches(ring, 0, 1);
  request(ring);
  Batch& batch = ring.begin_finishing(0);
  ring.fail(0, std::make_exception_ptr(std::runtime_error("a read")));
  CHECK(batch.state == kRequested);  // until its thread is done
  ring.end_finishing(batch, LoadedBatch{});
  CHECK(batch.state == kFailed);
  ring.cancel_all();
  CHECK(batch.state == kFailed);
  ScheduleView view;
  ring.look(view);
  CHECK_EQ(view.failed, 0u);
}

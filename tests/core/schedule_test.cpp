// schedule_test: which job comes next, by tables: no threads, no files.
#include "load/schedule.h"

#include <vector>

#include "check.h"

using namespace gz;

namespace {

using Kind = Job::Kind;
using enum BatchState;

constexpr BatchStatus planned{}, sampling{.busy = true}, sampled{.state = kSampled, .missing = 1};
constexpr BatchStatus requested{.state = kRequested, .missing = 1}, complete{.state = kRequested};
constexpr BatchStatus finishing{.state = kRequested, .busy = true}, ready{.state = kReady}, failed{.state = kFailed};

constexpr Job wait{}, exclusively{Kind::kBuildExclusively, 0, 1};
constexpr Job sample(uint64_t first, uint64_t count = 1) { return {Kind::kSample, first, count}; }
constexpr Job finish(uint64_t number) { return {Kind::kFinish, number, 1}; }

// Batches of 10, sampled in 4; room for 100.
ScheduleView view_of(const std::vector<BatchStatus>& batches) {
  ScheduleView v{.known = 50, .depth = 3, .ahead = 8, .batch_bytes = 10, .sampling_bytes = 4, .limit_bytes = 100};
  while (v.next < batches.size() && batches[v.next].is_begun()) ++v.next;
  for (const BatchStatus& batch : batches) {
    v.sampling += batch.busy && batch.state == kPlanned ? 1 : 0;
    v.finishing += batch.busy && batch.state == kRequested ? 1 : 0;
  }
  return v;
}

struct Row {
  std::vector<BatchStatus> batches;
  Job expected;
  void (*with)(ScheduleView&) = [](ScheduleView&) {};
};

void check_rows(const std::vector<Row>& rows, const char* file, int line) {
  for (size_t i = 0; i < rows.size(); ++i) {
    ScheduleView v = view_of(rows[i].batches);
    rows[i].with(v);
    const Job job = next_job(rows[i].batches, v);
    if (job == rows[i].expected) continue;
    test::fail_at(file, line,
                  "row " + std::to_string(i) + ": job " + std::to_string(static_cast<int>(job.kind)) + " of " +
                      std::to_string(job.first) + ", " + std::to_string(job.count));
  }
}
#define CHECK_ROWS(...) check_rows(__VA_ARGS__, __FILE__, __LINE__)

}  // namespace

TEST(the_earliest_batch_whose_rows_are_there_is_finished_before_others_are_sampled) {
  CHECK_ROWS({
      {{}, sample(0)},
      {{complete}, finish(0)},
      {{requested, complete}, finish(1)},
      {{finishing, complete}, finish(1)},
      {{ready, requested, complete}, finish(2)},
      {{ready, requested, requested, complete}, sample(4)},  // it is beyond the depth
      {{sampled, complete}, finish(1)},
      {{sampling, complete}, finish(1)},
      {{failed, complete}, finish(1)},
  });
}

TEST(batches_are_sampled_as_far_ahead_as_is_useful) {
  CHECK_ROWS({
      {{sampling}, sample(1)},
      {{requested, requested}, sample(2)},
      {{requested, planned, requested}, sample(1)},  // one that went back
      {{requested, requested}, wait, [](ScheduleView& v) { v.ahead = 2; }},
      {{requested, requested}, wait, [](ScheduleView& v) { v.known = 2; }},
      {{requested, failed}, wait, [](ScheduleView& v) { v.failed = 1; }},
      {{}, wait, [](ScheduleView& v) { v.known = 0; }},
  });
}

TEST(room_is_left_for_the_next_batch_in_line) {
  CHECK_ROWS({
      {{requested}, sample(1), [](ScheduleView& v) { v.used_bytes = 86; }},  // 4 for it, 10 for the next
      {{requested}, wait, [](ScheduleView& v) { v.used_bytes = 87; }},
      {{ready}, sample(1), [](ScheduleView& v) { v.used_bytes = 95; }},  // an eighth of a batch is kept
      {{ready}, wait, [](ScheduleView& v) { v.used_bytes = 96; }},
      {{finishing}, sample(1), [](ScheduleView& v) { v.used_bytes = 86; }},  // its memory is on its way
      {{finishing}, wait, [](ScheduleView& v) { v.used_bytes = 87; }},
      {{sampling, sampling}, wait, [](ScheduleView& v) { v.used_bytes = 79; }},
      {{}, sample(0), [](ScheduleView& v) { v.used_bytes = 200; }},  // nothing else is in the making: it is tried
  });
}

TEST(later_batches_are_finished_when_there_is_room) {
  CHECK_ROWS({
      {{complete}, finish(0), [](ScheduleView& v) { v.used_bytes = 200; }},  // the next in line always is
      {{ready, complete}, finish(1), [](ScheduleView& v) { v.used_bytes = 90; }},
      {{ready, complete}, wait, [](ScheduleView& v) { v.used_bytes = 99; }},
      {{ready, complete}, finish(1), [](ScheduleView& v) { v.used_bytes = 99, v.leaving_bytes = 9; }},
      {{ready, {.state = kRequested, .taken_bytes = 8}}, finish(1), [](ScheduleView& v) { v.used_bytes = 98; }},
      {{ready, finishing, complete}, wait, [](ScheduleView& v) { v.used_bytes = 90; }},
  });
}

TEST(a_batch_that_does_not_fit_waits_for_all_others_and_for_the_consumer) {
  const auto too_large = [](ScheduleView& v) { v.too_large = true, v.consumer_waits = true; };
  CHECK_ROWS({
      {{complete, complete}, exclusively, too_large},
      {{complete, finishing}, wait, too_large},
      {{complete, sampling}, wait, too_large},
      {{complete}, wait, [](ScheduleView& v) { v.too_large = true; }},
      {{failed}, wait, [](ScheduleView& v) { v.too_large = v.consumer_waits = true, v.failed = 0; }},
      {{complete}, wait, [](ScheduleView& v) { v.too_large = v.consumer_waits = v.paused = true; }},
      {{complete}, wait, [](ScheduleView& v) { v.paused = true; }},
  });
}

TEST(groups_grow_and_end_before_what_is_begun) {
  const auto merged = [](ScheduleView& v) { v.merges = true, v.group = v.together = 64, v.ahead = 200; };
  CHECK_ROWS({
      {{}, sample(0, 16), merged},
      {std::vector<BatchStatus>(10, requested), sample(10, 40), merged},
      {std::vector<BatchStatus>(20, requested), sample(20, 64),
       [](ScheduleView& v) { v.merges = true, v.group = v.together = 64, v.ahead = 200; }},
      {{requested, planned, planned, planned, sampled}, sample(1, 3), merged},
      {{requested, sampling}, wait, merged},  // one group at a time
      {{}, sample(0, 5), [](ScheduleView& v) { v.merges = true, v.group = 64, v.together = 5; }},  // of one epoch
      {{requested}, wait, [](ScheduleView& v) { v.merges = true, v.group = v.together = 64, v.merged_bytes = 2; }},
      {{requested},
       sample(1, 16),
       [](ScheduleView& v) { v.merges = true, v.group = v.together = 43, v.merged_bytes = 2; }},
  });
}

// schedule: the states of a batch, and which job a pipeline's thread does next. No threads, locks or memory: next_job()
// is a pure function of its arguments, tested by tables (tests/core/schedule_test.cpp).
//
//   kPlanned -> kSampled -> kRequested -> kReady -> kDelivered
//
// Each state but the last may go back to kPlanned when memory is short, since a batch is a function of (seed, epoch,
// number) alone; each may go to kFailed.
#pragma once

#include <algorithm>
#include <cstdint>

namespace gz {

enum class BatchState : uint8_t {
  kPlanned,    // known, not started
  kSampled,    // waits until the rows of all batches before it are requested
  kRequested,  // its rows are being read, or have been read
  kReady,      // finished: waits for the consumer
  kDelivered,  // the consumer has it
  kFailed,     // its error is raised when it is requested
};

// What the schedule sees of a batch.
struct BatchStatus {
  BatchState state = BatchState::kPlanned;
  bool busy = false;         // a thread samples it or finishes it
  uint32_t missing = 0;      // parts whose rows have not all been read
  uint64_t taken_bytes = 0;  // memory of the finished batch that it already holds

  bool is_begun() const { return busy || state != BatchState::kPlanned; }
};

struct Job {
  enum class Kind { kWait, kSample, kFinish, kBuildExclusively };
  Kind kind = Kind::kWait;
  uint64_t first = 0, count = 0;  // batches, counted from the next one in line

  bool operator==(const Job&) const = default;
};

// The state of the pipeline apart from its batches, which are counted from the next one in line.
struct ScheduleView {
  uint64_t known = 0;            // batches that will be requested
  uint64_t failed = UINT64_MAX;  // the first that failed: none after it is requested
  uint64_t next = 0;             // the first that was not started
  uint64_t depth = 1;            // batches that may be finished
  uint64_t ahead = 1;            // batches that may be started
  uint64_t together = 1;         // batches that may be sampled together from `next` on
  bool merges = false;           // batches are sampled in groups of up to
  uint64_t group = 1;
  uint64_t sampling = 0, finishing = 0;                            // batches that threads are working on
  uint64_t batch_bytes = 0, sampling_bytes = 0, merged_bytes = 0;  // see Division
  uint64_t begun_bytes = 0;                                        // used by batches that will be sampled next
  uint64_t used_bytes = 0, limit_bytes = 0;                        // of the memory for batches
  uint64_t leaving_bytes = 0;                                      // used, but about to be freed
  bool paused = false;                                             // nothing may be started
  bool too_large = false;                                          // the next in line did not fit next to others
  bool consumer_waits = false;
};

// Memory for the batches being sampled and `more`. Those of a group take little each: only one at a time is relabelled.
inline uint64_t bytes_for_sampling(const ScheduleView& v, uint64_t more = 0) {
  const uint64_t batches = v.sampling + more;
  if (!v.merges || batches == 0) return batches * v.sampling_bytes;
  const uint64_t merged = batches * v.merged_bytes;
  return v.sampling_bytes + merged - std::min(merged, v.begun_bytes);
}

// Memory kept free for the next batch in line. If that is ready, the one after it takes the memory of the batch in use
// and may be a little larger.
template <class Batches>
uint64_t bytes_for_next(const Batches& batches, const ScheduleView& v) {
  if (batches.empty()) return v.batch_bytes;
  const BatchStatus& first = batches.front();
  if (first.state == BatchState::kReady) return v.batch_bytes / 8;
  return first.state == BatchState::kRequested && first.busy ? 0 : v.batch_bytes;
}

// Groups start small, so that the first batches are ready early, and grow quickly: each group reads most of the
// topology. Starting with even fewer batches would leave the first circle of a sweep nearly empty.
inline uint64_t group_size(uint64_t most, uint64_t next) {
  constexpr uint64_t kLeastGroup = 16, kGrowth = 4;
  return std::min(most, std::max(kGrowth * next, kLeastGroup));
}

// `batches` holds those from the next one in line up to the last one that was started.
template <class Batches>
Job next_job(const Batches& batches, const ScheduleView& v) {
  using Kind = Job::Kind;
  if (v.paused) return {};
  if (v.too_large) {
    const bool may = v.sampling == 0 && v.finishing == 0 && v.consumer_waits && v.failed > 0;
    return may ? Job{Kind::kBuildExclusively, 0, 1} : Job{};
  }
  // The earliest batch whose rows were read. The next one in line may always be finished; later ones wait for memory.
  for (uint64_t i = 0; i < std::min<uint64_t>(batches.size(), v.depth); ++i) {
    const BatchStatus& batch = batches[i];
    if (batch.state != BatchState::kRequested || batch.busy || batch.missing > 0) continue;
    const uint64_t more = v.batch_bytes - std::min(v.batch_bytes, batch.taken_bytes);
    const uint64_t wanted = (v.finishing + 1) * more + bytes_for_sampling(v);
    if (i == 0 || v.used_bytes + wanted <= v.limit_bytes + v.leaving_bytes) return {Kind::kFinish, i, 1};
    break;
  }
  // Otherwise sample the next ones, if memory suffices for them, for those being built, and for the next in line.
  if (v.next >= std::min({v.known, v.failed, v.ahead})) return {};
  if (v.merges && v.sampling > 0) return {};  // one group at a time
  const uint64_t wanted =
      bytes_for_sampling(v, v.merges ? v.group : 1) + v.finishing * v.batch_bytes + bytes_for_next(batches, v);
  const bool is_only = v.next == 0 && v.sampling == 0 && v.finishing == 0;
  if (!is_only && v.used_bytes + wanted > v.limit_bytes) return {};
  uint64_t count = 1;
  while (count < group_size(v.together, v.next) &&
         (v.next + count >= batches.size() || !batches[v.next + count].is_begun()))
    ++count;
  return {Kind::kSample, v.next, count};
}

}  // namespace gz

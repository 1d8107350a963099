// disk_probe: a scratch file, three patterns of reads.
#include "storage/disk_probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "base/threads.h"
#include "format/container.h"
#include "storage/file.h"
#include "storage/reader.h"

namespace gz {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kBlock = uint64_t{1} << 20;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double write_scratch(File& file, uint64_t bytes, Progress* progress) {
  Buffer block(kBlock, Purpose::kReads);
  Random random(make_key(bytes));  // noise: disks and file systems that compress are not to be tricked by zeros
  const auto start = Clock::now();
  for (uint64_t at = 0; at < bytes; at += kBlock) {
    for (uint64_t& word : block.span_of<uint64_t>()) word = random.next();
    file.write_at({block.data(), kBlock}, at);
    if (progress != nullptr) progress->report("writing a scratch file", at, bytes);
  }
  file.sync();
  return static_cast<double>(bytes) / seconds_since(start);
}

struct Pattern {
  const char* name;
  size_t depth;
  uint32_t bytes;
  std::function<uint64_t(uint64_t i)> offset;
};

// Reads by one reader for some time; returns reads per second.
double reads_per_second(const File& file, Reader& reader, const Pattern& pattern, double seconds, Progress* progress) {
  std::vector<ReadResult> results(reader.depth());
  const size_t room = std::max<size_t>(reader.arena().size() / pattern.bytes, 1);
  const size_t depth = std::min({pattern.depth, reader.depth(), room});
  uint64_t issued = 0, done = 0;
  const auto issue = [&](uint32_t tag) {
    reader.queue(file,
                 {reader.arena().data() + size_t{tag} * pattern.bytes, pattern.bytes, pattern.offset(issued++), tag});
  };
  int failed = 0;
  const auto start = Clock::now();
  for (uint32_t tag = 0; tag < depth; ++tag) issue(tag);
  while (reader.in_flight() > 0) {
    const size_t got = reader.wait(results);
    const bool more = failed == 0 && seconds_since(start) < seconds;
    for (size_t i = 0; i < got; ++i) {
      if (results[i].result < 0) failed = -results[i].result;
      ++done;
      if (more) issue(results[i].tag);
    }
    if (more && progress != nullptr) {
      progress->report(pattern.name, static_cast<uint64_t>(seconds_since(start) * 1000),
                       static_cast<uint64_t>(seconds * 1000) + 1);
    }
  }
  if (failed != 0) fail_storage(file.path(), "cannot read", failed);
  return static_cast<double>(done) / seconds_since(start);
}

// Many readers of depth one in place of a ring.
double reads_by_pool(const File& file, const Pattern& pattern, double seconds) {
  std::atomic<uint64_t> total{0};
  parallel_for(kPreadThreads, 1, kPreadThreads, [&](size_t begin, size_t, int) {
    Pattern mine = pattern;
    mine.offset = [&, begin](uint64_t i) { return pattern.offset(i * kPreadThreads + begin); };
    total += static_cast<uint64_t>(reads_per_second(file, *take_reader(ReaderKind::kPread), mine, seconds, nullptr));
  });
  return static_cast<double>(total.load());
}

}  // namespace

DiskProbe probe_disk(const std::string& folder, const DiskProbeOptions& options, Progress* progress) {
  DiskProbe probe;
  probe.uring_refusal = uring_refusal();
  const uint64_t bytes = std::max(options.bytes / kBlock, uint64_t{1}) * kBlock;
  if (free_bytes(folder) < bytes) {
    fail<ArgumentError>(folder, ": ", free_bytes(folder), " bytes are free, the probe needs ", bytes);
  }
  File scratch = File::create_nameless(folder);
  probe.write_bytes = write_scratch(scratch, bytes, progress);
  scratch.drop_cache(0, bytes);
  const File direct = scratch.reopen_direct();
  probe.direct = static_cast<bool>(direct);
  const File& file = direct ? direct : scratch;
  const bool ring = probe.uring_refusal.empty();
  const auto reader = take_reader(ring ? ReaderKind::kUring : ReaderKind::kPread);
  const auto block = static_cast<uint32_t>(std::min<uint64_t>(kBlock, reader->arena().size()));
  probe.sequential_bytes =
      block * reads_per_second(file, *reader,
                               {"sequential reads", 8, block, [&](uint64_t i) { return i * block % bytes; }},
                               options.seconds, progress);
  const auto anywhere = [&](uint64_t i) { return mix(i + kGolden) % (bytes / kPageBytes) * kPageBytes; };
  const auto page = static_cast<uint32_t>(kPageBytes);
  scratch.drop_cache(0, bytes);
  probe.random_reads_1 =
      reads_per_second(file, *reader, {"random reads", 1, page, anywhere}, options.seconds, progress);
  scratch.drop_cache(0, bytes);
  const Pattern deep{"random reads, 256 in flight", kRingDepth, page, [&](uint64_t i) { return anywhere(~i); }};
  probe.random_reads_256 = ring ? reads_per_second(file, *reader, deep, options.seconds, progress)
                                : reads_by_pool(file, deep, options.seconds);
  return probe;
}

}  // namespace gz

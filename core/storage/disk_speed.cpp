// disk_speed: readers kept busy for a while and counted; two short measurements, kept by device.
#include "storage/disk_speed.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/per_process.h"
#include "base/random.h"
#include "base/threads.h"

#ifndef _WIN32
#include <sys/stat.h>
#endif

namespace gz {
namespace {

// One reader kept at `depth` reads until the time is up; returns how many came back.
class Load {
 public:
  Load(const File& file, const MeasureOptions& options, std::atomic<uint64_t>& turn)
      : file_(file), options_(options), turn_(turn), places_(file.size() / options.read_bytes) {}

  uint64_t run(size_t depth, Clock::time_point start) {
    const auto reader = take_reader(options_.kind);
    depth = std::min({depth, reader->depth(), reader->arena().size() / options_.read_bytes});
    std::vector<ReadResult> results(depth);
    uint64_t done = 0;
    for (size_t buffer = 0; buffer < depth; ++buffer) queue(*reader, buffer);
    while (reader->in_flight() > 0) {
      const size_t came = reader->wait(results);
      const bool more = seconds_since(start) < options_.seconds;
      for (size_t i = 0; i < came; ++i) {
        if (results[i].result < 0) fail_storage(file_.path(), "cannot read", -results[i].result);
        if (more) queue(*reader, results[i].tag);
      }
      done += came;
    }
    return done;
  }

 private:
  void queue(Reader& reader, size_t buffer) {
    const uint64_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
    const uint64_t place = options_.sequential ? turn % places_ : mix(options_.seed + turn) % places_;
    reader.queue(file_, {reader.arena().data() + buffer * options_.read_bytes, options_.read_bytes,
                         place * options_.read_bytes, static_cast<uint32_t>(buffer)});
  }

  const File& file_;
  const MeasureOptions& options_;
  std::atomic<uint64_t>& turn_;
  const uint64_t places_;
};

constexpr double kSeconds = 0.03;  // of each measurement
constexpr size_t kRandomDepth = 256, kSequentialDepth = 16;
constexpr int kThreads = 2;  // one cannot keep a fast drive busy with single pages
constexpr uint32_t kSequentialBytes = 256 << 10;

uint64_t device_of(const std::string& path) {
#ifdef _WIN32
  return path.size() > 1 && path[1] == ':' ? static_cast<uint64_t>(path[0]) : 0;
#else
  struct stat found {};
  return stat(path.c_str(), &found) == 0 ? static_cast<uint64_t>(found.st_dev) : 0;
#endif
}

Disk measured(const File& file) {
  MeasureOptions options;
  options.kind = uring_works() ? ReaderKind::kUring : ReaderKind::kPread;
  options.seconds = kSeconds;
  options.depth = options.kind == ReaderKind::kUring ? kRandomDepth : kPreadThreads;
  options.threads = kThreads;
  const double seconds = std::exchange(options.seconds, 0);
  measure_reads(file, options);  // rings are made and their memory is taken, which is not the disk's work
  options.seconds = seconds;
  Disk disk;
  disk.reads = measure_reads(file, options).per_second();
  options.depth = std::min(options.depth, kSequentialDepth);
  options.threads = 1;
  options.read_bytes = kSequentialBytes;
  options.sequential = true;
  disk.bytes = measure_reads(file, options).per_second() * kSequentialBytes;
  return disk.reads > 0 && disk.bytes > 0 ? disk : Disk{};
}

}  // namespace

ReadRate measure_reads(const File& file, const MeasureOptions& options) {
  if (options.read_bytes == 0 || options.read_bytes % 4096 != 0 || file.size() < options.read_bytes) {
    fail<ArgumentError>(file.path(), ": cannot measure reads of ", options.read_bytes, " bytes in a file of ",
                        file.size());
  }
  const int threads = options.kind == ReaderKind::kUring ? options.threads : static_cast<int>(options.depth);
  const size_t depth_each = std::max<size_t>(1, options.depth / static_cast<size_t>(threads));
  std::atomic<uint64_t> turn{0}, reads{0};
  const auto start = Clock::now();
  parallel_for(static_cast<size_t>(threads), 1, threads,
               [&](size_t, size_t, int) { reads += Load(file, options, turn).run(depth_each, start); });
  return {reads, seconds_since(start)};
}

Disk disk_of(const MountedFile& file, uint64_t least) {
  if (file.direct() == nullptr || file.direct()->size() < least) return {};
  struct Known {
    std::mutex mutex;
    std::map<uint64_t, Disk> disks;  // by device; guarded by mutex
  };
  Known& known = per_process([] { return new Known; });
  const uint64_t device = device_of(file.file().path());
  const std::lock_guard lock(known.mutex);
  const auto [at, is_new] = known.disks.try_emplace(device);
  if (is_new) {
    try {
      at->second = measured(*file.direct());
    } catch (const Error&) {  // reading the rows will report it
    }
  }
  return at->second;
}

}  // namespace gz

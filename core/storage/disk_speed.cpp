// disk_speed: two short measurements, kept by device.
#include "storage/disk_speed.h"

#include <map>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "storage/measure.h"

#ifndef _WIN32
#include <sys/stat.h>
#endif

namespace gz {
namespace {

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

Disk disk_of(const MountedFile& file, uint64_t least) {
  if (file.direct() == nullptr || file.direct()->size() < least) return {};
  static std::mutex mutex;
  static std::map<uint64_t, Disk> known;
  const uint64_t device = device_of(file.file().path());
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(device);
  if (is_new) {
    try {
      at->second = measured(*file.direct());
    } catch (const Error&) {  // reading the rows will report it
    }
  }
  return at->second;
}

}  // namespace gz

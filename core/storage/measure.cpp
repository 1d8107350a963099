// measure: the readers of the engine, kept busy for a while and counted.
#include "storage/measure.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/threads.h"

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

}  // namespace gz

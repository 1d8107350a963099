// bind_measure: how fast a file's disk is, and whether io_uring is available, for `graphzero doctor`.
#include "base/error.h"
#include "base/threads.h"
#include "bindings.h"
#include "storage/measure.h"

namespace gz::bindings {
namespace {

nb::dict measure(const std::string& path, bool ring, size_t depth, uint32_t read_bytes, bool sequential, double seconds,
                 uint64_t seed) {
  if (depth == 0 || depth > 4096) fail<ArgumentError>("depth is ", depth, ", expected 1 to 4096");
  MeasureOptions options;
  options.kind = ring ? ReaderKind::kUring : ReaderKind::kPread;
  options.depth = depth;
  options.threads = depth == 1 ? 1 : default_threads();
  options.read_bytes = read_bytes;
  options.sequential = sequential;
  options.seconds = seconds;
  options.seed = seed;
  ReadRate rate;
  bool direct = false;
  {
    nb::gil_scoped_release release;
    File file = File::open(path);
    if (File past_cache = file.reopen_direct()) {
      file = std::move(past_cache);
      direct = true;
    } else {
      file.drop_cache(0, file.size());
    }
    rate = measure_reads(file, options);
  }
  nb::dict d;
  d["reads"] = rate.reads;
  d["seconds"] = rate.seconds;
  d["direct"] = direct;
  return d;
}

}  // namespace

void bind_measure(nb::module_& m) {
  m.def("measure_reads", &measure, nb::arg("path"), nb::arg("ring"), nb::arg("depth"), nb::arg("read_bytes"),
        nb::arg("sequential"), nb::arg("seconds"), nb::arg("seed"));
  m.def("uring_refusal", [] { return uring_works() ? std::optional<std::string>() : uring_refusal(); });
}

}  // namespace gz::bindings

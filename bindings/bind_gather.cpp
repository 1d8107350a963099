// bind_gather: rows -> NumPy arrays, and the read counters of a store.
#include <mutex>

#include "base/error.h"
#include "base/fork.h"
#include "base/threads.h"
#include "bindings.h"
#include "gather/gather.h"

namespace gz::bindings {
namespace {

// A writable, contiguous array of bytes owned by Python; graphzero/stores/features.py checks dtype and shape.
using Bytes = nb::ndarray<uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

// The sum of all gathers of one store. Thread-safe.
struct ReadCounts {
  ForkSafeMutex mutex;
  GatherStats stats;  // guarded by mutex
  void add(const GatherStats& one) {
    std::lock_guard lock(mutex);
    stats.add(one);
  }
};

nb::dict as_dict(const GatherStats& s) {
  nb::dict d;
  d["rows"] = s.rows;
  d["rows_mapped"] = s.rows_mapped;
  d["rows_cached"] = s.rows_cached;
  d["bytes_useful"] = s.bytes_useful;
  d["bytes_read"] = s.bytes_read;
  d["reads"] = s.reads;
  d["read_seconds"] = s.read_seconds;
  d["copy_seconds"] = s.copy_seconds;
  return d;
}

GatherOptions parse_options(const std::string& io, int threads, const std::optional<std::string>& dtype) {
  GatherOptions options;
  options.io = io_from_name(io);
  options.threads = resolve_threads(threads);
  if (dtype) options.out_dtype = dtype_from_name(*dtype);
  return options;
}

// Where a gather writes: the caller's memory or a pooled buffer that becomes an array.
class Destination {
 public:
  Destination(const Matrix& matrix, size_t rows, const GatherOptions& options, std::optional<Bytes>& out)
      : matrix_(matrix), rows_(rows), dtype_(gathered_dtype(matrix, options)) {
    const uint64_t bytes = rows * gathered_row_bytes(matrix, options);
    if (!out) {
      buffer_ = take_buffer(bytes);
      data_ = buffer_->data();
      return;
    }
    if (out->size() != bytes) fail<ArgumentError>("out has ", out->size(), " bytes, expected ", bytes);
    data_ = reinterpret_cast<std::byte*>(out->data());
  }

  std::byte* data() const { return data_; }
  std::optional<Array> array() const {
    if (!buffer_) return std::nullopt;
    return rows_array(data_, rows_, matrix_.columns, matrix_.is_vector, dtype_, buffer_);
  }

 private:
  const Matrix& matrix_;
  size_t rows_;
  DType dtype_;
  std::shared_ptr<Buffer> buffer_;
  std::byte* data_ = nullptr;
};

std::optional<Array> gather_rows(const FeatureFile& file, const std::string& name, const Ids& ids,
                                 std::optional<Bytes> out, const std::optional<std::string>& dtype,
                                 const std::string& io, int threads, ReadCounts* counts) {
  const Matrix& matrix = file.matrix(name);
  const GatherOptions options = parse_options(io, threads, dtype);
  check_row_ids(file, matrix, span_of(ids));  // before the buffer is allocated
  const Destination destination(matrix, ids.size(), options, out);
  Interrupts progress;
  GatherStats stats;
  {
    nb::gil_scoped_release release;
    gather(file, matrix, span_of(ids), destination.data(), options, &stats, &progress);
  }
  if (counts != nullptr) counts->add(stats);
  return destination.array();
}

}  // namespace

void bind_gather(nb::module_& m) {
  nb::class_<ReadCounts>(m, "ReadCounts").def(nb::init<>()).def("read", [](ReadCounts& counts) {
    std::lock_guard lock(counts.mutex);
    return as_dict(counts.stats);
  });
  m.def("gather", &gather_rows, nb::arg("file"), nb::arg("name"), nb::arg("ids"),
        nb::arg("out").noconvert() = nb::none(), nb::arg("dtype") = nb::none(), nb::arg("io") = "auto",
        nb::arg("threads") = 0, nb::arg("counts") = nb::none());
}

}  // namespace gz::bindings

// bind_memory: what memory_report() and `doctor` look at: the system, mounted files, the disk.
#include "bindings.h"
#include "storage/disk_probe.h"
#include "storage/mounted.h"
#include "storage/reader.h"
#include "storage/system_memory.h"

namespace gz::bindings {
namespace {

nb::dict system_memory_dict() {
  const SystemMemory memory = system_memory();
  nb::dict d;
  d["total_bytes"] = memory.total_bytes;
  d["available_bytes"] = memory.available_bytes;
  d["anonymous_rss"] = memory.anonymous_rss;
  d["file_rss"] = memory.file_rss;
  d["cgroup_version"] = memory.cgroup.version;
  d["cgroup_path"] = memory.cgroup.path;
  d["cgroup_used"] = memory.cgroup.used_bytes;
  d["cgroup_cached"] = memory.cgroup.cached_bytes;
  d["cgroup_limit"] = memory.cgroup.limit_bytes;
  return d;
}

// (path, kind, bytes, bytes in the page cache or None) of every file that is open.
nb::list mounted_files_list() {
  nb::list out;
  for (const auto& file : mounted_files()) {
    const uint64_t bytes = file->container().file_bytes;
    std::optional<uint64_t> cached;
    {
      nb::gil_scoped_release release;
      cached = cached_bytes(file->file(), file->mapping(), 0, bytes);
    }
    const char* kind = file->container().kind == Kind::kTopology ? "topology" : "features";
    out.append(nb::make_tuple(file->path(), kind, bytes, cached));
  }
  return out;
}

nb::dict probe_disk_dict(const std::string& folder, uint64_t bytes, double seconds, nb::object callback) {
  PyProgress progress(std::move(callback));
  DiskProbe probe;
  {
    nb::gil_scoped_release release;
    probe = probe_disk(folder, {.bytes = bytes, .seconds = seconds}, &progress);
  }
  nb::dict d;
  d["direct"] = probe.direct;
  d["uring_refusal"] = probe.uring_refusal;
  d["write_bytes"] = probe.write_bytes;
  d["sequential_bytes"] = probe.sequential_bytes;
  d["random_reads_1"] = probe.random_reads_1;
  d["random_reads_256"] = probe.random_reads_256;
  return d;
}

}  // namespace

void bind_memory(nb::module_& m) {
  m.def("system_memory", &system_memory_dict);
  m.def("available_memory", &available_memory);
  m.def("mounted_files", &mounted_files_list);
  m.def("uring_refusal", &uring_refusal);
  m.def("drop_idle_readers", &drop_idle_readers);
  m.def("probe_disk", &probe_disk_dict, nb::arg("folder"), nb::arg("bytes") = uint64_t{512} << 20,
        nb::arg("seconds") = 1.0, nb::arg("progress") = nb::none());
}

}  // namespace gz::bindings

// bind_memory: what memory_report() looks at: the system and the mounted files.
#include "bindings.h"
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

}  // namespace

void bind_memory(nb::module_& m) {
  m.def("system_memory", &system_memory_dict);
  m.def("available_memory", &available_memory);
  m.def("mounted_files", &mounted_files_list);
  m.def("drop_idle_readers", &drop_idle_readers);
}

}  // namespace gz::bindings

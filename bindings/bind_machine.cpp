// bind_machine: what the system allows this process (base/system), its disk and io_uring, and the mounted files. `root`
// is for tests.
#include "base/error.h"
#include "base/system.h"
#include "base/threads.h"
#include "bindings.h"
#include "storage/disk_speed.h"
#include "storage/mounted.h"
#include "storage/reader.h"

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

nb::dict system_memory_dict(const std::string& root) {
  const SystemMemory memory = system_memory(root);
  nb::dict d;
  d["total_bytes"] = memory.total_bytes;
  d["available_bytes"] = memory.available_bytes;
  d["swap_bytes"] = memory.swap_bytes;
  d["anonymous_rss"] = memory.anonymous_rss;
  d["file_rss"] = memory.file_rss;
  d["cgroup_version"] = memory.cgroup.version;
  d["cgroup_path"] = memory.cgroup.path;
  d["cgroup_used"] = memory.cgroup.used_bytes;
  d["cgroup_cached"] = memory.cgroup.cached_bytes;
  d["cgroup_limit"] = memory.cgroup.limit_bytes;
  return d;
}

// (version, folder of the mount, paths below it from the process's own group up); None if there is no such group.
std::optional<std::tuple<int, std::string, std::vector<std::string>>> control_group_tuple(const std::string& controller,
                                                                                          const std::string& root) {
  const ControlGroup group = control_group(controller, root);
  if (group.version == 0) return std::nullopt;
  return std::tuple(group.version, group.mount, group.paths);
}

nb::dict disk_info_dict(unsigned major, unsigned minor, const std::string& root) {
  const DiskInfo disk = disk_info(major, minor, root);
  const auto known = [](const std::string& name) { return name.empty() ? std::nullopt : std::optional(name); };
  nb::dict d;
  d["file_system"] = known(disk.file_system);
  d["device"] = known(disk.device);
  d["rotational"] = disk.rotational;
  d["readahead_bytes"] = disk.readahead_bytes;
  return d;
}

// (path, kind, bytes, bytes in the page cache or None) of every file that is open.
nb::list mounted_files_list() {
  nb::list out;
  for (const auto& file : mounted_files()) {
    const uint64_t bytes = file->container().file_bytes;
    const std::optional<uint64_t> cached = without_gil([&] { return cached_bytes(*file, 0, bytes); });
    const char* kind = file->container().kind == Kind::kTopology ? "topology" : "features";
    out.append(nb::make_tuple(file->path(), kind, bytes, cached));
  }
  return out;
}

}  // namespace

void bind_machine(nb::module_& m) {
  m.def("system_memory", &system_memory_dict, nb::arg("root") = "");
  m.def("available_memory", &available_memory, nb::arg("root") = "");
  m.def("add_locked_pages", &add_locked_pages, nb::arg("begin"), nb::arg("bytes"));
  m.def("remove_locked_pages", &remove_locked_pages, nb::arg("begin"));
  m.def("locked_pages", [] { return locked_pages(); });
  m.def("cpu_quota", &cpu_quota, nb::arg("root") = "");
  m.def("control_group", &control_group_tuple, nb::arg("controller"), nb::arg("root") = "");
  m.def("disk_info", &disk_info_dict, nb::arg("major"), nb::arg("minor"), nb::arg("root") = "");
  m.def("mounted_files", &mounted_files_list);
  m.def("drop_idle_readers", &drop_idle_readers);
  m.def("measure_reads", &measure, nb::arg("path"), nb::arg("ring"), nb::arg("depth"), nb::arg("read_bytes"),
        nb::arg("sequential"), nb::arg("seconds"), nb::arg("seed"));
  m.def("uring_refusal", [] { return uring_works() ? std::optional<std::string>() : uring_refusal(); });
}

}  // namespace gz::bindings

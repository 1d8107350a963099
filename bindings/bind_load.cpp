// bind_load: the loader's plan and the epochs in flight.
#include <algorithm>
#include <array>
#include <cerrno>

#include "base/error.h"
#include "base/per_process.h"
#include "bind_batch.h"
#include "bind_load_stats.h"
#include "bindings.h"
#include "load/budget.h"
#include "load/pipeline.h"
#include "load/rows.h"

namespace gz::bindings {
namespace {

constexpr int kPatienceMs = 50;  // how often a waiting next() looks for Ctrl-C

// A CUDA context, and the addresses of the driver's cuCtxPushCurrent, cuCtxPopCurrent, cuMemHostRegister,
// cuMemHostUnregister and cuThreadExchangeStreamCaptureMode: called without the GIL, from any thread. The driver API,
// because the runtime API would create a context on the thread's current device, which may not be the loader's, and
// leave errors behind that the next kernel launch of the thread would report.
using PageLockAddresses = std::array<uintptr_t, 6>;

PageLock page_lock_of(const PageLockAddresses& addresses) {
  if (std::find(addresses.begin(), addresses.end(), 0) != addresses.end()) return {};
  void* const context = reinterpret_cast<void*>(addresses[0]);
  const auto push = reinterpret_cast<int (*)(void*)>(addresses[1]);
  const auto pop = reinterpret_cast<int (*)(void**)>(addresses[2]);
  const auto register_host = reinterpret_cast<int (*)(void*, size_t, unsigned)>(addresses[3]);
  const auto unregister_host = reinterpret_cast<int (*)(void*)>(addresses[4]);
  const auto exchange_mode = reinterpret_cast<int (*)(int*)>(addresses[5]);
  const auto within = [=](const auto& call) {
    if (push(context) != 0) return false;
    // Otherwise a graph that the user is capturing in another thread would become invalid.
    constexpr int kRelaxed = 2;
    int mode = kRelaxed;
    const bool is_relaxed = exchange_mode(&mode) == 0;
    const bool done = call() == 0;
    if (is_relaxed) exchange_mode(&mode);
    void* popped = nullptr;
    pop(&popped);
    return done;
  };
  constexpr unsigned kPortable = 1;  // for all contexts of the process
  return {[=](void* data, size_t bytes) { return within([&] { return register_host(data, bytes, kPortable); }); },
          [=](void* data) { within([&] { return unregister_host(data); }); }};
}

// Not copied; the array lives as long as a plan that reads it.
template <class Int>
using Ints = nb::ndarray<const Int, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class Int>
void numbers_of(Numbers* self, const Ints<Int>& array) {
  new (self) Numbers(array.data(), array.size(), std::make_shared<Ints<Int>>(array));
}

// In a forked child it cannot be used: the pipeline's threads do not exist there, and its locks may be held by them, so
// it is neither called nor destroyed.
class PyEpoch {
 public:
  PyEpoch(std::shared_ptr<LoadPlan> plan, uint64_t number, const Share& share, Progress* progress,
          const std::shared_ptr<LoadPlan>& source)
      : pipeline_(std::make_unique<Pipeline>(std::move(plan), number, share, progress, source)) {}
  ~PyEpoch() {
    if (!is_ours()) {
      static_cast<void>(pipeline_.release());
      return;
    }
    nb::gil_scoped_release release;  // a thread that waits for the GIL could not be joined
    pipeline_->stop();
  }

  bool is_ours() const { return process_ == process_id(); }
  Pipeline& pipeline() const {
    if (!is_ours()) fail<ArgumentError>("this iterator belongs to the parent process; call iter(loader) in the child");
    return *pipeline_;
  }

 private:
  std::unique_ptr<Pipeline> pipeline_;
  const int64_t process_ = process_id();
};

// What is sampled, and from which seeds.
void bind_graph(nb::module_& m) {
  nb::class_<Numbers>(m, "Numbers")
      .def("__init__", &numbers_of<int64_t>, nb::arg("array").noconvert())
      .def("__init__", &numbers_of<int32_t>, nb::arg("array").noconvert())
      .def_static("range", &Numbers::range, nb::arg("count"))
      .def("__len__", &Numbers::size);
  nb::class_<SampleGraph>(m, "SampleGraph")
      .def(nb::init<>())
      .def(
          "__init__",
          [](SampleGraph* self, std::shared_ptr<Topology> topology) { new (self) SampleGraph(std::move(topology)); },
          nb::arg("topology"))
      .def(
          "add_node_type",
          [](SampleGraph& self, std::string name, uint64_t num_nodes, const std::optional<Ids>& times) {
            const auto owner = times ? std::make_shared<Ids>(*times) : nullptr;
            self.add_node_type(std::move(name), num_nodes, owner ? span_of(*owner) : std::span<const int64_t>(), owner);
          },
          nb::arg("name"), nb::arg("num_nodes"), nb::arg("times").none())
      .def(
          "add_edge_type",
          [](SampleGraph& self, std::string name, std::shared_ptr<Topology> topology, const std::string& direction,
             size_t source, size_t target, std::vector<int64_t> fanouts) {
            self.add_edge_type(std::move(name), std::move(topology), parse_direction(direction), source, target,
                               std::move(fanouts));
          },
          nb::arg("name"), nb::arg("topology"), nb::arg("direction"), nb::arg("source"), nb::arg("target"),
          nb::arg("fanouts"));
  nb::class_<SeedSource>(m, "SeedSource").def("__len__", &SeedSource::count);
  m.def(
      "node_seeds",
      [](const Numbers& nodes, const std::optional<Numbers>& times, size_t type) {
        return std::const_pointer_cast<SeedSource>(node_seeds(nodes, times.value_or(Numbers{}), type));
      },
      nb::arg("nodes"), nb::arg("times").none(), nb::arg("type") = 0);
}

// Which rows are delivered with it, and how.
void bind_options(nb::module_& m) {
  nb::class_<Part>(m, "LoadPart")
      .def(
          "__init__",
          [](Part* self, const std::string& name, std::shared_ptr<FeatureFile> file, const std::string& matrix,
             bool by_edge, const std::optional<std::string>& dtype, size_t type) {
            const auto out = dtype ? std::optional(dtype_from_name(*dtype)) : std::nullopt;
            new (self) Part{name, std::move(file), matrix, by_edge, out, type};
          },
          nb::arg("name"), nb::arg("file"), nb::arg("matrix"), nb::arg("by_edge"), nb::arg("dtype") = nb::none(),
          nb::arg("type") = 0);

  nb::class_<LoadOptions>(m, "LoadOptions")
      .def(
          "__init__",
          [](LoadOptions* self, uint64_t batch_size, bool shuffle, bool drop_last, uint64_t seed, uint64_t memory,
             int prefetch, int threads, int held, const std::string& io, const std::string& cache,
             std::vector<int64_t> fanouts, bool replace, bool weighted, bool disjoint, const std::string& temporal,
             const std::string& method, const std::optional<std::string>& direction, const std::string& edge_order,
             const std::optional<uint64_t>& window, uint64_t batch_dependency, std::optional<uint64_t> device_bytes,
             bool pad_nodes) {
            new (self) LoadOptions{
                .sample = sample_options(std::move(fanouts), replace, weighted, disjoint, temporal, method, direction),
                .batch_size = batch_size,
                .shuffle = shuffle,
                .drop_last = drop_last,
                .seed = seed,
                .memory = memory,
                .prefetch = prefetch,
                .threads = threads,
                .held = held,
                .io = io_from_name(io),
                .cache = parse_choice<CacheMode>(
                    "cache", cache, {{"auto", CacheMode::kAuto}, {"on", CacheMode::kOn}, {"off", CacheMode::kOff}}),
                .edge_order = parse_choice<EdgeOrder>("edge_order", edge_order,
                                                      {{"ids", EdgeOrder::kIds}, {"file", EdgeOrder::kFile}}),
                .device_bytes = device_bytes.value_or(LoadOptions::kFreeBytes),
                .local = {}};
            self->sample.window = window;
            self->sample.dependent.batches = batch_dependency;
            self->sample.pad_nodes = pad_nodes;
          },
          nb::kw_only(), nb::arg("batch_size"), nb::arg("shuffle"), nb::arg("drop_last"), nb::arg("seed"),
          nb::arg("memory"), nb::arg("prefetch"), nb::arg("threads"), nb::arg("held"), nb::arg("io"), nb::arg("cache"),
          nb::arg("fanouts"), nb::arg("replace"), nb::arg("weighted"), nb::arg("disjoint"), nb::arg("temporal"),
          nb::arg("method"), nb::arg("direction").none(), nb::arg("edge_order"), nb::arg("window") = nb::none(),
          nb::arg("batch_dependency") = 1, nb::arg("device_bytes") = 0, nb::arg("pad_nodes") = false);

  nb::class_<Share>(m, "Share")
      .def(
          "__init__",
          [](Share* self, uint64_t rank, uint64_t world_size, const std::string& uneven, uint64_t first) {
            const auto how = parse_choice<Uneven>(
                "uneven", uneven, {{"pad", Uneven::kPad}, {"drop", Uneven::kDrop}, {"keep", Uneven::kKeep}});
            new (self) Share{rank, world_size, how, first};
          },
          nb::arg("rank") = 0, nb::arg("world_size") = 1, nb::arg("uneven") = "pad", nb::arg("first") = 0);
}

void bind_device_rows(nb::module_& m) {
  nb::class_<DeviceRows>(m, "DeviceRows")
      .def_prop_ro("rows", &DeviceRows::rows)
      .def("resize", &DeviceRows::resize, nb::arg("slots"))
      .def("confirm", &DeviceRows::confirm, nb::arg("sequence"))
      .def_prop_ro("is_mapped", &DeviceRows::is_mapped)
      .def("set_reads_host", &DeviceRows::set_reads_host, nb::arg("reads"))
      .def_prop_ro("slots", &DeviceRows::slots);
  m.def(
      "divide_slots",
      [](uint64_t bytes, const std::vector<std::array<uint64_t, 3>>& parts) {
        std::vector<SlotNeeds> needs;
        for (const auto& [rows, row_bytes, per_batch] : parts) needs.push_back({rows, row_bytes, per_batch});
        return divide_slots(bytes, needs);
      },
      nb::arg("bytes"), nb::arg("parts"), "parts: (rows, bytes of a row, rows that a batch uses) of each");
}

void bind_plan(nb::module_& m) {
  nb::class_<LoadPlan>(m, "LoadPlan")
      .def_static(
          "make",
          [](const SampleGraph& graph, std::vector<Part> parts, std::shared_ptr<SeedSource> seeds, LoadOptions options,
             const PageLockAddresses& page_lock, uint32_t local_rank, uint32_t local_world_size,
             const std::string& group, const std::vector<std::shared_ptr<LoadPlan>>& guests) {
            PyProgress interruptible{nb::none()};
            options.local = {local_rank, local_world_size, group};
            nb::gil_scoped_release release;
            return make_plan(graph, std::move(parts), std::move(seeds), options, page_lock_of(page_lock),
                             &interruptible, guests);
          },
          nb::arg("graph"), nb::arg("parts"), nb::arg("seeds"), nb::arg("options"),
          nb::arg("page_lock") = PageLockAddresses{}, nb::arg("local_rank") = 0, nb::arg("local_world_size") = 1,
          nb::arg("group") = "", nb::arg("guests") = std::vector<std::shared_ptr<LoadPlan>>{})
      .def_static(
          "outline",
          [](const SampleGraph& graph, const std::vector<Part>& parts, std::shared_ptr<SeedSource> seeds,
             const LoadOptions& options, const PageLockAddresses& page_lock) {
            nb::gil_scoped_release release;
            return make_outline(graph, parts, std::move(seeds), options, page_lock_of(page_lock));
          },
          nb::arg("graph"), nb::arg("parts"), nb::arg("seeds"), nb::arg("options"),
          nb::arg("page_lock") = PageLockAddresses{})
      .def_static(
          "estimate",
          [](const SampleGraph& graph, const std::vector<Part>& parts, std::shared_ptr<SeedSource> seeds,
             const LoadOptions& options, double reads, double bytes, uint64_t device_bytes) {
            PyProgress interruptible{nb::none()};
            Estimate found;
            {
              nb::gil_scoped_release release;
              const auto plan = make_outline(graph, parts, std::move(seeds), options, {});
              found = estimate(*plan, {reads, bytes}, device_bytes, &interruptible);
            }
            return to_python(found, parts);
          },
          nb::arg("graph"), nb::arg("parts"), nb::arg("seeds"), nb::arg("options"), nb::arg("reads_per_second"),
          nb::arg("bytes_per_second"), nb::arg("device_bytes") = 0)
      .def(
          "release",
          [](LoadPlan& plan, bool copies) {
            nb::gil_scoped_release release_gil;
            return release(plan, copies);
          },
          nb::arg("copies") = true)
      .def_prop_ro("device_rows", [](const LoadPlan& plan) { return plan.device_rows; })
      .def("serves", [](const LoadPlan& plan, const LoadPlan& guest) { return can_share_pipeline(plan, guest); })
      .def_prop_ro("held_bytes",
                   [](const LoadPlan& plan) {
                     nb::gil_scoped_release release;
                     const std::lock_guard lock(plan.mutex);
                     return held_bytes(plan);
                   })
      .def_prop_ro("info", [](const LoadPlan& plan) { return to_python(plan); });
}

void bind_epoch(nb::module_& m) {
  nb::class_<PyEpoch>(m, "LoadEpoch")
      .def(
          "__init__",
          [](PyEpoch* self, std::shared_ptr<LoadPlan> plan, uint64_t epoch, const Share& share,
             const std::shared_ptr<LoadPlan>& source) {
            PyProgress interruptible{nb::none()};
            nb::gil_scoped_release release;  // files that fit may be read first
            new (self) PyEpoch(std::move(plan), epoch, share, &interruptible, source);
          },
          nb::arg("plan"), nb::arg("epoch"), nb::arg("share"), nb::arg("source") = nb::none())
      .def("next",
           [](PyEpoch& self) -> std::optional<nb::dict> {
             LoadedBatch batch;
             Pipeline& pipeline = self.pipeline();
             for (;;) {
               const Pipeline::State state = without_gil([&] { return pipeline.next(batch, kPatienceMs); });
               if (state == Pipeline::State::kEnd) return std::nullopt;
               if (state == Pipeline::State::kReady) return to_python(batch);
               if (PyErr_CheckSignals() != 0) throw nb::python_error();
             }
           })
      .def("is_ready", [](PyEpoch& self) { return without_gil([&] { return self.pipeline().is_ready(); }); })
      .def("stop",
           [](PyEpoch& self) {
             if (!self.is_ours()) return;
             nb::gil_scoped_release release;
             self.pipeline().stop();
           })
      .def(
          "expect",
          [](PyEpoch& self, std::shared_ptr<LoadPlan> plan, uint64_t epoch, const Share& share) {
            return self.pipeline().expect(std::move(plan), epoch, share);
          },
          nb::arg("plan"), nb::arg("epoch"), nb::arg("share"))
      .def(
          "continue_with",
          [](PyEpoch& self, const LoadPlan& plan, uint64_t epoch, const Share& share) {
            if (!self.is_ours()) return false;
            nb::gil_scoped_release release;
            return self.pipeline().continue_with(plan, epoch, share);
          },
          nb::arg("plan"), nb::arg("epoch"), nb::arg("share"))
      .def_prop_ro("has_next_epoch", [](const PyEpoch& self) { return self.pipeline().has_next_epoch(); })
      .def_prop_ro("info", [](const PyEpoch& self) { return to_python(self.pipeline().plan()); })
      .def_prop_ro("stats", [](const PyEpoch& self) { return to_python(self.pipeline().stats()); });
}

}  // namespace

void bind_load(nb::module_& m) {
  bind_graph(m);
  bind_options(m);
  bind_device_rows(m);
  bind_plan(m);
  bind_epoch(m);
  m.def(
      "swept_seconds",  // if batches share no rows
      [](double bytes, double rows, uint64_t window, double reads_per_second, double bytes_per_second) {
        const uint64_t batches = std::max<uint64_t>(window, 1);
        return swept_seconds(bytes, rows, rows * static_cast<double>(batches), batches,
                             {reads_per_second, bytes_per_second});
      },
      nb::arg("bytes"), nb::arg("rows"), nb::arg("window"), nb::arg("reads_per_second"), nb::arg("bytes_per_second"));
  m.def(
      "check_load",
      [](const SampleGraph& graph, const std::vector<Part>& parts, const SeedSource& seeds,
         const LoadOptions& options) {
        nb::gil_scoped_release release;
        check_load(graph, parts, seeds, options);
      },
      nb::arg("graph"), nb::arg("parts"), nb::arg("seeds"), nb::arg("options"));
  m.def(
      "check_view",
      [](uintptr_t address, const std::string& what) {
        if (!Mapping::damaged_at(reinterpret_cast<const void*>(address))) return;
        throw StorageError(text(what,
                                " is a view of a file with a page that could not be read: the file was truncated by "
                                "another process or the disk failed. Restore the file and open it again"),
                           EIO, what);
      },
      nb::arg("address"), nb::arg("what"));
  m.def("count_batches", &count_batches, nb::arg("count"), nb::arg("batch_size"), nb::arg("drop_last"));
  m.def("count_share", &count_share, nb::arg("batches"), nb::arg("share"));
}

}  // namespace gz::bindings

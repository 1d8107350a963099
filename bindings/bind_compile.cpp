// bind_compile: the graph builder and the feature writer, with input from arrays, text and files.
#include <nanobind/stl/tuple.h>

#include <algorithm>
#include <tuple>

#include "base/checked.h"
#include "base/error.h"
#include "base/threads.h"
#include "bindings.h"
#include "compile/build/graph_builder.h"
#include "compile/text/edge_text.h"
#include "compile/text/row_text.h"
#include "compile/write/container_writer.h"

namespace gz::bindings {
namespace {

using AnyVector = nb::ndarray<nb::ro, nb::ndim<1>, nb::device::cpu>;
using Floats = nb::ndarray<const float, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

IdColumn id_column(const AnyVector& ids) {
  using Type = IdColumn::Type;
  IdColumn column{ids.data(), static_cast<ptrdiff_t>(ids.stride(0)), Type::kInt64};
  if (ids.dtype() == nb::dtype<int64_t>()) return column;
  if (ids.dtype() == nb::dtype<uint64_t>()) return column.type = Type::kUInt64, column;
  if (ids.dtype() == nb::dtype<int32_t>()) return column.type = Type::kInt32, column;
  if (ids.dtype() == nb::dtype<uint32_t>()) return column.type = Type::kUInt32, column;
  fail<ArgumentError>("ids must be int32, int64, uint32 or uint64");
}

// A builder with the progress it reports to.
class PyGraphBuilder {
 public:
  PyGraphBuilder(const GraphOptions& options, nb::object progress)
      : progress_(std::move(progress)), builder(options, &progress_) {}

 private:
  PyProgress progress_;

 public:
  GraphBuilder builder;
};

nb::dict as_dict(const GraphReport& r) {
  nb::dict d;
  d["nodes"] = r.nodes;
  d["targets"] = r.targets;
  d["edges"] = r.edges;
  d["source_edges"] = r.source_edges;
  d["bytes"] = r.bytes;
  d["spilled_bytes"] = r.spilled_bytes;
  d["peak_bytes"] = r.peak_bytes;
  d["duplicates_dropped"] = r.duplicates_dropped;
  d["self_loops_dropped"] = r.self_loops_dropped;
  d["reading"] = r.reading_seconds;
  d["sorting"] = r.sorting_seconds;
  d["publishing"] = r.publishing_seconds;
  return d;
}

// For each side: its file, bits of buckets, largest neighbour, and (shift, bytes of a key, bits of a neighbour, packed,
// offsets of the columns, offsets of the buckets) of every run.
nb::list as_list(const std::vector<EdgeRuns::Side>& sides) {
  nb::list all;
  for (const EdgeRuns::Side& side : sides) {
    nb::list runs;
    for (const Run& run : side.runs) {
      const Result<uint64_t> offsets(run.offsets->size());
      std::copy(run.offsets->begin(), run.offsets->end(), offsets.data);
      runs.append(nb::make_tuple(run.shift, run.keys.bytes, run.keys.neighbour_bits, run.keys.packed, run.at,
                                 offsets.array({run.offsets->size()})));
    }
    all.append(nb::make_tuple(side.path, side.bucket_bits, side.largest_neighbour, runs));
  }
  return all;
}

nb::tuple as_tuple(const EdgeTextReport& r) { return nb::make_tuple(r.lines, r.skipped, r.examples); }

void bind_edge_text(nb::module_& m) {
  nb::class_<EdgeTextOptions>(m, "EdgeTextOptions")
      .def(
          "__init__",
          [](EdgeTextOptions* self, std::string name, const std::string& delimiter, int width, int src, int dst,
             int weight, int time, bool guessed_weight, uint64_t begin, uint64_t lines_before, bool skip_errors) {
            if (delimiter.size() != 1) fail<ArgumentError>("delimiter must be one byte");
            new (self) EdgeTextOptions{std::move(name), delimiter[0], width,        src,        dst, weight, time,
                                       guessed_weight,  begin,        lines_before, skip_errors};
          },
          nb::arg("name"), nb::arg("delimiter"), nb::arg("width"), nb::arg("src"), nb::arg("dst"), nb::arg("weight"),
          nb::arg("time"), nb::arg("guessed_weight"), nb::arg("begin"), nb::arg("lines_before"),
          nb::arg("skip_errors"));
  nb::class_<EdgeTextStream>(m, "EdgeTextStream")
      .def("feed",
           [](EdgeTextStream& s, const nb::bytes& block, uint64_t units) {
             const std::string_view text(block.c_str(), block.size());
             nb::gil_scoped_release release;
             s.feed(text, units);
           })
      .def("finish", [](EdgeTextStream& s) {
        const EdgeTextReport report = without_gil([&] { return s.finish(); });
        return as_tuple(report);
      });
}

EdgeBlock edge_block(const AnyVector& src, const AnyVector& dst, const std::optional<Floats>& weights,
                     const std::optional<Ids>& times, const std::optional<Ids>& edge_ids) {
  const size_t n = src.size();
  if (dst.size() != n || (weights && weights->size() != n) || (times && times->size() != n) ||
      (edge_ids && edge_ids->size() != n)) {
    fail<InputError>("a block of edges has ", n, " sources, ", dst.size(), " targets",
                     weights ? text(", ", weights->size(), " weights") : "",
                     times ? text(", ", times->size(), " times") : "",
                     edge_ids ? text(", ", edge_ids->size(), " edge ids") : "", "; lengths must match");
  }
  EdgeBlock block;
  block.count = n;
  block.src = id_column(src);
  block.dst = id_column(dst);
  block.weights = weights ? weights->data() : nullptr;
  block.times = times ? times->data() : nullptr;
  block.edge_ids = edge_ids ? edge_ids->data() : nullptr;
  return block;
}

void bind_graph_builder(nb::module_& m) {
  nb::class_<PyGraphBuilder>(m, "GraphBuilder")
      .def(
          "__init__",
          [](PyGraphBuilder* self, bool directed, const std::string& direction, bool weights, bool times, bool edge_ids,
             bool given_edge_ids, std::optional<uint64_t> num_nodes, bool two_sided,
             std::optional<uint64_t> num_targets, bool dedup, bool self_loops, uint64_t id_base, uint64_t memory,
             int threads, std::string spill_folder, nb::object progress, uint64_t first_edge, std::string runs_path) {
            GraphOptions options;
            options.directed = directed;
            options.direction = parse_choice<Direction>(
                "direction", direction, {{"out", Direction::kOut}, {"in", Direction::kIn}, {"both", Direction::kBoth}});
            options.weights = weights;
            options.times = times;
            options.edge_ids = edge_ids;
            options.own_numbers = given_edge_ids;
            options.num_nodes = num_nodes;
            options.two_sided = two_sided;
            options.num_targets = num_targets;
            options.dedup = dedup;
            options.self_loops = self_loops;
            options.id_base = id_base;
            options.memory = memory;
            options.threads = resolve_threads(threads);
            options.spill_folder = std::move(spill_folder);
            options.first_edge = first_edge;
            options.runs_path = std::move(runs_path);
            new (self) PyGraphBuilder(options, std::move(progress));
          },
          nb::kw_only(), nb::arg("directed"), nb::arg("direction"), nb::arg("weights"), nb::arg("times"),
          nb::arg("edge_ids"), nb::arg("given_edge_ids") = false, nb::arg("num_nodes").none(),
          nb::arg("two_sided") = false, nb::arg("num_targets") = nb::none(), nb::arg("dedup"), nb::arg("self_loops"),
          nb::arg("id_base"), nb::arg("memory"), nb::arg("threads"), nb::arg("spill_folder"),
          nb::arg("progress").none(), nb::arg("first_edge") = 0, nb::arg("runs_path") = "")
      .def("declare_nodes", [](PyGraphBuilder& self, uint64_t count) { self.builder.declare_nodes(count); })
      .def("expect", [](PyGraphBuilder& self, uint64_t total) { self.builder.expect(total); })
      .def_prop_ro("edges_seen", [](const PyGraphBuilder& self) { return self.builder.edges_seen(); })
      .def(
          "add",
          [](PyGraphBuilder& self, const AnyVector& src, const AnyVector& dst, const std::optional<Floats>& weights,
             const std::optional<Ids>& times, uint64_t units, const std::optional<Ids>& edge_ids) {
            const EdgeBlock block = edge_block(src, dst, weights, times, edge_ids);
            nb::gil_scoped_release release;
            self.builder.add(block, units);
          },
          nb::arg("src"), nb::arg("dst"), nb::arg("weights").none(), nb::arg("times").none(), nb::arg("units"),
          nb::arg("edge_ids") = nb::none())
      .def("read_text",
           [](PyGraphBuilder& self, const std::string& path, const EdgeTextOptions& options) {
             const EdgeTextReport report = without_gil([&] { return read_edge_file(self.builder, path, options); });
             return as_tuple(report);
           })
      .def(
          "text_stream",
          [](PyGraphBuilder& self, const EdgeTextOptions& options) { return EdgeTextStream(self.builder, options); },
          nb::keep_alive<0, 1>())
      .def("finish",
           [](PyGraphBuilder& self, const std::string& path) {
             const GraphReport report = without_gil([&] { return self.builder.finish(path); });
             return as_dict(report);
           })
      .def("finish_runs", [](PyGraphBuilder& self) {
        const EdgeRuns runs = without_gil([&] { return self.builder.finish_runs(); });
        nb::dict d = as_dict(runs.report);
        d["sides"] = as_list(runs.sides);
        return d;
      });
}

using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

std::span<const std::byte> bytes_of(const AnyArray& array) {
  return {static_cast<const std::byte*>(array.data()), array.nbytes()};
}

// A feature file under construction. discard() removes it immediately: an exception may keep the Python object alive.
class PyFeatureWriter {
 public:
  PyFeatureWriter(const std::string& path, uint64_t num_nodes, const std::vector<DeclaredArray>& arrays,
                  nb::object progress, bool reserve)
      : progress_(std::move(progress)),
        writer_(std::make_unique<ContainerWriter>(path, feature_container(num_nodes, arrays), kStaging, reserve)) {}

  ContainerWriter& open() {
    if (!writer_) fail<ArgumentError>("the file was finished or discarded");
    return *writer_;
  }
  PyProgress* progress() { return &progress_; }
  void discard() { writer_.reset(); }

 private:
  static constexpr size_t kStaging = size_t{1} << 20;

  PyProgress progress_;
  std::unique_ptr<ContainerWriter> writer_;
};

void bind_feature_writer(nb::module_& m) {
  nb::class_<PyFeatureWriter>(m, "FeatureWriter")
      .def(nb::init<const std::string&, uint64_t, const std::vector<DeclaredArray>&, nb::object, bool>(),
           nb::arg("path"), nb::arg("num_nodes"), nb::arg("arrays"), nb::arg("progress").none() = nb::none(),
           nb::arg("reserve") = true)
      .def("append",
           [](PyFeatureWriter& w, size_t index, const AnyArray& rows) {
             nb::gil_scoped_release release;
             w.open().append(index, bytes_of(rows));
           })
      .def("write",
           [](PyFeatureWriter& w, size_t index, uint64_t first_row, const AnyArray& rows) {
             nb::gil_scoped_release release;
             ContainerWriter& writer = w.open();
             const auto at = checked_mul(first_row, writer.container().arrays.at(index).row_bytes());
             if (!at) fail<ArgumentError>("row ", first_row, " is out of range");
             writer.write(index, *at, bytes_of(rows));
           })
      .def("append_file",
           [](PyFeatureWriter& w, size_t index, const std::string& path, uint64_t offset, uint64_t bytes) {
             nb::gil_scoped_release release;
             w.open().append_file(index, File::open(path), offset, bytes, w.progress());
           })
      .def("grow_last",
           [](PyFeatureWriter& w, uint64_t rows) {
             nb::gil_scoped_release release;
             w.open().grow_last(rows);
           })
      .def("shrink_last",
           [](PyFeatureWriter& w, uint64_t rows) {
             nb::gil_scoped_release release;
             ContainerWriter& writer = w.open();
             const ContainerWriter::Rows last{writer.container().arrays.size() - 1, rows};
             writer.shrink({&last, 1}, rows, 0);
           })
      .def("report", [](PyFeatureWriter& w, const std::string& phase, uint64_t done,
                        uint64_t total) { w.progress()->report(phase.c_str(), done, total); })
      .def(
          "finish",
          [](PyFeatureWriter& w, int threads) {
            nb::gil_scoped_release release;
            const uint64_t bytes = w.open().finish(resolve_threads(threads), w.progress());
            w.discard();
            return bytes;
          },
          nb::arg("threads") = 0)
      .def("discard", &PyFeatureWriter::discard);
}

void bind_row_text(nb::module_& m) {
  nb::class_<RowTextOptions>(m, "RowTextOptions")
      .def(
          "__init__",
          [](RowTextOptions* self, std::string name, const std::string& delimiter, uint64_t begin,
             uint64_t lines_before, uint64_t id_base, std::optional<uint64_t> id_limit, std::optional<uint64_t> find,
             bool skip_errors, int threads, uint64_t memory) {
            if (delimiter.size() != 1) fail<ArgumentError>("delimiter must be one byte");
            new (self) RowTextOptions();
            self->name = std::move(name);
            self->delimiter = delimiter[0];
            self->begin = begin;
            self->lines_before = lines_before;
            self->id_base = id_base;
            self->id_limit = id_limit.value_or(self->id_limit);
            self->find = find;
            self->skip_errors = skip_errors;
            self->threads = resolve_threads(threads);
            const uint64_t share = memory / static_cast<uint64_t>(self->threads) / 16;
            self->chunk_bytes = static_cast<size_t>(std::clamp<uint64_t>(share, 16 << 10, 1 << 20));
          },
          nb::kw_only(), nb::arg("name"), nb::arg("delimiter"), nb::arg("begin"), nb::arg("lines_before"),
          nb::arg("id_base"), nb::arg("id_limit").none(), nb::arg("find").none(), nb::arg("skip_errors"),
          nb::arg("threads"), nb::arg("memory"));
  nb::class_<RowText>(m, "RowText")
      .def(nb::init<RowTextOptions>())
      .def(
          "__init__",
          [](RowText* self, const RowTextOptions& options, PyFeatureWriter& writer, size_t index) {
            new (self) RowText(options, writer.open(), index, writer.progress());
          },
          nb::keep_alive<1, 3>())
      .def("read_file",
           [](RowText& t, const std::string& path) {
             nb::gil_scoped_release release;
             t.read_file(path);
           })
      .def("feed",
           [](RowText& t, const nb::bytes& block) {
             const std::string_view text(block.c_str(), block.size());
             nb::gil_scoped_release release;
             t.feed(text);
           })
      .def("finish", [](RowText& t) {
        const RowTextReport r = without_gil([&] { return t.finish(); });
        nb::dict d;
        d["lines"] = r.lines;
        d["rows"] = r.rows;
        d["skipped"] = r.skipped;
        d["num_nodes"] = r.num_nodes;
        d["duplicate"] = r.duplicate;
        d["examples"] = r.examples;
        return d;
      });
}

}  // namespace

Container feature_container(uint64_t num_nodes, const std::vector<DeclaredArray>& arrays) {
  Container container;
  container.kind = Kind::kFeatures;
  container.num_nodes = num_nodes;
  for (const auto& [name, dtype, shape] : arrays) {
    ArrayInfo array;
    array.name = name;
    array.dtype = dtype_from_name(dtype);
    array.shape = shape;
    container.arrays.push_back(std::move(array));
  }
  return container;
}

void bind_compile(nb::module_& m) {
  bind_edge_text(m);
  bind_graph_builder(m);
  bind_feature_writer(m);
  bind_row_text(m);
}

}  // namespace gz::bindings

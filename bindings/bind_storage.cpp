// bind_storage: mounted files, topology and features as views, verify.
#include "base/ids.h"
#include "base/threads.h"
#include "bindings.h"
#include "storage/features.h"
#include "storage/merged_rows.h"
#include "storage/page_requests.h"
#include "storage/residency.h"
#include "storage/topology.h"
#include "storage/verify.h"

namespace gz::bindings {

Direction parse_direction(const std::optional<std::string>& name) {
  if (!name) return Direction::kNone;
  return parse_choice<Direction>("direction", *name, {{"out", Direction::kOut}, {"in", Direction::kIn}});
}

namespace {

uint64_t checked_node(int64_t node, uint64_t count, const std::string& path) {
  check_id(node, "node", {count, "nodes", path});
  return static_cast<uint64_t>(node);
}

// A view of elements [begin, begin + count) of an array, over the users' copy-on-write mapping. Its last byte is
// touched: a truncated file is short at the end, so the call raises instead of returning zeros.
Array view(const MountedFile& file, const ArrayInfo& array, uint64_t begin, uint64_t count, nb::dlpack::dtype dtype) {
  auto mapping = file.user_mapping();
  const uint32_t width = dtype_bytes(array.dtype);
  std::byte* data = mapping->writable() + array.offset + begin * width;
  if (count > 0) static_cast<void>(*const_cast<volatile std::byte*>(data + count * width - 1));
  file.check();
  return array_over(data, {static_cast<size_t>(count)}, dtype, mapping);
}

// Ids and positions as signed integers if they fit: torch supports only int32 and int64 indices.
nb::dlpack::dtype shown_dtype(const Topology& topology, const ArrayInfo& array) {
  if (array.dtype == DType::kUInt64) return nb::dtype<int64_t>();  // all are below 2^62
  const bool fits = array.name.ends_with(".indices") &&
                    std::max(topology.num_sources(), topology.num_targets()) <= (uint64_t{1} << 31);
  return fits ? nb::dtype<int32_t>() : dlpack_dtype(array.dtype);
}

Array row_view(const Topology& topology, int64_t node, const std::optional<std::string>& direction,
               const std::string& what) {
  const Direction d = topology.resolve(parse_direction(direction));
  const MountedFile& file = topology.file();
  const uint64_t id = checked_node(node, topology.num_rows(d), file.path());
  const std::string name = (d == Direction::kOut ? "out." : "in.") + what;
  const ArrayInfo* array = file.container().find(name);
  if (array == nullptr) {
    fail<ArgumentError>(file.path(), ": no array '", name, "'; compile the graph with ", what);
  }
  uint64_t begin = 0, end = 0;
  topology.visit(d, [&](const auto& csr) {
    const auto row = csr.row(id);
    begin = row.begin;
    end = row.end;
  });
  return view(file, *array, begin, end - begin, shown_dtype(topology, *array));
}

const ArrayInfo& array_named(const Topology& topology, const std::string& name) {
  const ArrayInfo* array = topology.file().container().find(name);
  if (array == nullptr) fail<ArgumentError>(topology.file().path(), ": no array '", name, "'");
  return *array;
}

// The length of an array as a file without deltas has it.
uint64_t rows_of(const Topology& topology, const ArrayInfo& array) {
  if (array.name == "out.indptr") return topology.num_sources() + 1;
  if (array.name == "in.indptr") return topology.num_targets() + 1;
  return by_position(array.name, topology.direction()) ? topology.num_edges() : array.rows();
}

// Elements [begin, end) of an array, as a file without deltas has it: a view, or with deltas a copy.
Array part_of(const Topology& topology, const ArrayInfo& array, uint64_t begin, uint64_t end) {
  const MountedFile& file = topology.file();
  const bool out = array.name.starts_with("out."), indptr = array.name.ends_with(".indptr");
  const auto dtype = shown_dtype(topology, array);
  if (!file.composed() || (!indptr && !by_position(array.name, topology.direction()))) {
    return view(file, array, begin, end - begin, dtype);
  }
  const uint64_t count = end - begin, width = dtype_bytes(array.dtype);
  const auto buffer = take_buffer(std::max<uint64_t>(count * width, 1));
  {
    WithoutGil work;
    topology.visit(out ? Direction::kOut : Direction::kIn, [&](const auto& csr) {
      parallel_for(count, size_t{1} << 20, default_threads(), [&](size_t from, size_t to, int) {
        if (indptr) {
          for (size_t i = from; i < to; ++i) buffer->template as<uint64_t>()[i] = csr.start_of(begin + i);
        } else {
          copy_places(csr, file.bytes_of(array).data(), width, begin + from, begin + to, buffer->data() + from * width);
        }
      });
    });
    file.check();
  }
  return array_over(buffer->data(), {static_cast<size_t>(count)}, dtype, buffer);
}

nb::dict info(const MountedFile& file) {
  const Container& c = file.container();
  nb::dict d;
  d["path"] = file.path();
  d["kind"] = c.kind == Kind::kTopology ? "topology" : "features";
  d["version"] = std::to_string(c.major) + "." + std::to_string(c.minor);
  d["legacy"] = file.legacy();
  uint64_t bytes = file.own_bytes();
  nb::list deltas;
  for (const auto& delta : file.deltas()) {
    bytes += delta->own_bytes();
    deltas.append(delta->path());
  }
  d["deltas"] = deltas;
  d["file_bytes"] = bytes;
  d["num_nodes"] = c.num_nodes;
  d["num_sources"] = c.sources();
  d["num_targets"] = c.targets();
  d["num_edges"] = c.num_edges;
  d["direction"] = direction_name(c.direction);
  d["sorted_rows"] = (c.properties & kSortedRows) != 0;
  d["undirected"] = (c.properties & kUndirected) != 0;
  d["deduplicated"] = (c.properties & kDeduplicated) != 0;
  d["self_loops"] = (c.properties & kNoSelfLoops) == 0;
  nb::list arrays;
  for (const ArrayInfo& a : c.arrays) {
    nb::dict row;
    row["name"] = a.name;
    row["dtype"] = dtype_name(a.dtype);
    nb::list shape;
    // With deltas, positions have gaps, and arrays are in several files.
    const bool positions = file.composed() && c.kind == Kind::kTopology && by_position(a.name, c.direction);
    for (const uint64_t extent : a.shape) shape.append(positions ? c.num_edges : extent);
    row["shape"] = nb::tuple(shape);
    row["offset"] = file.composed() ? nb::none() : nb::cast(a.offset);
    row["bytes"] = a.bytes;
    arrays.append(row);
  }
  d["arrays"] = arrays;
  return d;
}

void load_whole(const MountedFile& file, int threads, nb::object progress) {
  PyProgress report(std::move(progress));
  nb::gil_scoped_release release;
  preload(file, threads, &report);
}

void bind_topology(nb::module_& m) {
  nb::class_<Topology>(m, "Topology")
      .def_static(
          "open",
          [](const std::string& path, const std::vector<std::string>& deltas) {
            nb::gil_scoped_release release;
            return Topology::open(path, deltas);
          },
          nb::arg("path"), nb::arg("deltas") = std::vector<std::string>())
      .def_prop_ro("num_nodes", &Topology::num_nodes)
      .def_prop_ro("num_edges", &Topology::num_edges)
      .def_prop_ro("info", [](const Topology& t) { return info(t.file()); })
      .def("check", [](const Topology& t) { t.file().check(); })
      .def(
          "preload", [](const Topology& t, int threads, nb::object p) { load_whole(t.file(), threads, std::move(p)); },
          nb::arg("threads") = 0, nb::arg("progress") = nb::none())
      .def(
          "degree",
          [](const Topology& t, int64_t node, const std::optional<std::string>& direction) {
            const Direction d = parse_direction(direction);
            const uint64_t id = checked_node(node, t.num_rows(d), t.file().path());
            const uint64_t degree = t.visit(d, [&](const auto& csr) { return csr.row(id).degree(); });
            t.file().check();
            return degree;
          },
          nb::arg("node"), nb::arg("direction") = nb::none())
      .def(
          "degrees",
          [](const Topology& t, const std::optional<Ids>& ids, const std::optional<std::string>& direction) {
            const Direction d = parse_direction(direction);
            const uint64_t nodes = t.num_rows(d);
            const size_t count = ids ? ids->size() : static_cast<size_t>(nodes);
            Result<int64_t> out(count);
            {
              WithoutGil work;
              if (ids) check_ids({ids->data(), count}, "ids", {nodes, "nodes", t.file().path()});
              t.visit(d, [&](const auto& csr) {
                parallel_for(count, size_t{1} << 14, default_threads(), [&](size_t begin, size_t end, int) {
                  for (size_t i = begin; i < end; ++i) {
                    const uint64_t node = ids ? static_cast<uint64_t>(ids->data()[i]) : i;
                    out.data[i] = static_cast<int64_t>(csr.row(node).degree());
                  }
                });
              });
              t.file().check();
            }
            return out.array({count});
          },
          nb::arg("ids") = nb::none(), nb::arg("direction") = nb::none())
      .def("row", &row_view, nb::arg("node"), nb::arg("direction") = nb::none(), nb::arg("what") = "indices")
      .def("array",
           [](const Topology& t, const std::string& name) {
             const ArrayInfo& array = array_named(t, name);
             t.file().check_size();
             return part_of(t, array, 0, rows_of(t, array));
           })
      // Elements [begin, end) of that array, which need not be held as a whole if there are deltas.
      .def(
          "part",
          [](const Topology& t, const std::string& name, uint64_t begin, uint64_t end) {
            const ArrayInfo& array = array_named(t, name);
            if (begin > end || end > rows_of(t, array)) {
              fail<IndexError>(name, "[", begin, ":", end, "] is out of range for ", t.file().path());
            }
            return part_of(t, array, begin, end);
          },
          nb::arg("name"), nb::arg("begin"), nb::arg("end"));
}

// The address of a matrix in the engine's own mapping and its bytes, if nearly all of its pages are in RAM; else None.
std::optional<std::pair<uintptr_t, uint64_t>> rows_in_ram(const FeatureFile& f, const std::string& name) {
  const Matrix& x = f.matrix(name);
  const uint64_t bytes = x.rows * x.row_bytes;
  if (bytes == 0 || f.file().composed()) return std::nullopt;
  const auto cached = without_gil([&] { return cached_bytes(f.file(), x.offset, bytes); });
  if (!cached || static_cast<double>(*cached) < kResident * static_cast<double>(bytes)) return std::nullopt;
  return std::pair{reinterpret_cast<uintptr_t>(x.data), bytes};
}

void bind_features(nb::module_& m) {
  nb::class_<Matrix>(m, "Matrix")
      .def_ro("name", &Matrix::name)
      .def_ro("rows", &Matrix::rows)
      .def_ro("columns", &Matrix::columns)
      .def_ro("is_vector", &Matrix::is_vector)
      .def_prop_ro("dtype", [](const Matrix& x) { return dtype_name(x.dtype); })
      .def_prop_ro("scaled", [](const Matrix& x) { return x.scale != nullptr; });
  nb::class_<FeatureFile>(m, "FeatureFile")
      .def_static(
          "open",
          [](const std::string& path, const std::vector<std::string>& deltas) {
            nb::gil_scoped_release release;
            return FeatureFile::open(path, deltas);
          },
          nb::arg("path"), nb::arg("deltas") = std::vector<std::string>())
      .def_prop_ro("num_nodes", &FeatureFile::num_nodes)
      .def_prop_ro("info", [](const FeatureFile& f) { return info(f.file()); })
      .def_prop_ro("matrices", [](const FeatureFile& f) { return f.matrices(); })
      .def("check", [](const FeatureFile& f) { f.file().check(); })
      .def(
          "preload",
          [](const FeatureFile& f, int threads, nb::object p) { load_whole(f.file(), threads, std::move(p)); },
          nb::arg("threads") = 0, nb::arg("progress") = nb::none())
      .def("view",
           [](const FeatureFile& f, const std::string& name) {
             const Matrix& x = f.matrix(name);
             f.file().check_size();
             f.file().check();
             auto mapping = f.file().user_mapping();
             return rows_array(mapping->writable() + x.offset, x.rows, x.columns, x.is_vector, x.dtype, mapping);
           })
      .def("rows_in_ram", &rows_in_ram, nb::arg("name"))
      .def("row",
           [](const FeatureFile& f, const std::string& name, int64_t node) {
             const Matrix& x = f.matrix(name);
             const uint64_t row = checked_node(node, x.rows, f.file().path());
             const ArrayInfo* array = f.file().container().find(name);
             return view(f.file(), *array, row * x.columns, x.columns, dlpack_dtype(x.dtype));
           })
      .def("scale", [](const FeatureFile& f, const std::string& name) -> std::optional<Array> {
        const Container& c = f.file().container();
        const ArrayInfo* scale = c.scale_of(*c.find(f.matrix(name).name));
        if (scale == nullptr) return std::nullopt;
        return view(f.file(), *scale, 0, scale->rows(), nb::dtype<float>());
      });
}

}  // namespace

void bind_storage(nb::module_& m) {
  bind_topology(m);
  bind_features(m);
  m.def("file_info", [](const std::string& path) {
    const std::shared_ptr<const MountedFile> file = without_gil([&] { return MountedFile::open(path); });
    return info(*file);
  });
  m.def(
      "verify",
      [](const std::string& path, int threads, nb::object progress, const std::vector<std::string>& deltas) {
        PyProgress report(std::move(progress));
        const VerifyReport r = without_gil([&] {
          auto file = MountedFile::open(path);
          if (!deltas.empty()) file = MountedFile::open(path, file->container().kind, deltas);
          return verify(file, resolve_threads(threads), &report);
        });
        nb::dict d;
        d["bytes"] = r.bytes;
        d["arrays"] = r.arrays;
        d["seconds"] = r.seconds;
        d["checksummed"] = r.checksummed;
        return d;
      },
      nb::arg("path"), nb::arg("threads") = 0, nb::arg("progress") = nb::none(),
      nb::arg("deltas") = std::vector<std::string>());
}

}  // namespace gz::bindings

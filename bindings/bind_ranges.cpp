// bind_ranges: one container written by many processes: its creation and publishing, and ranges of its arrays.
#include <nanobind/stl/tuple.h>

#include <cstring>
#include <tuple>

#include "base/error.h"
#include "base/threads.h"
#include "bindings.h"
#include "compile/build/graph_layout.h"
#include "compile/build/row_range.h"
#include "compile/write/container_writer.h"
#include "compile/write/range_writer.h"

namespace gz::bindings {
namespace {

using AnyArray = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;
using Sums = nb::ndarray<const uint32_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;
using Offsets = nb::ndarray<const uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::span<const std::byte> bytes_of(const nb::bytes& bytes) {
  return {reinterpret_cast<const std::byte*>(bytes.c_str()), bytes.size()};
}

// For each range: (name, CRCs and lengths of pieces of blocks, [(offset in the array, bytes)]).
nb::list as_list(std::span<const std::string> names, const std::vector<RangeWriter::Written>& written) {
  nb::list all;
  for (size_t i = 0; i < written.size(); ++i) {
    const Result<uint32_t> sums(2 * written[i].sums.size());
    std::memcpy(sums.data, written[i].sums.data(), written[i].sums.size() * sizeof(BlockSum));
    nb::list fragments;
    for (const RangeWriter::Fragment& f : written[i].fragments) {
      fragments.append(nb::make_tuple(f.at, nb::bytes(f.bytes.data(), f.bytes.size())));
    }
    all.append(nb::make_tuple(names[i], sums.array({written[i].sums.size(), 2}), fragments));
  }
  return all;
}

// A file under construction whose arrays are written by other processes. discard() removes it immediately.
class SharedFile {
 public:
  SharedFile(const std::string& path, Container container)
      : writer_(std::make_unique<ContainerWriter>(path, std::move(container))) {}
  ContainerWriter& open() {
    if (!writer_) fail<ArgumentError>("the file was finished or discarded");
    return *writer_;
  }
  void discard() { writer_.reset(); }

 private:
  std::unique_ptr<ContainerWriter> writer_;
};

void bind_shared_file(nb::module_& m) {
  nb::class_<SharedFile>(m, "SharedFile")
      .def_static("graph", [](const std::string& path,
                              const GraphShape& shape) { return SharedFile(path, lay_out_graph(shape).container); })
      .def_static("features",
                  [](const std::string& path, uint64_t num_nodes, const std::vector<DeclaredArray>& arrays) {
                    return SharedFile(path, feature_container(num_nodes, arrays));
                  })
      .def_prop_ro("temporary", [](SharedFile& f) { return f.open().temporary(); })
      .def_prop_ro("arrays",
                   [](SharedFile& f) {
                     nb::list all;
                     for (const ArrayInfo& a : f.open().container().arrays) {
                       all.append(nb::make_tuple(a.name, a.offset, a.bytes));
                     }
                     return all;
                   })
      .def("put",
           [](SharedFile& f, const std::string& name, uint64_t at, const nb::bytes& bytes) {
             ContainerWriter& writer = f.open();
             writer.write_scattered(writer.index_of(name), at, bytes_of(bytes));
           })
      .def("seal",
           [](SharedFile& f, const std::string& name, const Sums& sums) {
             ContainerWriter& writer = f.open();
             std::vector<BlockSum> all(sums.shape(0));
             if (!all.empty()) std::memcpy(all.data(), sums.data(), all.size() * sizeof(BlockSum));
             uint64_t bytes = 0;
             for (const BlockSum& sum : all) bytes += sum.bytes;
             const size_t index = writer.index_of(name);
             if (const uint64_t expected = writer.container().arrays[index].bytes; bytes != expected) {
               fail<ArgumentError>(writer.target(), ": ", bytes, " bytes of '", name, "' were written, expected ",
                                   expected);
             }
             writer.set_digest(index, digest_of(all));
           })
      .def("finish",
           [](SharedFile& f) {
             nb::gil_scoped_release release;
             const uint64_t bytes = f.open().finish();
             f.discard();
             return bytes;
           })
      .def("discard", &SharedFile::discard);
}

// A RangeWriter with the names of its arrays.
class PyRangeWriter {
 public:
  using Declared = std::tuple<std::string, uint64_t, uint64_t, uint64_t>;  // name, offset, begin, end
  PyRangeWriter(const std::string& path, const std::vector<Declared>& ranges, size_t staging_bytes) {
    std::vector<RangeWriter::Range> all;
    for (const auto& [name, offset, begin, end] : ranges) {
      names.push_back(name);
      all.push_back({name, offset, begin, end});
    }
    writer = std::make_unique<RangeWriter>(path, std::move(all), staging_bytes);
  }
  std::vector<std::string> names;
  std::unique_ptr<RangeWriter> writer;
};

using PyRun = std::tuple<std::string, uint32_t, uint32_t, uint32_t, bool, std::array<uint64_t, 4>, Offsets>;

// Ranges of rows, as described by the tasks of a cluster.
RowRange row_range(std::string side, uint64_t row_begin, uint64_t row_end, uint32_t bucket_bits, uint32_t shift,
                   uint64_t largest_neighbour, const std::vector<PyRun>& runs) {
  RowRange range{std::move(side), row_begin, row_end, bucket_bits, shift, largest_neighbour, {}};
  std::vector<std::pair<std::string, std::shared_ptr<SpillFile>>> files;
  for (const auto& [path, own_shift, key_bytes, neighbour_bits, packed, at, offsets] : runs) {
    if (offsets.size() == 0 || own_shift > shift) fail<ArgumentError>(path, ": invalid run: it has no buckets");
    if (files.empty() || files.back().first != path) {
      auto file = std::make_shared<SpillFile>();
      file->cached = File::open(path);
      file->direct = File::open(path).reopen_direct();
      if (!file->direct) file->direct = File::open(path);
      files.emplace_back(path, std::move(file));
    }
    Run run;
    run.order = range.runs.size();
    run.shift = own_shift;
    run.keys = {key_bytes, neighbour_bits, packed};
    run.offsets = std::make_shared<std::vector<uint64_t>>(offsets.data(), offsets.data() + offsets.size());
    run.count = run.offsets->back() - run.offsets->front();
    run.at = at;
    run.file = files.back().second;
    if (run.count > 0) range.runs.push_back(std::move(run));
  }
  return range;
}

void bind_row_range(nb::module_& m) {
  nb::class_<RowRange>(m, "RowRange")
      .def(
          "__init__",
          [](RowRange* self, std::string side, uint64_t row_begin, uint64_t row_end, uint32_t bucket_bits,
             uint32_t shift, uint64_t largest_neighbour, const std::vector<PyRun>& runs) {
            new (self)
                RowRange(row_range(std::move(side), row_begin, row_end, bucket_bits, shift, largest_neighbour, runs));
          },
          nb::kw_only(), nb::arg("side"), nb::arg("row_begin"), nb::arg("row_end"), nb::arg("bucket_bits"),
          nb::arg("shift"), nb::arg("largest_neighbour"), nb::arg("runs"))
      .def(
          "count_distinct",
          [](const RowRange& range, uint64_t memory, int threads, const std::string& spill_folder) {
            WithoutGil released;
            return count_distinct(range, {memory, resolve_threads(threads), spill_folder, &released.interrupts});
          },
          nb::kw_only(), nb::arg("memory"), nb::arg("threads"), nb::arg("spill_folder"))
      .def(
          "write",
          [](const RowRange& range, const std::string& path, const GraphShape& shape, uint64_t edges_before,
             uint64_t edges, uint64_t memory, int threads, const std::string& spill_folder) {
            RowRangeReport report;
            {
              WithoutGil released;
              report = write_row_range(path, shape, range, edges_before, edges,
                                       {memory, resolve_threads(threads), spill_folder, &released.interrupts});
            }
            nb::dict d;
            d["edges"] = report.edges;
            d["duplicates_dropped"] = report.duplicates;
            d["peak_bytes"] = report.peak_bytes;
            d["written"] = as_list(report.arrays, report.written);
            return d;
          },
          nb::kw_only(), nb::arg("path"), nb::arg("shape"), nb::arg("edges_before"), nb::arg("edges"),
          nb::arg("memory"), nb::arg("threads"), nb::arg("spill_folder"));
}

}  // namespace

void bind_ranges(nb::module_& m) {
  nb::class_<GraphShape>(m, "GraphShape")
      .def(
          "__init__",
          [](GraphShape* self, uint64_t nodes, uint64_t targets, bool two_sided, uint64_t stored, uint64_t edges,
             bool directed, const std::string& direction, bool weights, bool times, bool edge_ids, bool dedup,
             bool self_loops, bool wide_edge_ids) {
            new (self) GraphShape{nodes,
                                  targets,
                                  two_sided,
                                  stored,
                                  edges,
                                  directed,
                                  direction == "both" ? Direction::kBoth : parse_direction(direction),
                                  weights,
                                  times,
                                  edge_ids,
                                  dedup,
                                  self_loops,
                                  wide_edge_ids,
                                  /*own_numbers=*/true,
                                  0};
          },
          nb::kw_only(), nb::arg("nodes"), nb::arg("targets"), nb::arg("two_sided"), nb::arg("stored"),
          nb::arg("edges"), nb::arg("directed"), nb::arg("direction"), nb::arg("weights"), nb::arg("times"),
          nb::arg("edge_ids"), nb::arg("dedup"), nb::arg("self_loops"), nb::arg("wide_edge_ids"));
  bind_shared_file(m);
  nb::class_<PyRangeWriter>(m, "RangeWriter")
      .def(nb::init<const std::string&, const std::vector<PyRangeWriter::Declared>&, size_t>(), nb::arg("path"),
           nb::arg("ranges"), nb::arg("staging_bytes") = size_t{1} << 20)
      .def("append",
           [](PyRangeWriter& w, size_t index, const AnyArray& rows) {
             nb::gil_scoped_release release;
             w.writer->append(index, {static_cast<const std::byte*>(rows.data()), rows.nbytes()});
           })
      .def("finish", [](PyRangeWriter& w) {
        const std::vector<RangeWriter::Written> written = without_gil([&] { return w.writer->finish(); });
        return as_list(w.names, written);
      });
  bind_row_range(m);
}

}  // namespace gz::bindings
